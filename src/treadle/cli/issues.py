"""Make tasks of issues that somebody wrote: `import`."""

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from treadle import markdown
from treadle.cli import output
from treadle.cli.run import open_configured
from treadle.engine import pull_request
from treadle.engine.landing.forge import FoundIssue
from treadle.errors import ExitCode, UsageError, argument
from treadle.files import walk
from treadle.project import here
from treadle.project.context import Context
from treadle.store.store import Store
from treadle.store.tasks import TaskRow
from treadle.tasks import edit, issue, task
from treadle.tasks.issue import Issue, TaskDraft
from treadle.text import plural

_MAX = 1 << 20


class Imported(NamedTuple):
    """A task that an issue became, or has been for longer; `left` are commands nobody agreed to."""

    task_id: str
    goal: str
    url: str
    is_new: bool
    criteria: int = 0
    commands: int = 0
    left: tuple[str, ...] = ()
    next: str = ""


def import_issues(args: Namespace) -> int:
    if not args.issues and not args.label:
        raise UsageError("name issues, addresses or files to import, or give --label")
    if args.commands and (args.label or len(args.issues) != 1):
        raise UsageError("--commands agrees to the commands of one issue: name it alone")
    project, _ = open_configured()
    found = list(_find(project, args))
    with Store.open(project.layout) as store:
        done = [_import(store, args, item, word) for word, item in found]
    told = {"tasks": [item._asdict() for item in done]}
    output.tell(args.json, told, _print, done)
    return ExitCode.DONE


def _find(project: Context, args: Namespace) -> Iterator[tuple[str, FoundIssue]]:
    for word in args.issues:
        path = here() / word
        is_file = path.is_file() and "://" not in word
        yield word, _read(path) if is_file else pull_request.find_issue(project, word)
    if args.label:
        for item in pull_request.find_issues(project, args.label):
            yield item.word, item


def _read(path: Path) -> FoundIssue:
    try:
        text = walk.read(path, max_bytes=_MAX).decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path.name} is not UTF-8 (byte {error.start})") from error
    return FoundIssue(Issue(0, markdown.title(text), text, path.name), "", "", str(path))


def _import(store: Store, args: Namespace, found: FoundIssue, word: str) -> Imported:
    item = found.issue
    source = f"{found.reference} {item.url}" if found.reference else item.url
    made, same = issue.draft(item), [row for row in store.tasks() if row.source == source]
    if not item.number:  # a file has none: its commands go to what was made of it last
        told = (made.goal, "planned")
        same = [row for row in same if args.commands and (row.goal, row.lane) == told]
    known = same[-1] if same else None
    if known and not args.commands:
        return Imported(known.task_id, known.goal, item.url, is_new=False)
    agreed = bool(made.commands) and _agrees(args, made, item)
    criteria = task.with_commands(made.criteria, made.commands if agreed else ())
    if known:
        return _take_commands(store, known, made, item)
    name = found.task_id if found.task_id and store.task(found.task_id) is None else ""
    row = TaskRow(name, made.goal, text=made.text, criteria=criteria, source=source)
    row = task.add(store, row, store.now())
    if agreed or not made.commands:
        count, then = len(made.commands), f"treadle run {row.task_id}"
        return Imported(row.task_id, row.goal, item.url, True, len(criteria), count, (), then)
    again = f"treadle import {argument(word)} --commands {made.mark}"
    return Imported(row.task_id, row.goal, item.url, True, len(criteria), 0, made.commands, again)


def _take_commands(store: Store, known: TaskRow, made: TaskDraft, item: Issue) -> Imported:
    """Give the task of an issue the commands that the user has agreed to since."""
    texts = [f"{it.id}: {it.text}" for it in made.criteria]
    row = edit.edit_task(store, known.task_id, None, texts, made.commands, store.now())
    counts, then = (len(texts), len(made.commands)), f"treadle run {row.task_id}"
    return Imported(row.task_id, row.goal, item.url, False, *counts, (), then)


def _agrees(args: Namespace, made: TaskDraft, item: Issue) -> bool:
    """Tell whether the user wants these very commands to be run."""
    if args.commands:
        if args.commands != made.mark:
            text = f"the commands of {item.url} have changed since you saw them ({made.mark} now)"
            raise UsageError(text, code="commands_changed")
        return True
    if args.json or not output.can_ask():
        return False
    output.line(f"{item.url} brings commands that would check the work:", error=True)
    for command in made.commands:
        output.line(f"  {command}", error=True)
    output.line("Run them after every step from now on? [y/N]", error=True, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _print(done: Sequence[Imported]) -> None:
    if not done:
        output.line("no open issue has this label")
    for item in done:
        if not item.is_new:
            more = f", with {plural(item.commands, 'command')} from now on" if item.commands else ""
            output.line(f"{item.task_id} is {item.url} already{more}")
            continue
        count = plural(item.criteria, "criterion").replace("criterions", "criteria")
        output.line(output.paint("ADDED", "green"), f"{item.task_id} {item.goal} ({count})")
        for command in item.left:
            output.line(f"  left out: {command}")
        output.line(f"  next: {item.next}")
