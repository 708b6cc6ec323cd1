"""P9 and P10: pages over HTTP against their SQL, few rows and many; a server nobody looks at."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

from bench import store as stores
from bench.harness import Bench, Claim, Command, Sample, run
from bench.lab import Lab
from treadle.layout import Layout
from treadle.project.context import open_context
from treadle.store import transaction
from treadle.store.store import Reader
from treadle.web import access, app
from treadle.web.access import Keys
from treadle.web.site import Site

LONG = "20250101-000000-000000"
_PAGE = 100
_ASKED = 100  # requests in one sample
_IDLE = 10.0  # seconds that a server is watched


def benches(lab: Lab) -> list[Bench]:
    """Return the page of events, with the runs as a claim, and the idle server."""
    big = make_project(
        lab, lab.scratch / "page-big", lab.size(10_000, 300), lab.size(800_000, 6_000)
    )
    small = make_project(lab, lab.scratch / "page-small", 100, 8_000)
    many = make_project(lab, lab.scratch / "page-many", lab.size(100_000, 3_000), 0)

    def claims(samples: list[Sample]) -> list[Claim]:
        first, last = (min(it.told[name] for it in samples) for name in ("first", "last"))
        used = min(sample.cpu for sample in samples)
        return [
            Claim("last page against first", last / first, 1.2),
            Claim("CPU, many events against few", used / _least(lab, "events", small), 1.2),
            Claim(
                "CPU of the runs page, many against 100",
                _least(lab, "runs", many) / _least(lab, "runs", small),
                1.5,
            ),
        ]

    def idle(samples: list[Sample]) -> list[Claim]:
        return [
            Claim("percent of a CPU", max(it.told["percent"] for it in samples), 1.0),
            Claim(
                "memory against a bare interpreter", max(it.told["memory"] for it in samples), 3.0
            ),
        ]

    def look(folder: Path) -> Command:
        return lab.part("page", "idle", many, lab.treadle, lab.bare_python)

    events, sql = (lambda _, verb=verb: lab.part("page", verb, big) for verb in ("events", "sql"))
    what = "100 events as JSON over HTTP"
    rounds = lab.size(6, 3)
    return [
        Bench("page", what, "the SQL alone", events, sql, 7.0, 9.0, False, rounds, claims),
        Bench("idle", "an idle server", "the same", look, look, 1.5, 3.0, False, 1, idle),
    ]


def make_project(lab: Lab, folder: Path, runs: int, events: int) -> Path:
    """Make a project with so many runs of 20 events, and one with many more."""
    root = stores.make_project(lab, folder, runs)
    with sqlite3.connect(Layout(root).database) as database:
        stores._insert(database, LONG, "passed", None)
        rows = ((LONG, seq, "2026-01-01T00:00:00.000000Z") for seq in range(21, events + 1))
        database.executemany(
            "INSERT INTO events VALUES (?, ?, ?, 'step_committed', 'step committed', '{}')", rows
        )
    return root


def _least(lab: Lab, verb: str, root: Path) -> float:
    samples = [run(lab.part("page", verb, root), lab.scratch / f"{verb}.out") for _ in range(3)]
    return min(sample.cpu for sample in samples)


def _events(root: Path) -> None:
    with Reader.open(Layout(root)) as store:
        last = store.last_seq(LONG) - _PAGE
    _tell(_served(root), [f"/runs/{LONG}/events.json?after={seq}" for seq in (0, last // 2, last)])


def _runs(root: Path) -> None:
    _tell(_served(root), ["/runs"] * 3)


def _sql(root: Path) -> None:
    database = sqlite3.connect(Layout(root).database)
    last = database.execute("SELECT max(seq) FROM events WHERE run_id = ?", (LONG,)).fetchone()[0]
    text = transaction.sql("events")

    def ask(after: str) -> None:
        values = {"run_id": LONG, "after": int(after), "limit": _PAGE}
        assert len(database.execute(text, values).fetchall()) == _PAGE

    _tell(ask, [str(seq) for seq in (0, (last - _PAGE) // 2, last - _PAGE)])


def _tell(ask: Callable[[str], None], paths: list[str]) -> None:
    """Ask for each in turn, and say what the first, the last and the quickest took at least."""
    times: list[list[float]] = [[] for _ in paths]
    for _ in range(_ASKED // 10):
        ask(paths[0])
    used = time.process_time()
    for _ in range(_ASKED):
        for number, path in enumerate(paths):
            begun = time.perf_counter()
            ask(path)
            times[number].append(time.perf_counter() - begun)
    cpu = (time.process_time() - used) / _ASKED / len(paths)
    least = [min(found) for found in times]
    told = {"wall": min(least), "cpu": cpu, "first": least[0], "last": least[-1]}
    print(json.dumps(told))


def _served(root: Path) -> Callable[[str], None]:
    """Serve a project in this process and return what asks it, over one kept connection."""
    keys = Keys()
    server = access.bind_port(0)
    port = server.getsockname()[1]
    site = Site(open_context(root, os.environ), keys, port)
    Thread(target=app.serve_page, args=(site, server, lambda: None), daemon=True).start()
    client = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    token = keys.redeem(keys.new_link())
    head = f"Host: 127.0.0.1:{port}\r\nCookie: {app.cookie_name(site)}={token}\r\n\r\n"

    def ask(path: str) -> None:
        client.sendall(f"GET {path} HTTP/1.1\r\n{head}".encode())
        answer = client.recv(1 << 16)
        assert answer.startswith(b"HTTP/1.1 200"), answer[:300]
        top, _, body = answer.partition(b"\r\n\r\n")
        left = int(top.lower().partition(b"content-length: ")[2].split()[0]) - len(body)
        while left > 0:
            left -= len(client.recv(1 << 16))

    return ask


def _watch(root: Path, treadle: str, python: str) -> None:
    """Start the server as a user does and look at it from outside; all its runs are to stay."""
    begun = time.perf_counter()
    with (root / ".treadle" / "config.toml").open("a") as settings:
        settings.write("[keep]\nruns = 1_000_000\n")
    subprocess.run([treadle, "trust"], cwd=root, check=True, stdout=subprocess.DEVNULL)
    words = [treadle, "serve", "--port", "0", "--json"]
    with subprocess.Popen(words, cwd=root, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        server.stdout.readline()
        time.sleep(2)
        used = _ticks(server.pid)
        time.sleep(_IDLE)
        share = (_ticks(server.pid) - used) / os.sysconf("SC_CLK_TCK") / _IDLE
        memory = _resident(server.pid)
        server.send_signal(signal.SIGTERM)
    bare = _bare(python)
    told = {"wall": time.perf_counter() - begun, "percent": share * 100, "memory": memory / bare}
    print(json.dumps(told))


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _bare(python: str) -> int:
    """Ask a bare interpreter itself: its peak would begin with ours."""
    words = [python, "-c", "print(open('/proc/self/statm').read())"]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return int(done.stdout.split()[1]) * os.sysconf("SC_PAGE_SIZE")


_SIDES: dict[str, Callable[..., None]] = {
    "events": _events,
    "runs": _runs,
    "sql": _sql,
    "idle": _watch,
}

if __name__ == "__main__":
    _SIDES[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
    sys.stdout.flush()
    os._exit(0)
