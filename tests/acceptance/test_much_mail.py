"""People with a lot of mail: several readers, threads, urgency, what is overdue, who is there."""

import json
import shlex

import pytest

from tests.acceptance.test_letters import mail, name_of
from tests.builder import wait_for

__all__ = ["mail"]

DUE = ("--ack-required", "--due-at", "2026-01-01T00:00:00Z")
WORK = (
    "# MESSAGE\nfrom: ada\nto: bob\nintent: fix_bug\nstatus: new\n"
    "created_at: 2025-11-21T17:00:00Z\n\n## Summary\nMend it\n"
)


def desk(project):
    return project.treadle("desk", "--json").json["items"]


def test_each_of_several_gets_a_letter_of_its_own(project, mail):
    sent = mail.send("boss", "Ada, bob,ada", "inform", "--summary", "Lunch")
    assert sent["file"].startswith(".treadle/mail/LOGS/")
    assert "_boss-ada+bob_inform" in sent["file"]
    for agent in ("ada", "bob"):
        (letter,) = mail("list", "--as", agent)["letters"]
        assert (letter["to"], letter["summary"], letter["box"]) == (agent, "Lunch", "new")
        assert mail("claim", "--as", agent)["file"].endswith(name_of(letter))
        mail("ack", sent["message_id"], "--as", agent)
    assert {path.partition("/")[0] for path in mail.tree()} == {"LOGS"}
    assert len(mail.tree()) == 3
    mail("reindex")
    assert mail("read", name_of(sent))["to"] == "ada, bob"


def test_work_for_several_goes_to_the_first_who_claims_it(mail):
    mail.send("boss", "ada,bob", "fix_bug", "--task", "B-1")
    assert mail("claim", "--as", "bob")["claim_id"]
    assert mail("claim", "--task", "B-1", "--as", "ada", code=3)["error"]["holder"] == "bob"


def test_a_question_to_several_asks_the_human_once(project, mail):
    sent = mail.send("ada", "rooster,bob", "question", "--summary", "Which?")
    (item,) = desk(project)
    assert item["summary"] == "ada: Which?"
    answered = project.treadle("answer", item["item_id"], "This", "--json").json
    reply = mail("read", answered["letter"])
    assert (reply["to"], reply["headers"]["in_reply_to"]) == ("ada", sent["message_id"])
    assert mail("list", "--as", "human")["letters"] == []
    assert len(mail("list", "--as", "bob")["letters"]) == 1


def test_a_hundred_readers_are_fine_and_thousands_are_refused(project, mail):
    names = [f"agent{number}" for number in range(100)]
    sent = mail.send("boss", ",".join(names), "inform")
    assert "_boss-several_inform" in sent["file"]
    assert mail("list", "--limit", "1")["total"] == 100
    many = ",".join(f"agent{number}" for number in range(2000))
    error = mail.send("boss", many, "inform", code=2)["error"]
    assert "at most 128 agents, not to 2000" in error["message"]
    assert "stands alone" in mail.send("boss", "all,bob", "inform", code=2)["error"]["message"]
    mail.put("NEW_MESSAGES/x.md", WORK.replace("to: bob", f"to: {many}"))
    wait_for(lambda: mail("list", "--limit", "1") and (mail.root / "LOGS/quarantine/x.md").exists())


def test_a_letter_to_several_written_by_hand_reaches_each(project, mail):
    mail.put("NEW_MESSAGES/x.md", WORK.replace("to: bob", "to: Bob, eve\ntask_id: B-1"))
    for agent, total in (("bob", 1), ("eve", 1), ("ann", 0)):  # before anything is given out
        assert mail("list", "--as", agent)["total"] == total
    assert project.treadle("mail", "watch", "--as", "eve", "--timeout", "0").code == 0
    assert mail("claim", "--as", "bob")["to"] == "bob"
    assert [row["to"] for row in mail("list", "--as", "eve")["letters"]] == ["eve"]
    mail.put("NEW_MESSAGES/y.md", WORK.replace("to: bob", "to: Bob, eve\ntask_id: B-2"))
    assert mail("list", "--as", "eve")["total"] == 2
    assert {"LOGS/x.md", "LOGS/y.md"} < set(mail.tree())


