"""Kill `land` and `undo` anywhere; then the branch has moved once or not at all."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.acceptance.conftest import project  # noqa: F401  # the fixture
from tests.acceptance.site import Site
from tests.acceptance.untouched import belongings
from tests.conftest import git
from treadle.engine.boundary import MOVES

# Both records of a move, the intent and its end, and what lies between them.
POINTS = [f"{name}:{n}" for name in ("before_run_file", "after_run_file") for n in (1, 2)]
POINTS += MOVES
MANY = "for n in $(seq 300); do echo run $n > shared/$n.txt; done; echo > done.txt"
MORE = "mkdir -p more; for n in $(seq 100); do echo new $n > more/$n.txt; done"


@pytest.fixture
def site(project):  # noqa: F811
    found = Site(project)
    found.commit("mine.txt", "mine\n")
    return found


def landings(site, run_id, name="main"):
    """Return what the branch's history tells of the run, oldest first."""
    text = git(site.root, "log", "--reverse", f"--grep=Treadle-Run: {run_id}", "--format=%s", name)
    return text.splitlines()


@pytest.mark.parametrize("is_checked_out", [True, False], ids=["here", "elsewhere"])
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_move_is_made_once(site, point, is_checked_out):
    run_id = site.passed()
    if not is_checked_out:
        git(site.root, "switch", "-q", "-c", "other")
    site.write("mine.txt", "uncommitted\n")
    mine, before = belongings(site.root), site.tree("main")
    for command, expected in (("land", ["Make done"]), ("undo", ["Make done", "Undo: Make done"])):
        killed = site.project.treadle(command, run_id, env={"TREADLE_DIE_AT": point})
        assert killed.code == -9, killed
        assert site.project.treadle(command, run_id).code in (0, 3)
        assert landings(site, run_id) == expected
        assert belongings(site.root) == mine
    assert site.tree("main") == before
    seqs = [event["seq"] for event in site.project.events(run_id)]
    assert seqs == list(range(1, len(seqs) + 1))
    git(site.root, "fsck", "--strict", "--no-dangling")


def test_recovery_finishes_a_move_whatever_command_comes_next(site):
    run_id = site.passed()
    site.project.treadle("land", run_id, env={"TREADLE_DIE_AT": "after_intent"})
    site.project.treadle("doctor", "--repair")
    assert site.project.show(run_id)["landed"] == site.tip()
    assert landings(site, run_id) == ["Make done"]


def test_a_move_that_others_overtook_is_dropped(site):
    run_id = site.passed()
    site.project.treadle("land", run_id, env={"TREADLE_DIE_AT": "after_intent"})
    site.commit("meanwhile.txt", "1\n")
    site.project.treadle("doctor", "--repair")
    assert site.project.event(run_id, "land_refused")["data"]["code"] == "branch_moved"
    assert site.land(run_id).json["merged"]
    assert landings(site, run_id) == ["Make done"]


def test_files_that_a_killed_checkout_left_are_taken_up(site):
    """What git had written when it was killed: whole files, half a file, a removed file."""
    site.commit("half.txt", "old\n" * 100)
    site.commit("whole.txt", "old\n")
    site.commit("gone.txt", "old\n")
    run_id = site.passed(
        "yes new | head -100 > half.txt; echo new > whole.txt; rm gone.txt; echo > done.txt"
    )
    site.project.treadle("land", run_id, env={"TREADLE_DIE_AT": "after_intent"})
    site.write("half.txt", "new\n" * 10)
    site.write("whole.txt", "new\n")
    site.write("done.txt", "\n")
    (site.root / "gone.txt").unlink()
    site.project.treadle("doctor", "--repair")
    assert site.project.show(run_id)["landed"] == site.tip()
    assert git(site.root, "status", "--porcelain") == ""


def test_what_the_user_wrote_after_the_kill_is_left_alone(site):
    site.commit("half.txt", "old\n" * 100)
    run_id = site.passed("yes new | head -100 > half.txt; echo > done.txt")
    site.project.treadle("land", run_id, env={"TREADLE_DIE_AT": "after_intent"})
    site.write("half.txt", "mine\n")
    before = site.state()
    site.project.treadle("doctor", "--repair")
    assert (site.root / "half.txt").read_text() == "mine\n"
    assert site.state() == before
    assert site.project.event(run_id, "land_refused")["data"]["code"] == "git_refused"


@pytest.mark.parametrize("rounds", [8, pytest.param(100, marks=pytest.mark.real)])
@pytest.mark.timeout(900)
def test_kills_of_everything_at_any_moment(site, rounds):
    for n in range(1, 301):
        site.write(f"shared/{n}.txt", f"{n}\n")
    git(site.root, "add", "shared")
    git(site.root, "commit", "-q", "-m", "Many files")
    run_id = site.passed(f"{MANY}; {MORE}")
    site.write("mine.txt", "uncommitted\n")
    site.write("notes.txt", "untracked\n")
    mine, before = belongings(site.root), site.tree()
    pick = random.Random(rounds)
    for turn in range(rounds):
        for command in ("land", "undo"):
            kill_everything(site.project.start(command, run_id), pick.uniform(0.05, 0.5))
            settle(site, command, run_id)
        assert belongings(site.root) == mine
        assert site.tree() == before
        assert len(landings(site, run_id)) == 2 * (turn + 1)
    git(site.root, "fsck", "--strict", "--no-dangling")


def settle(site, command, run_id):
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


def kill_everything(process, delay):
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


def _signal(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
