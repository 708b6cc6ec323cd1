"""Decide what is next for a spec: to begin, to go on, or to wait, and for whom."""

import contextlib
from collections.abc import Mapping
from typing import Literal, NamedTuple

from treadle import frontmatter
from treadle.config import agents
from treadle.config.schema import Config
from treadle.engine.run import memory
from treadle.errors import ConfigError, NotFoundError, argument, edit
from treadle.inbox import box, decide, specs
from treadle.inbox.known import OPEN, InboxView, Try
from treadle.inbox.message import FIELDS
from treadle.inbox.specs import Glance, Spec
from treadle.store.messages import MessageRow
from treadle.store.runs import RunRow
from treadle.store.store import Reader

SpecNext = Literal["leave", "wait", "begin", "anew", "go on"]
SpecState = Literal[
    "done", "waiting", "running", "queued", "stopped", "held", "refused", "dead", "dropped",
    "undone", "empty", "unmerged",
]  # fmt: skip
_RUN_STATES: Mapping[str, SpecState] = {
    "running": "running",
    "queued": "queued",
    "stopped": "stopped",
    "refused": "refused",
}


class SpecChoice(NamedTuple):
    """What is next for an unprocessed spec and why, its newest message, what it says.

    `fix` is the command that goes on; with `asks` a human must decide.
    """

    next: SpecNext
    state: SpecState
    row: MessageRow | None
    seen: Glance
    fix: str
    reason: str = ""
    run_id: str | None = None
    asks: bool = False


def decide_spec(view: InboxView, name: str) -> SpecChoice:
    """Say whether a spec gets a message, goes on with the one it has, or waits and for whom."""
    row, seen = view.store.spec_message(name), specs.glance(view.layout, name)
    last = row.run_ids[-1] if row and row.run_ids else None
    found = SpecChoice("begin", "waiting", row, seen, f"treadle process {argument(name)}", "", last)
    again = found._replace(next="leave", fix=f"treadle spec retry {argument(name)}")
    if row and row.status == "dropped":
        return again._replace(state="dropped", reason="it was dropped")
    if row and row.status == "done":
        if last and memory.recall(view.store, last).undone:
            return again._replace(state="undone", reason=f"run {last} was undone")
        if branch := unmerged_branch(view.store, last):
            found = found._replace(reason=f"its work is on the branch {branch}")
            fix = _merging(view, last or "", branch, name)
            return found._replace(next="leave", state="unmerged", fix=fix)
        if (view.layout.inbox / f"{row.message_id}.md").exists():  # a kill came before its line
            return found._replace(next="go on")
        return _not_begun(view, name, found._replace(row=None, run_id=None))
    tries = decide.tries_of(view.store, row) if row else ()
    is_edited = row is not None and row.spec_digest != seen.digest
    if row and is_edited and not (tries and tries[-1].state in ("passed", "refused", "running")):
        is_begun = tries or row.status in ("dead", "held")
        return _not_begun(view, name, found._replace(next="anew" if is_begun else "go on"))
    if row and row.status == "dead":
        return again._replace(state="dead", reason=_dead_reason(view, row))
    if row and tries:
        return _begun(view, found, row, tries[-1])
    if row and row.status == "held":
        found = _held(view, found, row)
    return _not_begun(view, name, found._replace(next="go on" if row else "begin"))


def _merging(view: InboxView, run_id: str, branch: str, name: str) -> str:
    """Return what brings the work of a run from a branch of its own to where the run began."""
    run, known = view.store.run(run_id), memory.recall(view.store, run_id)
    if known.pull:
        return f"treadle pr status {run_id}"
    if run is None or not run.base_branch or not known.aside(run):
        aside = f"git stash push -u -- {argument(specs.path_of(name))}"  # git may not overwrite it
        return f"{aside} && git merge {argument(branch)}"
    is_closed = view.config.land.is_protected(run.base_branch or "")
    return f"treadle {'pr' if is_closed else 'land'} {run_id}"


def unmerged_branch(store: Reader, run_id: str | None) -> str | None:
    """Return the branch of its own that a run landed on, with its spec's line in the list there."""
    run = store.run(run_id) if run_id else None
    landed = memory.recall(store, run.run_id).landed if run else None
    return landed.branch if run and landed and landed.branch != run.base_branch else None


def _begun(view: InboxView, found: SpecChoice, row: MessageRow, last: Try) -> SpecChoice:
    """Say where a spec stands whose last run is this one."""
    run = view.store.run(last.run_id)
    state = _RUN_STATES.get(last.state, "held" if row.status == "held" else "waiting")
    found = found._replace(next="go on", state=state, run_id=last.run_id, reason=last.reason)
    if state in ("waiting", "held") or run is None:
        found = found._replace(reason=row.reason or "")
        return _held(view, found, row) if state == "held" else found
    asked = look_at_question(view, last.run_id)
    if state == "refused":
        fix = asked or f"treadle land {last.run_id}"
        return found._replace(fix=fix, reason=row.reason or last.reason)
    if asked and state == "stopped":
        return found._replace(fix=asked)
    return found._replace(fix=memory.next_commands(run, memory.recall(view.store, run.run_id))[0])


