"""Write the prompt of a step, so that somebody who knows nothing else can do it."""

import binascii
from collections.abc import Iterable
from pathlib import Path

from treadle.contract.criterion import Criterion
from treadle.files import quick
from treadle.missions import mission as missions
from treadle.missions import template
from treadle.missions.decision import PHASES, TASK_PHASES
from treadle.missions.gates import Gate
from treadle.missions.state import At, State
from treadle.tasks.owner import HUMAN
from treadle.text import block, line, quoted

_MAX_NOTE = 4 << 10


def write(state: State, at: At) -> Path:
    """Write a step's prompt under a name made of its content, and return where it lies."""
    data = text(state, at).encode(errors="replace")
    label = at.name.replace(":", ".")
    name = f"{state.mission.slug}@{label}@{state.agent}-{binascii.crc32(data):08x}.md"
    path = state.layout.prompts / name
    quick.put(path, data)
    return path


def parse(step: str) -> At | None:
    """Read a step's name, such as `specify` or `implement:WP01`; None if it is none."""
    name, _, id_ = step.partition(":")
    for phase in PHASES:
        if name == phase and bool(id_) == (phase in TASK_PHASES):
            return At(phase, id_ or None)
    return None


def text(state: State, at: At) -> str:
    """Return a step's prompt."""
    parts = [*_BODIES[at.phase](state, at), _last_attempt(state, at)]
    place = f"Work in the repository `{state.mission.root}`; all paths are relative to it."
    own = [f"# {line(parts[0])}", place, *parts[1:], _report(state, at)]
    if at.id:
        file = state.board.file(at.id)
        own.append(f"## The task (`{state.mission.name(file.path)}`)\n\n{file.text}")
    return block("\n\n".join(part for part in own if part)) + "\n"


def _specify(state: State, at: At) -> list[str]:
    mission = state.mission
    name = mission.name(mission.files.spec)
    return [
        f"Specify {mission.slug}: {missions.title(mission)}",
        f"Write `{name}`: what should be true when this mission is over, not how it is made."
        " Give every requirement an id (`FR-001`, `FR-002`, …) under *Functional Requirements*"
        " and say under *Acceptance Criteria* how anyone can tell. Ask the user where you would"
        " have to guess.",
        _missing(state.gate("specify")),
        f"Then commit it:\n\n    git add {name}\n"
        f'    git commit -m "Specify {mission.slug}" -- {name}',
        template.COMMIT_BOUNDARY["spec"].strip(),
    ]


def _plan(state: State, at: At) -> list[str]:
    mission = state.mission
    name = mission.name(mission.files.plan)
    command = f"treadle mission setup-plan --mission {mission.slug}"
    return [
        f"Plan {mission.slug}: {missions.title(mission)}",
        f"Read `{mission.name(mission.files.spec)}`. Run `{command}`, which writes the scaffold"
        f" of `{name}` if it is not there. Fill it in: the *Technical Context* as this repository"
        " has it, the approach, and under *Tasks* one item for each piece of work that can be"
        " reviewed by itself, in the order in which they can be done.",
        _missing(state.gate("plan")),
        f"Then run it again; it commits the plan once it is one:\n\n    {command}",
        template.COMMIT_BOUNDARY["plan"].strip(),
    ]


def _tasks(state: State, at: At) -> list[str]:
    mission, files = state.mission, state.mission.files
    return [
        f"Make the tasks of {mission.slug}: {missions.title(mission)}",
        f"Read `{mission.name(files.spec)}` and `{mission.name(files.plan)}`. Write one file for"
        f" each task, `{mission.name(files.tasks)}/WP01-short-name.md` and so on:",
        _indented(
            template.TASK.format(
                id="WP01",
                title="What is true when it is done",
                dependencies="",
                files="src/, tests/",
                heading="What is true when it is done",
                criteria="- The tests pass: `$ pytest -q`",
            )
        ),
        f"`treadle mission tasks --mission {mission.slug}` writes them from the list under *Tasks*"
        " in the plan; complete them then. `dependencies` are tasks that must be done before,"
        " `owned_files` the paths a task may change. Every requirement of the spec belongs to a"
        " task.",
        f"Then commit them:\n\n    git add {mission.name(files.tasks)}\n"
        f'    git commit -m "Add tasks of {mission.slug}" -- {mission.name(files.tasks)}',
    ]


