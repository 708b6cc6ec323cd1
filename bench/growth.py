"""What must not grow with a fleet: the same work in a small fleet and in a large one."""

import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.fleet.inline import Inline
from tests.fleet.lab import Lab as FleetLab
from tests.fleet.lab import database

from bench.fleet import start_server
from bench.harness import Bench, Claim, Command, Sample
from bench.lab import REPOSITORY, Lab
from bench.told import Memory, measured
from treadle.config.load import load
from treadle.config.schema import FleetConfig
from treadle.contract import Criterion
from treadle.engine.run import order
from treadle.engine.run.order import Order
from treadle.fleet import site as sites
from treadle.fleet.leader import Beat
from treadle.fleet.queue import Job, Queue
from treadle.fleet.site import FleetSite
from treadle.fleet.submit import Desk, submit
from treadle.git import remote
from treadle.ids import utc
from treadle.project.context import open_context
from treadle.store import fleet
from treadle.store.fleet import WorkerRow
from treadle.store.store import Store

MOST = 1.3
_AT_ONCE = 50
_LOOKS = 10
_KIB = 1024
_RUN = "20260101-000000-000000"


class Grown(NamedTuple):
    """One kind of work, and how large the small and the large fleet are."""

    verb: str
    what: str
    small: int
    large: int
    quick: int
    most: float = MOST
    claims: Callable[[list[Sample]], list[Claim]] = lambda _: []


WORK = (
    Grown("submit", f"{_AT_ONCE} runs queued after others", 50, 5_000, 600),
    Grown("dispatch", f"{_AT_ONCE} jobs taken of a queue", 100, 10_000, 2_000),
    Grown("claim", "ten clones beside run branches", 0, 10_000, 2_000),
    Grown("status", f"`fleet status`, {_LOOKS} times", 5, 50, 20, MOST, lambda it: _seconds(it)),
    Grown("beats", "a beat, an hour's worth of them", 36, 360, 72, MOST, lambda it: _grown(it)),
)


def benches(lab: Lab) -> list[Bench]:
    """Return each kind of work, the large fleet against the small one."""
    server = os.environ.get("TREADLE_TEST_PG") or start_server()

    def part(folder: Path, verb: str, size: int) -> Command:
        folder.mkdir()
        url = database(server, f"growth_{secrets.token_hex(4)}")
        argv = [sys.executable, "-m", "bench.growth", verb, str(folder), url, str(size)]
        return Command(argv, REPOSITORY, {**os.environ, **lab.env})

    def bench(work: Grown) -> Bench:
        large = lab.size(work.large, work.quick)
        return Bench(
            f"grow-{work.verb}",
            f"{work.what}: {large}",
            f"{work.small}",
            lambda folder: part(folder, work.verb, large),
            lambda folder: part(folder, work.verb, work.small),
            work.most,
            2 * work.most,
            True,
            lab.size(5, 1),
            work.claims,
        )

    return [bench(work) for work in WORK]


def _submit(folder: Path, url: str, size: int) -> None:
    made = FleetLab(folder, {"TREADLE_STORE": url})
    made.make()
    os.environ.update(made.env)
    project = open_context(made.root, os.environ)
    config = load(project.layout, os.environ).config
    site = sites.find_site(project.layout, os.environ)
    assert site
    with Store.open(project.layout, os.environ) as store:
        desk = Desk(project, config, site, store, Inline())  # type: ignore[arg-type]  # a queue
        submit(desk, *(_order(config) for _ in range(size)))
        with measured():
            submit(desk, *(_order(config) for _ in range(_AT_ONCE)))


def _order(config: object) -> Order:
    asked = (Criterion("AC1", "It is fine"),)
    return order.freeze(config, text="Look", criteria=asked, swaps={}, task_id=None)  # type: ignore[arg-type]  # loaded above


