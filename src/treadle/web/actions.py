"""Carry out an action: the very command line that the page shows."""

import json
import shlex
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import quote

from treadle.engine import lock
from treadle.errors import BlockedError, ExitCode
from treadle.ids import HUMAN, utc
from treadle.proc import environment, helper
from treadle.web import render
from treadle.web.pages import changes, compare, conflicts, desk, inbox, log, run, runs, step, tasks
from treadle.web.pressed import Pressed, PressedCommand
from treadle.web.site import Page, PageAction, Site, WebRequest

# Seconds until a button's answer says that its command still works: a short one, a long one.
_PATIENCE, _START = 15.0, 2.0


class Said(NamedTuple):
    """What a command answered."""

    line: str | None  # none where what was asked for is no command line
    ok: bool
    text: str
    fix: tuple[str, ...] = ()
    going: str | None = None  # the command that is still at work
    since: str = ""
    is_waiting: bool = False  # until no other treadle works in the project
    run: str | None = None  # that came to its end


class Shown(NamedTuple):
    """An action on a page."""

    url: str
    line: str


def perform(site: Site, pressed: Pressed, action: PageAction, asked: WebRequest) -> Said:
    """Run the command; one that takes longer goes on by itself, and is followed to its end."""
    words = action.words(asked)
    if not all(map(environment.is_word, words)):
        raise BlockedError("a text may have 100 KiB at most, and no NUL", code="form_too_large")
    project = site.project
    line = environment.treadle_command(["--json", *words], project.layout.root, project.env)
    command = pressed.start(words, lambda stop: helper.follow(*line, stop, lambda said: None))
    command.wait(_START if action.is_long else _PATIENCE)
    return said(command, site)


def said(command: PressedCommand, site: Site | None = None) -> Said:
    """Say how a command ended, or that it still works or waits."""
    words = [*command.words]
    if command.ended:
        return _said(words, command.ended.returncode, command.ended.stdout)
    if command.is_over:
        return Said(command_line(words), False, "treadle could not be started")
    line, text = command_line(words), render.seconds(time.time() - command.begun)
    since = utc(datetime.fromtimestamp(command.begun, UTC))
    waits = site is not None and line in {it.line for it in lock.waiters(site.project.layout)}
    return Said(line, True, text, going=command.id, since=since, is_waiting=waits)


def cancel(command: PressedCommand) -> Said:
    """End a command that waits or works; what it has begun can be resumed."""
    command.is_cancelled = True
    command.wait(_PATIENCE)
    return said(command)


def shown_action(action: PageAction, names: Mapping[str, str], fields: Mapping[str, str]) -> Shown:
    """Return where an action is and what it would run."""
    url = action.path.format_map({name: quote(value, safe="") for name, value in names.items()})
    return Shown(url, command_line(action.words(WebRequest(names, fields, is_example=True))))


def command_line(words: list[str]) -> str:
    """Spell a command as one would type it."""
    return shlex.join(["treadle", *words])


def _said(words: list[str], code: int, stdout: bytes) -> Said:
    line, found = command_line(words), _told(stdout)
    error = found.get("error")
    if code == ExitCode.INTERRUPTED:
        return Said(line, False, "cancelled")
    if isinstance(error, dict):
        return Said(line, False, str(error.get("message")), tuple(map(str, error.get("fix", ()))))
    text, run = "done" if code == ExitCode.DONE else f"ended with exit code {code}", None
    if found.get("status") and found.get("reason"):
        text, run = f"{found['status']}: {found['reason']}", found.get("run_id")
    fix = (str(found["next"]),) if found.get("next") else ()
    return Said(line, code == ExitCode.DONE, text, fix, run=str(run) if run else None)


def _told(stdout: bytes) -> dict[str, object]:
    """Return what a command told; of one that carries out others, what the last of them did."""
    try:
        found = json.loads(stdout)
    except ValueError:
        found = None
    for name in ("results", "messages"):
        found = found[name][-1] if isinstance(found, dict) and found.get(name) else found
    return found if isinstance(found, dict) else {}


