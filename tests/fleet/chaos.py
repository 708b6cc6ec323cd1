"""Hurt a fleet in every way while it works, then count what it committed and what it left."""

import argparse
import contextlib
import itertools
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import psycopg

from tests.builder import GIT_IDENTITY, git
from tests.fleet.inline import Inline
from tests.fleet.lab import Lab, database, fill, postgres, small_disk, start
from treadle.config.load import load
from treadle.contract import Criterion
from treadle.engine.run import order
from treadle.fleet import site as sites
from treadle.fleet.submit import Desk, submit
from treadle.project.context import open_context
from treadle.store.store import Store

DEAD_AFTER = 5.0
# How long after a worker counts as dead its runs may wait for another one.
LATEST = 2.5
STEPS = ["plan", "do", "check", "act", "plan", "do", "check"]
WORDS = {"plan": [], "do": [], "check": ["PASS", "true"], "act": []}
# The do step changes a file, so that there is something to push, and writes a letter, or says that
# it could not; the first check fails.
WORK = """
if [ "$role" = do ]; then
set -e
echo "$TREADLE_RUN $here" > "$OLDPWD/done.txt"
mkdir outbox
cat > outbox/note.md <<'END'
# MESSAGE
from: human
to: boss
intent: inform
status: new
created_at: 2026-01-01T00:00:00Z

Hello
END
fi
case $here in *003-check*) set -- check FAIL false ;; esac
sleep {pause}
"""
# How many tasks are queued by two at once, and how many by submitters that are killed.
TWICE = 3
KILLED = 3
# When an agent and a shim are killed, and how many levels below a worker they are.
KILLS = ((0.15, 3), (0.2, 2))
# How many lines one worker may have.
LINES = 8
AWAY = 4.0
_UNFIT = re.compile(r"(?m)^(\S+) note: worker \S+ takes no runs(?: of \S+)? for (\d+) s")


class Wishes(NamedTuple):
    """How big the test is."""

    runs: int
    workers: int = 4
    slots: int = 4
    pause: float = 0.3
    timeout: float = 600.0
    seed: int = 0


class Report(NamedTuple):
    """What came of it."""

    steps: int
    lost: list[str]
    wrong: list[str]
    left: list[str]
    spawned_twice: int
    later_epochs: int
    frozen_exit: int | None
    recoveries: list[tuple[float, float]]
    seconds: float

    @property
    def ok(self) -> bool:
        return not self.lost and not self.wrong and not self.left and self.frozen_exit == 75


