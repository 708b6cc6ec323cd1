"""P4: many runs at once in one process, every commit durable."""

import os
import select
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench import bare, wheel
from bench.harness import Bench, Claim, Command, Sample
from bench.lab import Lab
from bench.told import measured
from treadle.engine.run import begin
from treadle.engine.run.run import Run
from treadle.store.store import Store

STEPS = 4
_NAP = "sleep 0.05; exec cat {response}"


def benches(lab: Lab) -> list[Bench]:
    """Return the sleeping runs; latency of their commits is a claim."""
    runs = lab.size(64, 16)

    def candidate(folder: Path) -> Command:
        root = wheel.make_project(lab, folder, _NAP)
        return lab.part("parallel", "candidate", root, runs)

    def floor(folder: Path) -> Command:
        folder.mkdir()
        return lab.part("parallel", "floor", folder, runs)

    name, what = f"{runs} runs x {STEPS} steps", "the same sleeps spawned, nothing written"
    return [Bench("P4", name, what, candidate, floor, 2.0, 2.4, False, lab.rounds, _claims)]


def _claims(samples: list[Sample]) -> list[Claim]:
    p50 = statistics.median(sample.told["p50"] for sample in samples)
    p99 = statistics.median(sample.told["p99"] for sample in samples)
    return [Claim(f"commit p99 over p50 (of {p50 * 1000:.1f} ms)", p99 / p50, 10.0)]


class _Clock:
    """Time every commit of a store."""

    def __init__(self, store: Store) -> None:
        self.times: list[float] = []
        self._commit = store.advance
        store.advance = self.commit  # type: ignore[method-assign, assignment]  # a stopwatch

    def commit(self, *args: object) -> None:
        begun = time.perf_counter()
        self._commit(*args)  # type: ignore[arg-type]  # passed on as they came
        self.times.append(time.perf_counter() - begun)

    def quantile(self, share: float) -> float:
        return sorted(self.times)[int(share * (len(self.times) - 1))]


def _candidate(root: Path, number: int) -> None:
    with wheel.opened(root) as (tools, asked):
        clock = _Clock(tools.store)
        gate = threading.Barrier(number + 1)
        with ThreadPoolExecutor(4) as pool:
            runs = list(pool.map(lambda _: begin.begin_run(tools, asked), range(number)))
        with ThreadPoolExecutor(number) as pool, measured() as figures:
            done = [pool.submit(_drive, run, gate) for run in runs]
            gate.wait()
            begun = time.perf_counter()
            for future in done:
                future.result()
            figures["wall"] = time.perf_counter() - begun
            figures["p50"], figures["p99"] = clock.quantile(0.5), clock.quantile(0.99)


def _drive(run: Run, gate: threading.Barrier) -> None:
    gate.wait()
    for _ in range(STEPS):
        wheel.plan(run)


def _floor(folder: Path, number: int) -> None:
    response = folder / "response.json"
    response.write_text(bare.RESPONSE)
    argv = ["sh", "-c", _NAP.format(response=response)]
    actions = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    poll = select.epoll()
    left: dict[int, tuple[int, int]] = {}

    def launch(rounds: int) -> None:
        pid = bare.spawn(argv, actions)
        descriptor = os.pidfd_open(pid)
        left[descriptor] = pid, rounds
        poll.register(descriptor, select.EPOLLIN)

    with measured():
        for _ in range(number):
            launch(STEPS)
        while left:
            for descriptor, _ in poll.poll():
                pid, rounds = left.pop(descriptor)
                os.waitpid(pid, 0)
                poll.unregister(descriptor)
                os.close(descriptor)
                if rounds > 1:
                    launch(rounds - 1)


if __name__ == "__main__":
    side = _candidate if sys.argv[1] == "candidate" else _floor
    side(Path(sys.argv[2]), int(sys.argv[3]))
