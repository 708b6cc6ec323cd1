"""Try a message: one attempt, and as many as it may have until it passes, stops or has failed."""

import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from treadle import frontmatter, markdown
from treadle.config.schema import Config
from treadle.contract import Criterion
from treadle.engine import letters
from treadle.engine.elsewhere import fleet_run
from treadle.engine.run import begin as run_begin
from treadle.engine.run import order, outage, resume, step_folder
from treadle.engine.run.begin import Extras
from treadle.engine.run.order import MessageOrder, Order, Script
from treadle.engine.run.run import Run, Tools
from treadle.engine.run.step_folder import OUTBOX
from treadle.engine.wheel import loop
from treadle.errors import (
    BlockedError,
    FormatError,
    GitError,
    ProjectError,
    SpentError,
    TreadleError,
    edit,
)
from treadle.files import walk
from treadle.ids import utc
from treadle.inbox import box, decide, message, routine, spec_choice
from treadle.inbox.decide import new_row
from treadle.inbox.known import Action, Bury, Proceed, ReadyMessage, Try, Wait, Work
from treadle.inbox.message import FIELDS, place_in_name
from treadle.inbox.routine import custom_variables, require_ready
from treadle.inbox.specs import SpecWish
from treadle.layout import SCORECARD, STDERR, STDOUT
from treadle.proc import environment
from treadle.store.messages import MessageRow
from treadle.store.runs import RunRow
from treadle.tasks import questions

CONTEXT = "failure-context.md"
_WORDS = "note.md"
_TAIL = 4000
_NOTEBOOK = "from treadle.inbox.notebook import run; run()"


def begin(work: Work, job: ReadyMessage, asked: Order, context: str | None) -> Run:
    """Start a run for the message; BlockedError or GitError if it cannot begin."""
    files = {step_folder.MESSAGE_FILE: job.known.data}
    if context:
        files[CONTEXT] = context.encode()
    if job.words:
        files[_WORDS] = f"{job.words}\n".encode()
    if job.choice.transcript:
        files["router.txt"] = job.choice.transcript.encode()
    extras = Extras(files, job.known.said.notes, work.branch)
    return run_begin.begin_run(work.tools, asked, _below(work, job), extras)


def supersede(tools: Tools, row: MessageRow) -> None:
    """Close the stopped runs of a message that begins anew: nobody should go on with them."""
    for run in tools.store.message_runs(row.message_id, ""):
        if run.status != "stopped":
            continue
        try:
            fleet_run.bring_here(tools, run)
            taken = resume.take_over(tools, run)
            text = f"message {row.message_id} began anew"
            taken.end("failed", "superseded", text)
        except (BlockedError, FormatError) as error:
            tools.note(run.run_id, f"not closed: {error.message}")
        else:
            tools.store.release(taken.id, taken.row.claim_epoch)
            questions.settle(tools.store, taken.id, "superseded", tools.now())


def freeze(config: Config, job: ReadyMessage, context: str | None) -> Order:
    """Write down what is asked of the run; what the spec says of it comes before the settings."""
    asked, text = _message(job), job.text
    wish = job.spec.wish if job.spec else SpecWish()
    config = structs.replace(config, budgets=structs.replace(config.budgets, **wish.budgets))
    if job.choice.routine.kind != "builtin":
        return order.freeze_script(config, text=text, message=asked, script=_script(job))
    goal = markdown.title(text) or f"message {asked.id}"
    criteria = markdown.criteria(text) or (Criterion("AC1", goal),)
    words = order.with_note(f"{text}\n\n{context}" if context else text, job.words)
    found = order.freeze(
        config, text=words or goal, criteria=criteria, swaps=wish.agents, task_id=None
    )
    return structs.replace(found, message=asked)


def _message(job: ReadyMessage) -> MessageOrder:
    message, row, choice = job.known.message, job.known.row, job.choice
    return MessageOrder(
        id=row.message_id,
        chain=row.chain,
        seq=row.seq,
        type=message.type,
        routine=job.choice.routine.name,
        source=choice.source,
        reason=choice.reason,
        input_file=message.input_file,
        spec=job.spec_name,
        spec_digest=job.spec.digest if job.spec else None,
        spec_text=job.spec.source if job.spec and job.spec_name else None,
        digest=row.digest,
        parent=row.parent,
        depth=row.depth,
    )


def _script(job: ReadyMessage) -> Script:
    """Return how to execute a routine's file."""
    found = job.choice.routine
    argv = (*found.interpreter, str(found.path))
    if found.kind == "ipynb":
        argv = environment.python(_NOTEBOOK, str(found.path))
    fields = {**(job.spec.wish.own if job.spec else {}), **job.known.message.fields}
    own = custom_variables(found, fields)
    return Script(argv=argv, in_project=found.in_project, env=own)