def _implement(state: State, at: At) -> list[str]:
    file, board = state.board.file(at.id or ""), state.board
    task = state.mission.task_id(file.id)
    who = "" if state.agent == HUMAN else f" --as {state.agent}"
    claim = f"Take it first, so that nobody else does:\n\n    treadle task claim {task}{who}"
    return [
        f"Implement {task}: {file.title}",
        f"Goal: {file.title}",
        f"This is one task of mission {state.mission.slug} ({missions.title(state.mission)})."
        " Its text is at the end. Do this task and nothing else.",
        "" if board.held_by(state.agent) == file.id else claim,
        _criteria(file.criteria),
        _paths(file.owned_files),
        f"Done before it, and yours to build on: {', '.join(file.dependencies)}."
        if file.dependencies
        else "",
        "Run the commands of the criteria yourself. Commit your work before you report; a report is"
        " refused while files are uncommitted.",
    ]


def _review(state: State, at: At) -> list[str]:
    file = state.board.file(at.id or "")
    task = state.mission.task_id(file.id)
    return [
        f"Review {task}: {file.title}",
        f"Somebody says that this task of mission {state.mission.slug} is done. Its text is at the"
        " end. Look at what was changed (`git log`, `git diff`) and hold it against the criteria;"
        " run their commands yourself. Change nothing.",
        f"How it came here, and which runs worked on it:\n\n    treadle task show {task}",
        _criteria(file.criteria),
        _paths(file.owned_files),
        "Report success only if every criterion holds; it approves the task. Otherwise report"
        " failed and say in the note what has to change: the task is planned again.",
    ]


def _accept(state: State, at: At) -> list[str]:
    board, mission = state.board, state.mission
    tasks = "\n".join(
        f"- {mission.task_id(id_)}: {board.file(id_).title}" for id_ in board.in_lane("approved")
    )
    return [
        f"Accept work of {mission.slug}: {missions.title(mission)}",
        f"These tasks are implemented and approved:\n\n{tasks}",
        f"Read `{mission.name(mission.files.spec)}` and see that what these tasks were to bring is"
        " there, in the branch you are on, and that the whole still works: run all tests.",
        "Reporting success makes these tasks done; tasks that wait for them can begin then.",
    ]


_BODIES = {
    "specify": _specify,
    "plan": _plan,
    "tasks": _tasks,
    "implement": _implement,
    "review": _review,
    "accept": _accept,
}


def _missing(gate: Gate) -> str:
    return "What is missing now:\n\n" + "\n".join(f"- {item}" for item in gate.missing)


def _criteria(criteria: Iterable[Criterion]) -> str:
    lines = [line(f"- {item.id}: {item.text}{_check(item)}") for item in criteria]
    return "## Criteria\n\n" + "\n".join(lines)


def _check(item: Criterion) -> str:
    return f" (checked by `$ {item.verify}`)" if item.verify else ""


def _paths(paths: tuple[str, ...]) -> str:
    if not paths:
        return "## Allowed paths\n\nThe task names none: change what it needs and nothing else."
    return "## Allowed paths\n\n" + "\n".join(f"- `{path}`" for path in paths)


def _last_attempt(state: State, at: At) -> str:
    row = state.reports.get(at.key)
    if row is None or not row.failures:
        return ""
    note = f":\n\n{quoted(row.note, _MAX_NOTE)}" if row.note else ", without a word why"
    times = "once" if row.failures == 1 else f"{row.failures} times"
    return f"## The last attempt\n\nThis failed {times}. {row.who} reported at last{note}"


def _report(state: State, at: At) -> str:
    results = (
        "--result success",
        '--result failed --note "what went wrong"',
        '--result blocked --note "what is in the way"',
    )
    who = "" if state.agent == HUMAN else f" --agent {state.agent}"
    command = f"treadle next --json --mission {state.mission.slug}{who} --step {at.name}"
    lines = "\n".join(f"    {command} {rest}" for rest in results)
    return f"## Report back\n\nWith one of these; the answer says what comes next:\n\n{lines}"


def _indented(text: str) -> str:
    return "\n".join(f"    {row}" if row else "" for row in text.splitlines())
