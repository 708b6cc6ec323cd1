"""Offer passed runs as pull requests and see how these stand: `pr`, `run --note @ci`."""

from argparse import Namespace
from collections.abc import Sequence

from treadle.cli import output
from treadle.cli.run import open_configured, working
from treadle.engine import pull_request
from treadle.engine.landing.forge import PullState
from treadle.engine.landing.several import Left
from treadle.engine.pull_request import Proposed
from treadle.engine.run.run import Tools
from treadle.engine.show import compare
from treadle.engine.show.view import find_run
from treadle.errors import BlockedError, ExitCode, GitError, UsageError
from treadle.store.runs import RunRow
from treadle.store.store import Reader

_COLOURS: dict[str, output.Colour] = {"green": "green", "red": "red", "pending": "yellow"}


def pull_requests(args: Namespace) -> int:
    if args.words[:1] == ["status"] and not args.all:
        return _show_status(args, args.words[1:])
    if bool(args.words) == args.all:
        fix = ["treadle pr --all", "treadle pr status", "treadle runs list --status passed"]
        raise UsageError("name the runs to offer, or give --all", fix=fix)
    with working(args, asks_agents=False) as (tools, _):
        rows = [compare.landing_run(tools.store, word) for word in args.words]
        made, left = _propose(tools, args, rows or pull_request.waiting(tools.store))
    if left and len(args.words) == 1:
        raise left[0].error
    return _tell(args, made, left)


def _propose(
    tools: Tools, args: Namespace, rows: Sequence[RunRow]
) -> tuple[list[Proposed], list[Left]]:
    """Offer these runs; what is refused stands in nobody's way."""
    made: list[Proposed] = []
    left: list[Left] = []
    for row in rows:
        try:
            made.append(pull_request.propose(tools, row, args.base, args.draft or None))
        except (BlockedError, GitError) as error:
            left.append(Left(row, error))
    return made, left


def _tell(args: Namespace, made: Sequence[Proposed], left: Sequence[Left]) -> int:
    told = {"pull_requests": [item._asdict() for item in made], "left": _refused(left)}
    output.tell(args.json, told, _print, made, left)
    return ExitCode.BLOCKED if left else ExitCode.DONE


def _refused(left: Sequence[Left]) -> list[dict[str, object]]:
    return [
        {"run_id": row.run_id, "code": error.code, "message": error.message, "fix": [*error.fix]}
        | error.details
        for row, error in left
    ]


def _print(made: Sequence[Proposed], left: Sequence[Left]) -> None:
    if not made and not left:
        output.line("nothing waits for a pull request: every passed run has landed, or has one")
    for found in made:
        word = "OPENED" if found.is_new else "UPDATED"
        output.line(output.paint(word, "green"), f"{found.url} ({found.branch} into {found.base})")
        output.line(f"  next: treadle pr status {found.run_id}")
    _print_left(left)


def _print_left(left: Sequence[Left]) -> None:
    for row, error in left:
        output.line(output.paint("LEFT", "red"), f"{row.run_id} {row.goal}: {error.message}")
        for command in error.fix:
            output.line(f"  next: {command}")


def _show_status(args: Namespace, words: Sequence[str]) -> int:
    project, _ = open_configured(inside_run=True)
    with Reader.open(project.layout) as store:
        rows = [find_run(store, word) for word in words] or pull_request.proposed(store)
        found, left = list[tuple[RunRow, PullState]](), list[Left]()
        for row in rows:
            try:
                found.append((row, pull_request.look(project, store, row)))
            except BlockedError as error:  # one that cannot be read hides no other
                left.append(Left(row, error))
    if left and not found:
        raise left[0].error
    told = [_state(row, state) for row, state in found]
    output.tell(
        args.json, {"pull_requests": told, "left": _refused(left)}, _print_states, found, left
    )
    is_red = any(state.colour == "red" and state.state == "open" for _, state in found)
    return ExitCode.FAILED if is_red else ExitCode.BLOCKED if left else ExitCode.DONE


def _state(row: RunRow, state: PullState) -> dict[str, object]:
    checks = [check._asdict() for check in state.checks]
    told = {"run_id": row.run_id, **state._asdict(), "colour": state.colour, "checks": checks}
    return told | {"next": _next(row, state)}


def _next(row: RunRow, state: PullState) -> str | None:
    is_red = state.state == "open" and state.colour == "red"
    return f"treadle run --resume {row.run_id} --note @ci" if is_red else None


def _print_states(found: Sequence[tuple[RunRow, PullState]], left: Sequence[Left]) -> None:
    if not found:
        output.line("no run has a pull request; treadle pr --all offers what passed")
    for row, state in found:
        colour = output.paint(state.colour, _COLOURS.get(state.colour, "dim"))
        more = ", ".join(filter(None, ("draft" if state.draft else "", state.review)))
        output.line(f"{state.url} {state.state}{f' ({more})' if more else ''}, checks:", colour)
        for check in (it for it in state.checks if it.colour != "green"):
            output.line(f"  {check.name}: {check.state} {check.url}")
        if command := _next(row, state):
            output.line(f"  next: {command}")
    _print_left(left)


def send_back(tools: Tools, text: str) -> str:
    """Let a run go on whose checks are red elsewhere; return what its agents should know."""
    return pull_request.send_back(tools, find_run(tools.store, text))