def test_a_thread_is_everything_that_answers(mail):
    first = mail.send("ada", "bob", "question", "--summary", "one")
    mail.send("ada", "bob", "question", "--summary", "other")
    second = mail("reply", name_of(first), "--as", "bob", "--summary", "two")
    third = mail("reply", name_of(second), "--as", "ada", "--summary", "three")
    mail("ack", name_of(first), "--as", "bob")
    mail.put(
        "NEW_MESSAGES/four.md", WORK.replace("\n\n", f"\nin_reply_to: {name_of(second)}\n\n", 1)
    )
    for letter in (first, second, third):
        found = mail("thread", name_of(letter))
        said = {row["summary"] for row in found["letters"]}
        assert (said, found["total"]) == ({"one", "two", "three", "Mend it"}, 4)
    assert mail("thread", "gone.md", code=1)["error"]["code"] == "not_found"


@pytest.mark.real
def test_agents_are_listed_with_what_they_hold(project, mail):
    assert mail("agents")["agents"] == []
    mail.send("boss", "bob", "fix_bug", "--task", "B-1")
    mail("claim", "--as", "bob")
    mail.send("boss", "bob", "inform")
    mail.send("boss", "all", "inform")
    found = mail("agents")
    assert (found["total"], found["more"]) == (2, False)
    bob, boss = found["agents"]
    assert (bob["agent"], bob["unread"], boss["agent"], boss["unread"]) == ("bob", 2, "boss", 0)
    assert [held["task_id"] for held in bob["leases"]] == ["B-1"]
    assert bob["leases"][0]["until"] > bob["last_seen"] > "2026"
    assert boss["last_seen"] > "2026"
    shown = project.treadle("mail", "agents").out.splitlines()
    assert shown[1].split()[0] == "bob"
    assert "B-1 until" in shown[1]


@pytest.mark.real
def test_the_most_urgent_letter_comes_first(mail):
    for word in ("low", "", "p1", "urgent", "high", "whenever"):
        mail.send(
            "ada",
            "bob",
            "inform",
            *(("--priority", word) if word else ()),
            "--summary",
            word or "none",
        )
    order = ["urgent", "high", "p1", "whenever", "none", "low"]
    assert [row["summary"] for row in mail("list", "--as", "bob")["letters"]] == order
    taken = [mail("claim", "--as", "bob")["summary"] for _ in range(6)]
    assert taken == ["urgent", "p1", "high", "none", "whenever", "low"]


@pytest.mark.real
def test_what_nobody_acknowledged_in_time_is_on_the_desk_until_somebody_does(project, mail):
    sent = mail.send("boss", "bob", "inform", "--summary", "Read this", *DUE)
    mail.send("boss", "bob", "inform", "--due-at", "2026-01-01T00:00:00Z")
    mail.send("boss", "bob", "inform", "--ack-required", "--due-at", "2099-01-01T00:00:00Z")
    (item,) = desk(project)
    assert "bob has not acknowledged a letter from boss" in item["summary"]
    assert item["summary"].endswith(": Read this")
    assert [it["item_id"] for it in desk(project)] == [item["item_id"]]
    mail("claim", name_of(sent), "--as", "bob")
    assert len(desk(project)) == 1
    (ack,) = [line for line in item["fix"] if line.startswith("treadle mail ack")]
    assert project.treadle(*shlex.split(ack)[1:]).code == 0
    assert desk(project) == []


@pytest.mark.real
def test_an_overdue_letter_moved_by_hand_is_handled(project, mail):
    sent = mail.send("boss", "bob", "inform", *DUE)
    assert len(desk(project)) == 1
    (mail.root / "LOGS").mkdir(exist_ok=True)
    (mail.root / "NEW_MESSAGES" / name_of(sent)).rename(mail.root / "LOGS" / name_of(sent))
    assert desk(project) == []


@pytest.mark.real
def test_words_about_an_overdue_letter_reach_who_has_it(project, mail):
    sent = mail.send("boss", "bob", "inform", *DUE)
    (item,) = desk(project)
    answered = project.treadle("answer", item["item_id"], "Please hurry", "--json").json
    letter = mail("read", answered["letter"])
    assert (letter["from"], letter["to"], letter["summary"]) == ("human", "bob", "Please hurry")
    assert letter["headers"]["in_reply_to"] == sent["message_id"]
    assert desk(project) == []
    mail("list")
    assert desk(project) == []


