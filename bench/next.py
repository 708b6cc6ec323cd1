"""P1: how long a host agent waits for `next --json`, and how long a task takes to move."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from bench import store
from bench.harness import Bench, Claim, Command, Sample, run
from bench.lab import Lab

RUNS = 10_000
TASKS = 500
SPEC = "# Log in\n\n## Functional Requirements\n\n- **FR-001**: Users can log in\n"
PLAN = "# Plan\n\n## Technical Context\n\n- **Language/Version**: C11\n- **Storage**: files\n"
TASK = """---
work_package_id: WP{number:03}
title: Part {number}
dependencies: []
owned_files: ["src/part{number}.c"]
---
# Part {number}

## Acceptance Criteria

- The tests pass: `$ make test`
"""


def benches(lab: Lab) -> list[Bench]:
    """Return `next` with few and with many tasks and runs, a move, and spec-kitty if it is here."""
    small = make_project(lab, "small", tasks=1, runs=100)
    large = make_project(lab, "large", tasks=TASKS, runs=RUNS)

    def bare(_: Path) -> Command:
        return lab.command(str(lab.bare_python), "-c", "pass")

    def ask(root: Path) -> Command:
        return lab.command(str(lab.treadle), "next", "--json", cwd=root)

    def growth(samples: list[Sample]) -> list[Claim]:
        # By CPU: these are not shuffled into the rounds, and a busy machine changes the wall time.
        mine = min(sample.cpu for sample in samples)
        few = min(run(ask(small), lab.scratch / "few.out").cpu for _ in samples)
        return [Claim(f"{TASKS} tasks and {RUNS} runs against 1 and 100", mine / few, 1.25)]

    moves = iter(range(1, TASKS + 1))

    def move(_: Path) -> Command:
        task = f"WP{next(moves):03}"
        return lab.command(str(lab.treadle), "task", "move", task, "--to", "claimed", cwd=large)

    floor = "python -c pass"
    rounds = lab.rounds
    found = [
        Bench("P1", "next, 1 task", floor, lambda _: ask(small), bare, 5.0, 5.0, rounds=rounds),
        Bench(
            "P1-many", f"next, {TASKS} tasks", floor, lambda _: ask(large), bare, 5.0, 5.0
        )._replace(rounds=rounds, claims=growth),
        Bench("P1-move", "task move", floor, move, bare, 5.0, 9.0, rounds=rounds),
    ]
    return found + _peers(lab, ask, large)


def make_project(lab: Lab, name: str, *, tasks: int, runs: int) -> Path:
    """Make a project with a mission of so many tasks, all known to the store."""
    root = store.make_project(lab, lab.scratch / name, runs)
    _treadle(lab, root, "mission", "create", "auth")
    folder = root / "missions" / "auth"
    (folder / "tasks").mkdir()
    for number in range(1, tasks + 1):
        (folder / "tasks" / f"WP{number:03}-part.md").write_text(TASK.format(number=number))
    (folder / "spec.md").write_text(SPEC)
    (folder / "plan.md").write_text(PLAN)
    lab.git(root, "add", "-A")
    lab.git(root, "commit", "-q", "-m", "Mission")
    _treadle(lab, root, "mission", "tasks")
    return root


def _treadle(lab: Lab, root: Path, *words: str) -> None:
    subprocess.run([lab.treadle, *words], cwd=root, env=lab.env, check=True, capture_output=True)


def _peers(lab: Lab, ask: Callable[[Path], Command], root: Path) -> list[Bench]:
    """Race spec-kitty, if its program is in PATH."""
    program = shutil.which("spec-kitty")
    if program is None:
        return []

    def kitty(_: Path) -> Command:
        return lab.command(program, "next", "--help", cwd=root)

    name = "spec-kitty next --help"
    return [
        Bench("P1-kitty", "next --json", name, lambda _: ask(root), kitty, 0.05, 0.05, rounds=5)
    ]
