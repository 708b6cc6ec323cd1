"""Carry out an action: the very command line that the page shows."""

import json
import shlex
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

from treadle.errors import BlockedError, ExitCode
from treadle.ids import HUMAN
from treadle.proc import environment, helper
from treadle.web.pages import desk, run, runs, tasks
from treadle.web.site import Page, PageAction, Site, WebRequest

_PATIENCE = 60.0  # seconds for what should end at once
_MAX_WORD = 100 << 10  # bytes; the kernel takes words of a command line up to 128 KiB
_START = 2.0  # seconds in which a long command says that it cannot begin


class Said(NamedTuple):
    """What a command answered."""

    line: str | None  # none where what was asked for is no command line
    ok: bool
    text: str
    fix: tuple[str, ...] = ()


class Shown(NamedTuple):
    """An action on a page."""

    url: str
    line: str


def perform(site: Site, action: PageAction, asked: WebRequest) -> Said:
    """Run the command; a long one goes on by itself, whatever becomes of the page."""
    words = action.words(asked)
    if any("\0" in word or len(word.encode()) > _MAX_WORD for word in words):
        raise BlockedError(
            f"a text may have {_MAX_WORD >> 10} KiB and no zero byte", code="form_too_large"
        )
    patience = _START if action.is_long else _PATIENCE
    project = site.project
    ended = helper.detach(
        *environment.treadle_command(["--json", *words], project.layout.root, project.env), patience
    )
    if ended is None:
        return Said(command_line(words), True, "started" if action.is_long else "still working")
    return _said(words, ended.returncode, ended.stdout)


def shown_action(action: PageAction, names: Mapping[str, str], fields: Mapping[str, str]) -> Shown:
    """Return where an action is and what it would run."""
    url = action.path.format_map({name: quote(value, safe="") for name, value in names.items()})
    return Shown(url, command_line(action.words(WebRequest(names, fields, is_example=True))))


def command_line(words: list[str]) -> str:
    """Spell a command as one would type it."""
    return shlex.join(["treadle", *words])


def _said(words: list[str], code: int, stdout: bytes) -> Said:
    try:
        found = json.loads(stdout)
    except ValueError:
        found = None
    error = found.get("error") if isinstance(found, dict) else None
    if isinstance(error, dict):
        fix = tuple(map(str, error.get("fix", ())))
        return Said(command_line(words), False, str(error.get("message")), fix)
    text = "done" if code == ExitCode.DONE else f"ended with exit code {code}"
    return Said(command_line(words), code == ExitCode.DONE, text)


PAGES = (
    Page("/desk", "desk.html", desk.desk_document, desk.desk_view, "Desk"),
    Page("/runs", "runs.html", runs.document, runs.view, "Runs"),
    Page("/runs/{run}", "run.html", run.document, run.view),
    Page("/runs/{run}/events", "events.html", run.events_document, run.events_view, is_quick=True),
    Page("/runs/{run}/steps/{step}", "step.html", run.step_document, run.step_view),
    Page("/board", "board.html", tasks.board_document, tasks.board_view, "Board"),
    Page("/missions", "missions.html", tasks.missions_document, label="Missions"),
    Page("/missions/{slug}", "mission.html", tasks.mission_document, tasks.mission_view),
    Page("/mail", "mail.html", desk.mail_document, desk.mail_view, "Mail"),
    Page("/mail/{letter}", "letter.html", desk.letter_document, desk.letter_view),
    Page("/inbox", "inbox.html", desk.inbox_document, desk.inbox_view, "Inbox"),
    Page("/cost", "cost.html", runs.cost_document, runs.cost_view, "Cost"),
    Page("/health", "health.html", runs.health_document, runs.health_view, "Health"),
)


ACTIONS = (
    PageAction("/desk/{item}/answer", desk.answer),
    PageAction(
        "/desk/again", lambda at: ["run", "--wait", "--", at.text("task", "TASK")], is_long=True
    ),
    PageAction("/runs/start", runs.start, is_long=True),
    PageAction("/runs/{run}/stop", lambda at: ["stop", at.run, "--reason=stopped on the page"]),
    PageAction("/runs/{run}/resume", run.resume, is_long=True),
    PageAction("/runs/{run}/land", lambda at: ["land", at.run, "--wait"]),
    PageAction("/runs/{run}/undo", lambda at: ["undo", at.run, "--wait"]),
    PageAction("/runs/{run}/steps/{step}/comment", run.comment),
    PageAction("/tasks/{task}/claim", lambda at: ["task", "claim", at.task]),
    PageAction("/tasks/{task}/release", lambda at: ["task", "release", at.task]),
    PageAction("/tasks/{task}/move", tasks.move),
    PageAction("/mail/{letter}/reply", desk.reply),
    PageAction(
        "/mail/{letter}/ack", lambda at: ["mail", "ack", f"--as={HUMAN}", "--", at.names["letter"]]
    ),
    PageAction("/inbox/send", desk.send),
    PageAction("/inbox/retry", lambda at: ["dead", "retry", "--", at.text("letter", "LETTER")]),
    PageAction(
        "/health/prune", lambda at: ["runs", "prune", f"--older-than={at.text('days', '0')}"]
    ),
)