class Drive(NamedTuple):
    """When a worker began with a run."""

    run_id: str
    worker: str
    begun: float


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
        git(self.lab.root, "push", "-q", "origin", "main")  # so the first change makes a branch
        self.hurt: list[tuple[str, float]] = []
        self.outage = (0.0, 0.0)
        self.fleet: dict[int, object] = {}
        self.looks: list[tuple[float, dict[str, str]]] = []
        self.random = random.Random(wishes.seed)
        self.lines: Counter[str] = Counter()
        self.disk = small_disk(folder / "hosts" / "host2" / "cache", 64)

    def go(self) -> Report:
        """Queue everything, hurt the fleet on the way, wait until all is over."""
        began = time.monotonic()
        self._queue()
        self._submit_tasks()
        for number in range(self.wishes.workers):
            self._start(number)
        while self._ask("SELECT count(*) FROM treadle_fleet.workers") < self.wishes.workers:
            self._wait(0.2)
        self._until(0.1)
        self._kill(0)
        for part, depth in KILLS:
            self._until(part)
            self._kill_below(3, depth)
        self._until(0.25)
        frozen = self.fleet[1]
        os.kill(frozen.pid, signal.SIGSTOP)
        self.hurt.append((self._name(frozen), time.time()))
        self._until(0.35)
        self._crash_database()
        while self._status(frozen) == "alive":
            self._wait(0.2)
        os.kill(frozen.pid, signal.SIGCONT)
        self._until(0.45)
        self._take_away(self.lab.folder / "archives")
        self._until(0.5)
        self._take_away(self.lab.folder / "origin.git")
        self._until(0.52)
        self._fill_disk()
        self._until(0.55)
        self._kill_below(3, 1)  # its keeper
        self._until(0.6)
        self._cut_lines()
        self._until(0.65)
        self._hang_lines(self.fleet[3])
        self._until(0.7)
        self._kill(2)
        self._until(1.0)
        seconds = time.monotonic() - began
        exit_code = frozen.wait(180)
        deadline = time.monotonic() + 4 * DEAD_AFTER
        while self._clones() and time.monotonic() < deadline:
            self._wait(0.2)  # what a killed worker left is removed when it counts as dead
        for process in self.lab.workers:
            if process.poll() is None:
                process.terminate()
                process.wait(180)
        self.lab.treadle("doctor", "--repair", check=False)  # whoever comes next settles the rest
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
                submit(desk, asked)

    def _submit_tasks(self) -> None:
        """Queue some tasks from two places at once, others by submitters that are killed."""
        names = [f"T-{number}" for number in range(TWICE + KILLED)]
        for name in names:
            self.lab.mail("send", "--from", "boss", "--to", "human", "--intent", "fix_bug",
                          "--task", name, "--ac", "It is fine")  # fmt: skip
        self.lab.mail("list")
        twice = [self._submitter(name) for name in names[:TWICE] for _ in range(2)]
        for name in names[TWICE:]:
            process = self._submitter(name)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self.random.uniform(0.3, 3.0))
            process.kill()
            process.wait()
        for process in (*twice, *map(self._submitter, names[TWICE:])):
            process.wait()

    def _submitter(self, name: str) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-m", "treadle", "run", name, "--fleet"],
            cwd=self.lab.root,
            env=self.lab.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _kill_below(self, number: int, depth: int) -> None:
        """Kill a process that a worker started, so many levels below it."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            found = {self.fleet[number].pid}
            for _ in range(depth):
                found = {pid for pid, parent in _processes() if parent in found}
            if found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.random.choice(sorted(found)), signal.SIGKILL)
                return
            self._wait(0.2)

    def _take_away(self, place: Path) -> None:
        """Let a folder be a file for a while: whatever is asked of it fails."""
        away = place.with_name(f"{place.name}.away")
        place.rename(away)
        place.touch()
        self._wait(AWAY)
        place.unlink()
        away.rename(place)

    def _fill_disk(self) -> None:
        """Leave one worker's machine no room for a while."""
        if self.disk:
            ballast = fill(self.disk)
            self._wait(AWAY)
            ballast.unlink()

    def _cut_lines(self) -> None:
        self._rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name IN (SELECT worker_id FROM treadle_fleet.workers)"
        )

    def _hang_lines(self, process) -> None:
        """Let a worker's lines answer nothing for a while."""
        name = self._name(process)
        sql = f"SELECT pid FROM pg_stat_activity WHERE application_name = '{name}'"
        pids = [pid for (pid,) in self._rows(sql)]
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            if number == signal.SIGSTOP:
                self._wait(AWAY / 2)

    def _start(self, number: int) -> None:
        slots = str(self.wishes.slots)
        self.fleet[number] = self.lab.worker("--slots", slots, name=f"host{number}")

    def _supervise(self) -> None:
        with contextlib.suppress(psycopg.Error):  # it is away now and then
            sql = "SELECT job, worker_id FROM treadle_fleet.fleet_jobs WHERE state = 'held'"
            held = {job.split("/")[1]: worker for job, worker in self._rows(sql)}
            self.looks.append((time.time(), held))
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
        wanted = part * (self.wishes.runs + TWICE + KILLED) * len(STEPS)
        while self._open() and (part == 1.0 or self._committed() < wanted):
            self._supervise()
            self._count_lines()
            if time.monotonic() > deadline:
                return
            time.sleep(0.2)

    def _count_lines(self) -> None:
        sql = (
            "SELECT application_name, count(*) FROM pg_stat_activity WHERE application_name IN"
            " (SELECT worker_id FROM treadle_fleet.workers) GROUP BY application_name"
        )
        for name, count in self._rows(sql):
            self.lines[name] = max(self.lines[name], count)

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
        wrong = [*self._gaps(), *self._unpublished(runs), *self._tasks(), *self._letters(len(runs))]
        starts = Counter((words[0], words[1]) for words in self.lab.spawned())
        return Report(
            steps=self._committed(),
            lost=[self._story(run_id) for run_id in lost],
            wrong=wrong,
            left=list(self._left()),
            spawned_twice=sum(max(0, n - STEPS.count(role)) for (_, role), n in starts.items()),
            later_epochs=sum(epoch > 1 for *_, epoch in runs),
            frozen_exit=frozen_exit,
            recoveries=self._recoveries(),
            seconds=seconds,
        )

    def _story(self, run_id: str) -> str:
        """Return the last that is known of a run, for whoever has to find out why it was lost."""
        sql = (
            f"SELECT type, message FROM events WHERE run_id = '{run_id}' ORDER BY seq DESC LIMIT 4"
        )
        told = "; ".join(": ".join(row) for row in reversed(self._rows(sql)))
        (status,) = self._rows(f"SELECT status FROM runs WHERE run_id = '{run_id}'")[0]
        return f"{run_id} {status} after {told}"

    def _tasks(self) -> Iterator[str]:
        """Yield tasks that do not have one run, or whose lane or letter does not say so."""
        found = self._rows(
            "SELECT task_id, lane, (SELECT count(*) FROM runs WHERE runs.task_id = tasks.task_id)"
            " FROM tasks ORDER BY task_id"
        )
        if len(found) != TWICE + KILLED:
            yield f"{len(found)} tasks"
        for task_id, lane, runs in found:
            if (lane, runs) != ("approved", 1):
                yield f"{task_id}: {runs} runs, lane {lane}"

    def _letters(self, runs: int) -> Iterator[str]:
        """Yield what is wrong with the letters: one of each do step, and one that tells the end."""
        letters = self.lab.mail("list", "--as", "boss", "--all", "--limit", "10000")["letters"]
        found = Counter(it["intent"] for it in letters)
        if found != {"inform": runs * STEPS.count("do"), "test_results": TWICE + KILLED}:
            yield f"letters: {dict(found)} of {runs} runs"

    def _left(self) -> Iterator[str]:
        """Yield what nobody should have left: owners, jobs, uses, questions, clones, lines."""
        looks = {
            "owner": "SELECT run_id, owner FROM runs WHERE owner IS NOT NULL",
            "job": "SELECT job, state FROM treadle_fleet.fleet_jobs WHERE state <> 'done'",
            "use": "SELECT job, provider FROM treadle_fleet.fleet_uses",
            "question": "SELECT question_id, kind FROM questions WHERE answered_at IS NULL",
            "line": "SELECT application_name, state FROM pg_stat_activity WHERE application_name"
            " IN (SELECT worker_id FROM treadle_fleet.workers)",
        }
        for what, sql in looks.items():
            for row in self._rows(sql):
                yield f"{what}: {' '.join(map(str, row))}"
        yield from (f"clone: {path}" for path in self._clones())
        yield from (f"{name}: {n} lines" for name, n in self.lines.items() if n > LINES)

    def _clones(self) -> list[Path]:
        return sorted(self.lab.folder.glob("hosts/*/cache/treadle/fleet/work/*/*/*"))

    def _gaps(self) -> list[str]:
        """Return runs whose events have holes, or tell of a step twice."""
        sql = (
            "SELECT run_id, count(*), max(seq), sum((type = 'step_committed')::int),"
            " (SELECT count(*) FROM steps WHERE steps.run_id = events.run_id)"
            " FROM events GROUP BY run_id"
        )
        found = self._rows(sql)
        return [f"{r}: events" for r, n, last, told, steps in found if (n, told) != (last, steps)]

    def _unpublished(self, runs: list[tuple]) -> list[str]:
        """Return runs whose branch in the shared repository is not where the store says."""
        refs = self.lab.refs()
        return [
            f"{r}: branch" for r, head, _ in runs if refs.get(f"refs/heads/treadle/{r}") != head
        ]

    def _recoveries(self) -> list[tuple[float, float]]:
        """Return how long after each worker counts as dead another one took each of its runs,
        and for how long of that one of the others had a slot for it."""
        drives = list(self._drives())
        found = []
        for worker, at in self.hurt:
            dead_at = self._dead_at(at)
            for before, after in itertools.pairwise(drives):
                if before.run_id == after.run_id and before.worker == worker != after.worker:
                    free = self._free(after.run_id, dead_at, after.begun)
                    found.append((round(after.begun - dead_at, 1), round(free, 1)))
        return sorted(found)

    def _drives(self) -> Iterator[Drive]:
        """Yield when which worker began with which run, run by run in order of time."""
        sql = (
            "SELECT run_id, message, extract(epoch FROM ts::timestamptz)::float8 FROM events"
            " WHERE type = 'run_claimed' ORDER BY run_id, seq"
        )
        for run_id, message, at in self._rows(sql):
            yield Drive(run_id, message.split()[1].rstrip(","), at)

    def _free(self, run_id: str, begin: float, end: float) -> float:
        """Return for how long of a time others than this run had fewer slots than all workers but
        one have, and but those that took none because they only failed.

        A slot is taken by a job from when it is handed out until nothing of it is left to do.
        """
        unfit = [
            (at, at + float(seconds))
            for stamp, seconds in _UNFIT.findall(self.lab.words())
            for at in [datetime.fromisoformat(stamp).timestamp()]
        ]
        hurt = dict(self.hurt)
        return sum(
            after - at
            for (at, held), (after, _) in itertools.pairwise(self.looks)
            if begin <= at < end
            and sum(it != run_id and hurt.get(held[it], math.inf) > at for it in held)
            < (self.wishes.workers - 1 - sum(it[0] <= at < it[1] for it in unfit))
            * self.wishes.slots
        )

    def _dead_at(self, hurt_at: float) -> float:
        """Return when a worker counts as dead: nobody is judged by the time of an outage."""
        gone_at, back_at = self.outage
        judged = hurt_at + DEAD_AFTER < gone_at or hurt_at > back_at
        return (hurt_at if judged else back_at) + DEAD_AFTER

    def close(self) -> None:
        self.lab.close()
        self.server.cleanup()
        if self.disk:
            subprocess.run(["umount", "-l", self.disk], check=True)


