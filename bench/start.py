"""P-start: how long the command itself takes to come up, against a bare interpreter."""

from pathlib import Path

from bench import store
from bench.harness import Bench, Command
from bench.lab import Lab


def benches(lab: Lab) -> list[Bench]:
    """Return `--version`, and `runs list` over a large store."""
    runs = 10_000
    root = store.make_project(lab, lab.scratch / "list", runs)

    def bare(_: Path) -> Command:
        return lab.command(str(lab.bare_python), "-c", "pass")

    def version(_: Path) -> Command:
        return lab.command(str(lab.treadle), "--version")

    def listing(_: Path) -> Command:
        return lab.command(str(lab.treadle), "runs", "list", "--json", cwd=root)

    floor = "python -c pass"
    name = f"runs list --json, {runs} runs"
    return [
        Bench("start", "treadle --version", floor, version, bare, 2.5, 2.5, rounds=lab.rounds),
        Bench("list", name, floor, listing, bare, 5.0, 5.0, rounds=lab.rounds),
    ]
