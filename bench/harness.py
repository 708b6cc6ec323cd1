"""Race a candidate against its floor inside every round, and judge the ratio, not the time."""

import json
import os
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

TOLERANCE = 1.10
DRIFT = 1.5
ROUNDS = 20
Verdict = Literal["reached", "within gate", "FAILED", "noisy"]


class Command(NamedTuple):
    """One program to time."""

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]


class Sample(NamedTuple):
    """What one run cost; `told` is what the program itself measured, if it said so."""

    wall: float
    cpu: float
    peak_kb: int
    told: Mapping[str, float]


class Claim(NamedTuple):
    """A further figure of a bench that must stay below a limit."""

    name: str
    value: float
    limit: float

    @property
    def holds(self) -> bool:
        """Tell whether the figure is good enough."""
        return self.value <= self.limit


Maker = Callable[[Path], Command]
# Both sides in one process that alternates between them: the samples of either.
Alternating = Callable[[Path], tuple[list[Sample], list[Sample]]]


class Bench(NamedTuple):
    """A candidate, its floor, and the ratio that is good enough.

    A maker gets a folder that does not exist yet, prepares what it likes and returns what is
    to be timed. Disk benches are judged by the median of the ratios within each round, because
    the disk's speed changes from minute to minute; others by the ratio of the smallest times.
    """

    id: str
    candidate_name: str
    floor_name: str
    candidate: Maker
    floor: Maker
    target: float
    gate: float
    is_disk: bool = False
    rounds: int = ROUNDS
    claims: Callable[[list[Sample]], list[Claim]] = lambda _: []
    alternating: Alternating | None = None


class Race(NamedTuple):
    """The outcome of one bench."""

    bench: Bench
    candidate: list[Sample]
    floor: list[Sample]
    claims: list[Claim]
    drift: float
    load: float
    repeated: bool = False

    @property
    def wall(self) -> float:
        """Return the ratio of the smallest wall times."""
        return _least(self.candidate) / _least(self.floor)

    @property
    def cpu(self) -> float:
        """Return the ratio of the median CPU times."""
        return _median_cpu(self.candidate) / max(_median_cpu(self.floor), 1e-6)

    @property
    def paired(self) -> float:
        """Return the median of the ratios within each round."""
        pairs = zip(self.candidate, self.floor, strict=True)
        return statistics.median(mine.wall / base.wall for mine, base in pairs)

    @property
    def judged(self) -> float:
        """Return the wall ratio that counts for this bench."""
        return self.paired if self.bench.is_disk else self.wall

    @property
    def verdict(self) -> Verdict:
        """Judge; a gate fails only when wall and CPU both exceed it."""
        if not all(claim.holds for claim in self.claims):
            return "FAILED"
        if self.judged <= self.bench.target:
            return "reached"
        if self.drift > DRIFT:
            return "noisy"
        over = min(self.judged, self.cpu) > self.bench.gate * TOLERANCE
        return "FAILED" if over else "within gate"


def race(bench: Bench, scratch: Path) -> Race:
    """Run a bench, and once more if its gate fails; sides that take turns had the same weather."""
    first = _race(bench, scratch / "first")
    if bench.alternating or first.verdict not in ("FAILED", "noisy"):
        return first
    return _race(bench, scratch / "second")._replace(repeated=True)


def _race(bench: Bench, scratch: Path) -> Race:
    """Shuffle floor and candidate inside each round; nothing is deleted between rounds."""
    if bench.alternating:
        return _alternate(bench, bench.alternating, scratch)
    chance = random.Random(bench.id)
    sides = {"candidate": bench.candidate, "floor": bench.floor}
    samples: dict[str, list[Sample]] = {name: [] for name in sides}
    probes: list[float] = []
    for number in range(bench.rounds + 1):
        probes.append(_probe(scratch))
        for name in chance.sample(list(sides), len(sides)):
            folder = scratch / f"{number:03d}-{name}"
            folder.parent.mkdir(parents=True, exist_ok=True)
            sample = run(sides[name](folder), scratch / f"{number:03d}-{name}.out")
            if number:
                samples[name].append(sample)
    return Race(
        bench=bench,
        candidate=samples["candidate"],
        floor=samples["floor"],
        claims=bench.claims(samples["candidate"]),
        drift=_drift(probes),
        load=os.getloadavg()[0],
    )


def _alternate(bench: Bench, alternating: Alternating, scratch: Path) -> Race:
    """Let one process measure both sides; the machine's noise is that before and behind it."""
    early = [_probe(scratch) for _ in range(5)]
    mine, base = alternating(scratch)
    claims = bench.claims(mine)
    late = [_probe(scratch) for _ in range(5)]
    return Race(bench, mine, base, claims, _drift([*early, *late]), os.getloadavg()[0])


def run(command: Command, output: Path) -> Sample:
    """Run one command to its end; what it prints last may be its own measurement."""
    os.chdir(command.cwd)
    sink = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, sink, 1),
        (os.POSIX_SPAWN_DUP2, sink, 2),
    ]
    begun = time.perf_counter()
    pid = os.posix_spawnp(command.argv[0], list(command.argv), command.env, file_actions=actions)
    _, status, used = os.wait4(pid, 0)
    wall = time.perf_counter() - begun
    os.close(sink)
    printed = output.read_text(errors="replace")
    if code := os.waitstatus_to_exitcode(status):
        raise RuntimeError(f"{' '.join(command.argv)} gave {code}: {printed[-2000:]}")
    told = _told(printed)
    cpu = used.ru_utime + used.ru_stime
    return Sample(told.get("wall", wall), told.get("cpu", cpu), used.ru_maxrss, told)


def _told(printed: str) -> dict[str, float]:
    last = printed.rstrip().rpartition("\n")[2]
    if not last.startswith('{"wall"'):
        return {}
    found: dict[str, float] = json.loads(last)
    return found


def _probe(scratch: Path) -> float:
    """Time the start of the smallest program: the noise of the machine."""
    scratch.mkdir(parents=True, exist_ok=True)
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
        times.append(time.perf_counter() - begun)
    return min(times)


def _drift(probes: Sequence[float]) -> float:
    """Compare the first half of a race with the second."""
    half = len(probes) // 2
    early, late = statistics.median(probes[:half]), statistics.median(probes[half:])
    return max(early, late) / min(early, late)


def _least(samples: Sequence[Sample]) -> float:
    return min(sample.wall for sample in samples)


def _median_cpu(samples: Sequence[Sample]) -> float:
    return statistics.median(sample.cpu for sample in samples)
