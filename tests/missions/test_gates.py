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
        return gates.judge(mission, gates.read_head([mission]), "spec")

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
    assert gates.judge(mission, head, "spec") == ()
    assert gates.judge(mission, head, "plan") == ("plan.md: this file does not exist",)


FR = "## Functional Requirements\n\n| ID | Requirement |\n|---|---|\n"
CONTEXT = "## Technical Context\n\n"

GOOD_SPECS = {
    "table row": FR + "| FR-001 | Users can log in |\n",
    "bold id": FR + "| **FR-001** | Users can log in |\n",
    "four digits": FR + "| FR-1001 | Users can log in |\n",
    "bullet": "### Functional Requirements\n- **FR-001**: Users can log in\n",
    "numbered bullet": "### Functional Requirements\n1. FR-001 Users can log in\n",
    "bullet with text below": "# Functional Requirements\n- **FR-001**:\n  Users can log in\n",
    "no such heading": "# Spec\n\n- FR-001: Users can log in\n",
    "deeper heading inside": "## Functional Requirements\n### Login\n- FR-002: Users log in\n",
    "second row is real": FR + "| FR-001 | [NEEDS CLARIFICATION: what?] |\n| FR-002 | Log out |\n",
    "real text with an open question": FR
    + "| FR-001 | Log in within [NEEDS CLARIFICATION: 1 s?] |\n",
    "the user's own brackets": FR + "| FR-001 | Print [OK] and stop |\n",
    "a link": FR + "| FR-001 | [Log in](login.md) |\n",
    "TODO lists are a subject": FR + "| FR-001 | Users keep TODO lists |\n",
    "numbered heading": "## 3. Functional Requirements (must)\n- FR-001: Users can log in\n",
    "CRLF": (FR + "| FR-001 | Users can log in |\n").replace("\n", "\r\n"),
    "BOM": "\ufeff" + FR + "| FR-001 | Users can log in |\n",
    "after a closed fence": FR + "```\nx\n```\n| FR-001 | Users can log in |\n",
    "priority after it": FR + "| FR-001 | Log in | High |\n",
}
BAD_SPECS = {
    "our scaffold": gates.scaffold("spec"),
    "empty": "",
    "empty table": FR,
    "empty description": FR + "| FR-001 | |\n",
    "only a priority": FR + "| FR-001 |  | High | Open |\n",
    "clarification": FR + "| FR-001 | [NEEDS CLARIFICATION: which users?] |\n",
    "example": FR + "| FR-001 | [e.g., Users can log in] |\n",
    "nested brackets": FR + "| FR-001 | [NEEDS CLARIFICATION: a [b] c] |\n",
    "TODO": FR + "| FR-001 | TODO |\n",
    "TODO with words": FR + "| FR-001 | TODO: think |\n",
    "tbd": FR + "| FR-001 | tbd. |\n",
    "question marks": FR + "| FR-001 | ??? |\n",
    "sentence around a placeholder": '- **FR-001**: System MUST [specific, e.g., "log in"]\n',
    "a story of placeholders": FR + "| FR-001 | [Title] | As a [role], I want [goal] | High |\n",
    "in a fence": FR + "```\n| FR-001 | Users can log in |\n```\n",
    "in a fence of tildes": FR + "~~~~md\n| FR-001 | Users can log in |\n~~~\n",
    "in a comment": FR + "<!--\n| FR-001 | Users can log in |\n-->\n",
    "in a comment on a line": FR + "<!-- | FR-001 | Users can log in | -->\n",
    "other section": FR + "## Notes\n- FR-001: Users can log in\n",
    "non-functional": FR + "## Non-Functional Requirements\n- FR-001: It is quick\n",
    "two digits": FR + "| FR-01 | Users can log in |\n",
    "much prose": "word " * 10_000,
    "separator": FR + "| FR-001 | --- |\n",
}
GOOD_PLANS = {
    "bullets": CONTEXT + "- **Language/Version**: Python 3.11\n- **Storage**: files\n",
    "bold fields": CONTEXT + "**Language/Version**: Rust 1.80\n**Testing**: cargo test\n",
    "table": CONTEXT + "| Language/Version | Go 1.22 |\n| Scale/Scope | 10 users |\n",
    "plain": "### Technical Context\nLanguage/Version: C11\nConstraints: no malloc\n",
}
BAD_PLANS = {
    "our scaffold": gates.scaffold("plan"),
    "no section": "# Plan\n\nLanguage/Version: C11\nStorage: files\n",
    "only a language": CONTEXT
    + "- **Language/Version**: Python 3.11\n- **Storage**: [e.g., files]\n",
    "choices as peer": CONTEXT + "Language/Version: C11\nProject Type: [single/web]\n",
    "only a peer": CONTEXT + "- **Language/Version**: [e.g., C]\n- **Storage**: files\n",
    "bare clarification": CONTEXT + "Language/Version: NEEDS CLARIFICATION\nStorage: files\n",
    "in a fence": CONTEXT + "```\nLanguage/Version: C11\nStorage: files\n```\n",
    "empty": CONTEXT + "**Language/Version**:\n**Storage**:\n",
}


