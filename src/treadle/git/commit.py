"""Write a commit whose id depends on nothing but what it is given."""

from datetime import datetime
from typing import NamedTuple

from treadle.git import objects, scratch
from treadle.git.build import Built
from treadle.git.config import Config

_UNSAFE = str.maketrans("", "", "<>\n\r\0")


class Author(NamedTuple):
    """Who is named in a commit."""

    name: str
    email: str


FALLBACK = Author("treadle", "treadle@localhost")


def identity(config: Config) -> Author:
    """Return the user's identity; `treadle` where none is configured."""
    name = config.get("user.name") or FALLBACK.name
    email = config.get("user.email") or FALLBACK.email
    return Author(name, email)


def commit(built: Built, parent: str, message: str, when: datetime, author: Author) -> str:
    """Commit a built tree, durably, and return the commit's id; no branch moves.

    The object is written here rather than by `git commit-tree`: that saves a process in every
    step and keeps signing, encodings and dates of the user's settings out of the id.
    """
    place = built.scratch
    content = encode(built.tree, [parent], message, when, author)
    name = objects.write(place.store, "commit", content, place.repo.object_format)
    scratch.keep(place)
    return name


def encode(tree: str, parents: list[str], message: str, when: datetime, author: Author) -> bytes:
    """Return a commit object's content."""
    offset = when.strftime("%z") or "+0000"
    person = f"{_clean(author.name)} <{_clean(author.email)}> {int(when.timestamp())} {offset}"
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
    lines += [f"author {person}", f"committer {person}", "", message.replace("\0", "").strip()]
    return "\n".join(lines).encode(errors="replace") + b"\n"


def _clean(text: str) -> str:
    """Drop what git does not allow in a name, as git does itself."""
    return text.translate(_UNSAFE).strip(" .,:;\"'\\") or FALLBACK.name
