"""Ask git about a work tree with one process and little machinery, for commands that hurry."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from treadle.errors import GitError, NotFoundError, TreadleError
from treadle.git import guards
from treadle.proc import helper

_PATIENCE = 120.0  # seconds


class Committed(NamedTuple):
    """A file as the last commit has it (None if it has none), and whether the index knows it."""

    content: bytes | None
    is_tracked: bool


def read_head(root: Path, names: Iterable[str]) -> Mapping[str, Committed]:
    """Read files of the last commit, all with one process."""
    names = tuple(names)
    asked = [f"info :{name}\ncontents HEAD:{name}\n" for name in names]
    answer = _ask(root, ["cat-file", "--batch-command"], os.fsencode("".join(asked)))
    found, at = {}, 0
    for name in names:
        kind, _, at = _object(answer, at, has_content=False)
        committed, content, at = _object(answer, at, has_content=True)
        found[name] = Committed(content if committed == b"blob" else None, kind == b"blob")
    return found


def dirty_files(root: Path, exclude: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the uncommitted files of a checkout, untracked ones included."""
    patterns = [f":(top,exclude,glob){pattern}" for pattern in exclude]
    listing = _ask(root, [*guards.STATUS, "--ignore-submodules=dirty", "--", ":/", *patterns])
    return tuple(os.fsdecode(entry[3:]) for entry in listing.split(b"\0") if entry)


def _object(answer: bytes, at: int, *, has_content: bool) -> tuple[bytes, bytes, int]:
    """Return the type of the next object (nothing if it is missing), its content, and the end."""
    end = answer.index(b"\n", at)
    words = answer[at:end].rsplit(b" ", 2)
    if len(words) < 3 or not words[2].isdigit():
        return b"", b"", end + 1
    if not has_content:
        return words[1], b"", end + 1
    last = end + 1 + int(words[2])
    return words[1], answer[end + 1 : last], last + 1


def _ask(root: Path, args: Sequence[str], stdin: bytes = b"") -> bytes:
    argv = guards.command(["-C", str(root), *args])
    try:
        env = guards.environment({"GIT_WORK_TREE": str(root)})
        done = helper.run(argv, env, stdin, _PATIENCE)
    except NotFoundError as error:
        raise guards.missing() from error
    except TreadleError as error:
        if error.code != "helper_timeout":
            raise
        raise guards.late(args, _PATIENCE) from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        text = said.removeprefix("fatal: ") or f"exit code {done.returncode}"
        raise GitError(f"git cannot read {root}: {text}", fix=["treadle doctor"])
    return done.stdout
