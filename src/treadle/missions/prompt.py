"""Write the prompt of a step, so that somebody who knows nothing else can do it."""

import binascii
import contextlib
import re
from collections.abc import Iterable
from pathlib import Path

from treadle.contract import Criterion
from treadle.files import atomic
from treadle.ids import HUMAN
from treadle.missions import gates
from treadle.missions import mission as missions
from treadle.missions.mission import TaskFile
from treadle.missions.state import GATED, PHASES, TASK_PHASES, At, State
from treadle.text import block, line, quoted

_PROMPTS = Path(__file__).with_name("prompts")
_MAX_NOTE = 4 << 10
_KEPT = 7 * 24 * 60 * 60  # seconds
_NAME = re.compile(r"(?P<step>[a-z]+(?:\.WP\d+)?)@(?P<agent>[^@]+)-[0-9a-f]{8}\.md")


def write(state: State, at: At) -> Path:
    """Write a step's prompt under a name made of its content, and return where it lies."""
    data = text(state, at).encode(errors="replace")
    label = at.name.replace(":", ".")
    name = f"{state.mission.slug}@{label}@{state.agent}-{binascii.crc32(data):08x}.md"
    path = state.layout.prompts / name
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, data, durable=False)
    _forget_old(state)
    return path


def last_issued(state: State) -> At | None:
    """Return the step whose prompt this agent was given last."""
    slug = state.mission.slug
    given = [
        (path.stat().st_mtime_ns, match["step"])
        for path in state.layout.prompts.glob(f"{slug}@*.md")
        if (match := _NAME.fullmatch(path.name.removeprefix(f"{slug}@")))
        and match["agent"] == state.agent
    ]
    return parse(state, max(given)[1].replace(".", ":")) if given else None


def _forget_old(state: State) -> None:
    """Delete prompts that nobody reads any more; whoever asks again gets a new one."""
    oldest = state.now.timestamp() - _KEPT
    for path in state.layout.prompts.iterdir():
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < oldest:
                path.unlink()


def parse(state: State, step: str) -> At | None:
    """Read a step's name, such as `specify` or `implement:WP01`; None if the mission has none."""
    name, _, id_ = step.partition(":")
    is_there = not id_ or id_ in state.board.names
    for phase in PHASES:
        if name == phase and is_there and bool(id_) == (phase in TASK_PHASES):
            return state.at(phase, id_)
    return None


def text(state: State, at: At) -> str:
    """Return a step's prompt: its template, without the paragraphs that have nothing to say."""
    template = (_PROMPTS / f"{at.phase}.md").read_text("utf-8")
    values = _common(state, at)
    if at.phase in GATED:
        values |= _gate_values(state, at)
    elif at.phase == "accept":
        values["approved"] = _approved(state)
    file = state.board.file(at.id) if at.id else None
    if file:
        values |= _task_values(state, file)
    parts = (part.strip("\n").format_map(values) for part in template.split("\n\n"))
    own = [part for part in parts if part.strip()]
    return block("\n\n".join([*own, file.text] if file else own)) + "\n"


def _common(state: State, at: At) -> dict[str, str]:
    mission, files = state.mission, state.mission.files
    who = "" if state.agent == HUMAN else f" --agent {state.agent}"
    return {
        "slug": mission.slug,
        "title": line(missions.title(mission)),
        "root": str(mission.root),
        "spec": mission.name(files.spec),
        "plan": mission.name(files.plan),
        "tasks": mission.name(files.tasks),
        "last_attempt": _last_attempt(state, at),
        "report": f"treadle next --json --mission {mission.slug}{who} --step {at.name}",
    }


def _gate_values(state: State, at: At) -> dict[str, str]:
    text = gates.scaffold(GATED[at.phase])
    return {
        "missing": _listed(state.gate(at.phase).missing),
        "boundary": text[text.index("## Commit Boundary") :].strip(),
    }


def _task_values(state: State, file: TaskFile) -> dict[str, str]:
    task = state.mission.task_id(file.id)
    who = "" if state.agent == HUMAN else f" --as {state.agent}"
    claim = f"Take it first, so that nobody else does:\n\n    treadle task claim {task}{who}"
    needed = f"Done before it, and yours to build on: {', '.join(file.dependencies)}."
    nothing = "The task names none: change what it needs and nothing else."
    return {
        "task": task,
        "task_title": line(file.title),
        "file": state.mission.name(file.path),
        "claim": "" if state.board.held_by(state.agent) == file.id else claim,
        "criteria": _listed(map(_in_words, file.criteria)),
        "paths": _listed(f"`{path}`" for path in file.owned_files) or nothing,
        "dependencies": needed if file.dependencies else "",
    }


def _approved(state: State) -> str:
    board, mission = state.board, state.mission
    found = board.in_lane("approved")
    return _listed(f"{mission.task_id(id_)}: {board.file(id_).title}" for id_ in found)


def _listed(items: Iterable[str]) -> str:
    return "\n".join(f"- {line(item)}" for item in items)


def _in_words(item: Criterion) -> str:
    check = f" (checked by `$ {item.verify}`)" if item.verify else ""
    return f"{item.id}: {item.text}{check}"


def _last_attempt(state: State, at: At) -> str:
    row = state.reports.get(at.key)
    if row is None or not row.failures:
        return ""
    note = f":\n\n{quoted(row.note, _MAX_NOTE)}" if row.note else ", without a word why"
    times = "once" if row.failures == 1 else f"{row.failures} times"
    return f"## The last attempt\n\nThis failed {times}. {row.who} reported at last{note}"
