"""Look at runs and speak to them: `runs log why stop comment`."""

import json
import os
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from treadle.cli import main, output
from treadle.engine.run import comments, memory
from treadle.engine.run.comments import Comment
from treadle.engine.run.memory import RunMemory
from treadle.engine.show import compare, verdicts
from treadle.engine.show import view as show_view
from treadle.engine.show.ends import FailedCommand, failed_commands, failed_routine
from treadle.engine.show.verdicts import StepVerdict
from treadle.engine.show.view import (
    CriterionView,
    Explanation,
    explain,
    find_run,
    require_chain,
)
from treadle.errors import BlockedError, ExitCode, UsageError
from treadle.ids import age, local, short_run, utc
from treadle.layout import Layout
from treadle.project import find_place, here, refuse_inside_run
from treadle.store import address
from treadle.store.runs import Event, RunRow
from treadle.store.store import Reader, Store
from treadle.text import plural

_COST_HEADS = ["steps", "tokens in", "cached", "tokens out", "USD", "minutes"]
_PAUSE = 0.3
_CLOCK = "%H:%M:%S %Z"
_MOST = 1 << 40


def _layout() -> Layout:
    return find_place(here(), os.environ).layout


def list_runs(args: Namespace) -> int:
    layout = _layout()
    with Reader.open(layout) as store:
        rows = _rows(store, args)
        if not rows and layout.runs.exists() and not address.find(layout).exists():
            output.warn("the store is missing; rebuild it with: treadle doctor --repair")
        if args.json:
            output.print_json(show_view.runs_document(store, rows))
            return ExitCode.DONE
        landed = () if store.last_run_id() else main.call("setup.landed_elsewhere")
        storms = [storm.sentence for storm in memory.clashes(store, rows)]
        heads = ["run", "age", "status", "verdict", "iteration", "USD", "landed", "task", "goal"]
        table = [_line(store, row) for row in rows]
        total = len(_rows(store, args, whole=True)) if len(rows) == args.limit else len(rows)
    output.table(False, {}, heads, table, "no runs yet; treadle run --help shows how to start one")
    if landed:
        count = plural(len(landed), "run")
        output.line(f"{count} of another clone landed here: git log --grep=Treadle-Run")
    if total > len(rows):
        output.line(f"{len(rows)} of {total} runs; see all of them with --all")
    output.warn(*storms)
    return ExitCode.DONE


def _line(store: Reader, row: RunRow) -> tuple[object, ...]:
    known = memory.recall(store, row.run_id)
    cost = f"{known.spent.cost_usd:.2f}" if known.spent and known.spent.cost_usd else None
    return (
        short_run(row.run_id),
        age(row.created_at, store.now()),
        _word(row, known),
        f"{row.verdict}, refuted" if known.refuted else row.verdict,
        row.iteration,
        cost,
        _landed(row, known),
        row.task_id,
        f"{row.goal} by {known.trial.agent}" if known.trial else row.goal,
    )


def _word(row: RunRow, known: RunMemory) -> str:
    return "killed" if _abandoned(row) else memory.word(row, known)


def _landed(row: RunRow, known: RunMemory) -> str | None:
    if known.landed:
        return "undone" if known.undone else known.landed.commit[:9]
    is_closed = row.head_commit == row.base_commit or known.reason_code == memory.SUPERSEDED
    return "not yet" if row.status == "passed" and not is_closed else None


def _rows(store: Reader, args: Namespace, whole: bool = False) -> list[RunRow]:
    limit = _MOST if args.all or whole else max(args.limit, 0)
    before = find_run(store, args.before).run_id if args.before else None
    if args.chain is None:
        return store.runs(limit, before, args.status)
    require_chain(store, args.chain)
    rows = [
        row
        for row in store.chain_runs(args.chain)
        if args.status in (None, row.status) and (before is None or row.run_id < before)
    ]
    return rows[:limit]


def find_whole(layout: Layout, store: Reader, asked: str) -> RunRow:
    """Find a run, and bring what workers elsewhere did in it."""
    row = find_run(store, asked)
    if any(step.archive for step in store.steps(row.run_id)):
        main.call("run.bring_steps", layout, store, row)
    return row


