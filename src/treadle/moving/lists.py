"""Read the tasks of spec-kit, Backlog.md, OpenSpec and Task Master."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from treadle import frontmatter, markdown
from treadle.errors import TreadleError
from treadle.moving.piece import NewTask, Piece, files, text_of, texts_to_criteria

_KIT = re.compile(r"\**(T\d+)\**\s+(?:\[P\]\s*)?(?:\[US\d+\]\s*)?(.+)")
MASTER = (".taskmaster/tasks/tasks.json", "tasks/tasks.json")
_LANES = {
    "done": "done",
    "completed": "done",
    "cancelled": "canceled",
    "canceled": "canceled",
    "deferred": "canceled",
}


def spec_kit(root: Path) -> Iterator[Piece]:
    """Yield the tasks of `specs/*/tasks.md`, and the files around them."""
    for path in sorted((root / "specs").glob("*/tasks.md")):
        for name in files(root, path.parent):
            yield Piece("spec-kit", name, "document", "in_place")
        name = path.relative_to(root).as_posix()
        for mark, line in markdown.checkboxes(text_of(root, name)):
            if found := _KIT.match(line):
                lane = "planned" if mark == " " else "done"
                task = NewTask(found[2], f"See {path.parent.relative_to(root)}/", lane=lane)
                id_ = task_id("SK", path.parent.name, found[1])
                yield Piece("spec-kit", f"{name}#{found[1]}", "task", "task", id_, task=task)
            else:
                yield Piece("spec-kit", f"{name}#{line}", "item", "left", note="it has no id")


def backlog(root: Path) -> Iterator[Piece]:
    """Yield the tasks of Backlog.md."""
    for name in files(root, root / "backlog"):
        kind = Path(name).parent.name
        if not name.endswith(".md") or kind not in ("tasks", "completed"):
            yield Piece("backlog", name, "document", "in_place")
            continue
        try:
            fields, body = frontmatter.read(text_of(root, name).encode())
        except TreadleError as error:
            yield Piece("backlog", name, "task", "left", note=error.message)
            continue
        is_old = "archive" in Path(name).parts
        lane = "done" if kind == "completed" else "canceled" if is_old else None
        yield _backlog_task(name, fields, body.decode(), lane)


def _backlog_task(name: str, fields: Mapping[str, Any], body: str, lane: str | None) -> Piece:
    own, goal = str(fields.get("id") or Path(name).stem), str(fields.get("title") or "").strip()
    if not goal:
        return Piece("backlog", name, "task", "left", note="it has no title")
    texts = [re.sub(r"\A#\d+\s+", "", text) for _, text in markdown.checkboxes(body)]
    lane = lane or _LANES.get(str(fields.get("status")).lower(), "planned")
    needs = tuple(task_id("BL", str(it)) for it in _items(fields.get("dependencies")))
    task = NewTask(goal, body.strip() or None, texts_to_criteria(texts), lane, needs)
    return Piece("backlog", name, "task", "task", task_id("BL", own), task=task)


def openspec(root: Path) -> Iterator[Piece]:
    """Yield each change of OpenSpec as a task with its list as criteria, if there is one yet."""
    for name in files(root, root / "openspec"):
        path, folder = root / name, Path(name).parent.as_posix()
        main = "tasks.md" if path.with_name("tasks.md").exists() else "proposal.md"
        if path.name != main or "changes" not in path.parts:
            yield Piece("openspec", name, "document", "in_place")
            continue
        items = markdown.checkboxes(text_of(root, f"{folder}/tasks.md"))
        proposal = text_of(root, f"{folder}/proposal.md")
        is_over = "archive" in path.parts or (items and all(mark != " " for mark, _ in items))
        goal = markdown.title(proposal) or path.parent.name.replace("-", " ")
        criteria = texts_to_criteria([text for _, text in items])
        task = NewTask(goal, proposal.strip() or None, criteria, "done" if is_over else "planned")
        id_ = task_id("OS", path.parent.name)
        yield Piece("openspec", name, "change", "task", id_, task=task)


def task_master(root: Path) -> Iterator[Piece]:
    """Yield the tasks of Task Master, by their tags."""
    for name in files(root, root / ".taskmaster"):
        if not name.endswith("tasks/tasks.json"):
            yield Piece("task-master", name, "document", "in_place")
    for place in MASTER:
        if (root / place).is_file():
            yield from _master_tasks(place, text_of(root, place))


def _master_tasks(place: str, text: str) -> Iterator[Piece]:
    try:
        found = json.loads(text)
        tags = {"master": found} if "tasks" in found else found
        rows = [(tag, row) for tag, held in tags.items() for row in held["tasks"]]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        yield Piece("task-master", place, "document", "left", note="it is not a list of tasks")
        return
    yield Piece("task-master", place, "document", "in_place")
    for tag, row in rows:
        yield _master_task(place, "" if tag == "master" else tag, row)


def _master_task(place: str, tag: str, row: Any) -> Piece:
    source = f"{place}#{tag or 'master'}/{row.get('id') if isinstance(row, dict) else row}"
    if not isinstance(row, dict) or "id" not in row or not str(row.get("title") or "").strip():
        return Piece("task-master", source, "task", "left", note="it has no id or no title")
    parts = [str(row[key]) for key in ("description", "details", "testStrategy") if row.get(key)]
    inner = [str(it.get("title", "")) for it in _items(row.get("subtasks")) if isinstance(it, dict)]
    task = NewTask(
        str(row["title"]).strip(),
        "\n\n".join(parts) or None,
        texts_to_criteria(inner),
        _LANES.get(str(row.get("status")).lower(), "planned"),
        tuple(task_id("TM", tag, str(it)) for it in _items(row.get("dependencies"))),
    )
    id_ = task_id("TM", tag, str(row["id"]))
    return Piece("task-master", source, "task", "task", id_, task=task)


def _items(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def task_id(*words: str) -> str:
    """Make a task's id of what another system calls it."""
    return "-".join(re.findall(r"[A-Za-z0-9]+", " ".join(words)))[:64].rstrip("-")
