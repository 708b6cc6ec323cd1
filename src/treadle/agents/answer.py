"""What a tool is asked in words, and the response in what it says around its JSON."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec.structs import replace

from treadle.agents.backend import AgentResult, AgentSpec
from treadle.contract import Role, messages
from treadle.contract.events import StepError
from treadle.contract.messages import AgentResponse
from treadle.errors import ConfigError, FormatError
from treadle.files import walk
from treadle.ids import nearest
from treadle.layout import OUTPUT_JSON
from treadle.text import line

Source = Literal["schema", "whole", "fence", "scan", "file", "stdout", "replay"]

MAX_RESPONSE = 8 << 20
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})([^\n`]*)$", re.MULTILINE)
_START = re.compile(r'\{\s*"')
_SAID = 300
_SCANNED = 64 << 10  # characters from the end that may hold the last balanced object
# What treadle itself writes there; an agent may leave its answer under the same name.
_FILE = OUTPUT_JSON


class Answer(NamedTuple):
    """A response and where it stood."""

    response: AgentResponse
    document: Mapping[str, object]
    source: Source


def result(spec: AgentSpec, ended: AgentResult, found: Answer | str, text: str = "") -> AgentResult:
    """Return how a turn ended that gave an answer, or why it gave none and what it said last."""
    if isinstance(found, str):
        is_mute = not walk.tail(spec.stdout, _SAID).strip()
        errors = walk.tail(spec.stderr, _SAID).strip() if is_mute else ""
        said = line(" ".join((errors or text).split()))
        words = f"; it said: {said[:_SAID]}{'…' if len(said) > _SAID else ''}" if said else ""
        log = (spec.stderr if errors else spec.stdout).name
        message = f"agent {spec.name}: {found}; see logs/{log}{words}"
        return replace(ended, error=StepError.PROTOCOL_ERROR, message=message)
    return replace(
        ended,
        error=StepError.AGENT_FAILED if found.response.status == "fail" else None,
        message=found.response.summary,
        response=found.response,
        document=found.document,
        json_source=found.source,
    )


def read(path: Path, source: Source) -> Answer:
    """Return the response that is all of a file."""
    data = walk.read(path, max_bytes=MAX_RESPONSE)
    return Answer(*messages.parse_response(data, source=_NAMES[source]), source)


def find(text: str, step_dir: Path, structured: object = None) -> Answer | str:
    """Return the answer, or a sentence that says what was wrong with the best candidate."""
    complaint = "the last message is empty"
    for data, source in _candidates(text, step_dir, structured):
        try:
            return Answer(*messages.parse_response(data, source=_NAMES[source]), source)
        except FormatError as error:
            first = source in ("schema", "whole") or not text.strip()
            if first or "expected a JSON object" in complaint:
                complaint = error.message
    return complaint


_NAMES: dict[Source, str] = {
    "schema": "the structured output",
    "whole": "the last message",
    "fence": "the last fenced block",
    "scan": "the last object",
    "file": _FILE,
    "stdout": "stdout",
    "replay": _FILE,
}


def _candidates(text: str, step_dir: Path, structured: object) -> Iterator[tuple[bytes, Source]]:
    if structured is not None:
        yield json.dumps(structured).encode(), "schema"
    if text.strip():
        yield _encoded(text.strip()), "whole"
    if (block := _last_block(text)) is not None:
        yield _encoded(block), "fence"
    for found in _objects(text):
        yield _encoded(found), "scan"
    path = step_dir / _FILE
    if path.is_file() and not path.is_symlink():
        yield walk.read(path, max_bytes=MAX_RESPONSE), "file"


def _encoded(text: str) -> bytes:
    return text.encode(errors="backslashreplace")


def _last_block(text: str) -> str | None:
    """Return what stands in the last fenced block, in one pass over however many are open."""
    found, opened = None, dict[str, int]()
    for fence in _FENCE.finditer(text):
        if fence[1] in opened and not fence[2].strip():
            found = text[opened[fence[1]] : fence.start()]
            opened.clear()
        else:
            opened.setdefault(fence[1], fence.end())
    return found


def _objects(text: str) -> Iterator[str]:
    """Yield balanced objects, the one that ends last first; of nested ones the outermost first."""
    text = text[-_SCANNED:]
    decoder, found, at = json.JSONDecoder(), [], 0
    while start := _START.search(text, at):
        try:
            _, at = decoder.raw_decode(text, start.start())
            found.append(text[start.start() : at])
        except (ValueError, RecursionError):
            at = start.start() + 1
    yield from reversed(found)


MAX_BYTES = 256 << 10  # the smallest limit among the tools is four times as much
_TEMPLATES = Path(__file__).with_name("prompts")
_PLACE = re.compile(r"\{\{(\w+)\}\}")
# What no prompt may leave out: where to write and how to answer.
_NEEDED = ("places", "answer")

PARTS = (
    *("workspace", "goal", "criteria", "observed", "history", "plan", "work", "verdict"),
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
