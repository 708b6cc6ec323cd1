"""The two questions every gate asks."""

import pytest

from tests.acceptance.mission import REAL_PLAN, REAL_SPEC, SCAFFOLD_SPEC
from tests.builder import git
from treadle.missions import gates


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("spec", REAL_SPEC, True),
        ("spec", SCAFFOLD_SPEC, False),
        ("plan", REAL_PLAN, True),
        ("plan", REAL_SPEC, False),
    ],
)
def test_substantive_is_about_the_file(tmp_path, kind, text, expected):
    path = tmp_path / f"{kind}.md"
    path.write_text(text)
    assert gates.is_substantive(path, kind) is expected


def test_a_missing_file_is_not_substantive(tmp_path):
    assert not gates.is_substantive(tmp_path / "spec.md", "spec")


def test_committed_is_tracked_and_in_the_last_commit(mission, repo):
    def missing():
        return gates.judge(mission, gates.read_head([mission]), "spec").missing

    mission.files.spec.write_text(REAL_SPEC)
    assert missing() == ("spec.md is not committed",)
    git(repo, "add", ".")
    assert missing() == ("spec.md is not committed",)
    assert not gates.is_committed(mission.files.spec, repo)
    git(repo, "commit", "-q", "-m", "Spec")
    assert missing() == ()
    assert gates.is_committed(mission.files.spec, repo)
    git(repo, "rm", "-q", "--cached", "missions/auth/spec.md")
    assert missing() == ("spec.md is not committed",)


def test_one_process_reads_all_missions(mission, repo):
    mission.files.spec.write_text(REAL_SPEC)
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "Spec")
    head = gates.read_head([mission])
    assert gates.judge(mission, head, "spec").reason is None
    assert gates.judge(mission, head, "plan").missing == ("plan.md: this file does not exist",)
