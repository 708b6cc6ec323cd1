"""What a prompt tells whoever implements a task, and what one broken task file stops."""

import pytest

from tests.acceptance.test_next import prompt

SPEC = """# Log in

## Goal

People can come back to their work.

## Functional Requirements

| ID | Requirement |
|---|---|
| FR-001 | Users can log in |
| FR-002 | Users can log out |
"""
PLAN = """# Plan

## Technical Context

- **Language/Version**: C11
- **Testing**: [e.g., pytest or NEEDS CLARIFICATION]
- **Storage**: files
"""
TASK = """---
work_package_id: WP02
title: Log out
dependencies: [WP01]
owned_files: [src/]
requirement_refs: [FR-002, FR-009]
---
# Log out

Report with `spec-kitty agent tasks move-task WP02 --to done`.

## Report back

    treadle next --json --mission auth --step implement:WP02 --result success

## Acceptance Criteria

- It works: `$ true`
"""


@pytest.fixture
def ready(tasked):
    """Return a mission whose first task is done and whose second one failed and was answered."""
    first = "---\ntitle: Part 1\nrequirement_refs: [FR-001]\n---\n# Log in\n"
    files = {tasked.spec: SPEC, tasked.plan: PLAN, tasked.task(1): first, tasked.task(2): TASK}
    for path, text in files.items():
        path.write_text(text)
    tasked.project.git("commit", "-q", "-a", "-m", "Say more")
    ask = ("--agent", "ann")
    tasked.next(*ask)
    tasked.work()
    tasked.next(*ask, "--result", "success", "--note", "tokens live in store.c")
    tasked.next("--step", "review:WP01", "--result", "success")
    tasked.next("--step", "accept", "--result", "success")
    tasked.next(*ask)
    tasked.next(*ask, "--result", "failed", "--note", "the linker fails")
    tasked.next(*ask, "--result", "blocked", "--note", "which key?")
    assert tasked.project.treadle("answer", "Q-1", "the second one").code == 0
    return tasked


def test_an_implement_prompt_has_everything_in_order(ready):
    given = ready.next("--agent", "ann")
    text = prompt(given)
    assert given["task_id"] == "auth.WP02"
    places = [
        text.index(words)
        for words in (
            "## Goal\n\nLog out",
            "> People can come back to their work.",
            "> # Log out",
            "- FR-002: Users can log out",
            "> - **Language/Version**: C11",
            "- auth.WP01: Part 1 (done, `git log ",
            "> tokens live in store.c",
            "- AC1: It works (checked by `$ true`)",
            "- `src/`",
            "> the second one",
            "> the linker fails",
            "\n## Report back",
        )
    ]
    assert places == sorted(places)
    assert "FR-001" not in text
    assert "FR-009: is not in the spec" in text
    assert "pytest" not in text


def test_a_task_files_own_orders_are_quoted_and_the_report_lines_come_last(ready):
    text = prompt(ready.next("--agent", "ann"))
    own, _, end = text.rpartition("\n## Report back\n")
    lines = own.splitlines()
    assert all(line.startswith(">") for line in lines if "spec-kitty" in line)
    assert all(line.startswith(">") for line in lines if "--result success" in line)
    assert "the end of this prompt holds" in own
    reports = [line for line in end.splitlines() if line.startswith("    ")]
    assert [line.split(" --result ")[1].split()[0] for line in reports] == [
        *("success", "failed", "blocked")
    ]
    assert all("--agent ann --step implement:WP02" in line for line in reports)


def test_a_task_that_names_no_requirement_is_told_all(tasked):
    rows = "\n".join(f"| FR-{number:03} | Part {number} {'x' * 500} |" for number in range(1, 31))
    tasked.commit(tasked.spec, SPEC.replace("| FR-001 | Users can log in |", rows))
    text = prompt(tasked.next())
    assert "- FR-001: Part 1 xxx" in text
    assert "And 10 more in `missions/auth/spec.md`" in text
    assert len(text) < 20_000


BROKEN = {
    "fields": "---\ntitle: a\ntitle: b\n---\n# x\n",
    "dependency": "---\ndependencies: [WP77]\n---\n# x\n",
    "lane": "---\nlane: parked\n---\n# x\n",
    "text": b"\xff\xfe",
}


@pytest.mark.parametrize("how", BROKEN)
def test_one_broken_task_file_stops_that_task_and_no_other(mission, how):
    mission.with_tasks("", "", "dependencies: [WP01]\n")
    data = BROKEN[how]
    mission.task(1).write_bytes(data if isinstance(data, bytes) else data.encode())
    mission.commit(mission.task(1))
    assert mission.next("--agent", "ann")["task_id"] == "auth.WP02"
    halt = mission.next("--agent", "bob")
    assert (halt["kind"], halt["reason_code"]) == ("blocked", "task_file_invalid")
    assert (halt["task_id"], "WP01-part.md" in halt["reason"]) == ("auth.WP01", True)
    status = mission.project.treadle("mission", "status", "--json").json
    assert any("WP01-part.md" in line for line in status["missing"])
    mission.work()
    review = mission.next("--agent", "ann", "--result", "success")
    assert (review["kind"], mission.lane("WP02")) != ("complete", "planned")
    mission.commit(mission.task(1), "# Mended\n")
    assert mission.next("--agent", "bob")["task_id"] == "auth.WP01"


def test_two_files_of_one_id_stop_that_task_and_no_other(mission):
    mission.with_tasks("", "")
    mission.commit(mission.folder / "tasks" / "WP01-twin.md", "# Twin\n")
    assert mission.next("--agent", "ann")["task_id"] == "auth.WP02"
    halt = mission.next("--agent", "bob")
    assert (halt["kind"], halt["reason_code"]) == ("blocked", "task_file_invalid")
    assert "WP01-part.md and WP01-twin.md have the same id" in halt["reason"]


def test_a_file_that_breaks_while_its_task_is_held_stops_that_one(mission):
    mission.with_tasks("", "")
    assert mission.next("--agent", "ann")["task_id"] == "auth.WP01"
    mission.commit(mission.task(1), BROKEN["fields"])
    assert mission.next("--agent", "ann")["task_id"] == "auth.WP02"
