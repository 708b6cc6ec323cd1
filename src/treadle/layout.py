"""Spell every path that treadle uses: inside a repository and in the user's folders."""

import binascii
import os
from collections.abc import Mapping
from pathlib import Path

HOME_NAME = ".treadle"
CONFIG_NAMES = ("config.toml", "config.json")
NEW_MESSAGES = "NEW_MESSAGES"
LOGS = "LOGS"
# What a run's folder holds from its beginning.
RUN_JSON, README, SPEC = "run.json", "treadle.md", "spec.md"
# What a step's folder holds: what was asked and answered, and what treadle made of it.
INPUT_JSON, OUTPUT_JSON, STEP_JSON = "input.json", "output.json", "step.json"
VERDICT_JSON, SCORECARD, PLAN, PATCH = "verdict.json", "scorecard.md", "plan.md", "patch.diff"
STDOUT, STDERR, PROMPT = "stdout.txt", "stderr.txt", "prompt.md"
AGENTS_MD, SNAPSHOT = "AGENTS.md", "snapshot-latest.json"
STEPS, LIVE, MESSAGE, EVENTS = "steps", "live", "message", "events.jsonl"
# Where letters can lie, as commands and the store call it.
BOXES = ("new", "inbox", "workspace", "logs")
MAIL_ROOT = f"{HOME_NAME}/mail"


class _Below:
    """A path below a folder, joined when it is first asked for: most are not."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __set_name__(self, _: object, attribute: str) -> None:
        self._attribute = attribute

    def __get__(self, paths: "_Paths", _: object) -> Path:
        path = paths.__dict__[self._attribute] = paths.folder / self._name
        return path


class _Paths:
    """Paths below one folder; they never change."""

    folder: Path

    def __init__(self, folder: Path) -> None:
        self.__dict__["folder"] = folder

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")


class Layout(_Paths):
    """The paths of one project, from its root; `mail_root` is where its letters lie."""

    mail: "MailLayout"
    root = _Below(".")
    home = _Below(HOME_NAME)
    database = _Below(f"{HOME_NAME}/treadle.db")
    locks = _Below(f"{HOME_NAME}/locks")
    run_lock = _Below(f"{HOME_NAME}/locks/run.lock")
    store_lock = _Below(f"{HOME_NAME}/locks/store.lock")
    runs = _Below(f"{HOME_NAME}/runs")
    archives = _Below(f"{HOME_NAME}/artifacts")
    fleet_queue = _Below(f"{HOME_NAME}/fleet.db")
    recordings = _Below(f"{HOME_NAME}/recordings")
    routines = _Below(f"{HOME_NAME}/routines")
    roles = _Below(f"{HOME_NAME}/roles")
    cron = _Below(f"{HOME_NAME}/cron")
    inbox = _Below(f"{HOME_NAME}/inbox")
    inbox_done = _Below(f"{HOME_NAME}/inbox/done")
    inbox_dead = _Below(f"{HOME_NAME}/inbox/dead")
    hooks = _Below(f"{HOME_NAME}/hooks")
    home_gitignore = _Below(f"{HOME_NAME}/.gitignore")
    config_toml = _Below(f"{HOME_NAME}/config.toml")
    prompts = _Below(f"{HOME_NAME}/prompts")
    specs = _Below("specs")
    tracker = _Below("specs/processed-spec.md")
    missions = _Below("missions")
    kitty_specs = _Below("kitty-specs")
    agents_md = _Below("AGENTS.md")
    skills = _Below(".agents/skills")
    root_gitignore = _Below(".gitignore")

    def __init__(self, root: Path, mail_root: str | Path = MAIL_ROOT) -> None:
        super().__init__(root)
        self.__dict__["mail"] = MailLayout(root / mail_root)

    def config_files(self) -> list[Path]:
        """Return the project's configuration files that exist."""
        return [path for name in CONFIG_NAMES if (path := self.home / name).is_file()]

    def mission_homes(self) -> tuple[Path, Path]:
        """Return the folders that may hold missions: treadle's own and spec-kitty's."""
        return self.missions, self.kitty_specs

    def run(self, run_id: str) -> "RunLayout":
        """Return the paths of one run."""
        return RunLayout(self.runs / run_id)

    def staged_run(self, run_id: str) -> str:
        """Return the folder of a run while it is being written."""
        return f"{self.runs}/.{run_id}"

    def changing(self) -> list[Path]:
        """Return what treadle itself writes at any time, whoever works."""
        ours = [self.home / name for name in ("inbox", "mail", "prompts", "runs")]
        return [*ours, *self.private()]

    def private(self) -> list[Path]:
        """Return what nobody in a sandbox may open: whoever can read a file can lock it."""
        files = [f"{self.database.name}{ending}" for ending in ("", "-wal", "-shm", "-journal")]
        return [self.locks, *(self.home / name for name in files)]

    def fixed(self) -> list[Path]:
        """Return the places inside the home's folders whose names never change."""
        mail = self.mail
        post = [mail.new, mail.agents, mail.logs, mail.quarantine, mail.tasks]
        return [self.run_lock, self.store_lock, self.inbox_done, self.inbox_dead, *post]

    def records(self) -> list[str]:
        """Return what treadle alone writes and believes, relative to the root."""
        names = "treadle.db fleet.db runs artifacts locks prompts mail hooks inbox/done inbox/dead"
        return [f"{HOME_NAME}/{name}" for name in names.split()]

    def relative(self, path: Path) -> str:
        """Spell a path the way the store keeps it: relative to the root, so projects may move."""
        text, above = str(path), f"{self.root}/"
        if text.startswith(above):
            return text[len(above) :]
        return path.relative_to(self.root).as_posix()

    def shown(self, path: Path) -> str:
        """Spell a path for people: from the root, if it is inside."""
        return self.relative(path) if path.is_relative_to(self.root) else str(path)


