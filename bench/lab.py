"""Prepare what benches need: a scratch folder, clean environments, an installed treadle."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from bench.harness import Command

REPOSITORY = Path(__file__).parents[1]


class Lab(NamedTuple):
    """Where benches work, and how large their workloads are."""

    scratch: Path
    bare_python: Path
    treadle: Path
    python: Path
    env: dict[str, str]
    quick: bool

    def size(self, full: int, quick: int) -> int:
        """Return the size of a workload."""
        return quick if self.quick else full

    @property
    def rounds(self) -> int:
        """Return how often a cheap bench is repeated."""
        return self.size(20, 5)

    def part(self, module: str, verb: str, *args: object) -> Command:
        """Return a command that runs one side of a bench in its own process."""
        argv = [str(self.python), "-m", f"bench.{module}", verb, *map(str, args)]
        return Command(argv, REPOSITORY, self.env)

    def command(self, *argv: str, cwd: Path | None = None) -> Command:
        """Return a program to be timed as it is."""
        return Command(argv, cwd or self.scratch, self.env)

    def git(self, folder: Path, *args: str) -> str:
        """Run git while preparing."""
        done = subprocess.run(
            ["git", *args], cwd=folder, env=self.env, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()


def open_lab(scratch: Path, *, quick: bool) -> Lab:
    """Make both environments; treadle is installed as a user would, bytecode and all."""
    home = scratch / "home"
    home.mkdir(parents=True)
    (home / ".gitconfig").write_text("[user]\n\tname = Bench\n\temail = bench@example.invalid\n")
    bare, own = scratch / "bare", scratch / "own"
    _python("-m", "venv", "--without-pip", str(bare))
    _python("-m", "venv", str(own))
    install = [str(own / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "install", str(REPOSITORY)], check=True, env=_clean(os.environ))
    return Lab(
        scratch=scratch,
        bare_python=bare / "bin" / "python",
        treadle=own / "bin" / "treadle",
        python=own / "bin" / "python",
        env={"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"},
        quick=quick,
    )


def _python(*args: str) -> None:
    subprocess.run([sys.executable, *args], check=True, env=_clean(os.environ))


def _clean(env: "os._Environ[str]") -> dict[str, str]:
    """Drop what would change how Python starts or whether it keeps bytecode."""
    return {name: value for name, value in env.items() if not name.startswith("PYTHON")}
