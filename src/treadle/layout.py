"""Spell every path that treadle uses: inside a repository and in the user's folders."""

import binascii
import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

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
GROWTH = "growth.jsonl"  # when the first two of them grew
WORKSPACE_DIFF = "workspace.diff"
AGENTS_MD, SNAPSHOT = "AGENTS.md", "snapshot-latest.json"
# Where spec-kitty writes down how the tasks of a mission stand, and how they came there.
KITTY_STATUS, KITTY_EVENTS = "status.json", "status.events.jsonl"
STEPS, LIVE, MESSAGE, EVENTS = "steps", "live", "message", "events.jsonl"
USED, CACHES, IMAGES = "used.json", "caches", "images"
# Where letters can lie, as commands and the store call it.
BOXES = ("new", "inbox", "workspace", "logs")
MAIL_ROOT = f"{HOME_NAME}/mail"
# Compiled when they are needed, as most commands need neither.
_KEPT = rf"(?<![\w./~-])(?:{re.escape(HOME_NAME)}/[\w./-]*[\w-]|specs/[\w.-]+\.spec\.md)"
# What git's own settings say of where the main work tree lies.
_CORE = r"(?m)^\s*(bare|worktree)\s*=\s*(.+?)\s*$"


class WorkTree(NamedTuple):
    """A checkout: its top, git's folder for it, the folder that all checkouts of it share."""

    top: Path
    git_dir: Path
    common_dir: Path

    @property
    def main(self) -> Path:
        """Return the top of the main work tree; a bare repository has room in its own folder."""
        if self.git_dir == self.common_dir:
            return self.top
        said: dict[str, str] = {}
        for name in ("config", "config.worktree"):
            with contextlib.suppress(OSError):
                said |= re.findall(_CORE, (self.common_dir / name).read_text(errors="replace"))
        if said.get("bare") == "true":
            return self.common_dir / "treadle"
        if "worktree" in said:
            return Path(os.path.normpath(self.common_dir / said["worktree"]))
        return self.common_dir.parent if self.common_dir.name == ".git" else self.top


def find_work_tree(start: Path) -> WorkTree | None:
    """Return the checkout around a folder, from the small files that name it."""
    for folder in (start, *start.parents):
        dot_git = folder / ".git"
        if (dot_git / "HEAD").is_file():
            return WorkTree(folder, dot_git, dot_git)
        if dot_git.is_file():
            git_dir = _named(dot_git, "gitdir: ")
            shared = git_dir / "commondir"
            return WorkTree(folder, git_dir, _named(shared) if shared.is_file() else git_dir)
    return None


def _named(path: Path, label: str = "") -> Path:
    """Return the folder that a file of git's names, relative to its own."""
    text = os.fsdecode(path.read_bytes()).partition("\n")[0].rstrip("\r")
    return Path(os.path.normpath(path.parent / text.removeprefix(label)))


def is_within(folder: Path, name: str) -> bool:
    """Tell whether no link on the way to a file leads out of `folder`."""
    above = [name[:at] for at, sign in enumerate(name) if sign == "/"]
    if not any((folder / part).is_symlink() for part in (*above, name)):
        return True
    return (folder / name).resolve().is_relative_to(folder.resolve())


def from_here(text: str, folder: Path) -> str:
    """Spell specs and what treadle keeps of the project as they are reached from a folder."""
    tree = find_work_tree(folder) if f"{HOME_NAME}/" in text or "specs/" in text else None
    return re.sub(_KEPT, lambda it: _reached(it[0], folder, tree), text) if tree else text


def _reached(name: str, folder: Path, tree: WorkTree) -> str:
    for base in (folder, *folder.parents):
        if (base / name).exists():
            return os.path.relpath(base / name, folder)
        if base.is_relative_to(tree.top):
            shared = tree.main / base.relative_to(tree.top) / name
            if shared.exists():
                return str(shared)
        if base == tree.top:
            break
    return name


class _Below:
    """A path below a folder, joined when it is first asked for: most are not."""

    def __init__(self, name: str, above: str = "folder") -> None:
        self._name = name
        self._above = above

    def __set_name__(self, _: object, attribute: str) -> None:
        self._attribute = attribute

    def __get__(self, paths: "_Paths", _: object) -> Path:
        above: Path = getattr(paths, self._above)
        path = paths.__dict__[self._attribute] = above / self._name
        return path


class _Paths:
    """Paths below one folder; they never change."""

    folder: Path

    def __init__(self, folder: Path) -> None:
        self.__dict__["folder"] = folder

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")


