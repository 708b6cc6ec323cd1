"""`treadle task`: add, list, show, link, claim, release, move and finish tasks."""

import os
from argparse import ArgumentParser, Namespace

from treadle.cli import main, place
from treadle.store import address
from treadle.tasks.owner import HUMAN


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    added = actions.add_parser("add", help="Add a task")
    added.add_argument("goal", help="What should be true")
    added.add_argument("--id", help="Your own id, such as AUTH-012")
    added.add_argument("--ac", action="append", default=[], help="Acceptance criterion")
    added.add_argument(
        "--verify", action="append", default=[], metavar="AC1=CMD", help="Command of a criterion"
    )
    added.add_argument(
        "--depends-on", action="append", default=[], metavar="TASK", help="Wait for this task"
    )
    listed = actions.add_parser("list", help="List tasks in order")
    listed.add_argument("--lane", help="Only tasks in this lane")
    listed.add_argument("--ready", action="store_true", help="Only tasks that can be run now")
    _named(actions.add_parser("show", help="Show a task with its runs"))
    linked = _named(actions.add_parser("link", help="Make a task wait for others"))
    linked.add_argument(
        "--depends-on", action="append", required=True, metavar="TASK", help="Which"
    )
    linked.add_argument("--remove", action="store_true", help="Let it wait no longer")
    _acting(_named(actions.add_parser("claim", help="Take a task")))
    _holding(actions.add_parser("release", help="Give a task back"))
    moved = _holding(actions.add_parser("move", help="Move a task to another lane"))
    moved.add_argument("--to", required=True, metavar="LANE", help="The new lane")
    moved.add_argument("--reason", help="Why; needed to send work back")
    moved.add_argument("--force", action="store_true", help="Skip the rules; needs --reason")
    _holding(actions.add_parser("done", help="Finish a task"))
    kept = _holding(actions.add_parser("reserve", help="Keep files to a task for a while"))
    kept.add_argument("patterns", nargs="*", metavar="PATTERN", help="Such as src/auth/**")
    kept.add_argument("--minutes", type=float, default=60.0, metavar="N", help="For how long")
    kept.add_argument("--release", action="store_true", help="Let the task's files go")


def run(args: Namespace) -> int:
    """Load the whole store only for what needs it."""
    found = place.find(os.environ)
    if found.layout.mail.tasks.is_dir() and not address.exists(found.layout):
        main.load("task_act").find_again(found.layout)
    module = main.load("task_list" if args.action == "list" else "task_act")
    code: int = module.run(args, found)
    return code


def _named(parser: ArgumentParser) -> ArgumentParser:
    parser.add_argument("task", metavar="TASK", help="Id of the task")
    parser.add_argument("--mission", metavar="SLUG", help="The mission of a task such as WP01")
    return parser


def _acting(parser: ArgumentParser) -> ArgumentParser:
    default = os.environ.get("TREADLE_AGENT") or HUMAN
    parser.add_argument("--as", dest="who", default=default, metavar="AGENT", help="Who acts")
    return parser


def _holding(parser: ArgumentParser) -> ArgumentParser:
    parser.add_argument("--claim-id", metavar="ID", help="The claim under which to act")
    return _acting(_named(parser))
