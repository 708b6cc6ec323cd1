"""P12: a run's private checkout, against git's own way to make one."""

import os
import sys
from pathlib import Path

from bench import wheel
from bench.harness import Bench, Command
from bench.lab import Lab
from bench.told import measured
from treadle.git import repo as repos
from treadle.git import workspace


def benches(lab: Lab) -> list[Bench]:
    """Return the making of a workspace."""
    files = lab.size(10_000, 1_000)
    root = lab.scratch / "workspace" / "project"
    wheel.make_repository(lab, root, files)

    def candidate(folder: Path) -> Command:
        folder.mkdir()
        return lab.part("workspace", "create", root, folder)

    def floor(folder: Path) -> Command:
        return lab.command("git", "worktree", "add", "-q", "--detach", str(folder), cwd=root)

    name, what = f"workspace of {files} files", "git worktree add"
    return [Bench("P12", name, what, candidate, floor, 1.1, 1.1, rounds=lab.rounds)]


def _create(root: Path, folder: Path) -> None:
    os.chdir(root)
    repo = repos.find(root)
    commit = repos.head(repo).commit or ""
    with measured():
        workspace.create(repo, folder / "files", folder / "index", commit, "main")


if __name__ == "__main__":
    _create(Path(sys.argv[2]), Path(sys.argv[3]))
