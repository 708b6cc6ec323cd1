"""The store of many machines: claims by many processes, and how soon a commit is heard of."""

import json
import multiprocessing
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from multiprocessing.synchronize import Barrier
from pathlib import Path

import psycopg

from bench.harness import Bench, Claim, Command, Maker, Sample
from bench.lab import REPOSITORY, Lab
from bench.told import measured
from treadle.mail import claim as mail_claim
from treadle.store import address
from treadle.store import letters as index
from treadle.store.letters import LetterRow
from treadle.store.runs import Cursor, Event, History, RunRow
from treadle.store.store import Store, Transaction
from treadle.store.transaction import Database

PROCESSES = 8
# Claims a second, and milliseconds from a commit to whoever listens.
PG_RATE, SQLITE_RATE, P50, P99 = 1290, 2700, 2.0, 12.0
_NOW = "2026-01-01T00:00:00.000000Z"
_CLAIMED = datetime(2026, 1, 2, tzinfo=UTC)
_RUN = "20260101-000000-000000"


def benches(lab: Lab, server: str) -> list[Bench]:
    """Return claims on both databases against bare ones, and the latency of events."""
    letters = lab.size(4000, 1000)
    return [
        _claims("claim-pg", lab, letters, lambda _: server, (6.0, PG_RATE)),
        _claims("claim-lit", lab, letters, lambda at: f"sqlite:{at}/s.db", (1.5, SQLITE_RATE)),
        _events(lab, server),
    ]


def _part(lab: Lab, verb: str, *args: object) -> Command:
    # The installed treadle of the other benches has no driver.
    argv = [sys.executable, "-m", "bench.fleet_store", verb, *map(str, args)]
    return Command(argv, REPOSITORY, lab.env)


def _claims(
    id_: str, lab: Lab, letters: int, url: Callable[[Path], str], good: tuple[float, int]
) -> Bench:
    gate, rate = good

    def side(verb: str) -> Maker:
        def make(folder: Path) -> Command:
            folder.mkdir(parents=True)
            schema = f"bench_{os.urandom(5).hex()}"
            return _part(lab, verb, url(folder), schema, letters)

        return make

    def told(samples: list[Sample]) -> list[Claim]:
        best = max(sample.told["rate"] for sample in samples)
        twice = max(sample.told["twice"] for sample in samples)
        return [Claim("claimed twice", twice, 0), Claim(f"{rate}/s over the rate", rate / best, 1)]

    name = f"{PROCESSES} processes claim {letters}"
    rounds = lab.size(5, 2)
    return Bench(
        id_, name, "bare rows", side("claim"), side("bare"), gate, gate, True, rounds, told
    )


def _events(lab: Lab, server: str) -> Bench:
    count = lab.size(800, 200)

    def listen(_: Path) -> Command:
        return _part(lab, "listen", server, f"bench_{os.urandom(5).hex()}", count)

    def bare(_: Path) -> Command:
        return _part(lab, "notify", server, "unused", count)

    def told(samples: list[Sample]) -> list[Claim]:
        best = min(samples, key=lambda sample: sample.told["p99"]).told
        return [
            Claim("lost or out of order", max(sample.told["lost"] for sample in samples), 0),
            Claim("p50 in ms", best["p50"], P50),
            Claim("p99 in ms", best["p99"], P99),
        ]

    name = f"{count} events from 4 writers"
    return Bench("events", name, "bare NOTIFY", listen, bare, 3.0, 4.0, True, lab.size(5, 2), told)


def _claim_all(url: str, schema: str, letters: int) -> None:
    database = address.at(url, schema)
    with Store.at(database) as store:
        index.insert(store, [_letter(number) for number in range(letters)])
    _race(lambda: _claimant(database), letters)


def _letter(number: int) -> LetterRow:
    head = (None, "new", None, "NEW_MESSAGES", f"{number:06d}.md", "a", "b", "inform", None, "new")
    return LetterRow(*head, f"2026-01-01T{number:08d}", None, None, None, "Letter")


def _claimant(database: Database) -> Callable[[], str | None]:
    store = Store.at(database)

    def take(tx: Transaction) -> str | None:
        found = mail_claim.take_row(tx, "b", _CLAIMED)
        return found[0].name if found else None

    def claim() -> str | None:
        return store.write(take, alone=False)

    return claim


def _claim_bare(url: str, schema: str, letters: int) -> None:
    """Claim plain rows with nothing but the driver."""
    if url.startswith("sqlite:"):
        path = url.removeprefix("sqlite:")
        with _lite(path) as line:
            line.execute("CREATE TABLE bare (id INTEGER PRIMARY KEY, box TEXT)")
            line.executemany("INSERT INTO bare VALUES (?, 'new')", [(n,) for n in range(letters)])
        _race(lambda: _bare_lite(path), letters)
        return
    with psycopg.connect(url) as line:
        line.execute(f"CREATE TABLE {schema} (id INTEGER PRIMARY KEY, box TEXT)")
        line.execute(f"INSERT INTO {schema} SELECT n, 'new' FROM generate_series(1, {letters}) n")
        line.execute(f"CREATE INDEX {schema}_new ON {schema} (id) WHERE box = 'new'")
    _race(lambda: _bare_pg(url, schema), letters)


