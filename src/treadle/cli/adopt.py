"""`treadle adopt`: bring in what another system left here, and account for all of it."""

import os
from argparse import Namespace
from collections import Counter
from datetime import UTC, datetime

from treadle.cli import output
from treadle.cli.context import find_project
from treadle.engine import lock
from treadle.errors import BlockedError, ExitCode, argument
from treadle.moving import bring, systems
from treadle.moving.bring import Arrival
from treadle.project import refuse_inside_run, trust
from treadle.project.context import open_folder
from treadle.text import plural

_RESULTS = ("brought", "already", "in_place", "left", "failed")
_WORDS = {"already": "here already", "in_place": "used where it is"}


def adopt(args: Namespace) -> int:
    refuse_inside_run(os.environ)
    layout = find_project().layout
    if layout.shared != layout.root:
        raise BlockedError(
            f"{layout.root} is a linked work tree: what treadle keeps lies in {layout.shared}",
            code="linked_work_tree",
            fix=[f"cd {argument(str(layout.shared))} && treadle adopt"],
        )
    theirs: tuple[str, ...] = ()
    if args.dry_run:
        moved = bring.plan(layout, os.environ)
    else:
        with lock.hold(layout):
            coming = bring.sources(bring.plan(layout, os.environ))
            theirs = trust.withdraw(open_folder(layout, os.environ), coming)
            moved = bring.bring(layout, os.environ, datetime.now(UTC))
    lost = bring.unaccounted(layout, moved)
    told = {
        "dry_run": args.dry_run,
        "systems": {name: _counts(name, moved) for name in systems.found(layout)},
        "pieces": [_document(it) for it in moved],
        "unaccounted": lost,
        "untrusted": theirs,
    }
    output.tell(args.json, told, _print, args, moved, lost)
    if theirs and not args.json:
        output.line(
            f"others committed {', '.join(theirs)}; nothing runs here before: treadle trust"
        )
    is_failed = lost or any(it.result == "failed" for it in moved)
    return ExitCode.FAILED if is_failed else ExitCode.DONE


def _counts(system: str, moved: list[Arrival]) -> dict[str, dict[str, int]]:
    """Count what became of each kind of piece."""
    mine = [it for it in moved if it.piece.system == system]
    kinds = dict.fromkeys(it.piece.kind for it in mine)
    return {
        kind: dict(Counter(it.result for it in mine if it.piece.kind == kind)) for kind in kinds
    }


def _document(moved: Arrival) -> dict[str, object]:
    about = {name: getattr(moved.piece, name) for name in ("system", "source", "kind")}
    became = {"target": moved.target or None, "note": moved.note or None}
    return about | {"result": moved.result} | became


def _print(args: Namespace, moved: list[Arrival], lost: list[str]) -> None:
    for it in moved:
        if it.result == "brought":
            word = "would bring" if args.dry_run else "brought"
            note = f" ({it.note})" if it.note else ""
            output.line(f"{word} {it.piece.kind} {it.piece.source} as {it.target}{note}")
        elif it.result in ("left", "failed"):
            output.line(f"{it.result} {it.piece.kind} {it.piece.source}: {it.note}")
    for system in dict.fromkeys(it.piece.system for it in moved):
        count = Counter(it.result for it in moved if it.piece.system == system)
        parts = [f"{count[name]} {_WORDS.get(name, name)}" for name in _RESULTS if count[name]]
        whole = plural(count.total(), "piece")
        output.line(f"{system}: {whole}, {', '.join(parts)}")
    for name in lost:
        output.line(f"unaccounted for: {name}")
    if not moved:
        output.line("there is nothing here to adopt")
    elif args.dry_run:
        output.line("next: treadle adopt")
