"""Try a message once: one run of its routine."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import structs

from treadle.config.schema import Config
from treadle.contract.criterion import Criterion
from treadle.engine import loop, order, resume, routine, start
from treadle.engine.order import MessageOrder, Order, Script
from treadle.engine.run import Run, Tools
from treadle.engine.start import Extras
from treadle.files import walk
from treadle.inbox import variables
from treadle.inbox.register import Known
from treadle.inbox.routines import Routine
from treadle.inbox.select import Selected
from treadle.inbox.specs import Spec, path_of
from treadle.proc import own
from treadle.store.rows.run import RunRow
from treadle.tasks import markdown, questions

CONTEXT = "failure-context.md"
_TAIL = 4000
_NOTEBOOK = "from treadle.inbox.notebook import run; run()"


class Job(NamedTuple):
    """A message that is ready to be carried out."""

    known: Known
    spec: Spec | None
    selected: Selected

    @property
    def text(self) -> str:
        """Return what is to be done, in words."""
        return self.spec.text if self.spec else self.known.message.text


def begin(tools: Tools, config: Config, job: Job, below: RunRow | None, context: str | None) -> Run:
    """Start a run for the message; BlockedError or GitError if it cannot begin."""
    files = {routine.NAME: job.known.data}
    if context:
        files[CONTEXT] = context.encode()
    if job.selected.choice.transcript:
        files["router.txt"] = job.selected.choice.transcript.encode()
    extras = Extras(files, job.known.notes)
    return start.begin(tools, freeze(tools, config, job, context), below, extras)


def go_on(tools: Tools, config: Config, row: RunRow) -> RunRow:
    """Continue a run that a signal or a kill cut off."""
    run = resume.resume(tools, row, config, budgets={}, swaps={})
    questions.settle(tools.store, run.id, "resumed", tools.now())
    return loop.drive_run(run)


def freeze(tools: Tools, config: Config, job: Job, context: str | None) -> Order:
    """Write down what is asked of the run."""
    asked, text = _message(job), job.text
    if job.selected.routine.kind != "builtin":
        return routine.freeze(config, text=text, message=asked, script=_script(job))
    goal = markdown.title(text) or f"message {asked.id}"
    criteria = markdown.criteria(text) or (Criterion("AC1", goal),)
    words = f"{text}\n\n{context}" if context else text
    found = order.freeze(config, text=words or goal, criteria=criteria, swaps={}, task_id=None)
    return structs.replace(found, message=asked)


def _message(job: Job) -> MessageOrder:
    message, row, choice = job.known.message, job.known.row, job.selected.choice
    is_spec = job.spec is not None and message.input_file == path_of(job.spec.name)
    return MessageOrder(
        id=row.message_id,
        chain=row.chain,
        seq=row.seq,
        type=message.type,
        routine=job.selected.routine.name,
        source=choice.source,
        reason=choice.reason,
        input_file=message.input_file,
        spec=job.spec.name if job.spec and is_spec else None,
        spec_digest=job.spec.digest if job.spec else None,
        digest=row.digest,
        parent=row.parent,
        depth=row.depth,
    )


def _script(job: Job) -> Script:
    found = job.selected.routine
    return Script(
        argv=_argv(found),
        in_project=found.in_project,
        env=variables.custom(found, job.known.message.fields),
    )


def _argv(found: Routine) -> tuple[str, ...]:
    """Return how to execute a routine's file."""
    if found.kind == "ipynb":
        return own.python(_NOTEBOOK, str(found.path))
    return (*found.interpreter, str(found.path))


def failure_context(tools: Tools, rows: Sequence[RunRow]) -> str:
    """Tell the next attempt how the ones before it failed."""
    parts = ["# What failed before"]
    for number, row in enumerate(rows, 1):
        reason = tools.store.kv_value(row.run_id, "reason")
        parts.append(f"## Attempt {number}: run {row.run_id}\n\n{reason}")
        parts += _tails(tools, row)
    return "\n\n".join(parts) + "\n"


def _tails(tools: Tools, row: RunRow) -> list[str]:
    steps = tools.store.steps(row.run_id)
    if not steps:
        return []
    folder = tools.layout.root / steps[-1].step_dir
    found = []
    for name in ("logs/stderr.txt", "logs/stdout.txt", "scorecard.md"):
        if (folder / name).is_file():
            text = walk.read(folder / name, max_bytes=1 << 30)[-_TAIL:].decode(errors="replace")
            if text.strip():
                found.append(f"{name} ends with:\n\n```\n{text.strip()}\n```")
    return found
