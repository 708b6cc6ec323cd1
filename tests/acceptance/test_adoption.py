"""A tree of letters and tasks that others made: read without a trace, changed line by line."""

import hashlib
import os

import pytest

from tests.web.conftest import PORT, Client
from treadle.project.context import open_context
from treadle.web.access import Keys
from treadle.web.site import Site

LETTER = """# MESSAGE
from: {sender}
to: {to}
intent: {intent}
task_id: {task}
status: new
created_at: 2025-11-06T14:02:11Z

## Summary
{text}

## Acceptance Criteria
- It works
"""
DONE = """# kept by the coordinator
task_id: FEAT-001
status: completed   # signed off
owner: engineer
reviewer: eagle
started_at: 2025-11-06T14:05:00Z
updated_at: 2025-11-06T15:30:00Z
"""
HELD = """task_id: FEAT-002
sprint: 14
status: in_progress # since Monday
owner: "engineer"
notes: |
  status: not this line
  owner: nor this one
started_at: 2025-11-06T14:05:00Z
updated_at: 2025-11-07T15:30:00Z
# the end"""
FILES = {
    "README.md": "# How we work\n",
    "FEAT-001.md": "# Add pagination\n\n## Acceptance Criteria\n- 95% coverage\n",
    "FEAT-001.status": DONE,
    "FEAT-001.owner": "owner: engineer\nclaimed_at: 2025-11-06T14:05:00Z\nteam: core\n",
    "FEAT-001.checks": "tests_passed: true\ncoverage_threshold_met: true\n"
    "peer_reviewed: false\nready_for_merge: false\nlinted: true\n",
    "FEAT-002.md": "# Add auth\n",
    "FEAT-002.status": HELD,
    "FEAT-002.owner": "owner: engineer\r\nclaimed_at: 2025-11-06T14:05:00Z\r\n# by hand\r\n",
    "FEAT-002.checks": "tests_passed: true\ncoverage_threshold_met: true\nlinted: yes\n",
    "FEAT-003.status": "task_id: FEAT-003\nstatus: blocked\nowner: qa\n",
    "FEAT-004.md": "# Known by a letter\n",
    "notes.txt": "milk\n",
}


def letter(sender, to, intent, task, text="Do it"):
    return LETTER.format(sender=sender, to=to, intent=intent, task=task, text=text)


@pytest.fixture
def tree(project):
    """A tree outside treadle's folder, with four agents, as other programs left it.

    Treadle has had letters of its own before.
    """
    project.treadle("mail", "send", "--to", "eve", "--intent", "inform", "--from", "ada")
    project.treadle("mail", "claim", "--as", "eve")
    root = project.root / "circe"
    for agent in ("coordinator", "engineer", "qa", "SCRIBE"):
        for box in ("INBOX", "WORKSPACE"):
            (root / "AGENTS" / agent / box).mkdir(parents=True)
    for folder in ("TASKS", "NEW_MESSAGES", "LOGS"):
        (root / folder).mkdir()
    for name, text in FILES.items():
        (root / "TASKS" / name).write_bytes(text.encode())
    letters = {
        "NEW_MESSAGES/20251106_140211_coordinator-all_implement-feature_FEAT-004.md": letter(
            "coordinator", "all", "implement_feature", "FEAT-004"
        ),
        "NEW_MESSAGES/20251106_140212_coordinator-all_inform.md": letter(
            "coordinator", "all", "inform", "FEAT-001"
        ),
        "NEW_MESSAGES/20251106_140213_qa-coordinator_escalate_FEAT-003.md": letter(
            "qa", "coordinator", "escalate", "FEAT-003", "Which one?"
        ),
        "NEW_MESSAGES/README.md": "# Not a letter\n",
        "AGENTS/engineer/INBOX/20251106_140214_qa-engineer_fix-bug_FEAT-002.md": letter(
            "qa", "engineer", "fix_bug", "FEAT-002"
        ),
        "AGENTS/qa/WORKSPACE/20251106_140215_engineer-qa_test_FEAT-005.md": letter(
            "engineer", "qa", "test", "FEAT-005"
        ),
        "LOGS/20251106_140216_coordinator-all_implement-feature_FEAT-001.md": letter(
            "coordinator", "all", "implement_feature", "FEAT-001"
        ),
    }
    for name, text in letters.items():
        (root / name).write_text(text)
    for path in root.rglob("*"):
        if path.is_file():
            os.utime(path, (1_762_500_000, 1_762_500_000))
    project.settings('[mail]\nroot = "circe"\n')
    return root


def whole(root):
    """Return every file and folder with its bytes and times."""
    return {
        str(path.relative_to(root)): (
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
            path.stat().st_mtime_ns,
        )
        for path in root.rglob("*")
    }


def lose_store(project):
    for path in (project.root / ".treadle").glob("treadle.db*"):
        path.unlink()