def _held(view: InboxView, found: SpecChoice, row: MessageRow) -> SpecChoice:
    """Send whoever asks about a held spec to the desk: there stands what mends it."""
    fix = look_at_question(view, row.spec or "") or found.fix
    return found._replace(state="held", reason=row.reason or "", fix=fix)


def look_at_question(view: InboxView, about: str) -> str | None:
    """Return the command that shows what a run or a spec asks a person, if it asks something."""
    asked = [it for it in view.store.questions() if about in (it.run_id, it.subject_id)]
    return f"treadle desk show {asked[-1].question_id}" if asked else None


def _dead_reason(view: InboxView, row: MessageRow) -> str:
    with contextlib.suppress(NotFoundError):
        return str(box.find_dead(view.layout, row.message_id).reason.get("message"))
    return f"it is a dead letter ({row.reason})"


def _not_begun(view: InboxView, name: str, found: SpecChoice) -> SpecChoice:
    """Say what keeps a spec from being begun, if anything does."""
    wish = found.seen.wish
    known = specs.names(view.layout) if wish.depends_on else ()
    if found.seen.is_empty:
        text = f"it has no text yet; write into {specs.path_of(name)} what should be done"
        drop = f"treadle spec drop {argument(name)}"
        return found._replace(next="leave", state="empty", reason=text, fix=drop)
    problem = found.seen.problem or _unknown_agent(view.config, wish)
    mend = edit(specs.path_of(name))
    if not problem and (circle := specs.find_circle(view.layout, known, name)):
        problem = f"depends_on goes in a circle: {' → '.join(circle)}"
    if problem:
        return found._replace(next="leave", state="held", reason=problem, fix=mend, asks=True)
    for word in wish.depends_on:
        try:
            other = specs.match({*known, *view.processed}, word)
        except NotFoundError as error:
            text = f"depends_on: {error.message}"
            return found._replace(next="leave", state="held", reason=text, fix=mend, asks=True)
        found = _depending(view, found, other)
        if found.next in ("leave", "wait"):
            break
    return found


def _unknown_agent(config: Config, wish: specs.SpecWish) -> str | None:
    try:
        for role in wish.agents:
            agents.resolve(config, role, wish.agents)
    except ConfigError as error:
        return f"agents: {error.message.removeprefix('--agent ')}"
    return None


def _depending(view: InboxView, found: SpecChoice, other: str) -> SpecChoice:
    """Say what becomes of a spec that depends on another one."""
    if other in view.processed:
        return found
    choice = decide_spec(view, other)
    if choice.state in ("refused", "unmerged"):
        return found
    if choice.state in ("dropped", "undone"):
        text = f"it depends on {other}, which was {choice.state}"
        return found._replace(next="leave", state="held", reason=text, fix=choice.fix, asks=True)
    text = f"it waits for {other} ({choice.state})"
    return found._replace(next="wait", state="waiting", reason=text, fix=choice.fix)


def builds_on(view: InboxView, spec: Spec) -> list[RunRow]:
    """Return the unlanded runs of what a spec depends on."""
    known, found = {*specs.names(view.layout), *view.processed}, list[RunRow]()
    for word in spec.wish.depends_on:
        name = specs.match(known, word)
        row = view.store.spec_message(name)
        run = view.store.run(row.run_ids[-1]) if row and row.run_ids else None
        is_open = name not in view.processed or (run and memory.may_land(view.store, run))
        if run and run.status == "passed" and run.branch and is_open:
            found.append(run)
    return found


def is_postponed(view: InboxView, name: str) -> bool:
    """Tell whether a message in the inbox is one of a spec that may not be begun now."""
    row = view.store.message(name.removesuffix(".md")) if name.isascii() else None  # as ids are
    if row is None or row.spec is None or row.status not in OPEN:
        return False
    if row.spec not in specs.names(view.layout) or row.spec in view.processed:
        return False
    return decide_spec(view, row.spec).next in ("leave", "wait", "anew")


def spec_message(row: MessageRow | None, name: str, wanted: str | None) -> bytes:
    """Return the message that asks for a spec."""
    place = {"id": row.message_id, "chain": row.chain, "seq": str(row.seq)} if row else {}
    fields = {**place, "type": "spec", "input_file": specs.path_of(name)}
    return frontmatter.set_fields(b"", fields | ({"routine": wanted} if wanted else {}), FIELDS)