class MissionLayout(_Paths):
    """The paths of one mission's folder."""

    meta = _Below("meta.json")
    spec = _Below("spec.md")
    plan = _Below("plan.md")
    tasks = _Below("tasks")

    @property
    def snapshot(self) -> Path:
        """Return the digests of what the mission's files said last."""
        return self.folder / ".kittify" / "dossiers" / self.folder.name / "snapshot-latest.json"


class MailLayout(_Paths):
    """The paths of the letters, and of the files that tell how tasks stand."""

    root = _Below(".")
    new = _Below(NEW_MESSAGES)
    agents = _Below("AGENTS")
    logs = _Below(LOGS)
    quarantine = _Below(f"{LOGS}/quarantine")
    tasks = _Below("TASKS")

    def inbox(self, agent: str) -> Path:
        """Return where an agent's claimed letters and its copies of broadcasts lie."""
        return self.folder / inbox_name(agent)

    def workspace(self, agent: str) -> Path:
        """Return where the letters lie that an agent works on."""
        return self.folder / workspace_name(agent)

    def task(self, task_id: str, ending: str) -> Path:
        """Return one of a task's files: `md`, `status`, `owner` or `checks`."""
        return self.tasks / f"{task_id}.{ending}"


def inbox_name(agent: str) -> str:
    """Return an agent's INBOX relative to the mail's root."""
    return f"AGENTS/{agent}/INBOX"


def workspace_name(agent: str) -> str:
    """Return an agent's WORKSPACE relative to the mail's root."""
    return f"AGENTS/{agent}/WORKSPACE"


class RunLayout(_Paths):
    """The paths of one run's folder."""

    run_json = _Below(RUN_JSON)
    spec = _Below(SPEC)
    workspace_link = _Below("workspace")
    index = _Below("checkout/index")
    git = _Below("git")
    live = _Below(LIVE)
    live_events = _Below(f"{LIVE}/{EVENTS}")
    steps = _Below(STEPS)
    interrupted = _Below("interrupted")
    abandoned = _Below("abandoned")
    landing = _Below("landing")
    clean_index = _Below("clean/index")
    clean_state = _Below("clean.json")
    clean_setup = _Below("clean-setup.txt")
    message = _Below(MESSAGE)
    comments = _Below("comments.jsonl")

    def step(self, index: int, role: str) -> Path:
        """Return a committed step's folder."""
        return self.steps / step_name(index, role)

    def staged(self, index: int, role: str, rand: str) -> Path:
        """Return the temporary name a step's folder has until it is committed."""
        return self.steps / f"{step_name(index, role)}.tmp-{rand}"


