"""Log: everything that was printed in a run, by lines, whatever its size."""

import contextlib
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import filterfalse
from typing import NamedTuple, cast
from urllib.parse import urlencode

from markupsafe import Markup

from treadle.agents import growth
from treadle.engine.elsewhere import fleet_run
from treadle.engine.show.view import find_run
from treadle.errors import FormatError, NotFoundError
from treadle.files import beneath, walk
from treadle.ids import utc
from treadle.layout import EVENTS, GROWTH, LIVE, STDERR, STDOUT, RunLayout
from treadle.sandbox.mask import Mask
from treadle.store.runs import RunRow, StepRow
from treadle.web import foreign, lines
from treadle.web.lines import Range, ReadableLog, Woven
from treadle.web.pages import run
from treadle.web.site import Document, Site, WebRequest

_LINES = 500
_BYTES = 128 << 10  # of one page
_MATCHES = 200
_LONGEST = 2_000  # characters of a line that are shown
_FOLDED = 160  # characters of raw JSON beyond which it is folded
_PRINTED = tuple(f"logs/{name}" for name in (EVENTS, "", *foreign.SAID))
_KINDS = {STDOUT: "out", STDERR: "err"}
_FOLDERS = ("logs/", "attempts/", "files/checks/", "checks/")


class LogFile(NamedTuple):
    """A log that can be read; `name` is its place below the run's folder.

    A folder, with its slash, stands for stdout and stderr in it as one log.
    """

    name: str
    size: int

    @property
    def title(self) -> str:
        """Return what it is called within its step."""
        name = self.name.split("/", 2)[2] if self.name.startswith("steps/") else self.name
        return f"{name}stdout+stderr" if self.is_both else name

    @property
    def is_both(self) -> bool:
        """Tell whether it is stdout and stderr as one."""
        return self.name.endswith("/")


def document(site: Site, asked: WebRequest) -> Document:
    """Return some lines of a log, or the lines that have some words, and which logs there are."""
    with site.store() as store:
        row = find_run(store, asked.run)
        fleet_run.peek(site.project.layout, store, row)
        steps = store.steps(row.run_id)
    folder = site.project.layout.run(row.run_id)
    step = _chosen(folder, row, steps, asked)
    files = _files(folder, step)
    name = asked.fields.get("file") or next((it.name for it in files if it.size), None)
    found: Document = {
        "run_id": row.run_id,
        "step": step.step_index if step else None,
        "files": [it._asdict() for it in files],
        "file": name,
    }
    return found | (_read(folder, name, asked, site.mask) if name else {})


def _read(folder: RunLayout, name: str, asked: WebRequest, mask: Mask) -> Document:
    first, words = asked.number("from", 0) or None, asked.fields.get("q", "")
    is_live = name.partition("/")[0] == LIVE
    with contextlib.ExitStack() as stack:
        handle: ReadableLog = (
            _both(stack, folder, name, is_live=is_live)
            if LogFile(name, 0).is_both
            else stack.enter_context(beneath.opened(folder.folder, name))
        )
        found = lines.read_range(handle, first, _LINES, _BYTES)
        matches, count = lines.search(handle, words, _MATCHES) if words else ([], 0)
        if isinstance(handle, Woven):
            shown = _shown_of_both(found, handle, mask)
        else:
            shown = _shown(found, mask, is_live=is_live)
    return {
        "size": found.size,
        "total": found.total,
        "first": found.first,
        **shown,
        "matches": [it._asdict() | {"text": mask.text(it.text)} for it in matches],
        "matched": count,
    }


def _shown(found: Range, mask: Mask, *, is_live: bool) -> Document:
    """Return the lines; half a line waits until it is whole."""
    lines = found.lines[:-1] if is_live and found.is_cut else found.lines
    return {"lines": _masked(lines, found.before, mask)}


def _masked(lines: Sequence[str], before: str, mask: Mask) -> list[str]:
    """Return lines without secrets; one may begin in what stands before them."""
    if not lines:
        return []
    return mask.text(before + "\n".join(lines)).split("\n")[-len(lines) :]


def _both(stack: contextlib.ExitStack, folder: RunLayout, name: str, *, is_live: bool) -> Woven:
    """Open stdout and stderr as one log, in the order that was noted while they grew."""
    with beneath.opened(folder.folder, f"{name}{GROWTH}") as handle:
        chunks = growth.read(handle.read(growth.MAX_BYTES))
    handles = {
        stream: stack.enter_context(beneath.opened(folder.folder, f"{name}{stream}"))
        for stream in growth.STREAMS
    }
    return lines.weave(handles, chunks, is_live=is_live and len(chunks) < growth.MOST)


def _shown_of_both(found: Range, log: Woven, mask: Mask) -> Document:
    """Return the lines, each stream masked by itself, with whose they are and when they came."""
    parts = [log.find(place)[0] for place in found.places]
    shown = [""] * len(parts)
    for stream in growth.STREAMS:
        mine = [n for n, part in enumerate(parts) if part.stream == stream]
        before = log.before(found.places[mine[0]]) if mine else ""
        masked = _masked([found.lines[n] for n in mine], before, mask)
        for n, text in zip(reversed(mine), reversed(masked), strict=False):
            shown[n] = text
    return {
        "lines": shown,
        "printed": [(it.stream, it.at and utc(datetime.fromtimestamp(it.at, UTC))) for it in parts],
    }


