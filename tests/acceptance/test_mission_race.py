"""Agents in linked work trees of one repository never get one task."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.acceptance.mission import Mission
from tests.builder import Project, git


def trees(mission: Mission, tmp_path, *names: str) -> list[Project]:
    """Check the mission's branch out several times; the main work tree knows nothing of it."""
    project = mission.project
    for name in names:
        git(project.root, "worktree", "add", "-q", "-b", name, str(tmp_path / name))
    project.git("rm", "-qr", "missions")
    project.git("commit", "-qm", "Only on branches")
    return [Project(tmp_path / name, project.folder) for name in names]


def race(projects: list[Project], agents: list[str]) -> dict[str, str | None]:
    """Let all agents ask at once, each in one of the work trees; return what they got."""
    asked = [
        projects[n % len(projects)].start("next", "--json", "--agent", agent)
        for n, agent in enumerate(agents)
    ]
    with ThreadPoolExecutor(len(asked)) as pool:
        told = list(pool.map(lambda process: process.communicate(timeout=120), asked))
    found = [json.loads(out) for out, _ in told]
    assert all("kind" in it for it in found), told
    steps = [it["task_id"] if it["kind"] == "step" else None for it in found]
    return dict(zip(agents, steps, strict=True))


def require_one_owner(projects: list[Project], got: dict[str, str | None]) -> None:
    tasks = [task for task in got.values() if task]
    assert len(tasks) == len(set(tasks)), got
    for project in projects:
        rows = project.treadle("task", "list", "--json").json["tasks"]
        owners = {row["task_id"]: row["owner"] for row in rows}
        assert {task: agent for agent, task in got.items() if task}.items() <= owners.items()


def test_two_agents_in_two_work_trees_get_two_tasks(mission, tmp_path):
    mission.with_tasks("", "", "")
    projects = trees(mission, tmp_path, "left", "right")
    got = race(projects, ["ann", "bob"])
    assert set(got.values()) < {"auth.WP01", "auth.WP02", "auth.WP03"}
    require_one_owner(projects, got)
    assert race(projects, ["ann", "bob"]) == got
    assert race(projects[::-1], ["ann", "bob"]) == got
    assert mission.project.treadle("next", "--json").json["reason_code"] == "no_mission"


@pytest.mark.real
def test_sixteen_agents_in_four_work_trees_share_eight_tasks(mission, tmp_path):
    mission.with_tasks(*[""] * 8)
    projects = trees(mission, tmp_path, "a", "b", "c", "d")
    agents = [f"agent{n}" for n in range(16)]
    got = race(projects, agents)
    assert sorted(filter(None, got.values())) == [f"auth.WP{n:02}" for n in range(1, 9)]
    require_one_owner(projects, got)


@pytest.mark.real
@pytest.mark.timeout(300)
def test_a_mission_with_two_names_on_two_branches_has_each_task_once(mission, tmp_path):
    mission.with_tasks("", "", "")
    projects = trees(mission, tmp_path, "left", "right")
    projects[1].git("mv", "missions/auth", "missions/login")
    projects[1].git("commit", "-qm", "Rename")
    for _ in range(5):
        got = race(projects, ["ann", "bob", "cyd", "dan"])
        ids = [task.rpartition(".")[2] for task in got.values() if task]
        assert len(ids) == len(set(ids)), got
    assert len(projects[0].treadle("task", "list", "--json").json["tasks"]) == 3
