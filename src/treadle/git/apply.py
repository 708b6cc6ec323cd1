"""Repeat recorded edits in a workspace, as an agent would have made them."""

from pathlib import Path

from treadle.git import call
from treadle.git.call import Reach, Runner


def edits(git_dir: Path, folder: Path, patch: bytes, runner: Runner) -> str | None:
    """Change the files of `folder`; return what git says if the patch does not fit them."""
    place = {"GIT_DIR": str(git_dir), "GIT_WORK_TREE": str(folder)}
    args, reach = ["apply", "--whitespace=nowarn", "-"], Reach(runner, (folder,))
    done = call.run(args, place, stdin=patch, cwd=folder, reach=reach)
    return call.said(done) or "git apply failed" if done.returncode else None
