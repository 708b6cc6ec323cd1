"""P8: how long a start takes when ten thousand runs lie about."""

import os
import sys
from pathlib import Path

from bench import store, wheel
from bench.harness import Bench, Command
from bench.lab import Lab
from bench.told import measured
from treadle.engine.recovery import recover
from treadle.layout import Layout
from treadle.proc import identity

_ACTIVE = 20


def benches(lab: Lab) -> list[Bench]:
    """Return the start after a clean stop, and the full scan after a kill."""
    runs = 10_000
    root = wheel.make_project(lab, lab.scratch / "recovery")
    ids = store.fill(root, runs, owner=identity.current().encode(), active=_ACTIVE)
    for run_id in ids:
        steps = Layout(root).run(run_id).steps
        for index, role in enumerate(store.ROLES, 1):
            (steps / f"{index:03d}-{role}").mkdir(parents=True)

    def unclean(_: Path) -> Command:
        return lab.part("recovery", "unclean", root)

    def clean(_: Path) -> Command:
        return lab.part("recovery", "clean", root)

    def walk(_: Path) -> Command:
        return lab.part("recovery", "walk", root)

    what = f"listdir of {runs} runs and their steps"
    return [
        Bench("P8-scan", "recovery after a kill", what, unclean, walk, 2.0, 2.5, rounds=lab.rounds),
        Bench("P8-clean", "after a clean stop", what, clean, walk, 2.0, 2.5, rounds=lab.rounds),
    ]


def _recover(root: Path, dead: str | None) -> None:
    """Recover a store in which nothing is broken: the search itself."""
    with wheel.opened(root) as (tools, _), measured():
        recover.recover(tools, dead)


def _walk(root: Path) -> None:
    runs = str(Layout(root).runs)
    with measured():
        for run_id in os.listdir(runs):
            os.listdir(f"{runs}/{run_id}/steps")


if __name__ == "__main__":
    where = Path(sys.argv[2])
    if sys.argv[1] == "walk":
        _walk(where)
    else:
        _recover(where, "nobody" if sys.argv[1] == "unclean" else None)