@pytest.mark.parametrize("name", GOOD_SPECS)
def test_spec_with_a_requirement_is_substantive(name):
    assert gates.missing(GOOD_SPECS[name], "spec") == ()


@pytest.mark.parametrize("name", BAD_SPECS)
def test_spec_without_one_is_not(name):
    assert gates.missing(BAD_SPECS[name], "spec")


@pytest.mark.parametrize("name", GOOD_PLANS)
def test_plan_with_a_context_is_substantive(name):
    assert gates.missing(GOOD_PLANS[name], "plan") == ()


@pytest.mark.parametrize("name", BAD_PLANS)
def test_plan_without_one_is_not(name):
    assert gates.missing(BAD_PLANS[name], "plan")


def test_missing_names_the_lines():
    assert gates.missing(FR + "| FR-001 | TODO |\n", "spec") == (
        "spec.md:5: this requirement has no description yet",
    )
    plan = "# P\n" + CONTEXT + "- **Language/Version**: [e.g., C]\n- **Storage**: files\n"
    assert gates.missing(plan, "plan") == ("plan.md:4: give Language/Version a real value",)


def test_a_megabyte_is_read_to_the_end():
    text = FR + "| FR-001 | TODO |\n" * 60_000 + "| FR-002 | Users can log in |\n"
    assert gates.missing(text, "spec") == ()


def test_files_of_the_last_commit_are_read_at_once(repo):
    (repo / "ü b.md").write_bytes(b"\0binary\n" * 1000)
    (repo / "folder").mkdir()
    (repo / "folder" / "x").write_text("x")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "More")
    git(repo, "rm", "-q", "--cached", "README.md")
    (repo / "new").write_text("new")
    git(repo, "add", "new")
    found = gates.read_files(repo, ["ü b.md", "README.md", "new", "folder", "nothing"])
    assert (found["folder"].holds("x"), found["folder"].holds("y")) == (True, False)
    found["folder"] = found["folder"]._replace(listing=b"")
    assert found == {
        "ü b.md": gates.Committed(b"\0binary\n" * 1000, True),
        "README.md": gates.Committed(b"# Project\n", False),
        "new": gates.Committed(None, True),
        "folder": gates.Committed(None, False),
        "nothing": gates.Committed(None, False),
    }


def test_a_repository_without_a_commit_has_no_files(tmp_path):
    git(tmp_path, "init", "-q")
    assert gates.read_files(tmp_path, ["x"]) == {"x": gates.Committed(None, False)}


def test_variables_of_another_repository_do_not_count(repo, tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert gates.read_files(repo, ["README.md"])["README.md"].is_tracked


def test_requirements_are_read_from_rows_and_bullets_by_id():
    text = "## Functional Requirements\n\n| ID | What |\n|---|---|\n| FR-001 | Log  in | high |\n"
    text += "| FR-002 | [What must be true] |\n\n- **FR-003**: Log out,\n  whenever\n"
    assert gates.requirements(text) == {"FR-001": "Log in", "FR-003": "Log out, whenever"}
