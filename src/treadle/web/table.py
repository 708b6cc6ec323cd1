"""Every page and every action."""

from treadle.web.pages import (
    board,
    cost,
    desk,
    events,
    health,
    inbox,
    mail,
    missions,
    run,
    runs,
    step,
)
from treadle.web.site import Action, Page

PAGES = (
    Page("/desk", "desk.html", desk.document, desk.view, "Desk"),
    Page("/runs", "runs.html", runs.document, runs.view, "Runs"),
    Page("/runs/{run}", "run.html", run.document, run.view),
    Page("/runs/{run}/events", "events.html", events.document, events.view, is_quick=True),
    Page("/runs/{run}/steps/{step}", "step.html", step.document, step.view),
    Page("/board", "board.html", board.document, board.view, "Board"),
    Page("/missions", "missions.html", missions.document, label="Missions"),
    Page("/missions/{slug}", "mission.html", missions.one, missions.view),
    Page("/mail", "mail.html", mail.document, mail.view, "Mail"),
    Page("/mail/{letter}", "letter.html", mail.one, mail.view_one),
    Page("/inbox", "inbox.html", inbox.document, inbox.view, "Inbox"),
    Page("/cost", "cost.html", cost.document, cost.view, "Cost"),
    Page("/health", "health.html", health.document, health.view, "Health"),
)


ACTIONS = (
    Action("/desk/{item}/answer", desk.answer),
    Action("/desk/again", desk.again, is_long=True),
    Action("/runs/start", runs.start, is_long=True),
    Action("/runs/{run}/stop", run.stop),
    Action("/runs/{run}/resume", run.resume, is_long=True),
    Action("/runs/{run}/land", run.land),
    Action("/runs/{run}/undo", run.undo),
    Action("/runs/{run}/steps/{step}/comment", step.comment),
    Action("/tasks/{task}/claim", board.claim),
    Action("/tasks/{task}/release", board.release),
    Action("/tasks/{task}/move", board.move),
    Action("/mail/{letter}/reply", mail.reply),
    Action("/mail/{letter}/ack", mail.ack),
    Action("/inbox/send", inbox.send),
    Action("/inbox/retry", inbox.retry),
    Action("/health/prune", health.prune),
)
