"""Letters through the real command: one name each for ever, honest answers, who is who."""

import shlex
import sqlite3
from pathlib import Path

import pytest

from tests.acceptance.mailbox import Mailbox

AT = ("--created-at", "2025-11-21T17:00:00Z")
NAME = "20251121_170000_ada-bob_inform.md"
LETTER = (
    "# MESSAGE\nfrom: ada\nto: bob\nintent: inform\nstatus: new\n"
    "created_at: 2025-11-21T17:00:00Z\n\n## Summary\n{}\n"
)


@pytest.fixture
def mail(project):
    return Mailbox(project)


def let_leases_run_out(project):
    with sqlite3.connect(project.root / ".treadle" / "treadle.db") as rows:
        rows.execute("UPDATE tasks SET lease_until = '2020-01-01T00:00:00.000000Z'")


def name_of(told):
    return told["file"].rpartition("/")[2]


@pytest.mark.parametrize("folder", ["LOGS", "LOGS/2025-11", "AGENTS/bob/WORKSPACE"])
def test_a_name_is_given_once_wherever_its_letter_lies_now(mail, folder):
    mail.put(f"{folder}/{NAME}", LETTER.format("old"))
    sent = mail.send("ada", "bob", "inform", "--summary", "new", *AT)
    assert name_of(sent) == NAME.replace(".md", "~002.md")
    assert mail("read", NAME)["summary"] == "old"
    assert mail("read", name_of(sent))["summary"] == "new"
    mail("ack", name_of(sent), "--as", "bob")
    third = mail.send("ada", "bob", "inform", "--summary", "third", *AT)
    assert name_of(third) == NAME.replace(".md", "~003.md")
    assert mail("read", name_of(sent))["summary"] == "new"


def test_copies_have_names_of_their_own_that_last(mail):
    for agent in ("ada", "bob"):
        mail("claim", "--as", agent)
    sent = mail.send("boss", "all", "inform", "--summary", "Lunch", *AT)
    names = [path.rpartition("/")[2] for path in mail.tree()]
    assert len(set(names)) == len(names) == 3
    copy = mail("read", name_of(sent), "--as", "ada")
    assert copy["file"].startswith(".treadle/mail/AGENTS/ada/INBOX/")
    assert (copy["to"], copy["headers"]["copy_of"]) == ("all", name_of(sent))
    mail("ack", name_of(sent), "--as", "ada")
    mail("ack", name_of(sent), "--as", "bob")
    assert sorted(mail.tree()) == sorted(f"LOGS/{name}" for name in names)
    mail("reindex")
    assert mail("read", name_of(sent))["file"] == f".treadle/mail/LOGS/{name_of(sent)}"


def test_letters_of_one_name_are_told_apart_by_their_folder(mail):
    mail.put(f"LOGS/{NAME}", LETTER.format("old"))
    mail.put(f"NEW_MESSAGES/{NAME}", LETTER.format("new"))
    for verb in ("read", "ack", "claim"):
        error = mail(verb, NAME, "--as", "bob", code=2)["error"]
        assert error["code"] == "letter_ambiguous"
        assert f"LOGS/{NAME}, NEW_MESSAGES/{NAME}" in error["message"].replace(
            f"NEW_MESSAGES/{NAME}, LOGS/{NAME}", f"LOGS/{NAME}, NEW_MESSAGES/{NAME}"
        )
        assert f"treadle mail read LOGS/{NAME}" in error["fix"]
    assert mail("read", f"LOGS/{NAME}")["summary"] == "old"
    assert mail("read", f"NEW_MESSAGES/{NAME}")["summary"] == "new"
    mail("ack", f"NEW_MESSAGES/{NAME}", "--as", "bob")
    assert mail.tree() == [f"LOGS/{NAME}", f"LOGS/{NAME.replace('.md', '~002.md')}"]
    assert mail("read", NAME)["summary"] == "old"


@pytest.mark.parametrize(("folder", "agent"), [("SCRIBE", "scribe"), ("ROOSTER", "human")])
def test_a_folder_in_other_case_is_the_agents_own(mail, folder, agent):
    (mail.root / "AGENTS" / folder / "INBOX").mkdir(parents=True)
    sent = mail.send("ada", agent, "fix_bug", "--task", "B-1")
    claimed = mail("claim", "--as", agent)
    assert claimed["file"] == f".treadle/mail/AGENTS/{folder}/INBOX/{name_of(sent)}"
    assert mail("ack", name_of(sent), "--as", agent)["file"].split("/")[-3:-1] == [
        folder,
        "WORKSPACE",
    ]
    mail.send("ada", "all", "inform")
    (copy,) = mail("list", "--as", agent, "--box", "inbox")["letters"]
    assert copy["file"].startswith(f".treadle/mail/AGENTS/{folder}/INBOX/")
    assert sorted(path.name for path in (mail.root / "AGENTS").iterdir()) == [folder, "ada"]