def lock_of(database: Path) -> Path:
    """Return the lock of a store that lies anywhere."""
    return database.parent / "locks" / "store.lock"


def scratch_of(workspace: Path) -> Path:
    """Return the folder for temporary files of whatever works in a workspace."""
    return workspace.with_name(f"{workspace.name}.tmp")


def clean_of(workspace: Path) -> Path:
    """Return the second checkout beside a workspace, which no agent may write."""
    return workspace.with_name(f"{workspace.name}.clean")


def state_home(env: Mapping[str, str]) -> Path:
    """Return the folder of treadle's own records about this user, which no agent may read."""
    return _own(env, "XDG_STATE_HOME", ".local/state")


def step_name(index: int, role: str) -> str:
    """Return `003-check` for the third step."""
    return f"{index:03d}-{role}"


def cache_home(env: Mapping[str, str]) -> Path:
    """Return the folder that holds workspaces."""
    return _own(env, "XDG_CACHE_HOME", ".cache")


def workspace_root(env: Mapping[str, str], root: Path) -> Path:
    """Return the folder of one repository's workspaces, unique by its path."""
    digest = binascii.crc32(os.fsencode(root))
    return cache_home(env) / f"{root.name or 'root'}-{digest:08x}"


class FleetLayout:
    """The paths of a worker's machine: mirrors that all its runs share, and a folder a run."""

    def __init__(self, env: Mapping[str, str], fleet: str, worker: str) -> None:
        self.home = cache_home(env) / "fleet"
        # Who is alive, only the fleet's own database knows: each fleet cleans up its own.
        self.workers = self.home / "work" / f"{binascii.crc32(fleet.encode()):08x}"
        self.work = self.workers / worker

    def mirror(self, url: str) -> Path:
        """Return this machine's copy of a repository."""
        name = url.rstrip("/").removesuffix("/.git").rpartition("/")[2] or "repository"
        return self.home / "mirrors" / f"{name}-{binascii.crc32(url.encode()):08x}.git"

    def attempt(self, run_id: str, epoch: int) -> Path:
        """Return the folder of one attempt at a run: a clone and the workspaces beside it."""
        return self.work / f"{run_id}.e{epoch}"


def agent_states(env: Mapping[str, str]) -> Path:
    """Return where command-line agents keep their state, each turn in a folder of its own."""
    return state_home(env) / "agents"


def trust_file(env: Mapping[str, str]) -> Path:
    """Return the record of the repositories the user trusts."""
    return state_home(env) / "trust.json"


def serve_doors(env: Mapping[str, str], root: Path) -> Path:
    """Return where files lie that lead a browser to the page's link; no agent may read them."""
    return serve_socket(env, root).with_suffix(".open")


def fleet_key(env: Mapping[str, str]) -> Path:
    """Return the file with the key of the user's fleet, which no agent may read."""
    named = env.get("TREADLE_FLEET_KEY_FILE")
    return Path(named) if named else state_home(env) / "fleet.key"


def serve_socket(env: Mapping[str, str], root: Path) -> Path:
    """Return where the page's server of one project gives out links; no agent may reach it."""
    return state_home(env) / f"serve-{binascii.crc32(os.fsencode(root)):08x}.sock"


def user_config(env: Mapping[str, str]) -> Path:
    """Return the user's own configuration file."""
    return _own(env, "XDG_CONFIG_HOME", ".config") / "config.toml"


def bug_log(env: Mapping[str, str], stamp: str) -> Path:
    """Return where the report of a bug in treadle itself is written."""
    return state_home(env) / f"bug-{stamp}.log"


def _own(env: Mapping[str, str], variable: str, fallback: str) -> Path:
    """Return treadle's part of one of the user's folders."""
    value = env.get(variable, "")
    above = value if value.startswith("/") else f"{env.get('HOME') or '/'}/{fallback}"
    return Path(above) / "treadle"
