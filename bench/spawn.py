"""Start a Python child in each tier of the sandbox, the keeper included, and without anything."""

import os
import subprocess
import sys
from pathlib import Path

from bench.harness import Bench, Command
from bench.lab import Lab
from bench.told import measured
from treadle.proc import keeper
from treadle.sandbox import home as homes
from treadle.sandbox import jails
from treadle.sandbox.policy import layers

_TARGETS = {"B": 1.5, "A": 2.2}
# The home of somebody who works in a few languages: each of the first twenty, with git's
# settings, is a rule of its own.
_HOME = """
    .cargo .rustup .pyenv .nvm .npm .npm-global .volta go .m2 .gradle .sdkman .gem .cache
    .config/git
    .local/bin .local/lib .local/share/uv .local/share/pipx .local/share/pnpm
    .ssh .aws .config/gh .docker Documents code
"""
_FILES = ".gitconfig .cargo/credentials.toml .netrc .npmrc .bash_history"


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
        if jails.probe(tier).tier == tier
    ]


def _plain(folder: Path, number: int, argv: list[str], env: dict[str, str]) -> None:
    with (folder / "out").open("wb") as out, measured():
        for _ in range(number):
            subprocess.run(argv, cwd=folder, env=env, stdout=out, stderr=out, check=True)


def _jailed(tier: str, folder: Path, number: int, argv: list[str], env: dict[str, str]) -> None:
    # As on most machines, one folder holds all homes, and programs lie in this one or in none.
    homes._HOMES = (str(folder / "homes"),)
    home = folder / "homes" / "user"
    for name in _HOME.split():
        (home / name).mkdir(parents=True)
    for name in _FILES.split():
        (home / name).touch()
    own = {"PATH": os.defpath, "HOME": str(home)}
    workspace = home / ".cache" / "treadle" / "run"
    workspace.mkdir(parents=True)
    with keeper.Keeper() as own_keeper:
        own_keeper.start()
        with measured() as figures:
            for _ in range(number):
                # What a step does: choose what may be read, write the rules, start.
                policy = homes.closed(own)._replace(writable=(workspace,))
                held = jails.jail_for(tier, policy)
                out = folder / "out"
                command = keeper.Command(tuple(argv), folder, env, None, out, out, jail=held)
                ended = own_keeper.run(command)
                if ended.exit_code != 0:
                    raise ValueError(f"{ended}: {out.read_text()}")
            islands = [it for it in layers(policy) if it.is_island]
            figures["readable"] = len([it for it in islands if it.kind == "readable"])


if __name__ == "__main__":
    side, place, count, python = sys.argv[1:]
    words = [python, "-c", "pass"]
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    if side == "-":
        _plain(Path(place), int(count), words, environment)
    else:
        _jailed(side, Path(place), int(count), words, environment)
