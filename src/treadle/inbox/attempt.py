"""Try a message once: one run of its routine, and what that run sent."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import structs

from treadle import frontmatter, markdown
from treadle.config.schema import Config
from treadle.contract import Criterion
from treadle.engine import letters
from treadle.engine.elsewhere import fleet_run
from treadle.engine.run import begin as run_begin
from treadle.engine.run import order, resume, step_folder
from treadle.engine.run.begin import Extras
from treadle.engine.run.order import MessageOrder, Order, Script
from treadle.engine.run.run import Run, Tools
from treadle.engine.run.step_folder import OUTBOX
from treadle.engine.wheel import loop
from treadle.errors import FormatError
from treadle.files import walk
from treadle.ids import utc
from treadle.inbox import box, message
from treadle.inbox.decide import ReadyMessage, Try, new_row
from treadle.inbox.message import FIELDS, place_in_name
from treadle.inbox.routine import custom_variables
from treadle.layout import SCORECARD, STDERR, STDOUT
from treadle.proc import environment
from treadle.store.messages import MessageRow
from treadle.store.runs import RunRow
from treadle.tasks import questions

CONTEXT = "failure-context.md"
_TAIL = 4000
_NOTEBOOK = "from treadle.inbox.notebook import run; run()"


def begin(
    tools: Tools, config: Config, job: ReadyMessage, below: RunRow | None, context: str | None
) -> Run:
    """Start a run for the message; BlockedError or GitError if it cannot begin."""
    files = {step_folder.MESSAGE_FILE: job.known.data}
    if context:
        files[CONTEXT] = context.encode()
    if job.choice.transcript:
        files["router.txt"] = job.choice.transcript.encode()
    extras = Extras(files, job.known.said.notes)
    return run_begin.begin_run(tools, freeze(config, job, context), below, extras)


def go_on(tools: Tools, config: Config, row: RunRow) -> RunRow:
    """Continue a run that a signal or a kill cut off."""
    fleet_run.bring_here(tools, row)
    run = resume.resume_run(tools, row, config, budgets={}, swaps={})
    questions.settle(tools.store, run.id, "resumed", tools.now())
    return loop.drive_run(run)


def freeze(config: Config, job: ReadyMessage, context: str | None) -> Order:
    """Write down what is asked of the run."""
    asked, text = _message(job), job.text
    if job.choice.routine.kind != "builtin":
        return order.freeze_script(config, text=text, message=asked, script=_script(job))
    goal = markdown.title(text) or f"message {asked.id}"
    criteria = markdown.criteria(text) or (Criterion("AC1", goal),)
    words = f"{text}\n\n{context}" if context else text
    found = order.freeze(config, text=words or goal, criteria=criteria, swaps={}, task_id=None)
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
    own = custom_variables(found, job.known.message.fields)
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
    folder = tools.layout.root / steps[-1].step_dir
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
        folder = f"{tools.layout.root}/{step.step_dir}/{OUTBOX}"
        paths = [Path(folder, name) for name in walk.names(folder) if box.is_candidate(name)]
        yield from _by_age(path for path in paths if not letters.is_letter(path))


def _carries(tools: Tools, path: Path, chain: str) -> bool:
    named = place_in_name(path.name, tools.store.has_chain)
    try:
        found = message.understand(box.read(path), named, lambda: "")
    except (FormatError, OSError):
        return False
    return found.message.place.chain == chain