PAGES = (
    Page("/desk", "desk.html", desk.desk_document, desk.desk_view, "Desk"),
    Page("/desk/{item}", "desk.html", desk.item_document, desk.desk_view),
    Page("/runs", "runs.html", runs.document, runs.view, "Runs"),
    Page("/runs/{run}", "run.html", run.document, run.view),
    Page("/runs/{run}/changes", "changes.html", changes.document, changes.view),
    Page("/runs/{run}/events", "events.html", run.events_document, run.events_view, is_quick=True),
    Page("/runs/{run}/compare", "compare.html", run.compare_document, run.compare_view),
    Page("/runs/{run}/log", "log.html", log.document, log.view),
    Page("/runs/{run}/steps", "steps.html", run.steps_document, run.steps_view),
    Page("/runs/{run}/steps/{step}", "step.html", step.document, step.view),
    Page("/board", "board.html", tasks.board_document, tasks.board_view, "Board"),
    Page("/compare", "compared.html", compare.document, compare.view),
    Page("/conflicts", "conflicts.html", conflicts.document),
    Page("/tasks/{task}", "task.html", tasks.task_document, tasks.task_view),
    Page("/missions", "missions.html", tasks.missions_document, label="Missions"),
    Page("/missions/{slug}", "mission.html", tasks.mission_document, tasks.mission_view),
    Page("/mail", "mail.html", inbox.mail_document, inbox.mail_view, "Mail"),
    Page("/mail/{letter}", "letter.html", inbox.letter_document, inbox.letter_view),
    Page("/inbox", "inbox.html", inbox.inbox_document, inbox.inbox_view, "Inbox"),
    Page("/cost", "cost.html", runs.cost_document, runs.cost_view, "Cost"),
    Page("/fleet", "fleet.html", runs.fleet_document, runs.fleet_view, "Fleet"),
    Page("/health", "health.html", runs.health_document, runs.health_view, "Health"),
)


ACTIONS = (
    PageAction(desk.ANSWER, desk.answer),
    PageAction(desk.WORK, desk.answer, is_long=True),
    PageAction("/runs/start", runs.start, is_long=True),
    PageAction("/runs/{run}/stop", lambda at: ["stop", at.run, "--reason=stopped on the page"]),
    PageAction("/waiting/{waiter}/stop", lambda at: ["stop", "--", at.names["waiter"]]),
    PageAction("/runs/{run}/resume", run.resume, is_long=True),
    PageAction("/runs/{run}/land", lambda at: ["land", at.run, "--wait"]),
    PageAction("/runs/{run}/undo", lambda at: ["undo", at.run, "--wait"]),
    PageAction("/runs/{run}/rebase", lambda at: ["rebase", at.run, "--wait"], is_long=True),
    PageAction("/runs/{run}/review", changes.review),
    PageAction("/runs/{run}/back", changes.send_back, is_long=True),
    PageAction("/tasks/{task}/claim", lambda at: ["task", "claim", at.task]),
    PageAction("/tasks/{task}/release", lambda at: ["task", "release", at.task]),
    PageAction("/tasks/{task}/move", tasks.move),
    PageAction("/mail/{letter}/reply", inbox.reply),
    PageAction(
        "/mail/{letter}/ack", lambda at: ["mail", "ack", f"--as={HUMAN}", "--", at.names["letter"]]
    ),
    PageAction("/inbox/send", inbox.send),
    PageAction("/inbox/retry", lambda at: ["dead", "retry", "--", at.text("letter", "LETTER")]),
    PageAction("/specs/retry", lambda at: ["spec", "retry", "--", at.text("spec", "SPEC")]),
    PageAction("/specs/drop", lambda at: ["spec", "drop", "--", at.text("spec", "SPEC")]),
    PageAction(
        "/health/prune", lambda at: ["runs", "prune", f"--older-than={at.text('days', '0')}"]
    ),
)
