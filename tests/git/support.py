"""Build repositories and workspaces for the tests of the git package."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builder import make_repository
from treadle.git import build, judge, repo, workspace
from treadle.git.build import Built
from treadle.git.call import Runner, unconfined
from treadle.git.judge import Judged
from treadle.git.repo import Repo
from treadle.git.workspace import Workspace


def make(root: Path, files: dict[str, str | bytes], *options: str) -> Repo:
    """Make a repository with one commit of these files."""
    return repo.find(make_repository(root, files, *options))


def head(place: Repo) -> str:
    """Return the commit that is checked out."""
    found = repo.head(place).commit
    assert found
    return found


def open_workspace(place: Repo, folder: Path) -> Workspace:
    """Make a workspace of the repository's HEAD."""
    found = repo.head(place)
    assert found.commit
    index = folder / "run" / "index"
    return workspace_at(place, folder / "ws", index, found.commit, branch=found.branch)


def workspace_at(
    place: Repo,
    path: Path,
    index: Path,
    commit: str,
    runner: Runner = unconfined,
    branch: str | None = "main",
) -> Workspace:
    """Make a workspace of a commit."""
    ws = Workspace(
        repo=place,
        path=path,
        index=index,
        branch=branch,
        config=repo.read_settings(place),
        runner=runner,
    )
    workspace.create(ws, commit)
    return ws


def harvest(ws: Workspace, folder: Path) -> tuple[Built, Judged]:
    """Build and judge the workspace's edits."""
    base = head(ws.repo)
    built = build.from_edits(ws, base, folder)
    return built, judge.judge(built.scratch, repo.tree_of(ws.repo, base), built.tree)


def snapshot(root: Path) -> dict[str, bytes | str]:
    """Return every file below a folder with its content, links and modes included, but no .git."""
    found: dict[str, bytes | str] = {}
    for folder, names, files in os.walk(root):
        if ".git" in names and Path(folder) == root:
            names.remove(".git")
        for name in files + [name for name in names if Path(folder, name).is_symlink()]:
            path = Path(folder, name)
            key = str(path.relative_to(root))
            if path.is_symlink():
                found[key] = f"link to {path.readlink()}"
            elif stat.S_ISREG(path.lstat().st_mode):
                found[key] = path.read_bytes() + (b" x" if os.access(path, os.X_OK) else b"")
            else:
                found[key] = "special"
    return found


def traced(tmp_path: Path, code: str, *args: str) -> list[str]:
    """Run Python code under strace and return its syncs and renames, in order."""
    if not shutil.which("strace"):
        pytest.skip("needs strace")
    trace = ["strace", "-f", "-y", "-s", "4096", "-o", str(tmp_path / "trace")]
    calls = "trace=fsync,fdatasync,rename,renameat,renameat2"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(
        [*trace, "-e", calls, sys.executable, "-B", "-c", code, *args], check=True, env=env
    )
    return (tmp_path / "trace").read_text().splitlines()


def count_calls(tmp_path: Path, monkeypatch) -> Path:
    """Put a counting git first in PATH; the returned file has one line for each call."""
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout
    log, shim = tmp_path / "git-calls", tmp_path / "shim" / "git"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\necho "$*" >> "{log}"\nexec {real.strip()} "$@"\n')
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}:{os.environ['PATH']}")
    return log


def calls(log: Path) -> list[str]:
    """Return the git commands that ran since the last look."""
    lines = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return [_command(line.split()) for line in lines]


def _command(words: list[str]) -> str:
    while words[0].startswith("-"):
        words = words[2:] if words[0] in ("-c", "-C") else words[1:]
    return words[0]
