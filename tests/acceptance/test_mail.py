"""Letters through the real command: the message flow, bad input, broadcasts, a run's letters."""

import json
import os
import shlex

import pytest

from tests.acceptance.mailbox import Mailbox

FLOW = "20251121_170000_coordinator-all_implement-feature_AUTH-012.md"
TEST = "20251121_183000_engineer-qa_test_AUTH-012.md"
LETTER = """# MESSAGE
from: coordinator
to: all
intent: implement_feature
task_id: AUTH-012
status: new
created_at: 2025-11-21T17:00:00Z

## Summary
Implement JWT-based authentication for API endpoints

## Acceptance Criteria
- JWT token generation and validation
- Unit tests with 90%+ coverage
"""


@pytest.fixture
def mail(project):
    return Mailbox(project)


def test_the_message_flow_example(project, mail):
    new = mail.root / "NEW_MESSAGES"
    new.mkdir(parents=True)
    (new / FLOW).write_text(LETTER)  # 1. the coordinator creates the task

    claimed = mail("claim", "--as", "engineer")  # 2. the engineer claims it
    assert claimed["file"] == f".treadle/mail/AGENTS/engineer/INBOX/{FLOW}"
    assert claimed["claim_id"]
    assert "task_id: AUTH-012\nstatus: claimed\nowner: engineer\n" in mail.task("status")
    assert mail.task("owner").startswith("owner: engineer\nclaimed_at: ")

    mail("ack", FLOW, "--as", "engineer")  # 3. and works on it
    assert (mail.root / "AGENTS/engineer/WORKSPACE" / FLOW).read_text() == LETTER
    project.treadle("task", "move", "AUTH-012", "--to", "in_progress", "--as", "engineer")
    assert "status: in_progress" in mail.task("status")
    mail.send("engineer", "coordinator", "status_update", "--task", "AUTH-012")

    at = ("--task", "AUTH-012", "--created-at", "2025-11-21T18:30:00Z")
    sent = mail.send("engineer", "qa", "test", *at)  # 4. the engineer is through
    assert sent["file"] == f".treadle/mail/NEW_MESSAGES/{TEST}"

    assert mail("claim", "--as", "qa")["file"].endswith(f"AGENTS/qa/INBOX/{TEST}")  # 5. QA tests
    early = project.treadle("task", "done", "AUTH-012", "--as", "coordinator", "--json")
    assert (early.code, early.json["error"]["code"]) == (3, "tests_not_passed")
    mail(
        "reply",
        TEST,
        "--as",
        "qa",
        "--status",
        "completed",
        "--summary",
        "47/47 passed, 94% coverage",
    )
    assert mail.task("checks").startswith("tests_passed: true\ncoverage_threshold_met: true\n")

    done = project.treadle("task", "done", "AUTH-012", "--as", "coordinator", "--json")  # 6.
    assert (done.code, done.json["to_lane"]) == (0, "done")
    assert "status: completed" in mail.task("status")
    assert {path.partition("/")[0] for path in mail.tree()} == {"LOGS"}
    assert f"LOGS/{FLOW}" in mail.tree()
    assert project.git("status", "--porcelain") == ""


