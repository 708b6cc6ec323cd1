"""`treadle land`, `undo` and `runs prune`: what happens to a run's work after it has ended."""

from argparse import Namespace

from treadle.cli import output
from treadle.cli.project import open_configured, require_trust, watcher
from treadle.engine import session
from treadle.engine.landing import land
from treadle.engine.landing.land import Landed, Undone
from treadle.engine.prune import prune
from treadle.engine.show.view import find_run

_CENTURY = 36_500.0


def land_run(args: Namespace) -> int:
    project, _ = open_configured()
    require_trust(args, project)
    with session.opened(project, watch=watcher(args.json), wait=args.wait) as tools:
        row = find_run(tools.store, args.run)
        found = land.land(tools, row, onto=args.onto, keep_steps=args.keep_steps)
    told = {"run_id": found.run_id, "landed": found.commit, "branch": found.branch}
    return output.tell(args.json, told | {"merged": found.merged}, _print_landed, found)


def _print_landed(found: Landed) -> None:
    if found.commit is None:
        output.line(
            f"nothing to land: {found.branch} already has all changes of run {found.run_id}"
        )
        return
    how = ", merged with what came meanwhile" if found.merged else ""
    landed = output.paint("LANDED", "green")
    output.line(landed, f"{found.commit[:12]} on {found.branch}{how}")
    output.line(f"  next: git show {found.commit[:12]}")
    output.line(f"  next: treadle undo {found.run_id}")


def undo_run(args: Namespace) -> int:
    project, _ = open_configured()
    with session.opened(project, watch=watcher(args.json), wait=args.wait) as tools:
        found = land.undo(tools, find_run(tools.store, args.run))
    told = {"run_id": found.run_id, "undone": found.commit, "branch": found.branch}
    return output.tell(args.json, told | {"exact": found.exact}, _print_undone, found)


def _print_undone(found: Undone) -> None:
    if found.commit is None:
        output.line(f"nothing to undo: {found.branch} has nothing of run {found.run_id} any more")
        return
    same = "the tree is as it was before" if found.exact else "later changes stay"
    output.line(output.paint("UNDONE", "green"), f"{found.commit[:12]} on {found.branch}; {same}")
    output.line(f"  next: treadle land {found.run_id}")


def prune_runs(args: Namespace) -> int:
    """Remove the workspaces of runs that have ended, and with --history the runs themselves."""
    project, _ = open_configured()
    with session.opened(project, watch=watcher(args.json)) as tools:
        days = min(args.older_than, _CENTURY)
        found = prune(tools, older_than=days, history=args.history, dry_run=args.dry_run)
    verb = "would remove" if args.dry_run else "removed"
    lines = [
        *(f"{verb} the workspace of {run_id}" for run_id in found.workspaces),
        *(f"{verb} run {run_id} with its branch" for run_id in found.runs),
        *(f"{verb} {name}, which no step needs" for name in found.archives),
    ]
    told = {**found._asdict(), "dry_run": args.dry_run}
    return output.say(args.json, told, *lines or ["nothing to remove"])
