"""What to do now: `next`."""

import os
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from treadle.cli import main, output
from treadle.errors import TreadleError, UsageError, argument
from treadle.ids import HUMAN, acting_agent
from treadle.layout import Layout
from treadle.missions import mission as missions
from treadle.missions import state, taskfile
from treadle.missions.mission import Mission
from treadle.missions.next import decide, query, unchosen
from treadle.missions.state import Decision, MissionReader, NextStep, State
from treadle.project import Place, find_place, here
from treadle.store.questions import WorkReader


@contextmanager
def reading(layout: Layout, known: Sequence[Mission]) -> Iterator[MissionReader]:
    """Open the store once it knows these missions by the names of their folders."""
    with MissionReader.open(layout) as store:
        news = [mission for mission in known if taskfile.is_news(store, mission, layout.mail)]
        if not news:
            yield store
            return
    main.call("report.catch_up", layout, news)
    with MissionReader.open(layout) as store:  # there may have been none
        yield store


def next_step(args: Namespace) -> int:
    """Answer with one decision; every decision is a success."""
    if sum((args.result is not None, args.retry, args.query)) > 1:
        raise UsageError("give only one of --result, --retry and --query")
    if args.result is None and args.note is not None:
        raise UsageError("--note belongs to --result")
    if args.result is None and not args.retry and args.step is not None:
        raise UsageError("--step belongs to --result or --retry")
    if args.task is not None and args.result != "failed":
        raise UsageError("--task belongs to --result failed --step accept")
    if args.no_change and not (args.result == "success" and args.note):
        raise UsageError("--no-change belongs to --result success, with a --note that says why")
    if args.worktree and args.query:
        raise UsageError("--query hands nothing out; leave out --worktree")
    found = _decide(args, find_place(here(), os.environ))
    return output.tell(args.json, state.document(found), _print_decision, found)


def _decide(args: Namespace, found: Place) -> Decision:
    """Only say what to do now, if that is all that is asked; what changes something loads more."""
    said = os.environ.get("TREADLE_AGENT") or None if args.agent is None else args.agent
    agent = HUMAN if said is None else acting_agent(said)
    try:
        mission = missions.choose(found.layout, args.mission, here())
    except TreadleError as error:
        if args.result is not None or args.retry:  # nobody may believe that it was taken
            raise
        return unchosen(error, agent)
    if args.worktree and agent == HUMAN:
        again = f"treadle next --json --mission {mission.slug} --agent me --worktree"
        raise UsageError("a worktree belongs to an agent: say which with --agent", fix=[again])
    is_told = args.retry or args.result is not None
    if not args.query and (is_told or not (agent == HUMAN or os.environ.get("TREADLE_RUN"))):
        told: Decision = main.call("report.decide", args, found, mission, agent)
        return told
    with reading(found.layout, [mission]) as store:
        take_in(found, store)
        stands = state.read(found.layout, store, mission, store.now(), agent)
        return query(stands) if args.query else placed(args, stands, store, decide(stands, store))


def placed(args: Namespace, stands: State, store: WorkReader, told: Decision) -> Decision:
    """Let a task be worked on in a worktree of its own, if that is asked for or was before."""
    has_trees = stands.layout.worktrees.is_dir()
    if told.kind == "complete" and args.result and has_trees:
        main.call("mission.tidy", stands, store)
    if isinstance(told, NextStep) and (args.worktree or has_trees):
        placed: Decision = main.call("mission.hand_out", args.worktree, stands, store, told)
        return placed
    return told


def take_in(found: Place, store: WorkReader) -> None:
    """See what other programs wrote into the files of tasks, like the commands about tasks do."""
    if store.unseen_tasks(found.layout.mail.tasks):
        main.call("task.take_in_files", found)


def _print_decision(found: Decision) -> None:
    where = found.where
    if where != state.NOWHERE:
        output.line(f"{where.mission_slug}: {where.phase} {where.task_id or ''}".rstrip())
    if isinstance(found, NextStep):
        output.line(f"  {found.prompt_file}")
        if found.workspace:
            output.line(f"  cd {argument(str(found.workspace))}")
        return
    output.line(f"  {found.kind}: {found.reason}")
    for command in found.unblock:
        output.line(f"  try: {command}")
