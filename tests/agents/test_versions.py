"""What is written down of tools is what the tests drive."""

import json
import re
from pathlib import Path

import pytest

from tests.real.test_failures import ROWS
from treadle.agents import versions
from treadle.agents.table import TOOLS
from treadle.config.schema import AgentConfig

REAL = Path(__file__).parents[1] / "real"
PACKAGES = {
    "codex": "@openai/codex",
    "claude": "@anthropic-ai/claude-code",
    "gemini": "@google/gemini-cli",
    "opencode": "opencode-ai",
    "copilot": "@github/copilot",
}
SERVERS = PACKAGES | {
    "codex": "@agentclientprotocol/codex-acp",
    "claude": "@agentclientprotocol/claude-agent-acp",
}


def pins():
    found = {}
    for path in REAL.glob("*clis/package.json"):
        found |= json.loads(path.read_text())["dependencies"]
    return found


@pytest.mark.parametrize("name", PACKAGES)
def test_the_tested_version_is_the_pinned_one_and_stands_in_the_docs(name):
    docs = (REAL.parents[1] / "docs" / "reference" / "agents.md").read_text()
    by_type = {name: PACKAGES[name], "acp": SERVERS[name]}
    for type_, package in by_type.items():
        config = AgentConfig(type=type_, preset=name if type_ == "acp" else None)
        tested = versions.tested(TOOLS[name], config)
        assert tested == pins()[package]
        assert f"`{package}` | {tested} |" in docs


def test_the_troubles_that_are_provoked_stand_in_the_docs():
    docs = (REAL.parents[1] / "docs" / "reference" / "agents.md").read_text()
    told = re.findall(r"^\| ([\w ]+) \| `(\w+)` \| (stopped|failed) \|$", docs, re.MULTILINE)
    assert told == [(name, row.error, row.status) for name, row in ROWS.items()]


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ("codex-cli 0.166.0", "0.166.0 is installed, as tested"),
        ("GitHub Copilot CLI 0.166.0.", "0.166.0 is installed, as tested"),
        ("0.166.0-beta.1", "0.166.0-beta.1 is installed, 0.166.0 was tested"),
        ("2.1.0 (Claude Code)", "2.1.0 (Claude Code) is installed, 0.166.0 was tested"),
        (None, "an unknown version is installed, 0.166.0 was tested"),
    ],
)
def test_versions_are_compared_by_their_number(found, told):
    assert versions.compared(found, "0.166.0") == told