def show_run(args: Namespace) -> int:
    layout = _layout()
    with Reader.open(layout) as store:
        row = find_whole(layout, store, args.run)
        told = show_view.run_document(layout, store, row)
        return output.tell(args.json, told, _print_run, layout, store, row)


def _print_run(layout: Layout, store: Reader, row: RunRow) -> None:
    steps = store.steps(row.run_id)
    views = show_view.criteria(layout, store, row)
    _print_head(row, memory.recall(store, row.run_id))
    if used := show_view.usage_words(store.usage(row.run_id)):
        output.line(f"used       {used}")
        output.line()
    output.print_table(
        ["criterion", "claimed", "observed", "text"],
        [(view.id, _yes(view.claimed), _observed(view), view.words) for view in views],
    )
    output.line()
    heads = ["step", "role", "status", "agent", "tier", "summary"]
    seen = verdicts.run_verdicts(layout, steps, store.checks(row.run_id))
    output.print_table(heads, map(_step, seen))


def _print_head(row: RunRow, known: RunMemory) -> None:
    stands = f"{_word(row, known)}, verdict {row.verdict or 'none yet'}"
    output.line(f"run        {row.run_id} ({stands})")
    output.line(f"goal       {row.goal}")
    if known.reason:
        output.line(f"because    {known.reason}")
    if told := known.protected_words:
        output.line(f"protected  {told}")
    if known.resume_at:
        output.line(f"goes on    {local(known.resume_at)} or later")
    output.line(f"branch     {row.branch} at {(row.head_commit or '')[:12]}")
    output.line(f"base       {(row.base_commit or '')[:12]} ({row.base_branch or 'detached'})")
    for word in known.landing_words:
        output.line(f"work       {word}")
    output.line(f"folder     {row.run_dir}")
    output.line()


def _step(found: StepVerdict) -> tuple[object, ...]:
    step = found.step
    return step.step_index, step.role, found.words, step.agent, step.sandbox_tier, step.summary


def _observed(view: CriterionView) -> str:
    return "no (refuted)" if view.is_refuted else _yes(view.observed)


def _yes(value: bool | None) -> str:
    return "–" if value is None else "yes" if value else "no"


def show_events(args: Namespace) -> int:
    with Reader.open(_layout()) as store:
        row = find_run(store, args.run)
        told = show_view.events_document(store, row.run_id, args.after)
        events = store.events(row.run_id, args.after)
    table = [(event.seq, local(event.ts), event.type, event.message) for event in events]
    heads = ["seq", "time", "type", "message"]
    return output.tell(args.json, told, output.print_table, heads, table)


def show_cost(args: Namespace) -> int:
    if not 1 <= args.days <= show_view.MAX_DAYS:
        raise UsageError(f"--days must be between 1 and {show_view.MAX_DAYS}")
    with Reader.open(_layout()) as store:
        found = show_view.cost_document(store, args.days, datetime.now(UTC))
    return output.tell(args.json, found, _print_cost, found)


def _print_cost(found: dict[str, object]) -> None:
    for name in ("agent", "model", "day"):
        rows = found[f"by_{name}"]
        assert isinstance(rows, list)
        cells = [[row.pop(name) or "unknown", *row.values()] for row in rows]
        output.print_table([name, *_COST_HEADS], cells)
        output.line()


def show_log(args: Namespace) -> int:
    """Print one line for each event; with --json, one document a line."""
    layout = _layout()
    with Reader.open(layout) as store:
        row = find_run(store, args.run)
        run_id = row.run_id
        if args.output:
            return _print_output(layout, store, row, args)
        seq = _print_after(store, run_id, 0, args.json)
        if args.follow:
            seq = _follow(store, layout, (run_id, seq), args.json)
        _print_after(store, run_id, seq, args.json)
        if not args.json:
            print_failed(failed_routine(layout, store, row))
    return ExitCode.DONE


