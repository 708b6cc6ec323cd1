"""`treadle status`, and the bare command in a project: one screen of how everything stands."""

import os
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from treadle.cli import output
from treadle.config.load import Loaded, load
from treadle.engine.run import night
from treadle.engine.show import ends, status
from treadle.engine.show.status import WaitingWork
from treadle.errors import ProjectError, TreadleError
from treadle.ids import age, local, short_run, utc
from treadle.inbox import box, spec_state
from treadle.inbox.known import InboxView
from treadle.layout import Layout
from treadle.project import find_place, here
from treadle.project.context import open_repository, workspace_sizes
from treadle.store import address
from treadle.store.store import Reader
from treadle.tasks import questions
from treadle.text import plural

_MOST = 7  # entries of a part, so that all of them fit on a screen
_QUIET = ("done", "dropped", "running")
_QUEUED = ("waiting", "queued", "empty")  # the others wait for a person


def show_here(as_json: bool) -> bool:
    """Show how the project around stands; False where there is none."""
    try:
        find_place(here(), os.environ)
    except ProjectError:
        return False
    show_status(Namespace(json=as_json))
    return True


def show_status(args: Namespace) -> int:
    """Show what works, what waits and for whom, and what it costs; nothing is written."""
    layout = find_place(here(), os.environ).layout
    with Reader.open(layout) as store:
        address.require_kept(layout, store)
        now = store.now()
        found = _document(layout, store, now)
    return output.tell(args.json, found, _print, found, now)


def _document(layout: Layout, store: Reader, now: datetime) -> dict[str, Any]:
    loaded = load(layout, os.environ)
    config = loaded.config
    asked = store.desk()
    inbox = InboxView(layout, config, store, utc(now))
    work = [
        *status.waiting_commands(layout),
        *(*_specs(inbox), *_messages(inbox)),
        *(*status.waiting_tasks(store, now), *status.stopped_runs(store, now)),
    ]
    # What a question is about is shown with it.
    told = store.questions()
    known = {word for row in told for word in (row.run_id, row.task_id, row.subject_id) if word}
    stuck = [item for item in work if item.is_stuck and known.isdisjoint(item.about)]
    return {
        "running": [run._asdict() for run in status.working(layout, store)],
        "waiting": questions.items_document(asked)["items"],
        "stuck": list(map(_entry, stuck)),
        "queued": [_entry(item) for item in work if not item.is_stuck],
        "unlanded": ends.unlanded_document(store),
        "last_night": status.last_night(store, now),
        "today": night.limits_document(store, config.night, now),
        "disk": _disk(layout, loaded),
    }


def _disk(layout: Layout, loaded: Loaded) -> dict[str, object]:
    """Return how much room workspaces take; where git says no, nothing is known of them."""
    try:
        project = open_repository(here(), os.environ)
        found = workspace_sizes(project._replace(layout=layout, settings=loaded))
    except TreadleError:
        found = []
    return {
        "workspaces": len(found),
        "bytes": sum(item.size for item in found),
        "is_more": any(item.is_more for item in found),
        "keep": loaded.config.workspace.keep,
    }


def _entry(item: WaitingWork) -> dict[str, object]:
    return {name: getattr(item, name) for name in ("kind", "name", "reason", "next")}


def _specs(inbox: InboxView) -> Iterator[WaitingWork]:
    """Yield the specs that are neither done, dropped nor being worked on."""
    for item in spec_state.spec_views(inbox):
        if item.state not in _QUIET:
            row = inbox.store.spec_message(item.name)
            about = (item.name, item.run_id, row.message_id if row else None)
            is_stuck, reason = item.state not in _QUEUED, item.reason or "ready"
            yield WaitingWork("spec", item.name, reason, item.next, is_stuck, about)


def _messages(inbox: InboxView) -> Iterator[WaitingWork]:
    """Yield what lies in the inbox and asks for no spec."""
    for name in box.names(inbox.layout):
        row = inbox.store.message(name.removesuffix(".md"))
        if row is None or row.status == "waiting":
            if row is None or row.spec is None:
                yield WaitingWork("message", name, "ready", "treadle process")
        elif row.spec is None:
            reason, about = f"{row.status}: {row.reason}", (row.message_id, *row.run_ids[-1:])
            yield WaitingWork("message", name, reason, "treadle process", True, about)


Shown = tuple[str, Sequence[str]]  # a line, and the commands that go on with it


