"""Prompts as a stranger reads them; tests/missions/prompts has each one in full."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.acceptance.mission import REAL_PLAN, REAL_SPEC
from tests.builder import git
from tests.missions.conftest import write_task
from treadle.layout import Layout
from treadle.missions import mission as missions
from treadle.missions import prompt, state
from treadle.missions.state import At
from treadle.project import setup
from treadle.store.store import Store
from treadle.store.tasks import MissionStepRow

GOLDEN = Path(__file__).with_name("prompts")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
HEAD = "title: Keep tokens\ndependencies: [WP02]\nowned_files: [lib/auth.c, 'lib/*.h']\n"
BODY = """# Keep tokens

Tokens live for an hour.

## Acceptance Criteria

- The tests pass: `$ make test`
- Old tokens are refused
"""
STEPS = [
    At("auth", "specify"),
    At("auth", "plan"),
    At("auth", "tasks"),
    At("auth", "implement", "auth.WP01"),
    At("auth", "review", "auth.WP01"),
    At("auth", "accept"),
]


@pytest.fixture
def found(repo, mission):
    setup.init(repo, os.environ)
    mission.files.spec.write_text(REAL_SPEC)
    mission.files.plan.write_text(REAL_PLAN.replace("C11", "[e.g., C11]"))
    write_task(mission, "WP01-keep.md", HEAD, BODY)
    write_task(mission, "WP02-first.md", "lane: approved\n", "# First\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "All")
    mission.files.spec.write_text("# Empty\n")
    layout = Layout(repo)
    with Store.open(layout) as store:
        row = MissionStepRow("auth", "WP01", 2, False, "the linker fails", "ann", "now")
        store.report_step(row)
        yield state.read(layout, store, missions.find(layout, "auth"), NOW)


@pytest.mark.parametrize("at", STEPS, ids=lambda at: at.phase)
def test_prompt_is_the_golden_one(found, at):
    """Write the files anew with GOLDEN=1 after a change, and read them."""
    text = prompt.prompt_text(found, at).replace(str(found.mission.root), "/ROOT")
    path = GOLDEN / f"{at.phase}.md"
    if os.environ.get("GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def test_every_prompt_names_the_agent_in_its_commands(found):
    for at in STEPS:
        text = prompt.prompt_text(found._replace(agent="ann"), at)
        lines = [line for line in text.splitlines() if line.startswith("    treadle next")]
        assert len(lines) == 3, at
        assert all(f"--agent ann --step {at.name} " in line for line in lines)


def test_the_same_content_is_the_same_file(found):
    first = prompt.write_prompt(found, At("auth", "plan"))
    assert prompt.write_prompt(found, At("auth", "plan")) == first
    assert prompt.write_prompt(found._replace(agent="ann"), At("auth", "plan")) != first
    assert sorted(found.layout.prompts.iterdir()) == sorted(
        found.layout.prompts.glob("auth@plan@*")
    )


@pytest.mark.parametrize("at", STEPS, ids=lambda at: at.phase)
def test_a_steps_name_is_read_back(found, at):
    assert prompt.parse_step(found, at.name) == at


@pytest.mark.parametrize("text", ["", "plan:WP01", "implement", "review:WP09", "dance"])
def test_what_is_no_step_is_none(found, text):
    assert prompt.parse_step(found, text) is None