def _print_output(layout: Layout, store: Reader, row: RunRow, args: Namespace) -> int:
    """Print what the programs of one step have printed."""
    row = find_whole(layout, store, row.run_id)
    step, found = show_view.step_output(layout, store, row, args.output)
    told = {"run_id": row.run_id, "step": step.step_index, "output": found}
    return output.tell(args.json, told, _print_files, found)


def _print_files(found: dict[str, str]) -> None:
    for name, text in found.items():
        output.line(output.paint(f"==> {name}", "bold"))
        output.block(text)
    if not found:
        output.line("nothing was printed")


def _follow(store: Reader, layout: Layout, start: tuple[str, int], as_json: bool) -> int:
    run_id, seq = start
    live = _live_lines(layout.run(run_id).live_events)
    with closing(address.find(layout).open_waker()) as waker:
        while _is_running(store, run_id):
            for line in next(live):
                _print_live(line, as_json)
            waker.wait(_PAUSE)
            seq = _print_after(store, run_id, seq, as_json)
    return seq


def _print_after(store: Reader, run_id: str, seq: int, as_json: bool) -> int:
    for event in store.events(run_id, seq):
        _print_event(event, as_json)
        seq = event.seq
    return seq


def _print_event(event: Event, as_json: bool) -> None:
    if as_json:
        output.print_json_line(event._asdict())
    else:
        kind = output.paint(f"{event.type:<21}", "dim")
        output.line(local(event.ts, _CLOCK), kind, event.message, flush=True)


def _is_running(store: Reader, run_id: str) -> bool:
    row = store.run(run_id)
    if row is None or row.status in ("passed", "failed"):
        return False
    if row.status == "running":
        gone = _abandoned(row)
        if gone:
            output.warn(gone.message, f"go on with: {gone.fix[0]}")
        return gone is None
    return memory.is_queued(row, memory.recall(store, run_id))


def _abandoned(row: RunRow) -> BlockedError | None:
    """Return what there is to say of a run that seems to work and that nobody drives any more."""
    if row.status != "running" or not main.call("run.is_abandoned", row):
        return None
    return BlockedError(
        f"run {row.run_id} is not running: the process that drove it is gone",
        code="not_running",
        fix=[f"treadle run --resume {row.run_id}"],
    )


def _live_lines(path: Path) -> Iterator[list[bytes]]:
    """Yield what the step that works now has said since the last time; it takes its file along."""
    stream: BinaryIO | None = None
    rest = b""
    try:
        while True:
            found: list[bytes] = []
            if stream:  # even if it was moved meanwhile
                *found, rest = (rest + stream.read()).split(b"\n")
            if newer := _newer(path, stream):
                stream = newer
                *begun, rest = stream.read().split(b"\n")
                found += begun
            yield found
    finally:
        if stream:
            stream.close()


def _newer(path: Path, stream: BinaryIO | None) -> BinaryIO | None:
    """Open the file of a step that began since; the step may end this very moment."""
    try:
        found = path.open("rb")
    except FileNotFoundError:
        return None
    if stream is None:
        return found
    is_same = os.path.sameopenfile(found.fileno(), stream.fileno())
    (found if is_same else stream).close()
    return None if is_same else found


def _print_live(line: bytes, as_json: bool) -> None:
    try:
        event = json.loads(line)
    except ValueError:
        return
    if not isinstance(event, dict):
        return
    if as_json:
        output.print_json_line(event)
        return
    kind = output.paint(f"agent {event.get('kind', ''):<15}", "dim")
    output.line(local(event.get("ts", ""), _CLOCK), kind, event.get("message"), flush=True)


def explain_run(args: Namespace) -> int:
    layout = _layout()
    with Reader.open(layout) as store:
        row = find_whole(layout, store, args.run)
        found = explain(layout, store, row)
        failed = failed_commands(layout, store, row)
    if gone := _abandoned(row):
        headline = found.headline.replace("is running", "was killed", 1)
        found = found._replace(
            headline=headline, reason=gone.message, reason_code=gone.code, next=gone.fix
        )
    told = found._asdict() | {
        "run_id": row.run_id,
        "status": row.status,
        "failing": [view._asdict() for view in found.failing],
        "commands": [item._asdict() for item in failed],
    }
    return output.tell(args.json, told, _print_why, found, failed)


