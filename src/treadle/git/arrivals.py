"""Tell content that was committed in this clone from content that came from elsewhere."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from treadle.git import call
from treadle.git.repo import Repo

# What git writes into its log when somebody commits what lies in the work tree. A merge, a pull,
# a cherry-pick, a patch from a mail, a rebase and a checkout bring what others may have made.
MADE_HERE = ("commit: ", "commit (amend): ", "commit (initial): ")
_MOST = 2_000


class _Step(NamedTuple):
    """One move of a branch: from which commit to which."""

    old: str
    new: str


class Arrivals:
    """How each content of some files came into this clone, as far as its logs remember."""

    def __init__(self, repo: Repo, names: Iterable[str], actions: tuple[str, ...]) -> None:
        """Read the logs; `actions` are the beginnings of messages that say who moved a branch."""
        steps = list(dict.fromkeys(_steps(repo, actions)))[-_MOST:]
        plain = [name for name in names if "\n" not in name]
        asked = [f"{commit}:{name}" for step in steps for commit in step for name in ("", *plain)]
        found = iter(_resolve(repo, asked))
        self._made: dict[str, dict[str, set[str | None]]] = {name: {} for name in plain}
        for step in steps:
            before = {name: next(found) for name in ("", *plain)}
            after = {name: next(found) for name in ("", *plain)}
            # What is gone from the object store says nothing about what was in it.
            if before[""] or not step.old.strip("0"):
                self._note(before, after)

    def _note(self, before: Mapping[str, str | None], after: Mapping[str, str | None]) -> None:
        for name, made in self._made.items():
            new = after[name]
            if new is not None and new != before[name]:
                made.setdefault(new, set()).add(before[name])

    def is_own(self, name: str, blob: str, known: Collection[str]) -> bool:
        """Tell whether a content was made here, step by step, from nothing or from a known one."""
        made = self._made.get(name, {})
        waiting, seen = [blob], set[str]()
        while waiting:
            here = waiting.pop()
            if here in known or None in made.get(here, ()):
                return True
            seen.add(here)
            waiting += [old for old in made.get(here, ()) if old is not None and old not in seen]
        return False


def committed(repo: Repo, commit: str, names: Collection[str]) -> dict[str, str]:
    """Return the blobs that a commit has under these names."""
    if not names:
        return {}
    args = ["--literal-pathspecs", "ls-tree", "-z", "--full-tree", commit, "--", *names]
    listing = call.out(args, repo.place)
    rows = (os.fsdecode(row).split("\t", 1) for row in listing.split(b"\0") if row)
    return {name: head.split()[2] for head, name in rows if head.split()[1] == "blob"}


def content(repo: Repo, blob: str) -> bytes | None:
    """Return a blob's content, if it is still there."""
    done = call.run(["cat-file", "blob", blob], repo.place)
    return None if done.returncode else done.stdout


def _resolve(repo: Repo, asked: list[str]) -> Iterator[str | None]:
    if not asked:
        return
    words = b"\0".join(map(os.fsencode, asked)) + b"\0"
    args = ["cat-file", "--batch-check=%(objecttype) %(objectname)", "-z"]
    place = repo.place | {"GIT_NO_LAZY_FETCH": "1"}
    for line in call.out(args, place, stdin=words).splitlines():
        kind, _, id_ = line.partition(b" ")
        yield id_.decode() if kind in (b"blob", b"tree") else None


def _steps(repo: Repo, actions: tuple[str, ...]) -> Iterator[_Step]:
    for path in _logs(repo):
        for line in path.read_bytes().splitlines():
            head, _, message = os.fsdecode(line).partition("\t")
            words = head.split(" ", 2)
            if len(words) == 3 and message.startswith(actions):
                yield _Step(words[0], words[1])


def _logs(repo: Repo) -> Iterator[Path]:
    """Yield the logs of what is checked out here, and of all branches."""
    yield from (path for path in [repo.git_dir / "logs" / "HEAD"] if path.is_file())
    branches = repo.common_dir / "logs" / "refs" / "heads"
    yield from sorted(path for path in branches.rglob("*") if path.is_file())
