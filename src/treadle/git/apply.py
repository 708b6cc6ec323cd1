"""Repeat recorded edits in a workspace, as an agent would have made them."""

from pathlib import Path

from treadle.git import call


def edits(git_dir: Path, folder: Path, patch: bytes) -> str | None:
    """Change the files of `folder`; return what git says if the patch does not fit them."""
    place = {"GIT_DIR": str(git_dir), "GIT_WORK_TREE": str(folder)}
    done = call.run(["apply", "--whitespace=nowarn", "-"], place, stdin=patch, cwd=folder)
    return call.said(done) or "git apply failed" if done.returncode else None
