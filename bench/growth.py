"""What must not grow with a fleet: the same work in a small fleet and in a large one."""

import contextlib
import os
import random
import secrets
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import psycopg
from tests.fleet.inline import Inline
from tests.fleet.lab import Lab as FleetLab
from tests.fleet.lab import database

from bench import wheel
from bench.fleet import start_server
from bench.harness import Bench, Claim, Command, Sample, run
from bench.lab import REPOSITORY, Lab
from bench.told import Memory, measured, used
from treadle.config.load import load
from treadle.config.schema import FleetConfig
from treadle.contract import Criterion
from treadle.engine.elsewhere import archive
from treadle.engine.elsewhere.archive import Shelf
from treadle.engine.run import begin, order
from treadle.engine.run.order import Order
from treadle.engine.wheel import loop
from treadle.fleet import site as sites
from treadle.fleet.leader import Beat
from treadle.fleet.site import FleetSite
from treadle.fleet.submit import Desk, submit
from treadle.git import remote
from treadle.ids import utc
from treadle.project.context import open_context
from treadle.project.key import FleetKey
from treadle.sandbox import jails
from treadle.store import fleet
from treadle.store.fleet import WorkerRow
from treadle.store.store import Store

MOST = 1.3
_KIB = 1024
_PROJECTS = 50
_FEW = 5
_AT_ONCE = 50
# One piece of work, to be timed; the sides take turns at it, so both have the same weather.
Piece = Callable[[], None]
Prepare = Callable[[Path, str, int], Piece]


class Grown(NamedTuple):
    """One kind of work, how large the small and the large fleet are, and how often it is timed."""

    verb: str
    what: str
    small: int
    large: int
    quick: int
    rounds: int
    claims: Callable[[list[Sample]], list[Claim]] = lambda _: []


WORK = (
    Grown("submit600", f"{_AT_ONCE} runs queued after others", 50, 600, 600, 9),
    Grown("submit", f"{_AT_ONCE} runs queued after others", 50, 5_000, 600, 9),
    Grown("dispatch", f"{_FEW} jobs taken and ended", 100, 10_000, 2_000, 15),
    Grown("claim", "a clone beside run branches", 0, 10_000, 2_000, 25),
    Grown("status", "`fleet status`, projects", 5, 50, 20, 9, lambda it: _seconds(it)),
    Grown("step", "a step after others", 20, 600, 60, 25),
    Grown("step-B", "a step after others, tier B", 20, 600, 60, 25),
    Grown("step-A", "a step after others, tier A", 20, 600, 60, 25),
    Grown("beats", "a beat, an hour's worth of them", 36, 360, 72, 5, lambda it: _grown(it)),
)


def benches(lab: Lab) -> list[Bench]:
    """Return each kind of work, the large fleet against the small one."""
    server = os.environ.get("TREADLE_TEST_PG") or start_server()

    def part(folder: Path, *words: str) -> Command:
        folder.mkdir(parents=True)
        urls = [database(server, f"growth_{secrets.token_hex(4)}") for _ in range(2)]
        argv = [sys.executable, "-m", "bench.growth", words[0], str(folder), *urls, *words[1:]]
        return Command(argv, REPOSITORY, {**os.environ, **lab.env})

    def bench(work: Grown) -> Bench:
        large, rounds = lab.size(work.large, work.quick), lab.size(work.rounds, 5)

        def both(folder: Path) -> tuple[list[Sample], list[Sample]]:
            command = part(folder / "both", work.verb, str(large), str(work.small), str(rounds))
            told = run(command, folder / "both.out").told
            return _samples(told, "large", rounds), _samples(told, "small", rounds)

        return Bench(
            f"grow-{work.verb}",
            f"{work.what}: {large}",
            f"{work.small}",
            lambda folder: part(folder, work.verb),
            lambda folder: part(folder, work.verb),
            MOST,
            MOST,
            False,
            rounds,
            work.claims,
            both,
        )

    tiers = {tier for tier in ("A", "B") if jails.probe(tier).tier == tier}
    return [bench(it) for it in WORK if it.verb[-2:] not in ("-A", "-B") or it.verb[-1] in tiers]


def _samples(told: Mapping[str, float], side: str, rounds: int) -> list[Sample]:
    return [
        Sample(told[f"{side}_wall{at}"], told[f"{side}_cpu{at}"], 0, told) for at in range(rounds)
    ]


def race(prepare: Prepare, folder: Path, urls: list[str], sizes: list[int], rounds: int) -> None:
    """Let both sides take turns, the first one to warm up; tell what each piece cost."""
    names = ("large", "small")
    pieces = {
        name: prepare(folder / name, url, size)
        for name, url, size in zip(names, urls, sizes, strict=True)
    }
    chance, figures = random.Random(0), dict[str, float]()
    memory = Memory()
    with measured() as told:
        for at in range(-1, rounds):
            for name in chance.sample(names, 2):
                wall, cpu = used()
                pieces[name]()
                now = used()
                figures[f"{name}_wall{at}"] = now[0] - wall
                figures[f"{name}_cpu{at}"] = now[1] - cpu
        told |= figures | {"grown": memory.grown_kb()}