def print_failed(found: Sequence[FailedCommand]) -> None:
    """Print the commands that a run failed with, their last words and where the rest is."""
    for item in found:
        output.line(f"  {item.name} failed: {item.command}")
        if item.note:
            output.line(f"    {item.note}")
        for words in item.lines:
            output.line(f"    | {words}")
        output.line(f"    log: {item.log}")


def _print_why(found: Explanation, failed: Sequence[FailedCommand]) -> None:
    output.line(output.paint(found.headline, "bold"))
    if found.reason:
        output.line(f"because: {found.reason}")
    for view in found.failing:
        seen = "observed to fail" if view.observed is False else "claimed to fail"
        seen = f"claimed to pass, refuted: {seen}" if view.is_refuted else seen
        output.line(f"  {view.id} {view.text}: {seen} ({view.evidence or 'no evidence'})")
    print_failed(failed)
    for line in found.events:
        output.line(f"  {line}")
    if found.protected:
        output.line(f"protected: {found.protected}")
    if found.usage:
        output.line(f"used: {found.usage}")
    for line in found.weather:
        output.line(f"conflicts: {line}")
    for path in found.look:
        output.line(f"look: {path}")
    for command in found.next:
        output.line(f"next: {command}")


def stop_run(args: Namespace) -> int:
    """Leave a request that the run's owner, or a command that waits, reads within a second."""
    refuse_inside_run(os.environ)
    layout = _layout()
    if args.run.startswith("wait-") and main.call("run.call_off_waiter", layout, args.run):
        nobody = {"run_id": None, "stop_requested": True, "called_off": True}
        return output.say(args.json, nobody, f"called {args.run} off; it waits no longer")
    with Store.open(layout) as store:
        row = find_run(store, args.run)
        reason = args.reason or "stopped by `treadle stop`"
        is_queued = memory.is_queued(row, memory.recall(store, row.run_id))
        told = {"run_id": row.run_id, "stop_requested": True, "called_off": is_queued}
        if is_queued and main.call("run.call_off", store, row, reason):
            said = f"took run {row.run_id} out of the queue; no worker had begun with it"
            return output.say(args.json, told, said)
        # A worker that took it this very moment finds the request below.
        if not is_queued and row.status != "running":
            raise BlockedError(
                f"run {row.run_id} is not running: it has {row.status}",
                code="not_running",
                fix=[f"treadle why {row.run_id}"],
            )
        if gone := _abandoned(row):
            raise gone
        store.request_stop(row.run_id, reason, store.now())
    said = f"asked run {row.run_id} to stop; its agent is ended and the step recorded"
    return output.say(args.json, told | {"called_off": False}, said)


def comment_on_step(args: Namespace) -> int:
    refuse_inside_run(os.environ)
    if not args.text.strip():
        raise UsageError("a comment must not be empty")
    layout = _layout()
    with Store.open(layout) as store:
        row = find_run(store, args.run)
        step = row.current_step_index if args.step is None else args.step
        said = Comment(utc(datetime.now(UTC)), step, args.text, args.file, args.line)
        comments.add(store, layout.run(row.run_id), row, said)
    who = "the next act step" if said.step_index else "every step"
    told = f"{who} of {row.run_id} will read it, on {said.place}"
    return output.say(args.json, {"run_id": row.run_id} | said._asdict(), told)


def compare_runs(args: Namespace) -> int:
    layout = _layout()
    with Reader.open(layout) as store:
        found = compare.document(layout, store, compare.find_tried(store, args.run))
    return output.tell(args.json, found, print_tries, found)


def print_tries(found: dict[str, object]) -> None:
    """Print what several agents made of the same, the best first."""
    heads, *rows = compare.table(found)
    output.print_table(heads, rows)
    for command in compare.next_commands(found):
        output.line(f"  next: {command}")