def test_claiming_answers_what_is_so(project, mail):
    assert mail("claim", "--as", "ada") == {"file": None, "reason": "nothing_waits"}
    sent = mail.send("boss", "all", "fix_bug", "--task", "B-1")
    first = mail("claim", "--as", "ada")
    assert first["claim_id"]
    assert mail("claim", "--as", "ada") == {"file": None, "reason": "nothing_waits"}
    for words in ((name_of(sent),), ("--task", "B-1")):
        assert mail("claim", *words, "--as", "ada") == first
    mail("ack", name_of(sent), "--as", "ada")
    assert mail("claim", "--task", "B-1", "--as", "ada")["claim_id"] == first["claim_id"]
    until = project.treadle("task", "show", "B-1", "--json").json["lease_until"]
    for words in ((name_of(sent),), ("--task", "B-1")):
        error = mail("claim", *words, "--as", "bob", code=3)["error"]
        assert (error["code"], error["holder"], error["until"]) == ("held", "ada", until)
        assert project.treadle(*shlex.split(error["fix"][0])[1:]).code == 0
    unknown = mail("claim", "--task", "B-9", "--as", "bob", code=1)["error"]
    assert (unknown["code"], "B-9" in unknown["message"]) == ("not_found", True)


def test_a_task_claimed_without_its_letter_holds_the_letter(project, mail):
    sent = mail.send("boss", "all", "fix_bug", "--task", "B-1")
    project.treadle("task", "claim", "B-1", "--as", "ada")
    for words in ((name_of(sent),), ("--task", "B-1")):
        error = mail("claim", *words, "--as", "bob", code=3)["error"]
        assert (error["code"], error["holder"]) == ("held", "ada")
    assert mail("claim", "--as", "bob") == {"file": None, "reason": "nothing_waits"}


def test_a_claim_whose_lease_ran_out_is_the_holders_until_somebody_takes_it(project, mail):
    mail.send("boss", "all", "fix_bug", "--task", "B-1")
    first = mail("claim", "--as", "ada")
    let_leases_run_out(project)
    assert mail("claim", "--task", "B-1", "--as", "ada")["claim_id"] == first["claim_id"]
    let_leases_run_out(project)
    project.treadle("task", "claim", "B-1", "--as", "bob")
    error = mail("claim", "--task", "B-1", "--as", "ada", code=3)["error"]
    assert (error["code"], error["holder"]) == ("held", "bob")


@pytest.mark.real
def test_what_is_not_there_cannot_be_handled(mail):
    for verb in ("ack", "read", "archive"):
        assert mail(verb, "gone.md", code=1)["error"]["code"] == "not_found"
    assert mail("archive", "--task", "B-9", code=1)["error"]["code"] == "not_found"
    sent = mail.send("ada", "bob", "inform", "--task", "B-1")
    (mail.root / "NEW_MESSAGES" / name_of(sent)).unlink()
    for verb in ("ack", "read", "archive", "claim"):
        words = () if verb == "archive" else ("--as", "bob")
        assert mail(verb, name_of(sent), *words, code=1)["error"]["code"] == "not_found"


@pytest.mark.real
def test_lists_say_how_much_there_is(project, mail):
    for number in range(5):
        mail.send("ada", "bob", "inform", "--summary", f"word {number}", "--task", "B-1")
    mail.send("ada", "all", "fix_bug", "--task", "B-2", "--summary", "word")
    for words, total in (
        (("list",), 6),
        (("list", "--as", "bob"), 6),
        (("list", "--as", "eve"), 1),
        (("list", "--task", "B-1"), 5),
        (("list", "--intent", "inform"), 5),
        (("search", "word"), 6),
    ):
        found = mail(*words)
        assert (found["total"], found["more"], len(found["letters"])) == (total, False, total)
        few = mail(*words, "--limit", "1")
        assert (few["total"], few["more"], len(few["letters"])) == (total, total > 1, 1)
    shown = project.treadle("mail", "list", "--limit", "2")
    assert shown.out.splitlines()[-1] == "6 in all; --limit 6 shows them"
    assert mail("archive", "--task", "B-1")["total"] == 5


def agents(mail):
    folder = mail.root / "AGENTS"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


@pytest.mark.real
def test_reading_registers_nobody_and_acting_does(mail):
    for words in (("list",), ("watch", "--timeout", "0")):
        mail(*words, "--as", "ada", code=words[0] == "watch")
    assert agents(mail) == []
    sent = mail.send("bob", "human", "inform")
    assert agents(mail) == ["bob", "human"]
    mail("read", name_of(sent), "--as", "eve")
    assert agents(mail) == ["bob", "human"]
    mail("claim", "--as", "ada")
    assert agents(mail) == ["ada", "bob", "human"]
    mail.send("eve", "bob", "dance", code=2)
    assert agents(mail) == ["ada", "bob", "human"]