def _dispatch(folder: Path, url: str, size: int) -> None:
    dispatcher = Queue(FleetSite(url, "p", None), FleetConfig(polling=0.05), "bench")
    done = threading.Semaphore(0)
    with ThreadPoolExecutor(4) as pool:
        names = [(f"p{at % _AT_ONCE}", f"{_RUN[:9]}{at:06d}-000000") for at in range(size)]
        list(pool.map(lambda name: dispatcher.submit(Job(*name, 0), 0), names))
    dispatcher.work(_AT_ONCE, lambda job: done.release() or True)
    done.acquire()
    with measured():
        for _ in range(_AT_ONCE - 1):
            done.acquire()
    os._exit(0)


def _claim(folder: Path, url: str, size: int) -> None:
    origin, here = folder / "origin.git", folder / "here"
    for words in (["--bare", str(origin)], [str(here)]):
        _git("init", "-q", "-b", "main", *words)
    named = ("-c", "user.name=b", "-c", "user.email=b@example.com")
    _git("-C", str(here), *named, "commit", "-q", "--allow-empty", "-m", "Start")
    _git("-C", str(here), "push", "-q", str(origin), "main", "main:refs/heads/treadle/mine")
    commit = _git("-C", str(here), "rev-parse", "HEAD").strip()
    lines = [f"create refs/heads/treadle/{number} {commit}\n" for number in range(size)]
    _git("--git-dir", str(origin), "update-ref", "--stdin", told="".join(lines))
    mirror = folder / "mirror.git"
    remote.mirror(str(origin), mirror, "treadle/mine")
    with measured():
        for number in range(10):
            remote.mirror(str(origin), mirror, "treadle/mine")
            remote.clone(str(origin), mirror, folder / f"clone{number}", commit)


def _git(*args: str, told: str = "") -> str:
    words = ["git", *args]
    return subprocess.run(words, check=True, capture_output=True, text=True, input=told).stdout


def _status(folder: Path, url: str, size: int) -> None:
    site = FleetSite(url, "p0", None)
    with site.fleet() as workers:
        for number in range(size):
            site.store(f"p{number}").close()
            fleet.add_project(workers, f"p{number}", "/repo", utc(workers.now()))
    with measured():
        for _ in range(_LOOKS):
            words = [sys.executable, "-m", "treadle", "fleet", "status"]
            env = {**os.environ, "TREADLE_STORE": url}
            subprocess.run(words, cwd=folder, env=env, check=True, capture_output=True)


def _beats(folder: Path, url: str, size: int) -> None:
    """Beat and lead; tell what one costs, and by how much the process grew over the last half."""
    site, pace = FleetSite(url, "p", None), FleetConfig(beat=10, dead_after=0.001)
    beat = Beat("bench", Inline(), set(), site, pace, lambda: None)  # type: ignore[arg-type]  # a queue
    now = utc(beat.store.now())
    fleet.register(beat.store, WorkerRow("bench", "h", 1, 1, 0, "alive", now, now), now)
    fleet.add_project(beat.store, "p", "/repo", now)
    with measured() as figures:
        began = time.perf_counter()
        for _ in range(size // 2):
            beat.tick()
        memory = Memory()
        for _ in range(size // 2):
            beat.tick()
        figures |= {"grown": memory.grown_kb(), "wall": (time.perf_counter() - began) / size}
    beat.close()


def _grown(samples: list[Sample]) -> list[Claim]:
    return [Claim("KiB grown", min(sample.told["grown"] for sample in samples), _KIB)]


def _seconds(samples: list[Sample]) -> list[Claim]:
    return [Claim("s for a look", min(sample.wall for sample in samples) / _LOOKS, 1.0)]


if __name__ == "__main__":
    verb, place, address_, size_ = sys.argv[1:]
    sides = {"submit": _submit, "dispatch": _dispatch, "claim": _claim, "status": _status}
    (sides | {"beats": _beats})[verb](Path(place), address_, int(size_))
