"""P3: one exec step after the other, each of them durable."""

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.crash import counts

from bench import bare, wheel
from bench.harness import Bench, Claim, Command, Sample
from bench.lab import Lab
from bench.told import measured
from treadle.engine.run import begin
from treadle.sandbox import jails

_COUNTED = 20
_SANDBOXES = {
    "off": 'sandbox = "off"\n',
    "B": 'sandbox.tier = "B"\n',
    "A": "",
}


def benches(lab: Lab) -> list[Bench]:
    """Return the sequential steps; syncs, barriers and programs are counted once, apart."""
    number = lab.size(200, 20)

    def candidate(folder: Path, sandbox: str = "off") -> Command:
        root = wheel.make_project(lab, folder, extra=_SANDBOXES[sandbox])
        return lab.part("step", "candidate", root, number)

    def floor(folder: Path) -> Command:
        wheel.make_repository(lab, folder / "project", 100)
        return lab.part("step", "floor", folder, number)

    def claims(_: list[Sample]) -> list[Claim]:
        return count(lab)

    name = f"{number} exec steps"
    what = "spawn, same files, parallel fsync, rename, fsync, commit, git status"
    plain = Bench("P3", name, what, candidate, floor, 1.6, 1.6, True, lab.rounds, claims)
    held = [
        Bench(
            f"P3-{tier}",
            f"{name}, tier {tier}",
            what,
            partial(candidate, sandbox=tier),
            floor,
            target,
            target,
            True,
            lab.rounds,
        )
        for tier, target in (("B", 1.8), ("A", 2.6))
        if jails.probe(tier).tier == tier
    ]
    return [plain, *held]


def count(lab: Lab) -> list[Claim]:
    """Count per step what the disk and the kernel are asked for."""
    none, some = (_counted(lab, number) for number in (0, _COUNTED))
    git = some.programs["git"] - none.programs["git"]
    return [
        Claim("barriers/step", (some.barriers - none.barriers) / _COUNTED, 3.0),
        Claim("fsyncs/step", (some.syncs - none.syncs) / _COUNTED, 12.0),
        Claim("git/step", git / _COUNTED, 2.0),
    ]


def _counted(lab: Lab, number: int) -> counts.Counts:
    folder = Path(tempfile.mkdtemp(dir=lab.scratch))
    command = lab.part("step", "candidate", wheel.make_project(lab, folder), number)
    log = folder / "strace"
    argv = counts.argv(command.argv, log)
    subprocess.run(argv, cwd=command.cwd, env=command.env, check=True, capture_output=True)
    return counts.read(log)


def _candidate(root: Path, number: int) -> None:
    with wheel.opened(root) as (tools, asked):
        run = begin.begin_run(tools, asked)
        with measured(steps=number):
            for _ in range(number):
                wheel.plan(run)


def _floor(folder: Path, number: int) -> None:
    by_hand = bare.Bare(folder / "by-hand")
    with measured(steps=number):
        for index in range(number):
            by_hand.step(index, folder / "project")


if __name__ == "__main__":
    side = _candidate if sys.argv[1] == "candidate" else _floor
    side(Path(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.flush()
    os._exit(0)
