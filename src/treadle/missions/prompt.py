"""Write the prompt of a step: a template with what the mission, its task and its past say."""

import binascii
import contextlib
import re
from collections.abc import Iterable
from pathlib import Path

from treadle import markdown
from treadle.contract import Criterion
from treadle.files import atomic
from treadle.ids import HUMAN
from treadle.missions import gates
from treadle.missions import mission as missions
from treadle.missions.state import GATED, PHASES, TASK_PHASES, At, State, not_covered, uncovered
from treadle.missions.taskfile import TaskFile
from treadle.store.tasks import SeenCommand, StepTry, WorkRow
from treadle.text import block, line, quoted

_PROMPTS = Path(__file__).with_name("prompts")
_UNNAMED = (
    "If other agents work here too, say who you are: with `--agent` and a name of your own, asking"
    " is enough to be lent a task, and nobody else gets it meanwhile."
)
_MAX_NOTE = 4 << 10
_MAX_TEXT = 32 << 10
_SHORT = 400
_LISTED = 20
_KEPT = 7 * 24 * 60 * 60  # seconds
_PROMPT_NAME = r"(?P<step>[a-z]+(?:\.WP\d+)?)@(?P<agent>[^@]+)-[0-9a-f]{8}\.md"


def write_prompt(found: State, at: At) -> Path:
    """Write a step's prompt under a name made of its content, and return where it lies."""
    data = prompt_text(found, at).encode(errors="replace")
    label = at.name.replace(":", ".")
    name = f"{found.mission.slug}@{label}@{found.agent}-{binascii.crc32(data):08x}.md"
    path = found.layout.prompts / name
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, data, durable=False)
    _forget_old(found)
    return path


def last_issued_step(found: State) -> At | None:
    """Return the step whose prompt this agent was given last."""
    slug = found.mission.slug
    given = [
        (path.stat().st_mtime_ns, match["step"])
        for path in found.layout.prompts.glob(f"{slug}@*.md")
        if (match := re.fullmatch(_PROMPT_NAME, path.name.removeprefix(f"{slug}@")))
        and match["agent"] == found.agent
    ]
    return parse_step(found, max(given)[1].replace(".", ":")) if given else None


def _forget_old(found: State) -> None:
    """Delete prompts that nobody reads any more; whoever asks again gets a new one."""
    oldest = found.now.timestamp() - _KEPT
    for path in found.layout.prompts.iterdir():
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < oldest:
                path.unlink()


def parse_step(found: State, step: str) -> At | None:
    """Read a step's name, such as `specify` or `implement:WP01`; None if the mission has none."""
    name, _, id_ = step.partition(":")
    is_there = not id_ or id_ in found.board.names
    for phase in PHASES:
        if name == phase and is_there and bool(id_) == (phase in TASK_PHASES):
            return found.at(phase, id_)
    return None


def prompt_text(found: State, at: At) -> str:
    """Return a step's prompt: its template, without the paragraphs that have nothing to say."""
    template = (_PROMPTS / f"{at.phase}.md").read_text("utf-8")
    values = _common_values(found, at)
    if at.phase in GATED:
        values |= _gate_values(found, at)
    elif at.phase == "accept":
        values["approved"] = _approved(found)
    elif at.phase == "tasks":
        left = uncovered(found)
        values["uncovered"] = f"Now {not_covered(found.mission, left)}" if left else ""
    file = found.board.file(at.id) if at.id else None
    if file:
        values |= _task_values(found, file)
    if file and at.phase == "review":
        values |= _review_values(found, file)
    parts = (part.strip("\n").format_map(values) for part in template.split("\n\n"))
    return block("\n\n".join(part for part in parts if part.strip())) + "\n"


def _common_values(found: State, at: At) -> dict[str, str]:
    mission, files = found.mission, found.mission.files
    return {
        "slug": mission.slug,
        "title": line(missions.title(mission)),
        "root": str(found.workspace or mission.root),
        "spec": mission.name(files.spec),
        "plan": mission.name(files.plan),
        "tasks": mission.name(files.tasks),
        "last_attempt": "\n\n".join(filter(None, (_answers(found, at), _tries(found, at)))),
        "report": found.report_command(at),
    }


def _gate_values(found: State, at: At) -> dict[str, str]:
    text = gates.scaffold(GATED[at.phase])
    return {
        "missing": _listed(found.gate(at.phase)),
        "boundary": text[text.index("## Commit Boundary") :].strip(),
    }


def _task_values(found: State, file: TaskFile) -> dict[str, str]:
    task = found.mission.task_id(file.id)
    who = "" if found.agent == HUMAN else f" --as {found.agent}"
    claim = f"Take it first, so that nobody else does:\n\n    treadle task claim {task}{who}"
    if found.agent == HUMAN:
        claim += f"\n\n{_UNNAMED}"
    name = found.mission.name(file.path)
    nothing = "The task names none: change what it needs and nothing else."
    return {
        "task": task,
        "task_title": line(file.title),
        "file": name,
        "text": quoted(file.text, _MAX_TEXT, name),
        "claim": "" if found.board.is_held_by(file.id, found.agent) else claim,
        "criteria": _listed(map(_in_words, file.criteria)),
        "paths": _listed(f"`{path}`" for path in file.owned_files) or nothing,
        "goal": _mission_goal(found),
        "requirements": _requirements(found, file),
        "context": _context(found),
        "dependencies": _dependencies(found, file),
    }


