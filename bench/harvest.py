"""P14: from an agent's edits in a large workspace to a tree, against one `git status`."""

import os
import subprocess
import sys
from pathlib import Path

from bench import wheel
from bench.harness import Bench, Command
from bench.lab import Lab
from bench.told import measured
from treadle.git import build, workspace
from treadle.git import repo as repos
from treadle.git.workspace import Workspace

_EDITED = 12


def benches(lab: Lab) -> list[Bench]:
    """Return the harvest of a dozen edits, one new file and one deletion."""
    files = lab.size(10_000, 1_000)
    root = lab.scratch / "harvest" / "project"
    wheel.make_repository(lab, root, files)
    lab.git(root, "repack", "-adq")  # as in a clone

    def side(verb: str, folder: Path) -> Command:
        folder.mkdir()
        return lab.part("harvest", verb, root, folder)

    return [
        Bench(
            "P14",
            f"harvest edits of {files} files",
            "git status",
            lambda folder: side("candidate", folder),
            lambda folder: side("floor", folder),
            target=2.0,
            gate=2.5,
            rounds=lab.size(10, 5),  # each leaves twenty thousand files
        )
    ]


def _candidate(root: Path, folder: Path) -> None:
    ws = _edited(root, folder)
    head = repos.head(ws.repo).commit or ""
    with measured():
        found = workspace.survey(ws)
        build.from_edits(ws, head, folder / "scratch", found.changes)


def _floor(root: Path, folder: Path) -> None:
    ws = _edited(root, folder)
    with measured():
        subprocess.run(
            ["git", "status", "--porcelain", "-uall"],
            env={**os.environ, **ws.place},
            check=True,
            capture_output=True,
        )


def _edited(root: Path, folder: Path) -> Workspace:
    repo = repos.find(root)
    head = repos.head(repo).commit or ""
    files, index = folder / "files", folder / "index"
    ws = Workspace(
        repo=repo, path=files, index=index, branch="main", config=repos.read_settings(repo)
    )
    workspace.create(ws, head)
    workspace.restore(ws, head)
    files = sorted(ws.path.glob("part*/*.txt"))
    for path in files[:: len(files) // _EDITED]:
        path.write_text("edited\n")
    files[1].unlink()
    (ws.path / "new.txt").write_text("new\n")
    return ws


if __name__ == "__main__":
    {"candidate": _candidate, "floor": _floor}[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
