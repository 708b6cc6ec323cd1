"""Missions in a real repository."""

from pathlib import Path

import pytest

from treadle.layout import Layout
from treadle.missions import mission as missions
from treadle.missions.mission import Mission


@pytest.fixture
def mission(repo) -> Mission:
    """Return a mission with nothing but its meta.json."""
    folder = repo / "missions" / "auth"
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text('{"title": "Log in"}')
    return missions.find(Layout(repo), "auth")


def write_task(mission: Mission, name: str, head: str = "", body: str = "Do it.\n") -> Path:
    """Write a task's file."""
    mission.files.tasks.mkdir(exist_ok=True)
    path = mission.files.tasks / name
    path.write_text(f"---\n{head}---\n{body}" if head else body)
    return path