def test_escalation_reaches_the_desk_and_the_answer_comes_back(project, mail):
    mail.send("boss", "ada", "fix_bug", "--task", "B-1", "--summary", "Mend it")
    mail("claim", "--as", "ada")
    body = project.root.parent / "body.md"
    body.write_text("## Summary\nWhich?\n\n## Options\n1. Red\n2. Blue\n")
    sent = mail.send("ada", "human", "escalate", "--task", "B-1", "--body", str(body))
    assert project.treadle("task", "show", "B-1", "--json").json["lane"] == "blocked"
    (item,) = project.treadle("desk", "--json").json["items"]
    assert (item["kind"], item["task_id"], item["options"]) == ("question", "B-1", ["Red", "Blue"])
    assert f"treadle answer {item['item_id']} --option 2" in item["fix"]
    wrong = project.treadle("answer", item["item_id"], "--option", "3", "--json")
    assert (wrong.code, "2: Blue" in wrong.json["error"]["message"]) == (2, True)
    answered = project.treadle("answer", item["item_id"], "--option", "2", "--json").json
    assert (answered["answer"], answered["lane"]) == ("Blue", "in_progress")
    assert project.treadle("desk", "--json").json["items"] == []
    twice = project.treadle("answer", item["item_id"], "again", "--json")
    assert twice.json["error"]["code"] == "question_answered"
    (letter,) = mail("list", "--as", "ada", "--box", "new")["letters"]
    assert (letter["from"], letter["intent"], letter["summary"]) == ("human", "answer", "Blue")
    assert mail("read", letter["file"])["headers"]["in_reply_to"] == sent["message_id"]


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("send", "--to", "b", "--intent", "implement_featur"), 2, "intent_unknown"),
        (("send", "--to", "b", "--intent", "fix_bug"), 2, "task_id_missing"),
        (("send", "--to", "../b", "--intent", "inform"), 2, "agent_id_invalid"),
        (("send", "--to", "b", "--intent", "inform", "--reply-to", "x.md"), 1, "not_found"),
        (("send", "--to", "b", "--intent", "inform", "--body", "/nowhere"), 2, "usage"),
        (("reply", "gone.md"), 1, "not_found"),
        (("claim", "gone.md", "--as", "a"), 1, "not_found"),
        (("ack", "gone.md", "--as", "all"), 2, "agent_id_invalid"),
        (("archive",), 2, "usage"),
        (("list", "--limit", "0"), 2, "usage"),
    ],
)
def test_bad_input_is_refused_in_one_document(mail, words, code, error):
    assert mail(*words, code=code)["error"]["code"] == error
    assert mail("list")["letters"] == []


def test_a_wrong_claimant_is_told_whose_the_letter_is(mail):
    sent = mail.send("a", "bob", "inform")
    error = mail("claim", sent["file"], "--as", "ada", code=3)["error"]
    assert (error["code"], "addressed to bob" in error["message"]) == ("letter_not_yours", True)


def test_a_letter_wakes_who_watches(project, mail):
    watching = project.start("mail", "watch", "--as", "qa", "--timeout", "30", "--json")
    mail.send("ada", "qa", "inform", "--summary", "Look")
    out, _ = watching.communicate(timeout=120)
    assert (watching.returncode, json.loads(out)["letters"][0]["summary"]) == (0, "Look")
    assert mail("watch", "--as", "ada", "--timeout", "0", code=1)["letters"] == []


def test_searching_reading_and_archiving(mail):
    sent = mail.send("ada", "bob", "inform", "--summary", "Tokens time out under load")
    assert mail("search", "tokens", "LOAD")["letters"][0]["message_id"] == sent["message_id"]
    mail("archive", sent["file"])
    assert mail("list")["letters"] == []
    (found,) = mail("list", "--all")["letters"]
    assert found["file"].startswith(".treadle/mail/LOGS/")
    assert mail("reindex") == {"letters": 1, "set_aside": []}
    assert len(mail("search", "tokens")["letters"]) == 1


def test_letters_may_lie_in_a_tree_of_ones_own(project, mail):
    project.settings('[mail]\nroot = "circe"\nextra_intents = ["dance"]\n')
    sent = mail.send("a", "b", "dance")
    assert sent["file"].startswith("circe/NEW_MESSAGES/")
    project.treadle("task", "add", "Goal", "--id", "X-1")
    assert (project.root / "circe/TASKS/X-1.status").read_text().startswith("task_id: X-1\n")
    project.git("add", "circe")
    (told,) = [c for c in project.treadle("doctor", "--json").json["checks"] if c["name"] == "mail"]
    assert "mail commands change your work tree" in told["detail"]


def test_inside_a_run_letters_are_left_and_reads_work(project, mail, tmp_path):
    sent = mail.send("a", "b", "inform")
    mail("list")
    env = {
        "TREADLE_RUN": "20260101-000000-000000",
        "TREADLE_PROJECT": str(project.root),
        "TREADLE_LETTERS": str(tmp_path / "outbox"),
    }
    assert len(mail("list", env=env)["letters"]) == 1
    left = mail.send("a", "b", "inform", env=env)
    assert left["file"].startswith(str(tmp_path / "outbox"))
    refused = mail("archive", sent["file"], env=env, code=3)
    assert refused["error"]["code"] == "inside_run"
    assert len(mail.tree()) == 1