def _print(found: dict[str, Any], now: datetime) -> None:
    asked = [_item(item, now) for item in found["waiting"]]
    parts: dict[str, list[Shown]] = {
        "running": [_working(run, now) for run in found["running"]],
        "waiting for you": [*asked, *map(_stuck, found["stuck"])],
        "queued": list(map(_queued, found["queued"])),
        "passed, not landed": [_unlanded(run, now) for run in found["unlanded"]],
    }
    ways = {"waiting for you": ["treadle desk"], "passed, not landed": ["treadle land --all"]}
    for title, shown in parts.items():
        if shown:
            output.line(output.paint(title, "bold"))
            _print_part(shown[:_MOST], len(shown), ways.get(title, ()))
        _print_next(_ready(found) if title == "queued" else ())
    if not any(parts.values()):
        output.line("nothing is running, waiting or queued")
        _print_next(["treadle task add --help"])
    output.lines([_night(found["last_night"]), _today(found["today"])])
    if found["disk"]["workspaces"]:
        output.line(_room(found["disk"]))


def _print_part(shown: Sequence[Shown], total: int, ways: Sequence[str]) -> None:
    for text, commands in shown:
        output.line(f"  {text}")
        _print_next(commands)
    if total > len(shown):
        output.line(f"  and {total - len(shown)} more")
        _print_next(ways)


def _print_next(commands: Iterable[str]) -> None:
    output.lines(f"    next: {command}" for command in commands)


def _working(run: dict[str, Any], now: datetime) -> Shown:
    budgets = run["budgets"]
    turn = f"{run['role']} {run['iteration']}/{budgets.get('max_iterations', '?')}"
    spent = _money(run["cost_usd"], budgets.get("max_cost_usd"))
    gone = "its process is gone" if run["is_abandoned"] else ""
    words = [short_run(run["run_id"]), turn, f"for {age(run['since'], now)}", spent, gone]
    return "  ".join(filter(None, [*words, _subject(run)])), [run["next"]]


def _item(item: dict[str, Any], now: datetime) -> Shown:
    """Show an item with its first answer, after what must come first."""
    id_ = item["item_id"]
    answers = [command for command in item["fix"] if command.startswith(f"treadle answer {id_}")]
    first = {"approval": [f"treadle desk show {id_}"], "held": item["fix"][:1]}
    shown = [*first.get(item["kind"], ()), *answers[:1]]
    return f"{id_}  {age(item['created_at'], now)}  {item['summary']}", shown


def _queued(entry: dict[str, Any]) -> Shown:
    text, commands = _stuck(entry)
    return text, commands if entry["kind"] == "command" else ()


def _stuck(entry: dict[str, Any]) -> Shown:
    commands = [entry["next"]] if entry["next"] else []
    return f"{entry['kind']} {entry['name']}  {entry['reason']}", commands


def _ready(found: dict[str, Any]) -> Iterable[str]:
    """Return what takes all that is ready, a command for each kind of work."""
    kinds = {item["kind"] for item in found["queued"] if item["reason"] == "ready"}
    more = f"{needed} " if (needed := found["today"]["needed"]) else ""  # over the day's limit
    commands = {"spec": "treadle process", "message": "treadle process", "task": "treadle run"}
    return dict.fromkeys(more + command for kind, command in commands.items() if kind in kinds)


def _unlanded(run: dict[str, Any], now: datetime) -> Shown:
    why = f"; {run['reason']}" if run["reason"] else ""
    return f"{_subject(run)}{why}, {age(run['ended_at'], now)} ago", [run["next"]]


def _subject(run: dict[str, Any]) -> str:
    return f"{run['name']}: {run['goal']}" if run["name"] else str(run["goal"])


def _night(found: dict[str, Any]) -> str:
    since = local(found["since"], "%a %H:%M %Z")
    ended = [f"{found[word]} {word}" for word in ("passed", "failed", "stopped") if found[word]]
    if not ended:
        return f"last night: no run ended since {since}"
    words = [*ended, f"{found['landed']} landed", f"${found['cost_usd']:.2f}"]
    return f"last night: {', '.join(words)} (since {since})"


def _today(found: dict[str, Any]) -> str:
    runs = plural(found["runs"], "run")
    if found["max_runs"]:
        runs = f"{runs} of {found['max_runs']}"
    return f"today: {runs}, {_money(found['cost_usd'], found['max_cost_usd']) or '$0.00'}"


def _room(found: dict[str, Any]) -> str:
    size = f"{found['bytes'] / 1e6:,.1f} MB{' or more' if found['is_more'] else ''}"
    return (
        f"disk: {plural(found['workspaces'], 'workspace')}, {size}; treadle runs prune removes them"
    )


def _money(used: float, limit: float | None) -> str:
    if limit:
        return f"${used:.2f} of ${limit:g}"
    return f"${used:.2f}" if used else ""