class LogLine(NamedTuple):
    """A line for reading: what is said, and what is folded away."""

    number: int
    text: Markup
    time: str | None = None
    kind: str = ""
    raw: str | None = None


def view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add the lines as people read them, and where the others are."""
    with site.store() as store:
        around = run.head(site, store, asked.run)
        numbers = [it.step_index for it in store.steps(asked.run)]
    name = str(found["file"] or "")
    shown, first = found.get("lines", []), found.get("first", 1)
    assert isinstance(shown, list)
    assert isinstance(first, int)
    rows = [_line(n, it, is_event=name.endswith(EVENTS)) for n, it in enumerate(shown, first)]
    for n, (stream, at) in enumerate(cast(Iterable[tuple[str, str]], found.get("printed", ()))):
        rows[n] = rows[n]._replace(kind=_KINDS[stream], time=at)
    total, end = found.get("total", 0), first + len(rows)
    assert isinstance(total, int)
    return around | {
        "rows": rows,
        "numbers": numbers,
        "titled": [LogFile(**it) for it in found["files"]]
        if isinstance(found["files"], list)
        else [],
        "at": lambda **changes: _address(found, asked, changes),
        "earlier": max(first - _LINES, 1) if first > 1 else None,
        "later": end if end <= total else None,
        "q": asked.fields.get("q", ""),
        "is_tail": "from" not in asked.fields,
    }


def _address(found: Document, asked: WebRequest, changes: dict[str, object]) -> str:
    known = {"file": found["file"], "step": found["step"], "q": asked.fields.get("q")}
    fields = {key: value for key, value in (known | changes).items() if value not in (None, "")}
    return f"/runs/{asked.run}/log?{urlencode(fields)}"


def _line(number: int, text: str, *, is_event: bool) -> LogLine:
    event = _object(text) if text.startswith("{") else None
    if event is not None and (is_event or len(text) > _FOLDED):
        told = (event.get(name) for name in ("message", "text", "summary"))
        said = next((it for it in told if it and isinstance(it, str)), text[:_FOLDED])
        kind = event.get("kind") or event.get("type") or ""
        raw = json.dumps(event, indent=2, ensure_ascii=False)[: 2 * _LONGEST]
        time = str(event.get("ts") or "")[:40] or None
        return LogLine(number, foreign.log_markup(said[:_LONGEST]), time, str(kind)[:40], raw)
    more = f" … {len(text) - _LONGEST} more characters" if len(text) > _LONGEST else ""
    return LogLine(number, foreign.log_markup(text[:_LONGEST] + more))


def _object(text: str) -> dict[str, object] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _chosen(
    folder: RunLayout, row: RunRow, steps: list[StepRow], asked: WebRequest
) -> StepRow | None:
    """Return the step whose logs are wanted; None is the one that works now."""
    file, number = asked.fields.get("file", ""), asked.number("step", 0)
    for step in steps:
        name = step.step_dir.rpartition("/")[2]
        if step.step_index == number or file.startswith(f"steps/{name}/"):
            return step
    if number:
        text = f"run {row.run_id} has no step {number} yet"
        raise NotFoundError(text, fix=[f"treadle runs show {row.run_id}"])
    return None if row.status == "running" or not steps else steps[-1]


def _files(folder: RunLayout, step: StepRow | None) -> list[LogFile]:
    """Return the logs of a step: what its agent printed, its attempts, its checks."""
    below = f"steps/{step.step_dir.rpartition('/')[2]}" if step else LIVE
    try:
        entries = walk.walk(folder.folder / below)
    except (FormatError, OSError):
        return []
    found = [it for it in entries if not it.is_folder]
    if step:
        found = [it for it in found if it.path.startswith(_FOLDERS)]
    else:
        found = [it for it in found if it.path.endswith((".txt", ".jsonl"))]
    logs = [LogFile(f"{below}/{it.path}", it.size) for it in found]
    logs += [_of_both(logs, it.name.removesuffix(GROWTH)) for it in logs if _is_growth(it)]
    return sorted(filterfalse(_is_growth, logs), key=lambda it: (_rank(it.name), it.name))


def _is_growth(log: LogFile) -> bool:
    return log.name.endswith(f"/{GROWTH}")


def _of_both(logs: list[LogFile], folder: str) -> LogFile:
    names = [f"{folder}{stream}" for stream in growth.STREAMS]
    return LogFile(folder, sum(it.size for it in logs if it.name in names))


def _rank(name: str) -> int:
    name = name.replace(f"{LIVE}/", "logs/") if name.startswith(f"{LIVE}/") else name
    return next((n for n, it in enumerate(_PRINTED) if name.endswith(it)), len(_PRINTED))