@pytest.fixture
def tasked(project, mail):
    """A task by letter, and agents that make it pass in the second iteration."""
    mail.send("boss", "human", "fix_bug", "--task", "B-1", "--ac", "done.txt is there")
    project.good_agents()
    return project


def test_a_run_that_ends_twice_tells_the_same_person_twice(project):
    project.settings('[agents.do]\ntype = "builtin"\nrun = ["true"]\n')
    project.treadle("task", "add", "Make done.txt", "--verify", "AC1=test -f done.txt")
    stopped = project.treadle("run", "T-1", "--budget", "max_iterations=1", "--json")
    assert stopped.code == 4
    project.treadle("run", "--resume", "2", "--budget", "max_iterations=2")
    mail = project.root / ".treadle" / "mail" / "NEW_MESSAGES"
    assert [path.name.split("_")[2] for path in mail.iterdir()] == ["builtin-human"] * 2


def test_agents_read_letters_write_letters_and_the_asker_hears_of_the_end(tasked, mail):
    tasked.agent(
        "do",
        'write("outbox/note.md", "# MESSAGE\\nfrom: human\\nto: boss\\nintent: inform\\n'
        'status: new\\ncreated_at: 2026-01-01T00:00:00Z\\n\\nHello from do")\n'
        'write("outbox/bad.md", "# MESSAGE\\nfrom: a\\n\\n"); ok()',
    )
    mail.send("ada", "all", "inform", "--task", "B-1", "--summary", "Mind the gap")
    run = tasked.treadle("run", "B-1", "--json").json
    assert run["status"] == "passed"
    asked = tasked.step_dir(run["run_id"], "001-plan") / "input.json"
    notes = json.loads(asked.read_text())["context"]["notes"]
    assert "From ada to all, inform" in notes
    assert "Mind the gap" in notes
    again = tasked.step_dir(run["run_id"], "005-plan") / "input.json"
    assert "Mind the gap" not in json.loads(again.read_text())["context"]["notes"]
    assert len(mail("list", "--as", "boss", "--box", "new")["letters"]) == 4
    assert tasked.treadle("land", run["run_id"]).code == 0
    letters = mail("list", "--as", "boss")["letters"]
    assert [
        (row["from"], row["intent"], row["status"]) for row in letters if row["box"] == "new"
    ] == [
        ("check", "test_results", "completed"),
        ("do", "inform", "new"),
        ("do", "inform", "new"),
    ]
    assert "letter_refused" in tasked.event_types(run["run_id"])
    assert "tests_passed: true" in (mail.root / "TASKS/B-1.checks").read_text()


def test_a_run_that_stops_asks_for_help_once(tasked, mail):
    tasked.agent("act", "ok()")
    run = tasked.treadle("run", "B-1", "--budget", "max_iterations=1", "--json").json
    assert run["status"] == "stopped"
    (letter,) = mail("list", "--as", "boss", "--box", "new")["letters"]
    assert (letter["intent"], letter["status"]) == ("escalate", "blocked")
    (item,) = tasked.treadle("desk", "--json").json["items"]
    assert item["kind"] == "budget"
    answered = tasked.treadle("answer", item["item_id"], "--option", "1", "--json").json
    assert answered["commands"][0].startswith(f"treadle run --resume {run['run_id']}")
    assert tasked.show(run["run_id"])["status"] == "stopped"


def test_a_patch_keeps_off_what_others_reserved(tasked, mail):
    tasked.treadle("task", "add", "Other", "--id", "WP01")
    tasked.treadle("task", "claim", "WP01", "--as", "engineer")
    kept = tasked.treadle(
        "task", "reserve", "WP01", "done.*", "src/auth/**", "--as", "engineer", "--json"
    ).json
    assert [row["pattern"] for row in kept["reservations"]] == ["done.*", "src/auth/**"]
    shown = tasked.treadle("task", "show", "WP01", "--json").json
    assert len(shown["reservations"]) == 2
    other = tasked.treadle("task", "reserve", "WP01", "x", "--as", "bob", "--json")
    assert other.json["error"]["code"] == "task_held"
    run = tasked.treadle("run", "B-1", "--json").json
    assert run["status"] == "failed"
    assert "done.txt is reserved by engineer for WP01" in run["reason"]
    tasked.treadle("task", "reserve", "WP01", "--release", "--as", "engineer")
    assert tasked.treadle("run", "B-1", "--json").json["status"] == "passed"


