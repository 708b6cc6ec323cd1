"""Kill, freeze and cut off a fleet while it works, then count what it committed."""

import argparse
import itertools
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import psycopg

from tests.builder import GIT_IDENTITY
from tests.fleet.inline import Inline
from tests.fleet.lab import Lab, database, postgres, start
from treadle.config.load import load
from treadle.contract import Criterion
from treadle.engine.run import order
from treadle.fleet import queue
from treadle.fleet import site as sites
from treadle.fleet.queue import Desk
from treadle.project.context import open_context
from treadle.store.store import Store

DEAD_AFTER = 5.0
# How long after a worker counts as dead its runs may wait for another one.
LATEST = 2.5
STEPS = ["plan", "do", "check", "act"]
# The do step changes a file, so that there is something to push; act ends the run.
WORDS = {"plan": [], "do": [], "check": ["FAIL", "false"], "act": ["fail"]}
WORK = '[ "$role" = do ] && echo "$TREADLE_RUN" > "$OLDPWD/done.txt"; sleep {pause}'


class Wishes(NamedTuple):
    """How big the test is."""

    runs: int
    workers: int = 4
    slots: int = 4
    pause: float = 0.3
    timeout: float = 600.0


class Report(NamedTuple):
    """What came of it."""

    lost: list[str]
    wrong: list[str]
    spawned_twice: int
    later_epochs: int
    frozen_exit: int | None
    recoveries: list[float]
    seconds: float

    @property
    def ok(self) -> bool:
        return not self.lost and not self.wrong and self.frozen_exit == 75


