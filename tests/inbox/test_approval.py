"""Agents start no work on their own: their messages ask, and chains end."""

import json
import os
from datetime import UTC, datetime

import pytest

from treadle import desk
from treadle.config.load import load
from treadle.engine.run import memory
from treadle.inbox import plan
from treadle.inbox.schedule import Waiting
from treadle.store.store import Store
from treadle.tasks import questions

CHAIN = "2025022514320000"
CHECKED = "# More\n\n## Acceptance Criteria\n\n- it works: `$ {command}`\n"
GO = CHECKED.format(command="true")


@pytest.fixture
def agents(inbox, tmp_path):
    """An inbox whose default routine lets an agent work: a few lines of shell."""

    def play(do, extra="", default="develop"):
        command = json.dumps(["sh", "-c", f"echo >> count.txt; {do}"])
        agent = f'[agents.do]\ntype = "builtin"\nrun = {command}\n[checks]\nanyway = true\n'
        inbox.settings(f'default_routine = "{default}"\nmax_retries = 1\n{extra}\n{agent}')
        inbox.git("commit", "-qam", "Settings")

    inbox.play, inbox.tmp = play, tmp_path
    return inbox


def sent(agents, text, name="next.md"):
    """Return a line by which an agent sends a message, once."""
    (agents.tmp / name).write_text(text)
    return f"[ -e sent ] || cp {agents.tmp / name} $TREADLE_OUTBOX; touch sent"


def waits(inbox):
    with Store.open(inbox.layout) as store:
        return store.questions()


def decide(inbox, option):
    (item,) = waits(inbox)
    with Store.open(inbox.layout) as store:
        desk.answer(store, item.question_id, desk.Words(option=option), datetime.now(UTC))
    return item


def count(inbox):
    return len(inbox.read("count.txt"))


def test_a_command_in_an_agents_message_is_not_run(agents):
    canary = agents.tmp / "canary"
    agents.play(sent(agents, CHECKED.format(command=f"touch {canary}; true")))
    agents.drop(f"{CHAIN}-0.md", GO)
    first, second = agents.process().outcomes
    assert (first.status, second.status) == ("done", "held")
    assert f"{CHAIN}-1, sent by an agent, would run the command `touch" in second.reason
    assert agents.statuses() == [(f"{CHAIN}-1", "held")]  # and asks no second time
    with agents.reader() as store:
        (planned,) = plan.plan(agents.layout, load(agents.layout, os.environ).config, store)
    assert (planned.would, planned.reason) == ("nothing", second.reason)
    (item,) = waits(agents)
    assert (item.kind, item.labels) == ("approval", ("approve", "drop it"))
    assert (count(agents), canary.exists()) == (1, False)


def test_what_is_approved_is_carried_out_as_it_is(agents):
    agents.play(sent(agents, GO))
    agents.drop(f"{CHAIN}-0.md", GO)
    agents.process()
    item = decide(agents, 1)
    assert questions.commands(item)[1] == f"treadle process {CHAIN}-1"
    assert agents.statuses() == [(f"{CHAIN}-1", "done")]
    assert count(agents) == 2


def test_what_is_not_approved_becomes_a_dead_letter_without_a_second_question(agents):
    agents.play(sent(agents, GO))
    agents.drop(f"{CHAIN}-0.md", GO)
    agents.process()
    decide(agents, 2)
    assert agents.statuses() == [(f"{CHAIN}-1", "dead")]
    assert agents.reason(f"{CHAIN}-1.md")["code"] == "not_approved"
    assert waits(agents) == []


def test_what_was_approved_and_then_changed_asks_again(agents):
    agents.play(sent(agents, GO))
    agents.drop(f"{CHAIN}-0.md", GO)
    agents.process()
    decide(agents, 1)
    path = agents.layout.inbox / f"{CHAIN}-1.md"
    path.write_text(path.read_text().replace("$ true", "$ false"))
    assert agents.statuses() == [(f"{CHAIN}-1", "held")]
    assert "`false`" in waits(agents)[0].summary


@pytest.mark.parametrize("field", ["routine: log", "routine: log.sh"])
def test_an_agent_chooses_no_other_routine(agents, field):
    agents.play(sent(agents, f"---\n{field}\n---\nwrite it down\n"))
    agents.drop(f"{CHAIN}-0.md", GO)
    assert [item.status for item in agents.process().outcomes] == ["done", "held"]
    assert not (agents.root / "log.txt").exists()
    decide(agents, 1)
    assert agents.statuses() == [(f"{CHAIN}-1", "done")]
    assert agents.read("log.txt") == f"{CHAIN}-1\n"


def test_nor_does_the_router_for_it(agents):
    agents.routine("deploy", "echo deployed > deployed.txt", about="Deploy\n# when: deploy")
    agents.play(sent(agents, "deploy deploy\n"))
    agents.drop(f"{CHAIN}-0.md", GO)
    assert [item.status for item in agents.process().outcomes] == ["done", "held"]
    assert "the routine deploy" in waits(agents)[0].summary