def _lite(path: str) -> sqlite3.Connection:
    line = sqlite3.connect(path, timeout=60)
    line.execute("PRAGMA journal_mode=WAL")
    line.execute("PRAGMA synchronous=FULL")
    return line


def _bare_lite(path: str) -> Callable[[], str | None]:
    line = _lite(path)
    line.isolation_level = None

    def claim() -> str | None:
        line.execute("BEGIN IMMEDIATE")
        row = line.execute(
            "UPDATE bare SET box = 'b' WHERE id = (SELECT min(id) FROM bare WHERE box = 'new')"
            " RETURNING id"
        ).fetchone()
        line.execute("COMMIT")
        return str(row[0]) if row else None

    return claim


def _bare_pg(url: str, table: str) -> Callable[[], str | None]:
    line = psycopg.connect(url, autocommit=True)
    sql = (
        f"UPDATE {table} SET box = 'b' WHERE id = (SELECT id FROM {table} WHERE box = 'new'"
        " ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"
    )

    def claim() -> str | None:
        row = line.execute(sql.encode()).fetchone()
        return str(row[0]) if row else None

    return claim


def _race(make: Callable[[], Callable[[], str | None]], letters: int) -> None:
    """Let processes claim until nothing is left; tell the rate and what was claimed twice."""
    gate = multiprocessing.Barrier(PROCESSES + 1)
    found: multiprocessing.Queue[list[str]] = multiprocessing.Queue()
    claimants = [
        multiprocessing.Process(target=_work, args=(make, gate, found)) for _ in range(PROCESSES)
    ]
    for process in claimants:
        process.start()
    gate.wait()
    begun = time.perf_counter()
    taken = [name for _ in claimants for name in found.get()]
    wall = time.perf_counter() - begun
    if len(set(taken)) != letters:
        sys.exit(f"{len(set(taken))} of {letters} were claimed")
    twice = len(taken) - letters
    print(json.dumps({"wall": wall, "cpu": 0.0, "rate": letters / wall, "twice": twice}))


def _work(
    make: Callable[[], Callable[[], str | None]],
    gate: Barrier,
    found: "multiprocessing.Queue[list[str]]",
) -> None:
    claim = make()
    gate.wait()
    taken = []
    while name := claim():
        taken.append(name)
    found.put(taken)


def _listen(url: str, schema: str, count: int) -> None:
    """Let four threads append events, and read them as soon as the server calls."""
    database = address.at(url, schema)
    stores = [Store.at(database) for _ in range(4)]
    runs = [f"{_RUN[:-1]}{number}" for number in range(4)]
    for store, run_id in zip(stores, runs, strict=True):
        store.insert_run(RunRow(run_id, _NOW, "g", "running", 1, 0, None, "d"), (), {})
    waker, seen = database.open_waker(), dict.fromkeys(runs, 0)
    waker.wait(0)
    waits: list[float] = []
    with measured() as figures:
        writers = [
            threading.Thread(target=_write, args=(store, run_id, count // 4))
            for store, run_id in zip(stores, runs, strict=True)
        ]
        for writer in writers:
            writer.start()
        lost = 0
        while len(waits) < count and waker.wait(30):
            for run_id in runs:
                for event in stores[0].events(run_id, seen[run_id]):
                    waits.append((time.time() - float(event.message)) * 1000)
                    lost += event.seq != seen[run_id] + 1
                    seen[run_id] = event.seq
        waits.sort()
        figures |= {"p50": waits[len(waits) // 2], "p99": waits[int(len(waits) * 0.99)]}
        figures["lost"] = lost + count - len(waits)


def _write(store: Store, run_id: str, count: int) -> None:
    for seq in range(1, count + 1):
        now = datetime.now(UTC).timestamp()
        event = Event(seq, _NOW, "step_committed", repr(now), None)
        store.advance(run_id, History(events=(event,)), Cursor("running", 1, 0), 0)
        time.sleep(0.01)


def _notify(url: str, _: str, count: int) -> None:
    """Send as many plain notifications, one commit each."""
    listener = psycopg.connect(url, autocommit=True)
    listener.execute("LISTEN bench")
    with measured(p50=0.0, p99=0.0, lost=0.0):
        speaker = threading.Thread(target=_speak, args=(url, count))
        speaker.start()
        for _ in listener.notifies(stop_after=count):
            pass


def _speak(url: str, count: int) -> None:
    with psycopg.connect(url, autocommit=True) as line:
        for number in range(count):
            line.execute(f"NOTIFY bench, '{number}'".encode())
            time.sleep(0.01 / 4)


if __name__ == "__main__":
    verbs = {"claim": _claim_all, "bare": _claim_bare, "listen": _listen, "notify": _notify}
    verbs[sys.argv[1]](sys.argv[2], sys.argv[3], int(sys.argv[4]))