@pytest.mark.parametrize(
    ("role", "dies_at"),
    [
        ("plan", "after_transaction:1"),
        pytest.param("plan", "before_transaction:1", marks=pytest.mark.real),
        pytest.param("check", "after_transaction:3", marks=pytest.mark.real),
    ],
)
def test_a_letter_left_before_a_kill_is_delivered_once(tasked, mail, role, dies_at):
    tasked.agent("do", 'write("files/x", "1"); ok()')
    letter = f'write("outbox/20260101_000000_x-boss_inform_B-1.md", "From {role}")\n'
    rest = 'verdict("PASS", AC1=True); ok()' if role == "check" else "ok()"
    tasked.agent(role, letter + rest)
    killed = tasked.treadle("run", "B-1", env={"TREADLE_DIE_AT": dies_at})
    assert killed.code == -9
    assert not [path for path in mail.tree() if "x-boss" in path or f"{role}-boss" in path]
    tasked.agent(role, rest)
    for _ in range(2):
        tasked.treadle("run", "--goal", "Other", "--verify", "AC1=true")
    found = mail("list", "--all", "--task", "B-1", "--intent", "inform")["letters"]
    assert [row["from"] for row in found] == [role]
    if role == "check":
        results = mail("list", "--as", "boss", "--intent", "test_results")["letters"]
        assert [row["status"] for row in results] == ["completed"]


def test_commands_for_a_letter_with_an_odd_name_can_be_typed_as_they_stand(project, mail):
    name = "-it's a question.md"
    (mail.root / "NEW_MESSAGES").mkdir(parents=True)
    text = LETTER.replace("to: all", "to: human").replace("implement_feature", "question")
    (mail.root / "NEW_MESSAGES" / name).write_text(text)
    (item,) = project.treadle("desk", "--json").json["items"]
    refused = project.treadle("mail", "claim", "--json", "--as", "bob", "--", name)
    assert refused.json["error"]["fix"] == item["fix"][:1]
    shown = project.treadle(*shlex.split(item["fix"][0])[1:])
    assert (shown.code, shown.out.startswith("# MESSAGE\n")) == (0, True)


def test_a_letter_with_an_intent_nobody_knows_is_shown_with_a_warning(project, mail):
    (mail.root / "NEW_MESSAGES").mkdir(parents=True)
    (mail.root / "NEW_MESSAGES" / FLOW).write_text(LETTER.replace("implement_feature", "dance"))
    shown = project.treadle("mail", "read", FLOW, "--json")
    assert (shown.code, shown.json["intent"]) == (0, "dance")
    assert shown.err == (
        f"treadle: warning: {FLOW}: there is no intent dance; mail.extra_intents can add it\n"
    )


def test_more_days_than_a_clock_can_count_leave_everything_where_it_is(project, mail):
    mail.send("ada", "bob", "inform")
    assert mail("archive", "--older-than", "1000000000")["letters"] == []
    pruned = project.treadle("runs", "prune", "--older-than", "1000000000", "--json")
    assert (pruned.code, pruned.json["workspaces"]) == (0, [])


def test_a_file_that_is_no_letter_is_told_by_whoever_takes_it_in(project, mail):
    (mail.root / "NEW_MESSAGES").mkdir(parents=True)
    path = mail.root / "NEW_MESSAGES" / "shopping.md"
    path.write_text("milk\n")
    os.utime(path, (0, 0))  # one that is young may still be being written
    found = project.treadle("mail", "claim", "--as", "ada")
    assert (found.code, found.out) == (0, "no letter waits for ada\n")
    assert "warning: shopping.md was set aside in LOGS/quarantine: no header from" in found.err
