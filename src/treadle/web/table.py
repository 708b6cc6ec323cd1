"""Every page and every action."""

from treadle.web.pages import board, cost, desk, inbox, mail, missions, runs
from treadle.web.site import Action, Asked, Page

PAGES = (
    Page("/desk", "desk.html", desk.document, desk.view, "Desk"),
    Page("/runs", "runs.html", runs.document, label="Runs"),
    Page("/board", "board.html", board.document, board.view, "Board"),
    Page("/missions", "missions.html", missions.document, label="Missions"),
    Page("/missions/{slug}", "mission.html", missions.one, missions.view),
    Page("/mail", "mail.html", mail.document, mail.view, "Mail"),
    Page("/mail/{letter}", "letter.html", mail.one, mail.view_one),
    Page("/inbox", "inbox.html", inbox.document, inbox.view, "Inbox"),
    Page("/cost", "cost.html", cost.document, cost.view, "Cost"),
)


def _stop(asked: Asked) -> list[str]:
    return ["stop", asked.run, "--reason=stopped on the page"]


def _resume(asked: Asked) -> list[str]:
    return ["run", f"--resume={asked.run}"]


def _land(asked: Asked) -> list[str]:
    return ["land", asked.run]


ACTIONS = (
    Action("/desk/{item}/answer", desk.answer),
    Action("/desk/again", desk.again, is_long=True),
    Action("/runs/{run}/stop", _stop),
    Action("/runs/{run}/resume", _resume, is_long=True),
    Action("/runs/{run}/land", _land, is_long=True),
    Action("/runs/{run}/budget", desk.raise_budget, is_long=True),
    Action("/tasks/{task}/claim", board.claim),
    Action("/tasks/{task}/release", board.release),
    Action("/tasks/{task}/move", board.move),
    Action("/mail/{letter}/reply", mail.reply),
    Action("/mail/{letter}/ack", mail.ack),
    Action("/inbox/send", inbox.send),
    Action("/inbox/retry", inbox.retry),
)
