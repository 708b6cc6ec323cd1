"""Carry out an action: the very command line that the page shows."""

import json
import shlex
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

from treadle.errors import BlockedError, ExitCode
from treadle.proc import detach, environment
from treadle.web.site import Action, Asked, Site

_PATIENCE = 60.0  # seconds for what should end at once
_MAX_WORD = 100 << 10  # bytes; the kernel takes words of a command line up to 128 KiB
_START = 2.0  # seconds in which a long command says that it cannot begin


class Said(NamedTuple):
    """What a command answered."""

    line: str
    ok: bool
    text: str
    fix: tuple[str, ...] = ()


class Shown(NamedTuple):
    """An action on a page."""

    url: str
    line: str


def act(site: Site, action: Action, asked: Asked) -> Said:
    """Run the command; a long one goes on by itself, whatever becomes of the page."""
    words = action.words(asked)
    if any("\0" in word or len(word.encode()) > _MAX_WORD for word in words):
        raise BlockedError(
            f"a text may have {_MAX_WORD >> 10} KiB and no zero byte", code="form_too_large"
        )
    patience = _START if action.is_long else _PATIENCE
    project = site.project
    ended = detach.run(
        *environment.treadle_command(["--json", *words], project.layout.root, project.env), patience
    )
    if ended is None:
        return Said(line(words), True, "started" if action.is_long else "still working")
    return _said(words, ended.returncode, ended.stdout)


def shown(action: Action, names: Mapping[str, str], fields: Mapping[str, str]) -> Shown:
    """Return where an action is and what it would run."""
    url = action.path.format_map({name: quote(value, safe="") for name, value in names.items()})
    return Shown(url, line(action.words(Asked(names, fields, is_example=True))))


def line(words: list[str]) -> str:
    """Spell a command as one would type it."""
    return shlex.join(["treadle", *words])


def _said(words: list[str], code: int, stdout: bytes) -> Said:
    try:
        found = json.loads(stdout)
    except ValueError:
        found = None
    error = found.get("error") if isinstance(found, dict) else None
    if isinstance(error, dict):
        fix = tuple(map(str, error.get("fix", ())))
        return Said(line(words), False, str(error.get("message")), fix)
    text = "done" if code == ExitCode.DONE else f"ended with exit code {code}"
    return Said(line(words), code == ExitCode.DONE, text)