def test_a_file_of_the_project_is_no_way_around(agents):
    agents.play(sent(agents, "---\ninput_file: docs/plan.md\n---\n"))
    (agents.root / "docs").mkdir()
    (agents.root / "docs" / "plan.md").write_text(GO)
    agents.drop(f"{CHAIN}-0.md", GO)
    assert [item.status for item in agents.process().outcomes] == ["done", "held"]


def test_the_default_routine_without_commands_needs_nobody(agents):
    agents.play(sent(agents, "write it down\n"), default="log")
    agents.drop(f"{CHAIN}-0.md", f"---\nroutine: develop\n---\n{GO}")
    assert [item.status for item in agents.process().outcomes] == ["done", "done"]
    assert agents.read("log.txt") == f"{CHAIN}-1\n"


def test_a_routine_of_the_users_own_may_send_commands(agents):
    agents.play("true")
    (agents.tmp / "next.md").write_text(f"---\nroutine: develop\n---\n{GO}")
    agents.routine("plan", f"cp {agents.tmp}/next.md $TREADLE_OUTBOX")
    agents.drop(f"{CHAIN}-0.md", "---\nroutine: plan\n---\nx\n")
    assert [item.status for item in agents.process().outcomes] == ["done", "done"]


def test_a_chain_asks_before_it_goes_on_and_on(agents):
    agents.play("true", "[chain]\nmax_messages = 3\n", default="log")
    agents.routine("log", 'echo >> log.txt; echo x > "$TREADLE_OUTBOX/a.md"')
    agents.drop(f"{CHAIN}-0.md", "x\n")
    found = agents.process()
    assert [item.status for item in found.outcomes] == ["done"] * 3 + ["held"]
    assert found.exit_code == 3
    assert (
        waits(agents)[0].summary == f"chain {CHAIN} has carried out 3 messages (chain.max_messages)"
    )
    decide(agents, 1)
    assert [status for _, status in agents.statuses()] == ["done"] * 3 + ["held"]
    decide(agents, 2)
    assert [status for _, status in agents.statuses()] == ["dead"]


def test_another_chain_is_no_way_out(agents):
    agents.play("true", "[chain]\nmax_messages = 2\n", default="log")
    send = 'printf -- "---\\nchain: other$seq\\nseq: 0\\n---\\nx\\n" > "$TREADLE_OUTBOX/a.md"'
    agents.routine("log", f"echo >> log.txt; {send}")
    agents.drop(f"{CHAIN}-0.md", "x\n")
    assert [item.status for item in agents.process().outcomes] == ["done", "done", "held"]


def test_a_chain_asks_before_it_costs_more(agents, monkeypatch):
    agents.play("true", "[chain]\nmax_cost_usd = 0.5\n", default="log")
    agents.routine("log", 'echo x > "$TREADLE_OUTBOX/a.md"')
    agents.drop(f"{CHAIN}-0.md", "x\n")
    recall, spent = memory.recall, memory.Spent(cost_usd=0.3)
    monkeypatch.setattr(memory, "recall", lambda *about: recall(*about)._replace(spent=spent))
    found = agents.process()
    assert [item.status for item in found.outcomes] == ["done", "done", "held"]
    assert (
        waits(agents)[0].summary == f"chain {CHAIN} has cost 0.5 USD or more (chain.max_cost_usd)"
    )


def test_one_spec_does_not_become_a_hundred_landings(agents):
    """An agent that sends and lands more work with every run: specs, messages, all with checks."""
    (agents.tmp / "more.md").write_text(GO)
    more = f"for n in $(seq 100); do cp {agents.tmp}/more.md $TREADLE_OUTBOX/$n.md; done"
    agents.play(f"{more}; mkdir -p specs; cp {agents.tmp}/more.md specs/$$.spec.md")
    agents.spec("01-a.spec.md", GO)
    agents.git("add", ".")
    agents.git("commit", "-qm", "Spec")
    before = agents.git("rev-list", "--count", "HEAD")
    assert [item.status for item in agents.process().outcomes] == ["stopped"]  # risky
    assert agents.git("rev-list", "--count", "HEAD") == before
    agents.play(more)
    agents.spec("02-b.spec.md", GO)
    agents.process()
    found = agents.process()
    assert {item.status for item in found.outcomes} <= {"held", "stopped", "refused"}
    assert int(agents.git("rev-list", "--count", "HEAD")) <= int(before) + 4


def test_an_answer_wakes_whoever_serves(agents):
    agents.play(sent(agents, GO))
    agents.drop(f"{CHAIN}-0.md", GO)
    agents.process()
    waiting = Waiting(agents.layout, lambda: None, lambda: datetime.now(UTC))
    assert not waiting._is_answered()
    decide(agents, 1)
    assert waiting._is_answered()
    assert not waiting._is_answered()
