"""Many agents at one mission: one owner of each task, every report counted, one answer."""

import os
from collections import Counter

import pytest

from tests.acceptance.mission import REAL_PLAN, REAL_SPEC
from tests.builder import git, write_files
from tests.missions import race
from treadle.layout import Layout
from treadle.project import setup
from treadle.store.store import Store

FEW = pytest.param(4, 10, id="few")
MANY = pytest.param(16, 200, id="many", marks=pytest.mark.real)
SIZES = pytest.mark.parametrize(("processes", "rounds"), [FEW, MANY])


@pytest.fixture
def store(repo, rounds):
    """Return the store of a project with a task for each round."""
    setup.init(repo, os.environ)
    for number in range(rounds // race.TASKS):
        folder = f"missions/m{number:03}"
        tasks = {f"{folder}/tasks/WP{it:02}-x.md": "# X\n" for it in range(1, race.TASKS + 1)}
        write_files(repo, {f"{folder}/spec.md": REAL_SPEC, f"{folder}/plan.md": REAL_PLAN, **tasks})
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "Missions")
    with Store.open(Layout(repo)) as found:
        yield found


def names(rounds: int) -> list[str]:
    return [f"m{it // race.TASKS:03}.WP{it % race.TASKS + 1:02}" for it in range(rounds)]


def moves(store, task_id: str, lane: str) -> list[str]:
    """Return who took a task into a lane, each time."""
    return [move.who for move in store.task_moves(task_id) if move.to_lane == lane]


@SIZES
def test_each_task_is_done_by_one_agent(repo, store, processes, rounds):
    done = race.together("work", repo, processes, rounds)
    doers = {name: f"agent{number}" for number, mine in enumerate(done) for name in mine}
    assert Counter(name for mine in done for name in mine) == Counter(names(rounds))
    for name, agent in doers.items():
        assert moves(store, name, "claimed") == moves(store, name, "for_review") == [agent]
        assert store.task(name).lane == "for_review"


@SIZES
def test_a_step_succeeds_once(repo, store, processes, rounds):
    won = race.together("succeed", repo, processes, rounds)
    assert Counter(turn for mine in won for turn in mine) == Counter(range(rounds))
    assert all(moves(store, name, "for_review") == ["human"] for name in names(rounds))


@SIZES
def test_no_failure_is_lost_and_each_matter_is_asked_once(repo, store, processes, rounds):
    taken = race.together("fail", repo, processes, rounds)
    assert all(mine == list(range(rounds)) for mine in taken)
    for number in range(rounds // race.TASKS):
        rows = store.mission_steps(f"m{number:03}")
        assert [row.failures for row in rows] == [processes] * race.TASKS
    assert sorted(item.task_id for item in store.questions()) == names(rounds)
    _answer(repo, store, processes)


def _answer(repo, store, processes):
    """Answer all of it at once: one answer to each counts, and the others are told."""
    asked = [item.question_id for item in store.questions()]
    won = race.together("answer", repo, processes, " ".join(asked))
    winners = {id_: f"says agent{number}" for number, mine in enumerate(won) for id_ in mine}
    assert Counter(id_ for mine in won for id_ in mine) == Counter(asked)
    assert {id_: store.question(id_).answer for id_ in asked} == winners
    assert store.questions() == []


@SIZES
def test_whoever_retries_finds_the_step_open(repo, store, processes, rounds):
    race.together("fail", repo, 3, rounds)
    kinds = race.together("try_again", repo, processes, rounds)
    assert {kind for mine in kinds for kind in mine} == {"step"}
    for number in range(rounds // race.TASKS):
        assert {row.failures for row in store.mission_steps(f"m{number:03}")} <= {0}
    assert store.questions() == []
