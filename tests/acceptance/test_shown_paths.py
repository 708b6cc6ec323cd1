"""Commands that name what treadle keeps work from wherever the user stands in the project."""

import os
import shlex
import subprocess

import pytest

from tests.acceptance.site import Site
from treadle import layout


def tried(text):
    """Return the commands that look at a file, as they were printed."""
    lines = [
        line.strip().removeprefix("try: ").removeprefix("next: ") for line in text.splitlines()
    ]
    return [line for line in lines if line.startswith("cat ")]


def works(folder, done):
    """Carry out what was printed, and return it."""
    found = tried(done.out + done.err)
    assert found, done
    for line in found:
        subprocess.run(shlex.split(line), cwd=folder, check=True)
    return found


@pytest.fixture
def run_id(project):
    """A run whose plan waits to be read."""
    (project.root / "deep" / "er").mkdir(parents=True)
    (project.root / "deep" / "er" / "file.txt").write_text("x")
    project.git("add", "deep")
    project.git("commit", "-q", "-m", "Deep")
    project.agent("plan", 'write("plan.md", "1. do it\\n"); ok("a plan")')
    project.agent("do", "ok()", edits=True)
    run = project.run_json("--verify", "AC1=test -f done.txt", "--approve", "plan")
    assert run["reason_code"] == "plan_waits", run
    return run["run_id"]


def test_from_any_folder_of_the_project(project, run_id):
    for folder in (project.root, project.root / "deep" / "er"):
        found = works(folder, project.treadle("why", run_id, cwd=folder))
        assert not any(os.path.isabs(line.split()[1]) for line in found)


def test_a_spec_from_a_folder_below(project):
    (project.root / "specs").mkdir(exist_ok=True)
    (project.root / "specs" / "01-a.spec.md").write_text("# A\n")
    found = layout.from_here("vi specs/01-a.spec.md or specs/02-b.spec.md", project.root / "src")
    assert found == "vi ../specs/01-a.spec.md or specs/02-b.spec.md"


def test_from_a_linked_work_tree(project, run_id, tmp_path):
    project.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    for folder in (tmp_path / "side", tmp_path / "side" / "deep"):
        works(folder, project.treadle("why", run_id, cwd=folder))


def test_the_fix_of_a_refusal(project):
    site = Site(project)
    run_id = site.passed("echo done > done.txt", verify="test ! -f other.txt")
    site.commit("other.txt", "other\n")
    site.commit("deep/file.txt", "x\n")
    folder = site.root / "deep"
    works(folder, project.treadle("land", run_id, cwd=folder))