def _processes() -> list[tuple[int, int]]:
    """Return every process and its parent."""
    words = ["ps", "-eo", "pid=,ppid="]
    told = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return [(int(pid), int(parent)) for pid, parent in map(str.split, told.splitlines())]


def main() -> int:
    """Run the big one as often as asked, each time anew, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="of seven steps each (200)")
    parser.add_argument("--passes", type=int, default=5, help="each a fleet of its own (5)")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--pause", type=float, default=0.3)
    parser.add_argument("--timeout", type=float, default=3600.0)
    parser.add_argument(
        "--seed", type=int, default=0, help="of the first pass; the next has one more"
    )
    args = parser.parse_args()
    sizes = args.runs, args.workers, args.slots, args.pause, args.timeout
    held = [_hold(Wishes(*sizes, args.seed + number)) for number in range(args.passes)]
    print(f"{sum(held)} of {len(held)} passes held")
    return 0 if all(held) else 1


def _hold(wishes: Wishes) -> bool:
    """Run it once; whatever did not hold leaves its folder behind."""
    folder = Path(tempfile.mkdtemp(prefix="treadle-chaos-", dir="/tmp"))
    (folder / ".gitconfig").write_text(GIT_IDENTITY)
    os.environ["HOME"] = str(folder)
    for name in ("CACHE", "STATE", "CONFIG"):
        os.environ[f"XDG_{name}_HOME"] = str(folder / name.lower())
    chaos = Chaos(folder, wishes)
    try:
        report = chaos.go()
    finally:
        chaos.close()
    for name, value in report._asdict().items():
        print(f"{name}: {value}")
    waited, late = map(max, zip(*report.recoveries, (0.0, 0.0), strict=True))
    print(
        f"with seed {wishes.seed} a dead worker's run was taken at most {waited} s after its death;"
        f" at most {late} s of that others had a slot for it ({LATEST} allowed)",
        flush=True,
    )
    if is_held := report.ok and late <= LATEST:
        shutil.rmtree(folder)
    return is_held


if __name__ == "__main__":
    sys.exit(main())
