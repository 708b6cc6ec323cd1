"""Kill runs, landings and undoings with all they started, at any moment, and look what stands."""

import contextlib
import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.acceptance.site import Site
from tests.acceptance.untouched import belongings
from tests.builder import Project, alive, git, make_home, wait_for
from tests.crash.experiments import Report
from tests.crash.told import untold

_LONGEST = {"run": 0.4, "land": 0.6, "undo": 0.6}
_WORK = (
    "for n in $(seq 300); do echo run $n > shared/$n.txt; done; mkdir -p more;"
    " for n in $(seq 100); do echo new $n > more/$n.txt; done; echo > done.txt; touch '{mark}'"
)
_TASK = ("task", "add", "Make done", "--verify", "AC1=test -f done.txt", "--id")
_LANES = {"run": "approved", "land": "done", "undo": "approved"}


def kills(number: int, jobs: int | None = None, seed: int = 1) -> Report:
    """Kill so many commands in as many projects at a time as there are workers."""
    workers = jobs or os.cpu_count() or 1
    shares = [number // workers + (at < number % workers) for at in range(workers)]
    with tempfile.TemporaryDirectory(prefix="landing-") as folder, _at_home(Path(folder)):
        places = [Path(folder) / f"w{at}" for at in range(workers)]
        with ThreadPoolExecutor(workers) as pool:
            grounds = list(pool.map(make, places))
            seeds = range(seed, seed + workers)
            found = list(pool.map(lambda *args: list(disturb(*args)), grounds, shares, seeds))
    broken = [text for part in found for text in part]
    return Report("kill runs, landings, undoings", number, broken)


def make(folder: Path) -> Site:
    """Make a project with 300 files, two of the user's, and an agent that changes them all."""
    files = {f"shared/{n}.txt": f"{n}\n" for n in range(1, 301)} | {"mine.txt": "mine\n"}
    project = Project.make(folder / "project", folder / "agents", files)
    root = project.root
    work = _WORK.format(mark=folder / "mark")
    project.settings(
        f'sandbox = "off"\n[agents.do]\ntype = "builtin"\nrun = ["sh", "-c", "{work}"]\n'
    )
    git(root, "commit", "-q", "-m", "Settings", "--", ".treadle/config.toml")
    (root / "mine.txt").write_text("uncommitted\n")
    (root / "notes.txt").write_text("untracked\n")
    return Site(project)


def disturb(site: Site, number: int, seed: int) -> Iterator[str]:
    """Kill a run, its landing and its undoing in turn; yield one sentence per broken promise."""
    pick, mine, base = random.Random(seed), belongings(site.root), site.tree()
    run_id = ""
    for turn in range(number):
        kind, task = tuple(_LANES)[turn % 3], f"T-{turn // 3 + 1}"
        delay = pick.uniform(0, _LONGEST[kind])
        try:
            if kind == "run":
                run_id = _kill_run(site, task, delay)
            else:
                kill_everything(site.project.start(kind, run_id), delay)
                settle(site, kind, run_id)
            _verify(site, kind, run_id, base)
            assert untold(site.root, task, _LANES[kind]) == []
            assert belongings(site.root) == mine, "files of the user changed"
        except AssertionError as error:
            yield f"{kind} killed after {delay:.3f} s (seed {seed}, {turn}): {error}"
            return


def _kill_run(site: Site, task: str, delay: float) -> str:
    """Kill a run while its agent's files are taken, committed and checked; then finish it."""
    mark = site.project.folder.parent / "mark"
    mark.unlink(missing_ok=True)
    assert site.project.treadle(*_TASK, task).code == 0
    process = site.project.start("run", task)
    wait_for(lambda: mark.exists() or process.poll() is not None, timeout=120)
    kill_everything(process, delay)
    rows = site.project.treadle("runs", "list", "--json").json["runs"]
    run_id = max(row["run_id"] for row in rows)
    if site.project.show(run_id)["status"] != "passed":
        again = site.project.treadle("run", "--resume", run_id, "--json")
        # Recovery alone may have brought back the last step, and with it the end.
        assert again.code == 0 or site.project.show(run_id)["status"] == "passed", again
    # A run may have passed before the blow and be untold: the next command that works tells it.
    assert site.project.treadle("runs", "prune").code == 0
    return str(run_id)


def _verify(site: Site, kind: str, run_id: str, base: str) -> None:
    shown = site.project.show(run_id)
    own = f"{shown['base_commit']}..{shown['head_commit']}"
    assert git(site.root, "rev-list", "--count", own) == "1\n", "the change is not in once"
    assert site.tree() == (site.tree(shown["head_commit"]) if kind == "land" else base)
    expected = ["Make done", "Undo: Make done"][: tuple(_LANES).index(kind)]
    assert landings(site, run_id) == expected, "the branch did not move once"
    seqs = [event["seq"] for event in site.project.events(run_id)]
    assert seqs == list(range(1, len(seqs) + 1)), "the timeline has a gap"
    git(site.root, "fsck", "--strict", "--no-dangling")


def landings(site: Site, run_id: str, name: str = "main") -> list[str]:
    """Return what the branch's history tells of the run, oldest first."""
    text = git(site.root, "log", "--reverse", f"--grep=Treadle-Run: {run_id}", "--format=%s", name)
    return text.splitlines()


def settle(site: Site, command: str, run_id: str) -> None:
    """Repeat the command as its answers say until it is done."""
    for _ in range(4):
        result = site.project.treadle(command, run_id, "--json")
        if result.code == 0:
            return
        error = result.json["error"]
        if error["code"] in ("already_landed", "already_undone"):
            return
        assert error["code"] == "git_locked", error
        Path(error["lock"]).unlink()
    raise AssertionError("it did not settle")


def kill_everything(process, delay: float) -> None:
    """Kill a command and all its descendants, in whatever session they are, at one moment."""
    time.sleep(delay)
    stopped: set[int] = set()
    while fresh := {process.pid, *_descendants(process.pid)} - stopped:
        for pid in fresh:
            _signal(pid, signal.SIGSTOP)
        stopped |= fresh
    for pid in stopped:
        _signal(pid, signal.SIGKILL)
    process.communicate()
    wait_for(lambda: not any(map(alive, stopped)))


def _descendants(root: int) -> set[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(words[1])
    found: set[int] = set()
    while more := {pid for pid, parent in parents.items() if parent in {root, *found}} - found:
        found |= more
    return found


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


@contextlib.contextmanager
def _at_home(folder: Path) -> Iterator[None]:
    """Give treadle and git a private home for a while."""
    before = dict(os.environ)
    os.environ.update(make_home(folder))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
