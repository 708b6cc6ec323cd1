"""`treadle mail`: send, list, read, claim, answer, acknowledge and search letters."""

import os
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime

from treadle.cli import main, place
from treadle.layout import BOXES
from treadle.project.root import refuse_inside_run

# Each action's module: what is asked for most often loads least.
_MODULES = {
    "send": "mail_send",
    "reply": "mail_reply",
    "list": "mail_list",
    "read": "mail_list",
    "claim": "mail_claim",
    "ack": "mail_claim",
    "archive": "mail_claim",
    "watch": "mail_seek",
    "search": "mail_seek",
    "reindex": "mail_seek",
}
_INSIDE = ("send", "reply", "list", "read", "search")


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    sent = _written(actions.add_parser("send", help="Send a letter"))
    sent.add_argument("--from", dest="who", metavar="AGENT", help="Who writes")
    sent.add_argument("--to", required=True, metavar="AGENT", help="Who is written to, or all")
    sent.add_argument("--intent", required=True, help="What the letter is for")
    sent.add_argument("--task", metavar="TASK", help="The task it is about")
    sent.add_argument("--reply-to", metavar="FILE", help="The letter it answers")
    listed = _acting(actions.add_parser("list", help="List letters, newest first"))
    listed.add_argument("--box", choices=BOXES, help="Only letters there")
    listed.add_argument("--all", action="store_true", help="Archived ones too")
    listed.add_argument("--task", metavar="TASK", help="Only letters about this task")
    listed.add_argument("--intent", help="Only letters for this")
    listed.add_argument("--limit", type=int, default=50, metavar="N", help="At most N of them")
    _named(_acting(actions.add_parser("read", help="Show a letter")))
    claimed = _acting(actions.add_parser("claim", help="Take a letter, and its task with it"))
    claimed.add_argument("file", nargs="?", metavar="FILE", help="Which; else the oldest")
    claimed.add_argument("--task", metavar="TASK", help="The oldest about this task")
    replied = _written(_named(_acting(actions.add_parser("reply", help="Answer a letter"))))
    replied.add_argument("--intent", help="What the answer is for")
    _named(_acting(actions.add_parser("ack", help="Say that a letter is taken care of")))
    kept = actions.add_parser("archive", help="Put letters into the LOGS")
    kept.add_argument("file", nargs="?", metavar="FILE", help="Which")
    kept.add_argument("--task", metavar="TASK", help="All letters about this task")
    kept.add_argument("--older-than", type=float, metavar="DAYS", help="Sort old ones by month")
    watched = _acting(actions.add_parser("watch", help="Wait until a letter arrives"))
    watched.add_argument("--timeout", type=float, metavar="SECONDS", help="Not for longer")
    searched = actions.add_parser("search", help="Find letters by their words")
    searched.add_argument("words", nargs="+", metavar="WORD", help="What they must contain")
    searched.add_argument("--limit", type=int, default=50, metavar="N", help="At most N of them")
    actions.add_parser("reindex", help="Read every letter again")


def run(args: Namespace) -> int:
    """Open the project, do one thing, say what came of it."""
    found = place.find(os.environ)
    if os.environ.get("TREADLE_RUN") and args.action not in _INSIDE:
        refuse_inside_run(os.environ)
    action = getattr(main.load(_MODULES[args.action]), args.action)
    code: int = action(found, args, datetime.now(UTC))
    return code


def _acting(parser: ArgumentParser) -> ArgumentParser:
    parser.add_argument("--as", dest="who", metavar="AGENT", help="Who acts; else TREADLE_AGENT")
    return parser


def _named(parser: ArgumentParser) -> ArgumentParser:
    parser.add_argument("file", metavar="FILE", help="Name, path or message id of the letter")
    return parser


def _written(parser: ArgumentParser) -> ArgumentParser:
    parser.add_argument("--body", metavar="FILE", help="Markdown to send; - reads it from stdin")
    parser.add_argument("--summary", metavar="TEXT", help="What it is about, in a line")
    parser.add_argument("--ac", action="append", default=[], help="Acceptance criterion")
    parser.add_argument("--status", help="new, in_progress, completed, blocked or failed")
    parser.add_argument("--priority", help="How urgent it is")
    parser.add_argument("--due-at", metavar="TIME", help="When it should be done")
    parser.add_argument("--expires-at", metavar="TIME", help="When nobody need claim it any more")
    parser.add_argument("--ack-required", action="store_true", help="Ask for an acknowledgement")
    parser.add_argument("--created-at", metavar="TIME", help="When it was written; else now")
    return parser