def failure_context(tools: Tools, tries: Sequence[Try]) -> str:
    """Tell the next attempt how the ones before it failed."""
    parts = ["# What failed before"]
    for number, item in enumerate(tries, 1):
        parts.append(f"## Attempt {number}: run {item.run_id}\n\n{item.reason}")
        parts += _tails(tools, item.run_id)
    return "\n\n".join(parts) + "\n"


def _tails(tools: Tools, run_id: str) -> list[str]:
    steps = tools.store.steps(run_id)
    if not steps:
        return []
    folder = tools.layout.shared / steps[-1].step_dir
    found = []
    for name in (f"logs/{STDERR}", f"logs/{STDOUT}", SCORECARD):
        if text := walk.tail(folder / name, _TAIL).strip():
            found.append(f"{name} ends with:\n\n```\n{text}\n```")
    return found


def deliver(tools: Tools, parent: MessageRow, run: RunRow) -> Iterator[Path]:
    """Put what the run's steps left in their outboxes into the inbox; twice is as good as once."""
    sent = list(_sent(tools, run))
    chain = tools.store.chain_messages(parent.chain) if sent else []
    known = [row for row in chain if row.parent == parent.message_id]
    for path in sent:
        try:
            data = box.read(path)
            found = message.understand(data, None, lambda: parent.chain)
        except FormatError:
            # What cannot be read goes its own way through the inbox and becomes a dead letter.
            target = tools.layout.inbox / box.safe_name(path.name)
            if not target.exists():
                box.put(target, walk.read(path, max_bytes=walk.MAX_BYTES))
                yield target
            continue
        digest = hashlib.sha256(data).hexdigest()
        row = next((row for row in known if row.digest == digest), None)
        if row:
            known.remove(row)
        else:
            # Whatever chain it names: what follows from a message is limited with it.
            place = found.message.place._replace(chain=parent.chain)
            row = tools.store.add_message(new_row(place, digest, parent, utc(tools.now())))
        target = tools.layout.inbox / f"{row.message_id}.md"
        if row.status == "waiting":
            if not target.exists():
                fields = {"chain": row.chain, "seq": str(row.seq)}
                box.put(target, frontmatter.set_fields(data, fields, FIELDS))
            yield target


def dropped(tools: Tools, parent: MessageRow, before: set[str]) -> list[Path]:
    """Return the files of the running chain that appeared in the inbox meanwhile, oldest first."""
    new = [tools.layout.inbox / name for name in box.names(tools.layout) if name not in before]
    return [path for path in _by_age(new) if _carries(tools, path, parent.chain)]


