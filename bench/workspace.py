"""P12: a run's private checkout and the clean one of its checks, against git's own way."""

import os
import sys
from pathlib import Path

from bench import wheel
from bench.harness import Bench, Command
from bench.lab import Lab
from bench.told import measured
from treadle.engine.checks import clean
from treadle.engine.run import begin
from treadle.git import repo as repos
from treadle.git import workspace
from treadle.git.workspace import Workspace


def benches(lab: Lab) -> list[Bench]:
    """Return the making of a workspace, and of the checkout that checks run in."""
    files = lab.size(10_000, 1_000)
    root = wheel.make_project(lab, lab.scratch / "workspace", files=files)

    def candidate(folder: Path) -> Command:
        folder.mkdir()
        return lab.part("workspace", "create", root, folder)

    def checked(folder: Path) -> Command:
        return lab.part("workspace", "clean", root, folder)

    def floor(folder: Path) -> Command:
        return lab.command("git", "worktree", "add", "-q", "--detach", str(folder), cwd=root)

    name, what = f"workspace of {files} files", "git worktree add"
    second = f"clean checkout of {files} files"
    return [
        Bench("P12", name, what, candidate, floor, 1.1, 1.1, rounds=lab.rounds),
        Bench("P12-check", second, what, checked, floor, 1.2, 1.2, rounds=lab.rounds),
    ]


def _create(root: Path, folder: Path) -> None:
    os.chdir(root)
    repo = repos.find(root)
    commit = repos.head(repo).commit or ""
    with measured():
        files, index, config = folder / "files", folder / "index", repos.read_settings(repo)
        ws = Workspace(repo=repo, path=files, index=index, branch="main", config=config)
        workspace.create(ws, commit)


def _clean(root: Path, folder: Path) -> None:
    with wheel.opened(root) as (tools, asked):
        run = begin.begin_run(tools, asked)
        with measured():
            clean.bring(run, run.head)


if __name__ == "__main__":
    side = _create if sys.argv[1] == "create" else _clean
    side(Path(sys.argv[2]), Path(sys.argv[3]))
    sys.stdout.flush()
    os._exit(0)