def _committed(found: State, path: Path) -> str:
    """Return one of the mission's files as the last commit has it."""
    held = found.head.get(found.mission.name(path))
    return (held.content or b"").decode(errors="replace") if held else ""


def _mission_goal(found: State) -> str:
    goal = markdown.section(_committed(found, found.mission.files.spec), "Goal") or ""
    return f"What the mission is for:\n\n{quoted(goal, _SHORT)}" if gates.is_real(goal) else ""


def _requirements(found: State, file: TaskFile) -> str:
    """Return the requirements that a task is there for; where it names none, all of them."""
    spec = found.mission.files.spec
    known = gates.requirements(_committed(found, spec))
    wanted, name = file.requirement_refs or tuple(known), found.mission.name(spec)
    if not wanted:
        return ""
    told = [f"{ref}: {_short(known.get(ref, 'is not in the spec'))}" for ref in wanted[:_LISTED]]
    rest = len(wanted) - len(told)
    more = f"\n\nAnd {rest} more in `{name}`." if rest else ""
    which = "that this task is there for" if file.requirement_refs else "of the mission"
    return f"## Requirements\n\nThose {which}, from `{name}`:\n\n{_listed(told)}{more}"


def _short(text: str) -> str:
    return text if len(text) <= _SHORT else f"{text[:_SHORT].rstrip()} …"


def _context(found: State) -> str:
    plan = found.mission.files.plan
    text, name = gates.technical_context(_committed(found, plan)), found.mission.name(plan)
    return (
        f"## Technical context\n\nFrom `{name}`:\n\n{quoted(text, _MAX_NOTE, name)}" if text else ""
    )


def _dependencies(found: State, file: TaskFile) -> str:
    """Return what was done by the tasks that this one builds on."""
    told = [_done_before(found, id_) for id_ in file.dependencies]
    return "\n\n".join(["## Done before it, and yours to build on", *told]) if told else ""


def _done_before(found: State, id_: str) -> str:
    board, work = found.board, found.board.work(id_)
    title = "" if board.broken(id_) else f": {line(board.file(id_).title)}"
    span = f"{work.base[:12]}..{work.head[:12]}" if work and work.head else ""
    commits = f", `git log {span}`" if span and not (work and work.base == work.head) else ""
    note = (work.said if work else None) or board.told(id_)[1]
    said = f"\n\n{quoted(note, _MAX_NOTE)}" if note else ""
    return f"- {found.mission.task_id(id_)}{title} ({board.lane(id_)}{commits}){said}"


def _review_values(found: State, file: TaskFile) -> dict[str, str]:
    """Return what a reviewer looks at: the commits, and what was seen of each criterion."""
    work, who = found.board.work(file.id), found.board.author(file.id) or "nobody"
    seen = {item.id: item for item in work.observed} if work else {}
    told = [
        f"{_in_words(item)}{_observed(item, seen.get(item.id), work)}" for item in file.criteria
    ]
    changes = "What was changed:\n\n    git log -p"
    if work and work.head and work.said:
        changes = f"{who} says that nothing had to be changed:\n\n{quoted(work.said, _MAX_NOTE)}"
    elif work and work.head:
        span = f"{work.base[:12]}..{work.head[:12]}"
        changes = f"What was changed from where the task began to where {who} said it was done:"
        changes = f"{changes}\n\n    git log {span}\n    git diff {span}"
    return {"changes": changes, "criteria": _listed(told)}


def _observed(item: Criterion, seen: SeenCommand | None, work: WorkRow | None) -> str:
    if seen is None or work is None:
        return "; nobody has run it yet" if item.verify else "; no command shows it: look yourself"
    where = f" on {(work.head or '')[:12]}"
    return "; only claimed, nobody ran it" if seen.state == "claimed" else f"; {seen.state}{where}"


def _approved(found: State) -> str:
    board, mission = found.board, found.mission
    ids = board.to_accept()
    titles = {id_: "" if board.broken(id_) else f": {board.file(id_).title}" for id_ in ids}
    return _listed(f"{mission.task_id(id_)}{title}" for id_, title in titles.items())


def _listed(items: Iterable[str]) -> str:
    return "\n".join(f"- {line(item)}" for item in items)


def _in_words(item: Criterion) -> str:
    check = f" (checked by `$ {item.verify}`)" if item.verify else ""
    return f"{item.id}: {item.text}{check}"


def _answers(found: State, at: At) -> str:
    """Return what a person said when this step waited for a word, until the step succeeds."""
    row = found.reports.get(at.key)
    if row is None and not at.id:
        return ""
    since = row.tries[0].at if row and row.tries and not at.id else ""
    told = [
        f"{line(item.summary)}\n\nA person answered:\n\n{quoted(words, _MAX_NOTE)}"
        for item in found.questions(at)
        if (words := item.words) and item.created_at >= since
    ]
    return "\n\n".join(["## Answers", *told]) if told else ""


def _tries(found: State, at: At) -> str:
    """Return what was said of earlier tries, until the step succeeds."""
    row = found.reports.get(at.key)
    if row is None:
        return ""
    tries = row.tries or (StepTry(at.name, "failed", row.who, row.note, row.at),)
    said = [
        f"{item.who} reported {item.step} as {item.result}"
        + (f":\n\n{quoted(item.note, _MAX_NOTE)}" if item.note else ", without a word why.")
        for item in tries
    ]
    times = "once" if row.failures == 1 else f"{row.failures} times"
    count = [f"This failed {times}."] if row.failures else []
    return "\n\n".join(["## Earlier tries", *count, *said])
