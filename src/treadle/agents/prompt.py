"""Fill a role's prompt: the package's template, or the project's own in its place."""

import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from treadle.contract import Role
from treadle.errors import ConfigError
from treadle.ids import nearest
from treadle.text import line

MAX_BYTES = 256 << 10  # the smallest limit among the tools is four times as much
_TEMPLATES = resources.files("treadle.agents") / "prompts"
_PLACE = re.compile(r"\{\{(\w+)\}\}")
# What no prompt may leave out: where to write and how to answer.
_NEEDED = ("places", "answer")

PARTS = (
    *("workspace", "goal", "criteria", "observed", "history", "verdict"),
    *("notes", "guidance", "edits", "places", "answer"),
)

ANSWER = (_TEMPLATES / "answer.md").read_text().rstrip()


def template(role: Role, own: Path) -> tuple[str, str]:
    """Return a role's template and its name: the project's file if there is one."""
    found = own / f"{role}.md"
    if found.is_file():
        return found.read_text(errors="replace"), f"roles/{role}.md"
    return (_TEMPLATES / f"{role}.md").read_text(), f"{role}.md"


def fill(text: str, values: Mapping[str, str], name: str) -> str:
    """Put the values in their places; parts that are empty leave no gap."""
    for place in _PLACE.findall(text):
        if place not in PARTS:
            close = nearest(place, PARTS)
            hint = f"did you mean {{{{{close}}}}}?" if close else f"known: {', '.join(PARTS)}"
            raise ConfigError(f"{name}: {{{{{place}}}}} is not part of a prompt; {hint}")
    for part in _NEEDED:
        if f"{{{{{part}}}}}" not in text:
            text = f"{text.rstrip()}\n\n{{{{{part}}}}}\n"
    filled = _PLACE.sub(lambda found: values.get(found[1], ""), text)
    return re.sub(r"\n{3,}", "\n\n", filled).strip() + "\n"


def repair(complaint: str) -> str:
    """Return what a tool is told when its answer could not be read."""
    text = (_TEMPLATES / "repair.md").read_text()
    return text.replace("{{answer}}", ANSWER).replace("{{complaint}}", line(complaint))


def cut(text: str, limit: int, where: str) -> str:
    """Shorten a long part and say where the rest is."""
    if len(text) <= limit:
        return text
    return f"{text[:limit].rstrip()}\n\n[cut here; the whole text is in {where}]"
