"""Refuse to move the user's checkout over something of the user's own."""

import shlex
from collections.abc import Sequence

from treadle.engine.edits import name_some
from treadle.engine.run import Run
from treadle.errors import BlockedError
from treadle.git import obstacles
from treadle.git.scratch import Scratch

_NAMED = 20


def require_clear(run: Run, place: Scratch, old: str, new: str) -> None:
    """Name the files that would be overwritten; `new` may still lie in the scratch place."""
    where = run.tools.repo.place | {"GIT_OBJECT_DIRECTORY": str(place.store)}
    found = obstacles.find(run.tools.repo.root, where, old, new)
    if found.staged:
        names = _words(found.staged)
        raise _refusal("staged", "staged_files", found.staged, [f"git commit -- {names}"])
    if found.unstaged:
        names = _words(found.unstaged)
        fix = [f"git diff -- {names}", f"git commit -- {names}", f"git stash push -- {names}"]
        raise _refusal("uncommitted", "uncommitted_files", found.unstaged, fix)
    if found.unknown:
        fix = [f"mv {name} {name}.mine" for name in map(shlex.quote, found.unknown[:_NAMED])]
        raise _refusal("unknown to git", "file_in_the_way", found.unknown, fix)


def _words(paths: Sequence[str]) -> str:
    return shlex.join(paths[:_NAMED])


def _refusal(what: str, code: str, paths: Sequence[str], fix: list[str]) -> BlockedError:
    return BlockedError(
        f"files in your checkout that are {what} would be overwritten: {name_some(paths)}",
        code=code,
        fix=fix,
        details={"files": list(paths)},
    )
