"""Find the response in what a tool says: tools wrap, fence and chat around their JSON."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from treadle.agents.backend import AgentResult, AgentSpec
from treadle.contract import StepError, messages
from treadle.contract.messages import AgentResponse
from treadle.errors import FormatError
from treadle.files import walk
from treadle.layout import OUTPUT_JSON

Source = Literal["schema", "whole", "fence", "scan", "file", "stdout", "replay"]

MAX_RESPONSE = 8 << 20
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})([^\n`]*)$", re.MULTILINE)
_START = re.compile(r'\{\s*"')
_SCANNED = 64 << 10  # characters from the end that may hold the last balanced object
# What treadle itself writes there; an agent may leave its answer under the same name.
_FILE = OUTPUT_JSON


class Answer(NamedTuple):
    """A response and where it stood."""

    response: AgentResponse
    document: Mapping[str, object]
    source: Source


def result(spec: AgentSpec, ended: AgentResult, found: Answer | str) -> AgentResult:
    """Return how a turn ended that gave an answer, or words on why it gave none."""
    if isinstance(found, str):
        message = f"agent {spec.name}: {found}; see logs/stdout.txt"
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
            if source in ("schema", "whole") or "expected a JSON object" in complaint:
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