READS = [
    ("task", "list", "--json"),
    ("task", "show", "FEAT-001", "--json"),
    ("mail", "list", "--json"),
    ("mail", "list", "--as", "engineer", "--json"),
    ("mail", "search", "which", "--json"),
    ("mail", "agents", "--json"),
    ("mail", "reindex", "--json"),
    ("desk", "--json"),
    ("next", "--query", "--json"),
    ("status", "--json"),
    ("doctor", "--json"),
]


def test_reading_a_tree_leaves_every_byte_and_time(project, tree):
    before = whole(tree)
    for _ in range(2):
        for words in READS:
            project.treadle(*words)
            assert whole(tree) == before, words
        lose_store(project)


def test_the_page_leaves_every_byte(project, tree):
    site = Site(open_context(project.root, os.environ), Keys(), PORT)
    browser = Client(site)
    browser.get("/enter", params={"key": site.keys.new_link()})
    before = whole(tree)
    for path in ("/desk", "/board", "/mail", "/inbox", "/health", "/missions"):
        assert browser.get(path).status_code == 200
        assert whole(tree) == before, path
    assert "FEAT-002" in browser.get("/board").text


def test_serving_a_tree_leaves_every_byte(project, tree):
    before = whole(tree)
    assert project.treadle("serve", "--once", "--no-web").code == 0
    assert project.treadle("process", "--json").code in (0, 1, 3)
    assert whole(tree) == before


def test_letters_of_a_tree_that_was_left_are_not_shown(project, tree):
    for _ in range(2):
        listed = project.treadle("mail", "list", "--json").json["letters"]
        assert {row["file"].partition("/")[0] for row in listed} == {"circe"}
        assert len(listed) == 5


def test_tasks_are_as_their_files_say(project, tree):
    found = {
        row["task_id"]: (row["status"], row["owner"], row["goal"])
        for row in project.treadle("task", "list", "--json").json["tasks"]
    }
    assert found == {
        "FEAT-001": ("completed", "engineer", "Add pagination"),
        "FEAT-002": ("in_progress", "engineer", "Add auth"),
        "FEAT-003": ("blocked", "qa", "FEAT-003"),
        "FEAT-004": ("new", None, "Known by a letter"),
        "FEAT-005": ("claimed", "qa", "Do it"),
    }
    shown = project.treadle("task", "show", "FEAT-001", "--json").json
    assert shown["checks"] == {
        "tests_passed": True,
        "coverage_threshold_met": True,
        "peer_reviewed": False,
        "ready_for_merge": False,
    }
    assert shown["updated_at"].startswith("2025-11-06T15:30:00")
    (item,) = project.treadle("desk", "--json").json["items"]
    assert "Which one?" in item["summary"]
    refused = project.treadle("task", "claim", "FEAT-002", "--as", "bob", "--json")
    assert (refused.code, refused.json["error"]["code"]) == (3, "task_held")


def test_a_change_touches_only_the_lines_of_our_keys(project, tree):
    before = whole(tree)
    moved = project.treadle("task", "move", "FEAT-002", "--to", "blocked", "--as", "engineer")
    assert moved.code == 0, moved
    after = whole(tree)
    changed = {name for name in after if after[name] != before.get(name)}
    files = {"TASKS/FEAT-002.status", "TASKS/FEAT-002.checks"}
    assert changed == {"TASKS", *files}
    lines = (tree / "TASKS/FEAT-002.status").read_text().split("\n")
    assert lines[:5] == [
        "task_id: FEAT-002",
        "sprint: 14",
        "status: blocked # since Monday",
        'owner: "engineer"',
        "notes: |",
    ]
    assert lines[5:8] == HELD.split("\n")[5:8]
    assert lines[8] != HELD.split("\n")[8]
    assert lines[9:] == ["# the end"]
    assert (tree / "TASKS/FEAT-002.checks").read_text() == (
        "tests_passed: true\ncoverage_threshold_met: true\n"
        "peer_reviewed: false\nready_for_merge: false\nlinted: yes\n"
    )
    for words in READS:
        project.treadle(*words)
    assert whole(tree) == after


def test_a_letter_judges_coverage_only_if_it_names_it(project):
    def send(*words):
        sent = project.treadle("mail", "send", "--from", *words, "--task", "C-1", "--json")
        assert sent.code == 0, sent

    def checks():
        return project.treadle("task", "show", "C-1", "--json").json["checks"]

    send("boss", "--to", "ada", "--intent", "fix_bug", "--ac", "90% coverage")
    results = ("qa", "--to", "ada", "--intent", "test_results", "--status", "completed")
    send(*results, "--summary", "47/47 passed")
    assert (checks()["tests_passed"], checks()["coverage_threshold_met"]) == (True, False)
    send(*results, "--summary", "47/47 passed (94% coverage)")
    assert checks()["coverage_threshold_met"] is True
