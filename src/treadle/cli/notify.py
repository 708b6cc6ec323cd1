"""Deliver notices and try how they arrive: `notify`; what `serve` has to say about itself."""

import json
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import get_args

from treadle.cli import output
from treadle.cli.run import open_configured
from treadle.config.load import load
from treadle.config.schema import NoticeKind
from treadle.engine import notices
from treadle.errors import BlockedError, ExitCode, TreadleError, UsageError
from treadle.files import walk
from treadle.layout import Layout
from treadle.project import here, notify, trust
from treadle.project.context import Context
from treadle.project.notify import Delivery
from treadle.store.store import Reader, Store

_MAX = 1 << 20
_TEST = {"kind": "test", "text": "treadle can reach you here"}


def send_notice(args: Namespace) -> int:
    project, loaded = open_configured()
    told = _read(args.document) if args.document else _TEST
    wanted = loaded.config.notify
    if not (wanted.command or wanted.webhook) and args.document is None:
        text = "neither notify.command nor notify.webhook is set"
        raise BlockedError(text, code="notify_off", fix=["treadle config show"])
    trust.require(project)
    if told["kind"] in get_args(NoticeKind) and told["kind"] not in wanted.on:
        return output.say(args.json, {"deliveries": []}, f"notify.on does not list {told['kind']}")
    notice = notify.complete(project, told, project.now())
    found = notify.deliver(project, notice)
    failed = [item for item in found if item.error]
    if failed and args.document:
        _leave(project, notice, failed)
    output.tell(args.json, {"deliveries": [item._asdict() for item in found]}, _print, found)
    return ExitCode.FAILED if failed else ExitCode.DONE


def _read(name: str) -> dict[str, object]:
    data = sys.stdin.buffer.read(_MAX) if name == "-" else walk.read(here() / name, max_bytes=_MAX)
    try:
        found = json.loads(data)
    except ValueError as error:
        raise UsageError(f"{name} is not a JSON document: {error}") from error
    if not isinstance(found, dict):
        raise UsageError(f"{name} must hold one JSON object")
    return {"kind": "custom", **found}


def _leave(project: Context, notice: dict[str, object], failed: Sequence[Delivery]) -> None:
    """Leave with a run that it did not arrive; whoever works next puts it into the timeline."""
    why = "; ".join(f"{item.way}: {item.error}" for item in failed)
    told = {"message": f"notice {notice['kind']} did not arrive: {why}", "kind": notice["kind"]}
    told |= {"tries": max(item.tries for item in failed), "at": notice["at"]}
    with Store.open(project.layout) as store:
        run_id = notice.get("run_id") or store.last_run_id()
        if isinstance(run_id, str) and store.run(run_id):
            store.leave(run_id, notices.FAILED, told)


def _print(found: Sequence[Delivery]) -> None:
    for item in found:
        colour: output.Colour = "red" if item.error else "green"
        word = output.paint("FAILED" if item.error else "SENT", colour)
        tries = f" after {item.tries} tries" if item.error else ""
        output.line(word, f"{item.way}{tries}{f': {item.error}' if item.error else ''}")


def serve_failed(layout: Layout, text: str) -> None:
    """Tell that `serve` cannot do its work; whether anybody wants to know, the delivery finds."""
    notices.send(layout, os.environ, {"kind": "serve_failed", "text": text})


def serve_ended(layout: Layout, since: datetime) -> None:
    """Sum up what was done while `serve` worked."""
    try:
        wanted = load(layout, os.environ).config.notify
        if not (wanted.command or wanted.webhook):
            return
        with Reader.open(layout) as store:
            told = notices.digest(layout, store, since)
    except TreadleError as error:  # whatever it is, the last round has said it
        output.warn(error.message)
        return
    if told["runs"] or told["questions"]:
        text = f"serve ended: {told['text']}"
        more = {"kind": "night_ended", "text": text, "what": "serve ended"}
        notices.send(layout, os.environ, told | more | {"until": datetime.now(UTC).isoformat()})
