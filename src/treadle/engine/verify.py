"""Accepted work stays true: run the criteria of everything that landed where HEAD stands now."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import structs

from treadle import frontmatter, layout, markdown
from treadle.config.schema import Config
from treadle.contract import Criterion
from treadle.contract.messages import AskedCriterion, Observed
from treadle.engine.checks import looks
from treadle.engine.checks.observe import Bench
from treadle.engine.run import begin, confinement, memory, order, run_files
from treadle.engine.run.run import Run, Tools, reach
from treadle.engine.show import view
from treadle.errors import BlockedError, FormatError, InterruptedRun, argument, stop_code
from treadle.files import beneath, walk
from treadle.git import refs, repo
from treadle.git.repo import Head
from treadle.layout import RunLayout
from treadle.project.context import landed_runs
from treadle.store.questions import LEAVE, Action, QuestionRow, Subject
from treadle.store.runs import RunRow
from treadle.store.tasks import TaskRow
from treadle.tasks import questions, task
from treadle.tasks.questions import Question

State = Literal["green", "red", "cannot run"]
_MATTER = "verify"
_MAX_SPEC = 8 << 20


class Accepted(NamedTuple):
    """Work that landed: the name of its task or spec, and the criteria that have a command."""

    name: str
    row: RunRow
    criteria: tuple[AskedCriterion, ...]


class SeenNow(NamedTuple):
    """What one criterion's command shows today; `log` is the full path of its output."""

    id: str
    command: str
    state: State
    log: str
    note: str | None = None


class Verified(NamedTuple):
    """How accepted work stands today."""

    name: str
    run_id: str
    goal: str
    seen: tuple[SeenNow, ...]
    task_id: str | None = None  # the task that was made of it

    @property
    def state(self) -> State:
        """Return the worst of what was seen."""
        states = {item.state for item in self.seen}
        return "red" if "red" in states else "cannot run" if "cannot run" in states else "green"


def accepted(tools: Tools, names: Sequence[str] = ()) -> list[Accepted]:
    """Return what landed and is in HEAD, or what is named of it; the newest run of each counts."""
    head, found = repo.head(tools.repo).commit or "", dict[str, Accepted]()
    for run_id in sorted(tools.store.runs_with_key("landed")):
        row, landed = tools.store.run(run_id), memory.recall(tools.store, run_id).landed_commit
        if row and landed and refs.contains(tools.repo, head, landed):
            item = _accepted(tools, row)
            found[item.name] = item
    for run_id, spec in landed_runs(tools.project).items():
        if spec and spec not in found and tools.store.run(run_id) is None:
            found.update((item.name, item) for item in _from_spec(tools, run_id, spec))
    if not names:
        return list(found.values())
    by_run = {item.row.run_id: item for item in found.values()}
    return [found.get(name) or _named(tools, name, by_run) for name in names]


def _accepted(tools: Tools, row: RunRow) -> Accepted:
    try:
        asked = run_files.read_run(tools.layout.run(row.run_id).run_json).order
    except FormatError:  # its folder is gone or elsewhere
        return Accepted(row.task_id or row.run_id, row, ())
    spec = asked.message.spec if asked.message else None
    return Accepted(row.task_id or spec or row.run_id, row, asked.commands)


def _from_spec(tools: Tools, run_id: str, spec: str) -> Iterator[Accepted]:
    """Yield a spec that landed in another clone, whose run is not known here."""
    with contextlib.suppress(FormatError, UnicodeDecodeError):
        data = walk.read(tools.layout.specs / spec, max_bytes=_MAX_SPEC)
        text = frontmatter.read(data)[1].decode()
        criteria = markdown.criteria(text)
        asked = order.freeze(tools.today, text=text, criteria=criteria, swaps={}, task_id=None)
        head = repo.head(tools.repo)
        row = begin.new_row(tools.layout, tools.store.last_run_id(), asked, tools.now(), head)
        yield Accepted(spec, row._replace(run_id=run_id), asked.commands)


def _named(tools: Tools, name: str, by_run: dict[str, Accepted]) -> Accepted:
    row = view.find_run(tools.store, name)
    if row.run_id in by_run:
        return by_run[row.run_id]
    text = f"{name} has not landed on the commit that is checked out (run {row.run_id})"
    fix = f"treadle land {row.run_id}" if row.status == "passed" else f"treadle why {row.run_id}"
    raise BlockedError(text, code="not_landed", fix=[fix])


def verify(
    tools: Tools, config: Config, found: Sequence[Accepted], *, makes_tasks: bool = False
) -> list[Verified]:
    """Run every command once on HEAD in a checkout of its own; what is red goes to the desk."""
    texts = [str(criterion.verify) for item in found for criterion in item.criteria]
    results = see(tools, config, texts, repo.head(tools.repo), tools.layout.verify)
    told = [
        Verified(item.name, item.row.run_id, item.row.goal, tuple(_seen(item, results)))
        for item in found
        if item.criteria
    ]
    return [_tell_desk(tools, item, makes_tasks) for item in told]