class Chaos:
    """One fleet, its supervisor and what is done to it."""

    def __init__(self, folder: Path, wishes: Wishes):
        self.wishes = wishes
        self.server = postgres()
        url = database(self.server.get_uri(), "chaos")
        env = {
            "TREADLE_STORE": url,
            "TREADLE_FLEET_PER_REPOSITORY": str(wishes.workers * wishes.slots),
            "TREADLE_FLEET_DEAD_AFTER": str(DEAD_AFTER),
            "TREADLE_FLEET_BEAT": "1",
        }
        self.url = url
        self.lab = Lab(folder, env)
        self.lab.words_of = WORDS
        self.lab.make(WORK.format(pause=wishes.pause))
        self.lab.configure(more="[checks]\nbefore = false")
        self.hurt: list[tuple[str, float]] = []
        self.outage = (0.0, 0.0)
        self.fleet: dict[int, object] = {}

    def go(self) -> Report:
        """Queue everything, hurt the fleet on the way, wait until all is over."""
        began = time.monotonic()
        self._queue()
        for number in range(self.wishes.workers):
            self._start(number)
        while self._ask("SELECT count(*) FROM treadle_fleet.workers") < self.wishes.workers:
            self._wait(0.2)
        self._until(0.15)
        self._kill(0)
        self._until(0.25)
        frozen = self.fleet[1]
        os.kill(frozen.pid, signal.SIGSTOP)
        self.hurt.append((self._name(frozen), time.time()))
        self._until(0.35)
        self._crash_database()
        while self._status(frozen) == "alive":
            self._wait(0.2)
        os.kill(frozen.pid, signal.SIGCONT)
        self._until(0.65)
        self._kill(2)
        self._until(1.0)
        seconds = time.monotonic() - began
        exit_code = frozen.wait(180)
        for process in self.lab.workers:
            if process.poll() is None:
                process.terminate()
        return self._count(exit_code, seconds)

    def _queue(self) -> None:
        env = self.lab.env
        project = open_context(self.lab.root, env)
        loaded = load(project.layout, env)
        site = sites.find_site(project.layout, env)
        with Store.open(project.layout, env) as store:
            desk = Desk(project, loaded.config, site, store, Inline())
            for _ in range(self.wishes.runs):
                asked = order.freeze(
                    loaded.config,
                    text="Look around",
                    criteria=(Criterion("AC1", "It is fine"),),
                    swaps={},
                    task_id=None,
                )
                queue.submit(desk, asked)

    def _start(self, number: int) -> None:
        slots = str(self.wishes.slots)
        self.fleet[number] = self.lab.worker("--slots", slots, name=f"host{number}")

    def _supervise(self) -> None:
        for number, process in self.fleet.items():
            if process.poll() is not None:
                self._start(number)

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._supervise()
            time.sleep(0.2)

    def _until(self, part: float) -> None:
        """Wait until so much of all steps is committed, and everything is over in the end."""
        deadline = time.monotonic() + self.wishes.timeout
        wanted = part * self.wishes.runs * len(STEPS)
        while self._committed() < wanted or (part == 1.0 and self._open()):
            self._supervise()
            if time.monotonic() > deadline:
                return
            time.sleep(0.2)

    def _committed(self) -> int:
        return self._ask("SELECT count(*) FROM steps")

    def _open(self) -> int:
        return self._ask("SELECT count(*) FROM runs WHERE status NOT IN ('passed', 'failed')")

    def _ask(self, sql: str) -> int:
        return int(self._rows(sql)[0][0])

    def _rows(self, sql: str) -> list[tuple]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SET search_path TO treadle_project, treadle_fleet")
            return connection.execute(sql).fetchall()

    def _name(self, process) -> str:
        return self._worker("worker_id", process)

    def _status(self, process) -> str:
        return self._worker("status", process)

    def _worker(self, column: str, process) -> str:
        rows = self._rows(f"SELECT {column} FROM treadle_fleet.workers WHERE pid = {process.pid}")
        return rows[0][0] if rows else ""

    def _kill(self, number: int) -> None:
        process = self.fleet[number]
        self.hurt.append((self._name(process), time.time()))
        process.kill()

    def _crash_database(self) -> None:
        gone_at = time.time()
        os.kill(self.server.get_pid(), signal.SIGQUIT)
        self._wait(5)
        start(self.server)
        self.outage = (gone_at, time.time())

    def _count(self, frozen_exit: int | None, seconds: float) -> Report:
        steps: dict[str, list[str]] = {}
        for run_id, role in self._rows(
            "SELECT run_id, role FROM steps ORDER BY run_id, step_index"
        ):
            steps.setdefault(run_id, []).append(role)
        runs = self._rows("SELECT run_id, head_commit, claim_epoch FROM runs ORDER BY run_id")
        lost = [run_id for run_id, *_ in runs if steps.get(run_id) != STEPS]
        wrong = [*self._gaps(), *self._unpublished(runs)]
        starts = Counter((words[0], words[1]) for words in self.lab.spawned())
        return Report(
            lost=lost,
            wrong=wrong,
            spawned_twice=sum(count - 1 for count in starts.values()),
            later_epochs=sum(epoch > 1 for *_, epoch in runs),
            frozen_exit=frozen_exit,
            recoveries=self._recoveries(),
            seconds=seconds,
        )

    def _gaps(self) -> list[str]:
        """Return runs whose events have holes, or tell of a step twice."""
        sql = (
            "SELECT run_id, count(*), max(seq), sum((type = 'step_committed')::int)"
            " FROM events GROUP BY run_id"
        )
        found = self._rows(sql)
        return [f"{r}: events" for r, n, last, told in found if n != last or told != len(STEPS)]

    def _unpublished(self, runs: list[tuple]) -> list[str]:
        """Return runs whose branch in the shared repository is not where the store says."""
        refs = self.lab.refs()
        return [
            f"{r}: branch" for r, head, _ in runs if refs.get(f"refs/heads/treadle/{r}") != head
        ]

    def _recoveries(self) -> list[float]:
        """Return how long after each worker counts as dead another one took each of its runs."""
        sql = (
            "SELECT run_id, message, extract(epoch FROM ts::timestamptz)::float8 FROM events"
            " WHERE type = 'run_claimed' ORDER BY run_id, seq"
        )
        claims: dict[str, list[tuple[str, float]]] = {}
        for run_id, message, at in self._rows(sql):
            claims.setdefault(run_id, []).append((message.split()[1].rstrip(","), at))
        found = []
        for worker, at in self.hurt:
            for claimed in claims.values():
                pairs = itertools.pairwise(claimed)
                dead_at = self._dead_at(at)
                found += [after[1] - dead_at for before, after in pairs if before[0] == worker]
        return sorted(round(value, 1) for value in found)

    def _dead_at(self, hurt_at: float) -> float:
        """Return when a worker counts as dead: nobody is judged by the time of an outage."""
        gone_at, back_at = self.outage
        judged = hurt_at + DEAD_AFTER < gone_at or hurt_at > back_at
        return (hurt_at if judged else back_at) + DEAD_AFTER

    def close(self) -> None:
        self.lab.close()
        self.server.cleanup()


def main() -> int:
    """Run the big one and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--pause", type=float, default=0.3)
    parser.add_argument("--timeout", type=float, default=3600.0)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="treadle-chaos-", dir="/tmp"))
    (folder / ".gitconfig").write_text(GIT_IDENTITY)
    os.environ["HOME"] = str(folder)
    for name in ("CACHE", "STATE", "CONFIG"):
        os.environ[f"XDG_{name}_HOME"] = str(folder / name.lower())
    wishes = Wishes(args.runs, args.workers, args.slots, args.pause, args.timeout)
    chaos = Chaos(folder, wishes)
    try:
        report = chaos.go()
    finally:
        chaos.close()
    for name, value in report._asdict().items():
        print(f"{name}: {value}")
    late = max(report.recoveries, default=0.0)
    print(f"a dead worker's run was taken at most {late} s after its death ({LATEST} allowed)")
    return 0 if report.ok and late <= LATEST else 1


if __name__ == "__main__":
    sys.exit(main())
