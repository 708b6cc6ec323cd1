"""Processes that ask, report, retry and answer at the same time, after one starting shot."""

from datetime import timedelta
from pathlib import Path
from unittest import mock

from tests.mail import race
from treadle import desk
from treadle.desk import Words
from treadle.errors import TreadleError
from treadle.layout import Layout
from treadle.missions import adopt, gates, state
from treadle.missions import mission as missions
from treadle.missions.report import Report, lend, report, retry
from treadle.missions.state import NextStep, State
from treadle.store.store import Store
from treadle.store.tasks import WorkRow

LEASE = timedelta(hours=4)
TASKS = 5  # of each mission


def together(role: str, root: Path, count: int, given: object) -> list[object]:
    """Let children do the same at once and return what each found."""
    return race.together(role, root, count, given, module="tests.missions.race")


class Racer:
    """One process; git is not asked again and again for what no racer changes."""

    def __init__(self, store: Store, layout: Layout) -> None:
        self.store, self.layout = store, layout
        self.missions = missions.find_all(layout)
        self.head = gates.read_head(self.missions)

    def stands(self, number: int, agent: str) -> State:
        mission, now = self.missions[number], self.store.now()
        return state.read(self.layout, self.store, mission, now, agent, self.head)

    def report(self, turn: int, result: str, agent: str = "human") -> bool:
        """Report on the step of one round; tell whether that was taken."""
        step = f"implement:WP{turn % TASKS + 1:02}"
        try:
            found = self.stands(turn // TASKS, agent)
            report(found, self.store, Report(result, agent, step), LEASE, believe, accept)
        except TreadleError as error:
            if error.code != "step_over":
                raise
            return False
        return True


def believe(found, store, at, word):
    """Take a success as if it had been seen."""
    return WorkRow(found.mission.slug, at.key, "base", "head", (), None, "now")


def accept(found):
    """Nobody accepts anything here."""
    raise AssertionError


def work(store: Store, layout: Layout, number: str, rounds: str) -> list[str]:
    """Ask for a task, report it and take the one that is handed out, until there is none."""
    racer, agent, done = Racer(store, layout), f"agent{number}", []
    for index in range(int(rounds) // TASKS):
        told = lend(racer.stands(index, agent), store, LEASE)
        while isinstance(told, NextStep) and told.where.phase == "implement":
            done.append(told.where.task_id)
            word = Report("success", None, told.where.name)
            told = report(racer.stands(index, agent), store, word, LEASE, believe, accept)
    return done


def succeed(store: Store, layout: Layout, number: str, rounds: str) -> list[int]:
    """Report the success of one step after the other; return where that was taken."""
    racer = Racer(store, layout)
    return [turn for turn in range(int(rounds)) if racer.report(turn, "success")]


def fail(store: Store, layout: Layout, number: str, rounds: str) -> list[int]:
    """Report the failure of one step after the other; return where that was taken."""
    racer = Racer(store, layout)
    return [turn for turn in range(int(rounds)) if racer.report(turn, "failed")]


def try_again(store: Store, layout: Layout, number: str, rounds: str) -> list[str]:
    """Let one step after the other be tried again; return how each stands then."""
    racer, kinds = Racer(store, layout), []
    for turn in range(int(rounds)):
        step = f"implement:WP{turn % TASKS + 1:02}"
        kinds.append(retry(racer.stands(turn // TASKS, "human"), store, LEASE, step).kind)
    return kinds


def answer(store: Store, layout: Layout, number: str, asked: str) -> list[str]:
    """Answer one question after the other; return those whose answer this one's is."""
    won = []
    for item in asked.split():
        try:
            desk.answer(store, item, Words("retry", f"says agent{number}"), store.now())
            won.append(item)
        except TreadleError as error:
            if error.code != "question_answered":
                raise
    return won


ROLES = {
    "work": work,
    "succeed": succeed,
    "fail": fail,
    "try_again": try_again,
    "answer": answer,
}

if __name__ == "__main__":
    with mock.patch.object(adopt, "require_committed"):
        race.main(ROLES)