@pytest.mark.real
@pytest.mark.parametrize("name", ["", " ", "unknown", "None", "treadle", "all", "a/b", "???"])
def test_nobody_in_particular_writes_nothing(mail, name):
    for words in (("send", "--to", "bob", "--intent", "inform", "--from"), ("claim", "--as")):
        assert mail(*words, name, code=2)["error"]["code"] == "agent_id_invalid"
    assert agents(mail) == []
    assert mail.tree() == []


@pytest.mark.real
def test_nobody_in_particular_works_on_nothing(project):
    project.treadle("task", "add", "Goal")
    for words in (("task", "claim", "T-1", "--as", ""), ("next", "--agent", "")):
        refused = project.treadle(*words, "--json")
        assert (refused.code, refused.json["error"]["code"]) == (2, "agent_id_invalid")


@pytest.mark.real
def test_inside_a_run_nobody_is_the_human(project, mail, tmp_path):
    env = {
        "TREADLE_RUN": "20260101-000000-000000",
        "TREADLE_PROJECT": str(project.root),
        "TREADLE_LETTERS": str(tmp_path / "outbox"),
    }
    for name in ("human", "Rooster"):
        refused = mail.send(name, "bob", "inform", env=env, code=3)["error"]
        assert (refused["code"], "human" in refused["message"]) == ("inside_run", True)
    send = ("send", "--to", "bob", "--intent", "inform")
    left = mail(*send, env=env | {"TREADLE_AGENT": "do"})["file"]
    assert "\nfrom: do\n" in Path(left).read_text()
    assert "\nfrom: human\n" not in Path(mail(*send, env=env)["file"]).read_text()


@pytest.mark.real
def test_a_run_tells_its_agents_who_they_are(project):
    project.good_agents()
    project.agent("do", 'write("files/who", os.environ["TREADLE_AGENT"]); ok(files=["files/who"])')
    run = project.run_json()
    assert (project.step_dir(run["run_id"], "002-do") / "files/who").read_text() == "do"


@pytest.mark.real
def test_a_name_that_is_nearly_anothers_is_told(project, mail):
    mail("claim", "--as", "engineer")
    mail("claim", "--as", "agent1")
    hint = "nobody here is called enginer; did you mean engineer?"
    listed = project.treadle("mail", "list", "--as", "enginer")
    assert (listed.code, hint in listed.err) == (0, True)
    sent = project.treadle("mail", "send", "--to", "enginer", "--intent", "inform")
    assert (sent.code, hint in sent.err) == (0, True)
    for name in ("agent2", "engineer", "qa", "all", "human"):
        sent = project.treadle("mail", "send", "--to", name, "--intent", "inform")
        assert (sent.code, sent.err) == (0, "")


@pytest.mark.real
def test_rooster_and_human_are_one(project, mail):
    sent = mail.send("ada", "Rooster", "question", "--summary", "Which?")
    (item,) = project.treadle("desk", "--json").json["items"]
    assert item["summary"] == "ada: Which?"
    for name in ("rooster", "human"):
        (row,) = mail("list", "--as", name)["letters"]
        assert row["to"] == "human"
    assert mail("claim", "--as", "ROOSTER")["holder"] == "human"
    assert agents(mail) == ["ada", "human"]
    answer = mail("reply", name_of(sent), "--as", "rooster", "--summary", "This")
    assert "_human-ada_answer" in answer["file"]
    assert project.treadle("desk", "--json").json["items"] == []


@pytest.mark.real
def test_work_without_a_task_is_refused_with_what_to_type(project, mail):
    project.treadle("task", "add", "Other")
    words = ("--summary", "It's broken", "--ac", "works", "--ac=-x", "--priority", "high")
    error = mail.send("ada", "bob", "fix_bug", *words, code=2)["error"]
    assert error["code"] == "task_id_missing"
    (command,) = error["fix"]
    assert project.treadle(*shlex.split(command)[1:]).code == 0
    task = project.treadle("task", "show", "T-2", "--json").json
    assert (task["goal"], len(task["criteria"])) == ("It's broken", 2)
    (letter,) = mail("list", "--as", "bob")["letters"]
    assert (letter["from"], letter["intent"], letter["task_id"]) == ("ada", "fix_bug", "T-2")
    asked = mail.send("bob", "ada", "question")
    error = mail("reply", name_of(asked), "--as", "ada", "--intent", "test", code=2)["error"]
    assert project.treadle(*shlex.split(error["fix"][0])[1:]).code == 0
    told = mail("list", "--as", "bob", "--intent", "test")["letters"][0]
    assert mail("read", name_of(told))["headers"]["in_reply_to"] == asked["message_id"]