def see(
    tools: Tools, config: Config, texts: Iterable[str], head: Head, folder: Path
) -> dict[str, SeenNow]:
    """Run every command once on a commit in a checkout of its own; its output stays in `folder`."""
    ids = {text: f"{number:03d}" for number, text in enumerate(dict.fromkeys(texts), 1)}
    if not ids:
        return {}
    run = _scratch_run(tools, config, ids, head, folder)
    return _observe(run, {number: text for text, number in ids.items()})


def _scratch_run(
    tools: Tools, config: Config, ids: dict[str, str], head: Head, folder: Path
) -> Run:
    """Return a run that no store knows, with a place of its own; nothing of an earlier is left."""
    asked = order.freeze(config, text="verify", criteria=(), swaps={}, task_id=None)
    criteria = tuple(AskedCriterion(id=ids[text], text=text, verify=text) for text in ids)
    checks = structs.replace(asked.checks, place="clean")
    asked = structs.replace(asked, criteria=criteria, checks=checks)
    row = begin.new_row(tools.layout, tools.store.last_run_id(), asked, tools.now(), head)
    run = begin.open_run(tools, asked, row)
    run.folder = RunLayout(folder)
    path = run.workspace.path.with_name(folder.name)
    run.workspace = replace(run.workspace, path=path, index=run.folder.index)
    beneath.remove_tree(run.folder.folder)
    _clear(run)
    run.folder.live.mkdir(parents=True)
    return confinement.confine(run)


def _clear(run: Run) -> None:
    clean = layout.clean_of(run.workspace.path)
    beside = (layout.scratch_of(clean), layout.own_caches_of(clean))
    for place in (clean, *beside, confinement.scratch(run)):
        beneath.remove_tree(place)


def _observe(run: Run, commands: dict[str, str]) -> dict[str, SeenNow]:
    """Return what each command shows, by its text."""
    bench, logs = Bench(run, run.head), run.folder.live
    seen, stopped = bench.observe(logs)
    reach("verify_observed")
    place = run.inside(layout.clean_of(run.workspace.path))
    found = {
        commands[item.id]: _judged(item, looks.why_broken(item, logs / f"{item.id}.txt", place))
        for item in seen
    }
    if bench.failed:
        found = {text: item._replace(state="cannot run") for text, item in found.items()}
    _clear(run)
    if stopped:
        why, fix = f"not verified: {stopped}", ["treadle verify"]
        raise InterruptedRun(why, exit_code=stop_code(stopped), fix=fix)
    logged = {text: str(logs / f"{number}.txt") for number, text in commands.items()}
    return {text: item._replace(log=logged[text]) for text, item in found.items()}


def _judged(item: Observed, broken: str | None) -> SeenNow:
    state: State = "green" if item.passed else "cannot run" if broken else "red"
    note = broken or (item.note if isinstance(item.note, str) else None)
    return SeenNow(item.id, item.command, state, "", note)


def _seen(item: Accepted, results: dict[str, SeenNow]) -> Iterator[SeenNow]:
    for criterion in item.criteria:
        yield results[str(criterion.verify)]._replace(id=criterion.id)


def _tell_desk(tools: Tools, item: Verified, makes_task: bool) -> Verified:
    """Ask what becomes of work that is red, once; close the question when it is green again."""
    subject, store, now = Subject("run", item.run_id), tools.store, tools.now()
    if item.state == "green":
        questions.close(store, subject, "green again", now, _MATTER)
    if item.state != "red":
        return item
    red = ", ".join(seen.id for seen in item.seen if seen.state == "red")
    text = f"{item.goal} ({item.name}): {red} held when this landed and fails now"
    earlier = questions.newest(store, subject, _MATTER)
    if earlier and (earlier.summary, earlier.action) == (text, LEAVE.verb) and not makes_task:
        return item
    earlier = earlier if earlier and earlier.is_open else None
    made = _task_of(earlier)
    if makes_task and made is None:
        made = _make_task(tools, item, text)
    asked = _question(tools, item, text, made)
    if earlier and (earlier.summary, _task_of(earlier)) != (text, made):
        questions.close(store, subject, "asked anew", now, _MATTER)
    questions.ask(store, asked, now)
    return item._replace(task_id=made)


def _task_of(asked: QuestionRow | None) -> str | None:
    """Return the task that was made for an open question."""
    actions = asked.actions if asked else ()
    return next((it.target for it in actions if it.verb == "again" and it.target), None)


def _question(tools: Tools, item: Verified, text: str, made: str | None) -> Question:
    row = tools.store.run(item.run_id)
    again = Action("again", target=made) if made else Action("again", value=item.name)
    return Question(
        kind="failed_run",
        summary=text,
        subject=Subject("run", item.run_id),
        actions=(again, Action("retry", value=item.name), LEAVE),  # looking again mends nothing
        look=tuple(f"cat {argument(it.log)}" for it in item.seen if it.state == "red"),
        matter=_MATTER,
        run_id=row and row.run_id,
        task_id=made or (row.task_id if row else None),
    )


def _make_task(tools: Tools, item: Verified, text: str) -> str:
    red = [seen for seen in item.seen if seen.state == "red"]
    criteria = tuple(
        Criterion(f"AC{number}", f"{seen.id} of {item.name} passes again", seen.command)
        for number, seen in enumerate(red, 1)
    )
    return task.add(tools.store, TaskRow("", text, criteria=criteria), tools.now()).task_id