@pytest.mark.real
def test_copies_of_an_overdue_letter_are_asked_about_one_by_one(project, mail):
    for agent in ("ada", "bob"):
        mail("claim", "--as", agent)
    sent = mail.send("boss", "all", "inform", *DUE)
    assert sorted(item["summary"].split()[0] for item in desk(project)) == ["ada", "bob"]
    mail("ack", name_of(sent), "--as", "ada")
    assert [item["summary"].split()[0] for item in desk(project)] == ["bob"]


@pytest.mark.real
def test_whoever_follows_sees_every_letter(project, mail):
    mail.send("ada", "qa", "inform", "--summary", "one")
    watching = project.start("mail", "watch", "--as", "qa", "--follow", "--timeout", "60", "--json")
    lines = [json.loads(watching.stdout.readline())["summary"]]
    for word in ("two", "three"):
        mail.send("ada", "qa", "inform", "--summary", word)
        lines.append(json.loads(watching.stdout.readline())["summary"])
    watching.kill()
    watching.communicate()
    assert lines == ["one", "two", "three"]
    nothing = project.treadle(
        "mail", "watch", "--as", "eve", "--follow", "--timeout", "0", "--json"
    )
    assert (nothing.code, nothing.out) == (1, "")


@pytest.mark.real
@pytest.mark.parametrize("folder", ["NEW_MESSAGES", "AGENTS/bob/INBOX"])
def test_work_found_without_a_task_is_asked_about(project, mail, folder):
    mail.put(f"{folder}/x.md", WORK)
    (item,) = desk(project)
    assert item["summary"].startswith("ada asks bob for work (fix_bug) that belongs to no task")
    assert item["options"] == ["a new task"]
    assert (mail.root / folder / "x.md").read_text() == WORK
    if folder == "NEW_MESSAGES":
        assert mail("claim", "--as", "bob") == {"file": None, "reason": "nothing_waits"}
        error = mail("claim", "x.md", "--as", "bob", code=3)["error"]
        assert (error["code"], error["fix"]) == ("task_id_missing", ["treadle desk"])
    assert project.treadle("task", "list", "--json").json["tasks"] == []
    (answer,) = [line for line in item["fix"] if line.startswith("treadle answer")]
    assert project.treadle(*shlex.split(answer)[1:]).code == 0
    claimed = mail("claim", "--as", "bob")
    assert (claimed["from"], claimed["summary"], claimed["task_id"]) == ("ada", "Mend it", "T-1")
    assert mail("read", name_of(claimed))["headers"]["in_reply_to"] == "x.md"
    assert (mail.root / "LOGS/x.md").read_text() == WORK
    assert desk(project) == []


@pytest.mark.real
def test_a_person_names_the_task_or_says_no(project, mail):
    mail.put("NEW_MESSAGES/x.md", WORK)
    mail.put("NEW_MESSAGES/y.md", WORK.replace("Mend it", "And that"))
    first, second = desk(project)
    assert project.treadle("answer", first["item_id"], "B-7").code == 0
    assert mail("claim", "--as", "bob")["task_id"] == "B-7"
    assert project.treadle("answer", second["item_id"], "We do not do that").code == 0
    (told,) = mail("list", "--as", "ada")["letters"]
    assert (told["intent"], told["summary"]) == ("answer", "We do not do that")
    assert {"LOGS/x.md", "LOGS/y.md"} < set(mail.tree())
    assert desk(project) == []


@pytest.mark.real
def test_an_answer_cut_off_sends_the_work_once(project, mail):
    mail.put("NEW_MESSAGES/x.md", WORK)
    (item,) = desk(project)
    for point in ("after_answer_taken", "after_answer_sent"):
        killed = project.treadle("answer", item["item_id"], "B-7", env={"TREADLE_DIE_AT": point})
        assert killed.code == -9
    assert project.treadle("answer", item["item_id"], "B-7").code == 0
    found = mail("list", "--all", "--task", "B-7")["letters"]
    assert [row["task_id"] for row in found] == ["B-7"]