class Layout(_Paths):
    """The paths of one project, from its root; `mail_root` is where its letters lie.

    What people write lies in the work tree they stand in. What treadle keeps lies below `shared`,
    the project's folder in the main work tree, and is the same for all of them.
    """

    mail: "MailLayout"
    shared: Path
    root = _Below(".")
    home = _Below(HOME_NAME, "shared")
    database = _Below("treadle.db", "home")
    locks = _Below("locks", "home")
    run_lock = _Below("run.lock", "locks")
    store_lock = _Below("store.lock", "locks")
    waiters = _Below("waiting", "locks")
    runs = _Below("runs", "home")
    archives = _Below("artifacts", "home")
    recordings = _Below("recordings", "home")
    images = _Below("images", "home")  # of tasks
    inbox = _Below("inbox", "home")
    inbox_done = _Below("done", "inbox")
    inbox_dead = _Below("dead", "inbox")
    hooks = _Below("hooks", "home")
    verify = _Below("verify", "home")
    tries = _Below("tries", "home")
    claims = _Below("claims", "home")
    worktrees = _Below("worktrees", "home")
    adopted = _Below("adopted", "home")  # what other systems left
    home_gitignore = _Below(".gitignore", "settings")
    config_toml = _Below("config.toml", "settings")
    routines = _Below("routines", "settings")
    roles = _Below("roles", "settings")
    cron = _Below("cron", "settings")
    prompts = _Below("prompts", "settings")  # where an agent that works here can read them
    specs = _Below("specs")
    tracker = _Below("specs/processed-spec.md")
    missions = _Below("missions")
    kitty_specs = _Below("kitty-specs")
    agents_md = _Below("AGENTS.md")
    skills = _Below(".agents/skills")
    claude_skills = _Below(".claude/skills")
    root_gitignore = _Below(".gitignore")

    def __init__(
        self, root: Path, mail_root: str | Path = MAIL_ROOT, shared: Path | None = None
    ) -> None:
        super().__init__(root)
        self.__dict__["shared"] = shared or root
        self.__dict__["mail"] = MailLayout(self.shared / mail_root)

    @property
    def settings(self) -> Path:
        """Return the folder of what people write for treadle: this work tree's, if it has one."""
        own = self.folder / HOME_NAME
        return self.home if not _configs(own) and _configs(self.home) else own

    def config_files(self) -> list[Path]:
        """Return the project's configuration files that exist."""
        return _configs(self.settings)

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
        folders = [self.inbox, self.mail.root, self.prompts, self.runs, self.archives]
        folders += [self.images, self.tries, self.adopted]
        folders += [self.verify, self.claims, self.worktrees, self.tracker]
        return [*folders, *self.private(), Path(f"{self.database}-journal")]

    def private(self) -> list[Path]:
        """Return what nobody in a sandbox may open: whoever can read a file can lock it.

        All of it stays while a run works. A journal, which nobody locks, comes and goes.
        """
        endings = ("", "-wal", "-shm")
        return [self.locks, *(Path(f"{self.database}{ending}") for ending in endings)]

    def fixed(self) -> list[Path]:
        """Return the places inside the home's folders whose names never change."""
        mail = self.mail
        post = [mail.new, mail.agents, mail.logs, mail.quarantine, mail.tasks]
        return [self.run_lock, self.store_lock, self.inbox_done, self.inbox_dead, *post]

    def task_root(self, task_id: str) -> Path:
        """Return the project's folder in the worktree of a task; without one, the one here."""
        top = self.worktrees / task_id
        here, there = find_work_tree(self.root), find_work_tree(top)
        if here and there and there.top == top and there.common_dir == here.common_dir:
            return top / self.root.relative_to(here.top)
        return self.root

    def records(self) -> list[str]:
        """Return what treadle alone writes and believes, relative to the root."""
        names = (
            "treadle.db runs artifacts locks prompts mail hooks inbox/done inbox/dead"
            " worktrees images adopted claims tries verify"
        )
        return [f"{HOME_NAME}/{name}" for name in names.split()]

    def relative(self, path: Path) -> str:
        """Spell a path the way the store keeps it: relative to the root, so projects may move."""
        text = str(path)
        # One work tree may lie in the other: the longer name is the nearer one.
        for above in sorted((f"{self.root}/", f"{self.shared}/"), key=len, reverse=True):
            if text.startswith(above):
                return text[len(above) :]
        return path.relative_to(self.root).as_posix()

    def shown(self, path: Path) -> str:
        """Spell a path for people: from the root, if it is inside."""
        return self.relative(path) if path.is_relative_to(self.root) else str(path)


def _configs(folder: Path) -> list[Path]:
    return [path for name in CONFIG_NAMES if (path := folder / name).is_file()]


class MissionLayout(_Paths):
    """The paths of one mission's folder."""

    meta = _Below("meta.json")
    spec = _Below("spec.md")
    plan = _Below("plan.md")
    tasks = _Below("tasks")

    def status_folders(self) -> tuple[Path, Path]:
        """Return where spec-kitty may keep a mission's status: here, or in a checkout for that."""
        here, tree = self.folder, find_work_tree(self.folder)
        above = tree.main if tree else here.parent.parent
        return here, above / ".worktrees" / f"{here.name}-coord" / here.parent.name / here.name

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
    plan = _Below(PLAN)
    workspace_link = _Below("workspace")
    images = _Below(IMAGES)
    index = _Below("checkout/index")
    git = _Below("git")
    live = _Below(LIVE)
    live_events = _Below(f"{LIVE}/{EVENTS}")
    steps = _Below(STEPS)
    interrupted = _Below("interrupted")
    abandoned = _Below("abandoned")
    landing = _Below("landing")
    pull_request = _Below("pull-request.md")
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


def caches_of(workspace: Path) -> Path:
    """Return where the setups of all runs of a project keep what they fetch."""
    return workspace.with_name(CACHES)


def own_caches_of(checkout: Path) -> Path:
    """Return the same for a setup that runs what nobody has accepted; it goes with its checkout."""
    return checkout.with_name(f"{checkout.name}.{CACHES}")


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
        name = f"{binascii.crc32(fleet.encode()):08x}"
        self.workers = self.home / "work" / name
        self.parked = self.home / "parked" / name
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