def _by_age(paths: Iterable[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: (path.lstat().st_mtime_ns, path.name))


def _sent(tools: Tools, run: RunRow) -> Iterator[Path]:
    for step in tools.store.steps(run.run_id):
        folder = f"{tools.layout.shared}/{step.step_dir}/{OUTBOX}"
        paths = [Path(folder, name) for name in walk.names(folder) if box.is_candidate(name)]
        yield from _by_age(path for path in paths if not letters.is_letter(path))
    # A routine that names the inbox from where it stands means the one of its workspace.
    inbox = tools.layout.relative(tools.layout.inbox)
    folder = f"{tools.layout.run(run.run_id).workspace_link}/{tools.repo.prefix}{inbox}"
    yield from _by_age(Path(folder, name) for name in walk.names(folder) if box.is_candidate(name))


def _carries(tools: Tools, path: Path, chain: str) -> bool:
    named = place_in_name(path.name, tools.store.has_chain)
    try:
        found = message.understand(box.read(path), named, lambda: "")
    except (FormatError, OSError):
        return False
    return found.message.place.chain == chain


# Trouble of the machine or of its settings: it uses no attempt up.
_REFUSALS = (BlockedError, GitError, ProjectError, OSError)
_LATER_PAUSE = 6  # times the first pause
_LOOK = 0.1


class Tried(NamedTuple):
    """What follows from running a routine, and what lay in the inbox before."""

    action: Action
    before: set[str]
    is_tried: bool = False


def hook_environment(job: ReadyMessage) -> dict[str, str]:
    """Return what hooks are told of a message."""
    return {"message_id": job.known.row.message_id, "message_file": str(job.known.path)}


def try_out(work: Work, job: ReadyMessage, tries: Sequence[Try], action: Action) -> Tried:
    """Run the routine after its hook; nothing of the message or the user's branch is changed."""
    tools, before = work.tools, set(box.names(work.tools.layout))
    if reason := tools.interrupted():
        return Tried(Wait("interrupted", reason), before)
    try:
        routine.run_hook(tools, work.config, "beforeEach", hook_environment(job))
        require_ready(work.host, job.choice.routine)
        return Tried(_attempts(work, job, tries, action), before, is_tried=True)
    except SpentError as error:
        fix = f"{error.details['needed']} treadle process"
        return Tried(Wait("spent", error.message, fix=fix), before)
    except _REFUSALS as error:
        if isinstance(error, BlockedError) and error.code in (outage.DOWN, outage.UNREADY):
            return Tried(Wait("down", error.message, fix=error.fix[0]), before)
        return Tried(_held(work, job, error), before)
    except TreadleError as error:
        if error.code != "hook_failed":
            raise
        return Tried(Bury(error), before)


def _held(work: Work, job: ReadyMessage, error: TreadleError | OSError) -> Wait:
    """Say what keeps a message from being begun, and where its own text can mend that."""
    if isinstance(error, OSError):
        return Wait("held", str(error))
    if error.code != "nobody_checks":
        return Wait("held", str(error), look=tuple(error.fix))
    where = job.known.message.input_file or work.tools.layout.relative(job.known.path)
    bare = error.details["criteria"]
    text = (
        f"nobody can check {', '.join(bare if isinstance(bare, list) else ())}: in {where}, end its"
        " line under Acceptance Criteria with a command such as `$ make test`, or configure"
        " [agents.check]"
    )
    return Wait("held", text, look=(edit(where),))


def _attempts(work: Work, job: ReadyMessage, tries: Sequence[Try], action: Action) -> Action:
    """Run the routine until it passes, stops, or has failed as often as it may."""
    tools, row, most = work.tools, job.known.row, work.config.max_retries
    if isinstance(action, Proceed) and action.how == "land":  # maybe a worker did it elsewhere
        fleet_run.look(tools.layout, tools.store, work.run(action.run_id), tools.env)
    row = row._replace(status="waiting", reason=None)
    while isinstance(action, Proceed) and action.how != "land":
        if action.how == "resume":
            _go_on(work, row, work.run(action.run_id))
        else:
            _begin(work, job, tries)
        tries = decide.tries_of(tools.store, row)
        last = tries[-1]
        if last.state == "cut off" or (last.state == "stopped" and tools.interrupted()):
            return Wait("interrupted", last.reason)
        if last.state == "not begun":
            return Wait("held", last.reason)
        action = decide.follow(row, tries, most, job.choice.routine.name)
        if action == Proceed("run") and (reason := _pause(work, tries)):
            return Wait("interrupted", reason)
    return action


def _pause(work: Work, tries: Sequence[Try]) -> str | None:
    """Give what failed some time before the next attempt, unless a signal comes."""
    failed = sum(item.state == "failed" for item in tries)
    seconds = work.config.retry_wait * (1 if failed == 1 else _LATER_PAUSE)
    until = time.monotonic() + seconds
    if seconds:
        work.tell(f"attempt {failed} failed; the next one comes in {seconds:g} s")
    while (left := until - time.monotonic()) > 0 and not work.tools.interrupted():
        time.sleep(min(left, _LOOK))
    return work.tools.interrupted()


def _go_on(work: Work, row: MessageRow, last: RunRow) -> None:
    """Continue a run that a signal or a kill cut off."""
    fleet_run.bring_here(work.tools, last)
    run = resume.resume_run(work.tools, last, work.config, budgets={}, swaps={})
    box.close_questions(work.tools.store, row, [run.id], "resumed", work.tools.now())
    loop.drive_run(run)


def _begin(work: Work, job: ReadyMessage, tries: Sequence[Try]) -> None:
    """Run the routine once; the last attempt is told how the ones before it failed."""
    tools, row = work.tools, job.known.row
    failed = [item for item in tries if item.state == "failed"]
    is_last = len(failed) == work.config.max_retries - 1
    context = failure_context(tools, failed) if failed and is_last else None
    if row.after_run:
        supersede(tools, row)
    job = job._replace(words=questions.said_about(tools.store, box.subjects(row)))
    asked = freeze(work.config, job, context)
    if work.submit and job.choice.routine.kind == "builtin":
        work.submit(asked)
        box.close_questions(tools.store, row, (), "begun", tools.now())
        return
    outage.require(tools, asked.agents.values(), row.message_id)
    run = begin(work, job, asked, context)
    for earlier in tries:
        questions.settle(tools.store, earlier.run_id, "tried again", tools.now())
    if run.row.status == "running":  # only now nothing holds it any more
        box.close_questions(tools.store, row, (), "begun", tools.now())
    loop.drive_run(run)


def _below(work: Work, job: ReadyMessage) -> list[RunRow]:
    """Return the runs on whose work this one builds: what its spec names, else the one before."""
    if job.spec and job.spec.wish.depends_on:
        found = spec_choice.builds_on(work.view, job.spec)
    else:
        found = [work.below] if work.below and work.scope.parallel == 1 else []
    return [run for run in found if run.base_branch == work.branch]
