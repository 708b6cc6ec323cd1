"""Kill `land` and `undo` anywhere; then the branch has moved once or not at all."""

import pytest

from tests.acceptance.site import Site
from tests.acceptance.untouched import belongings
from tests.builder import git
from tests.crash import landing
from tests.crash.landing import landings

# Both records of a move, the intent and its end, and what lies between them.
POINTS = [f"{name}:{n}" for name in ("before_run_file", "after_run_file") for n in (1, 2)]
POINTS += ["after_intent", "after_move", "after_landed"]


@pytest.fixture
def site(project):
    found = Site(project)
    found.commit("mine.txt", "mine\n")
    return found


@pytest.mark.parametrize(
    "is_checked_out",
    [True, pytest.param(False, marks=pytest.mark.real)],
    ids=["here", "elsewhere"],
)
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


LANDINGS = [
    3,
    pytest.param(40, marks=pytest.mark.real),
    pytest.param(120, marks=[pytest.mark.real, pytest.mark.all]),
]


@pytest.mark.parametrize("number", LANDINGS)
@pytest.mark.timeout(900)
def test_kills_of_everything_at_any_moment(number):
    assert landing.kills(number, jobs=2).broken == []
