"""Changes: what a run has done since its base, as one patch, and what people say to it."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from treadle.engine.run import comments, memory
from treadle.engine.run.comments import Comment
from treadle.engine.run.memory import Held, RunMemory
from treadle.engine.show import changes
from treadle.engine.show.changes import RunChanges
from treadle.engine.show.view import find_run
from treadle.errors import GitError, NotFoundError
from treadle.files import beneath
from treadle.git import trees
from treadle.store.runs import RunRow
from treadle.text import name_some
from treadle.web import diff, foreign
from treadle.web.diff import Diff, FileDiff
from treadle.web.pages import run
from treadle.web.site import Document, Site, WebRequest

_ROWS = 1_000  # lines of a patch on one page
_MAX_LINES = 100_000
_MAX_FILES = 1_000
_MAX_HELD = 1 << 20
_PLACED = "on:"  # how the name of a field begins that has a comment on a line


def document(site: Site, asked: WebRequest) -> Document:
    """Return the changed files with why some of them stand out, and the comments."""
    with site.store() as store:
        row = find_run(store, asked.run)
        said = comments.read(memory.recall(store, row.run_id).others)
    found = changes.run_changes(site.project, row)
    files = _parsed(site, found).files if found else ()
    return {
        "run_id": row.run_id,
        "base": row.base_commit,
        "head": row.head_commit,
        "command": found.command if found else None,
        "files": [
            {"path": it.path, "added": it.added, "removed": it.removed, "flag": _flag(found, it)}
            for it in files
        ],
        "comments": [it._asdict() for it in said],
    }


class ShownFile(NamedTuple):
    """A file in the list: where its rows begin, and why it stands out."""

    number: int
    file: FileDiff
    start: int
    flag: str | None

    @property
    def page(self) -> int:
        """Return the row at which the page begins that has its first one."""
        return self.start // _ROWS * _ROWS


class ShownPart(NamedTuple):
    """A file as far as one page shows it."""

    at: ShownFile
    file: FileDiff
    said: dict[int, list[Comment]]  # by line; 0 is the whole file


def view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add the rows of one page of the patch, and what waits for approval."""
    with site.store() as store:
        around = run.head(site, store, asked.run)
        row, known = find_run(store, asked.run), memory.recall(store, asked.run)
        said = comments.read(memory.recall(store, row.run_id).others)
    seen = changes.run_changes(site.project, row)
    whole = _parsed(site, seen) if seen else Diff((), 0)
    files = list(_listed(seen, whole))
    start, last = asked.number("from", 0), files[-1] if files else None
    total = last.start + last.file.length if last else 0
    return around | {
        "seen": seen,
        "files": files[:_MAX_FILES],
        "more_files": max(len(files) - _MAX_FILES, 0),
        "shown": list(_parts(files, start, said)),
        "hidden": whole.hidden,
        "start": start,
        "before": max(start - _ROWS, 0) if start else None,
        "after": start + _ROWS if start + _ROWS < total else None,
        "style": "unified" if asked.fields.get("view") == "unified" else "auto",
        "opened": _opened(asked.fields.get("on", "")),
        "general": [it for it in said if not it.path],
        "approval": _approval(site, row, known),
        "can_review": row.status != "passed" or not known.landed_commit,
    }


def review(asked: WebRequest) -> list[str]:
    """Say all at once what should be different."""
    return ["review", asked.run, *_said(asked)]


def send_back(asked: WebRequest) -> list[str]:
    """Let a passed run go on with what a person says."""
    return ["review", "--back", asked.run, *_said(asked), "--wait"]


def _said(asked: WebRequest) -> Iterator[str]:
    fields = {name: text.strip() for name, text in asked.fields.items() if text.strip()}
    for name, text in fields.items():
        if name.startswith(_PLACED):
            yield f"--on={name.removeprefix(_PLACED)}={text}"
    if "text" in fields:
        yield f"--text={fields['text']}"
    if asked.is_example:
        yield "--on=FILE:LINE=TEXT"


def _parsed(site: Site, found: RunChanges) -> Diff:
    return diff.parse_diff(site.mask.text(found.patch.decode(errors="replace")), _MAX_LINES)


def _flag(found: RunChanges | None, file: FileDiff) -> str | None:
    return found.flags.get(file.path) if found else None


def _listed(found: RunChanges | None, whole: Diff) -> Iterator[ShownFile]:
    start = 0
    for number, file in enumerate(whole.files, 1):
        yield ShownFile(number, file, start, _flag(found, file))
        start += file.length


def _parts(files: Sequence[ShownFile], start: int, said: Sequence[Comment]) -> Iterator[ShownPart]:
    """Yield the files of a page; one without rows comes with those around it."""
    end = start + _ROWS
    for it in files:
        last = it.start + it.file.length
        if it.start < end and (last > start or (last == start and not it.file.length)):
            shown = diff.cut(it.file, max(start - it.start, 0), end - max(it.start, start))
            yield ShownPart(it, diff.paint(shown), _placed(it.file.path, shown, said))


def _placed(path: str, shown: FileDiff, said: Sequence[Comment]) -> dict[int, list[Comment]]:
    """Return the comments on a file by the line they stand at; 0 if that is not shown any more."""
    rows = [row for hunk in shown.hunks for row in hunk.rows]
    lines = {row.new.number for row in rows if row.new}
    lines |= {-row.old.number for row in rows if row.old and row.kind == "change"}
    found: dict[int, list[Comment]] = {}
    for it in said:
        if it.path == path:
            found.setdefault(it.line if it.line in lines else 0, []).append(it)
    return found


def _opened(text: str) -> list[tuple[int, int]]:
    """Read at which lines a form is wanted: `3.12,4.-5` is file 3, line 12 and so on."""
    pairs = (word.split(".") for word in text.split(",") if word.count(".") == 1)
    return [(int(a), int(b)) for a, b in pairs if a.isdecimal() and b.removeprefix("-").isdecimal()]


class Approval(NamedTuple):
    """What waits for a person's word: what it is called in the command, and what it looks like."""

    what: str
    title: str
    why: str
    diff: Diff | None = None
    plan: Markup | None = None


def _approval(site: Site, row: RunRow, known: RunMemory) -> Approval | None:
    if row.status != "stopped":
        return None
    if held := known.waiting:
        return _held(site, row, held)
    found = known.protected
    if known.reason_code != memory.WAITS_FOR_APPROVAL or not found:
        return None
    patch = _painted(_text(site, site.project.layout.shared, found.diff))
    return Approval("protected", f"the change of {found.names}", found.sentence, patch)


def _held(site: Site, row: RunRow, held: Held) -> Approval:
    if held.what == "plan":
        plan = site.project.layout.run(row.run_id).plan
        text = foreign.markdown_markup(_text(site, plan.parent, plan.name))
        return Approval("plan", "this plan", held.why, plan=text)
    try:
        found = trees.diff_text(site.project.repo, held.base, held.commit)
    except GitError:
        found = b""
    patch = _painted(site.mask.text(found.decode(errors="replace")))
    names = name_some([it.path for it in patch.files])
    return Approval("change", f"the change of {names}", held.why, patch)


def _painted(text: str) -> Diff:
    return diff.paint_all(diff.parse_diff(text, _ROWS))


def _text(site: Site, folder: Path, name: str) -> str:
    try:
        with beneath.opened(folder, name) as file:
            return site.mask.text(file.read(_MAX_HELD).decode(errors="replace"))
    except NotFoundError:
        return ""
