"""Start a Python child in each tier of the sandbox, the keeper included, and without anything."""

import os
import subprocess
import sys
from pathlib import Path

from bench.harness import Bench, Command
from bench.lab import Lab
from bench.told import measured
from treadle.proc import keeper
from treadle.sandbox import jail, probe
from treadle.sandbox.policy import HIDDEN, Policy, expand

_TARGETS = {"B": 1.3, "A": 2.0}


def benches(lab: Lab) -> list[Bench]:
    """Return a race for every tier that works here."""
    number = lab.size(100, 20)

    def maker(tier: str):
        def make(folder: Path) -> Command:
            folder.mkdir()
            return lab.part("spawn", tier, folder, number, lab.bare_python)

        return make

    name, what = f"{number} children in tier", "subprocess.run"
    return [
        Bench(f"spawn {tier}", f"{name} {tier}", what, maker(tier), maker("-"), target, target)
        for tier, target in _TARGETS.items()
        if probe.probe(tier).tier == tier
    ]


def _plain(folder: Path, number: int, argv: list[str], env: dict[str, str]) -> None:
    with (folder / "out").open("wb") as out, measured():
        for _ in range(number):
            subprocess.run(argv, cwd=folder, env=env, stdout=out, stderr=out, check=True)


def _jailed(tier: str, folder: Path, number: int, argv: list[str], env: dict[str, str]) -> None:
    home = folder / "home"
    (home / ".ssh").mkdir(parents=True)
    policy = Policy((folder,), expand(HIDDEN, {"HOME": str(home)}))
    with keeper.Keeper() as own:
        own.start()
        with measured():
            for _ in range(number):
                held = jail.build(tier, policy)
                out = folder / "out"
                ended = own.run(keeper.Command(tuple(argv), folder, env, None, out, out, jail=held))
                if ended.exit_code != 0:
                    raise ValueError(f"{ended}: {out.read_text()}")


if __name__ == "__main__":
    side, place, count, python = sys.argv[1:]
    words = [python, "-c", "pass"]
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    if side == "-":
        _plain(Path(place), int(count), words, environment)
    else:
        _jailed(side, Path(place), int(count), words, environment)