def _submit(folder: Path, url: str, size: int) -> Piece:
    folder.mkdir()
    made = FleetLab(folder, {"TREADLE_STORE": url})
    made.make()
    _git("-C", str(made.root), "push", "-q", "origin", "main")  # as a team's repository has it
    os.environ["TREADLE_FLEET_KEY_FILE"] = str(made.key)
    project = open_context(made.root, made.env)
    config = load(project.layout, made.env).config
    site = sites.find_site(project.layout, made.env)
    assert site
    store = Store.open(project.layout, made.env)
    desk = Desk(project, config, site, store, Inline())  # type: ignore[arg-type]  # a queue
    submit(desk, *(_order(config) for _ in range(size)))
    _analyze(url)
    # As a server does by itself before long: a push looks at every branch that is there.
    _git("--git-dir", str(folder / "origin.git"), "pack-refs", "--all")
    return lambda: _none(submit(desk, *(_order(config) for _ in range(_AT_ONCE))))


def _order(config: object) -> Order:
    asked = (Criterion("AC1", "It is fine"),)
    return order.freeze(config, text="Look", criteria=asked, swaps={}, task_id=None)  # type: ignore[arg-type]  # loaded above


def _none(_: object) -> None:
    """Forget what a piece returned."""


def _dispatch(folder: Path, url: str, size: int) -> Piece:
    store = FleetSite(url, "p", None).fleet()
    now = utc(store.now())
    sql = (
        "INSERT INTO treadle_fleet.fleet_jobs (job, project, priority, state, changed_at)"
        f" SELECT 'p' || n % {_PROJECTS} || '/20260101-' || lpad(n::text, 6, '0') || '-000000/0',"
        f" 'p' || n % {_PROJECTS}, 0, 'waiting', '{now}' FROM generate_series(1, {size}) AS n"
    )
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(sql.encode())
    _analyze(url)

    def piece() -> None:
        for _ in range(_FEW):
            job = fleet.take_job(store, "bench", 1)
            fleet.end_jobs(store, "done", {str(job): "bench"}, now)

    return piece


def _analyze(url: str) -> None:
    """Let the server know its tables, as it does by itself before long."""
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("ANALYZE")


def _claim(folder: Path, url: str, size: int) -> Piece:
    folder.mkdir()
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

    def piece() -> None:
        remote.mirror(str(origin), mirror, "treadle/mine", commit)
        remote.clone(str(origin), mirror, folder / secrets.token_hex(4), commit)

    return piece


def _git(*args: str, told: str = "") -> str:
    words = ["git", *args]
    return subprocess.run(words, check=True, capture_output=True, text=True, input=told).stdout


def _status(folder: Path, url: str, size: int) -> Piece:
    folder.mkdir()
    site = FleetSite(url, "p0", None)
    with site.fleet() as workers:
        for number in range(size):
            site.store(f"p{number}").close()
            fleet.add_project(workers, f"p{number}", "/repo", utc(workers.now()))
    words = [sys.executable, "-m", "treadle", "fleet", "status"]
    env = {**os.environ, "TREADLE_STORE": url}
    return lambda: _none(
        subprocess.run(words, cwd=folder, env=env, check=True, capture_output=True)
    )


def _step(sandbox: str) -> Prepare:
    def prepare(folder: Path, url: str, size: int) -> Piece:
        """Take steps of one run, in PostgreSQL and with an archive each, as a worker does."""
        lab = Lab(folder, Path(), Path(), Path(), dict(os.environ), quick=True)
        root = wheel.make_project(lab, folder, extra=sandbox)
        os.environ["TREADLE_STORE"] = url
        stack = contextlib.ExitStack()
        tools, asked = stack.enter_context(wheel.opened(root))
        driven = begin.begin_run(tools, asked)
        shelf, key = Shelf(f"file://{folder}/shelf"), FleetKey(folder, (b"k" * 64,))

        def piece() -> None:
            done = loop.take_step(driven, "plan")
            name = archive.name_of(archive.of_step(driven.id, done.found.row.step_index, "plan"), 1)
            kept = archive.put(shelf, name, archive.seal(name, done.stage.final, None, key))
            loop.record_step(driven, done, kept)

        for _ in range(size):
            piece()
        _analyze(url)
        _OPEN.append(stack)
        return piece

    return prepare


_OPEN: list[contextlib.ExitStack] = []  # until this process ends


def _beats(folder: Path, url: str, size: int) -> Piece:
    """Beat and lead so often, then measure the next one."""
    site, pace = FleetSite(url, "p", None), FleetConfig(beat=10, dead_after=0.001)
    beat = Beat("bench", Inline(), set(), site, pace, lambda: None)  # type: ignore[arg-type]  # a queue
    now = utc(beat.store.now())
    fleet.register(beat.store, WorkerRow("bench", "h", 1, 1, 0, "alive", now, now), now)
    fleet.add_project(beat.store, "p", "/repo", now)
    for _ in range(size):
        beat.tick()

    def piece() -> None:
        for _ in range(20):
            beat.tick()

    return piece


def _grown(samples: list[Sample]) -> list[Claim]:
    return [Claim("KiB grown", samples[0].told["grown"], _KIB)]


def _seconds(samples: list[Sample]) -> list[Claim]:
    return [Claim("s for a look", min(sample.wall for sample in samples), 1.0)]


_TIERS = {"step": 'sandbox = "off"\n', "step-B": 'sandbox.tier = "B"\n', "step-A": ""}
_PREPARE: dict[str, Prepare] = {
    **{"submit": _submit, "submit600": _submit, "dispatch": _dispatch, "claim": _claim},
    **{"status": _status, "beats": _beats},
    **{name: _step(sandbox) for name, sandbox in _TIERS.items()},
}

if __name__ == "__main__":
    verb, place, *urls_ = sys.argv[1:5]
    large_, small_, rounds_ = map(int, sys.argv[5:])
    race(_PREPARE[verb], Path(place), urls_, [large_, small_], rounds_)
    sys.stdout.flush()
    os._exit(0)
