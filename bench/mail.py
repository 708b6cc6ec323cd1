"""P2, P5, P7 and sending: letters against a bare start, one process, few letters, a bare file."""

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from multiprocessing.synchronize import Barrier
from pathlib import Path

from bench import wheel
from bench.harness import Bench, Claim, Command, Maker, Sample
from bench.lab import Lab
from bench.told import measured
from treadle.layout import Layout
from treadle.mail import effect, find, index
from treadle.mail.claim import claim_next
from treadle.mail.letter import Draft
from treadle.store.store import Reader, Store

PROCESSES = 8
# A rate of nine tenths is a time of ten ninths; two fifths of a fair share is a share of 0.4.
SLOWER, SHARE = 1 / 0.9, 1 / 0.4
_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def benches(lab: Lab) -> list[Bench]:
    """Return the four workloads."""
    return [*_cold(lab), _claims(lab), _list(lab), _send(lab)]


def _cold(lab: Lab) -> Iterator[Bench]:
    root = wheel.make_project(lab, lab.scratch / "mail")
    fill(root, 1000)

    def bare(_: Path) -> Command:
        return lab.command(str(lab.bare_python), "-c", "pass")

    for name, *words in (
        ("list", "list", "--json"),
        ("claim", "claim", "--as", "b", "--json"),
        ("send", "send", "--from", "a", "--to", "c", "--intent", "inform", "--json"),
    ):

        def mail(_: Path, words: list[str] = words) -> Command:
            return lab.command(str(lab.treadle), "mail", *words, cwd=root)

        floor = "python -c pass"
        yield Bench(f"P2-{name}", f"mail {name}", floor, mail, bare, 5.0, 5.0, rounds=lab.rounds)


def _claims(lab: Lab) -> Bench:
    letters = lab.size(4000, 800)

    def claiming(processes: int) -> Maker:
        def make(folder: Path) -> Command:
            fill(folder, letters)
            return lab.part("mail", "claim", folder, processes, letters)

        return make

    def fairness(samples: list[Sample]) -> list[Claim]:
        worst = max(sample.told["share"] for sample in samples)
        return [Claim("fair share over the unluckiest process' share", worst, SHARE)]

    return Bench(
        "P5",
        f"{PROCESSES} processes claim {letters}",
        "one process claims them",
        claiming(PROCESSES),
        claiming(1),
        SLOWER,
        SLOWER,
        True,
        lab.size(5, 2),
        fairness,
    )


def _list(lab: Lab) -> Bench:
    many, few = lab.size(100_000, 10_000), 100
    large, small = lab.scratch / "large", lab.scratch / "small"
    for folder, count in ((large, many), (small, few)):
        fill(folder, count)

    def listing(folder: Path) -> Maker:
        return lambda _: lab.part("mail", "list", folder)

    return Bench(
        "P7",
        f"list 50 of {many}",
        f"list 50 of {few}",
        listing(large),
        listing(small),
        2.0,
        2.0,
        rounds=lab.rounds,
    )


def _send(lab: Lab) -> Bench:
    count = lab.size(200, 50)

    def side(verb: str) -> Maker:
        def make(folder: Path) -> Command:
            folder.mkdir(parents=True)
            return lab.part("mail", verb, folder, count)

        return make

    return Bench(
        "send",
        f"{count} letters sent",
        "write, fsync, link, unlink, fsync",
        side("send"),
        side("bare"),
        1.5,
        1.5,
        True,
        lab.rounds,
    )


def fill(root: Path, count: int) -> None:
    """Put letters there as another program would, and let them be found."""
    layout = Layout(root)
    layout.mail.new.mkdir(parents=True, exist_ok=True)
    layout.mail.inbox("b").mkdir(parents=True, exist_ok=True)
    head = "# MESSAGE\nfrom: a\nto: b\nintent: inform\nstatus: new\ncreated_at: "
    for number in range(count):
        day, rest = divmod(number, 86_400)
        clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
        name = f"2026010{day + 1}_{clock.replace(':', '')}_a-b_inform.md"
        text = f"{head}2026-01-0{day + 1}T{clock}Z\n\n## Summary\nLetter {number}\n"
        (layout.mail.new / name).write_text(text)
    with Store.open(layout) as store:
        time.sleep(0.1)  # a folder this young would be read again
        effect.refresh(store, layout.mail, _NOW)


def _claim_all(root: Path, processes: int, letters: int) -> None:
    """Claim everything, each process for itself, and tell time and the smallest share."""
    gate = multiprocessing.Barrier(processes + 1)
    found: multiprocessing.Queue[int] = multiprocessing.Queue()
    children = [
        multiprocessing.Process(target=_claimant, args=(root, gate, found))
        for _ in range(processes)
    ]
    for child in children:
        child.start()
    gate.wait()
    begun = time.perf_counter()
    shares = [found.get() for _ in children]
    wall = time.perf_counter() - begun
    for child in children:
        child.join()
    if sum(shares) != letters:
        sys.exit(f"{sum(shares)} letters were claimed of {letters}")
    share = letters / processes / max(min(shares), 1)
    print(json.dumps({"wall": wall, "cpu": sum(os.times()[:4]), "share": share}))


def _claimant(root: Path, gate: Barrier, found: "multiprocessing.Queue[int]") -> None:
    layout, count = Layout(root), 0
    with Store.open(layout) as store:

        def refresh() -> None:
            effect.refresh(store, layout.mail, datetime.now(UTC))

        gate.wait()
        while claim_next(store, "b", datetime.now(UTC), refresh):
            count += 1
    found.put(count)


def _list_often(root: Path) -> None:
    layout = Layout(root)
    with measured():
        for _ in range(200):
            with Reader.open(layout) as store:
                assert not index.is_stale(store, layout.mail)
                assert len(find.list_letters(store, find.LetterQuery("b")).rows) == 50


def _send_many(root: Path, count: int) -> None:
    layout = Layout(root)
    with measured():
        for _ in range(count):
            effect.send(layout, Draft("a", "b", "inform", "x" * 1000), datetime.now(UTC))


def _write_many(root: Path, count: int) -> None:
    data = b"x" * 1200
    with measured():
        for number in range(count):
            _write(str(root), f"{number:06d}.md", data)


def _write(folder: str, name: str, data: bytes) -> None:
    staged = f"{folder}/.{name}"
    descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    os.write(descriptor, data)
    os.fsync(descriptor)
    os.close(descriptor)
    os.link(staged, f"{folder}/{name}")
    os.unlink(staged)
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


if __name__ == "__main__":
    verb, place, *numbers = sys.argv[1:]
    sides = {"claim": _claim_all, "list": _list_often, "send": _send_many, "bare": _write_many}
    sides[verb](Path(place), *map(int, numbers))
