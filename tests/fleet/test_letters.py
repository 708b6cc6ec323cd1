"""Letters between a project and workers that have none of its files."""

import pytest

from tests.fleet.lab import wait_for

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

LETTER = """[ "$role" = do ] && mkdir outbox && cat > outbox/note.md <<'END'
# MESSAGE
from: human
to: boss
intent: inform
status: new
created_at: 2026-01-01T00:00:00Z

Hello from do
END
"""


def ask(lab):
    """Make a task by letter, and agents that write one; what they are asked is kept."""
    lab.make_agent(LETTER)
    lab.mail("send", "--from", "boss", "--to", "human", "--intent", "fix_bug", "--task", "B-1",
             "--ac", "It is fine")  # fmt: skip
    lab.mail("list")
    return lab


@pytest.fixture
def tasked(shared):
    return ask(shared)


def heard(lab):
    """Return the intents of what the one who asked was written."""
    return sorted(it["intent"] for it in lab.mail("list", "--as", "boss", "--all")["letters"])


def test_a_worker_reads_letters_of_the_project_and_its_own_arrive_once(tasked):
    tasked.mail("send", "--from", "ada", "--to", "all", "--intent", "inform", "--task", "B-1",
                "--summary", "Mind the gap")  # fmt: skip
    run_id = tasked.run_fleet("B-1")
    assert tasked.worker("--once").wait(180) == 0, tasked.words()
    with_copy = ["inform", "inform", "test_results"]  # boss has written, so ada's is for boss too
    assert heard(tasked) == with_copy
    tasked.treadle("process")
    assert heard(tasked) == with_copy
    shown = tasked.show(run_id)
    asked = (tasked.root / shown["steps"][0]["step_dir"] / "input.json").read_text()
    assert "Mind the gap" in asked
    assert shown["owner"] is None


def test_a_worker_that_is_killed_at_the_end_loses_no_letter(tasked):
    tasked.env["TREADLE_DIE_AT"] = "after_transaction:3"
    run_id = tasked.run_fleet("B-1")
    tasked.worker().wait(180)
    assert tasked.show(run_id)["status"] == "passed"
    assert heard(tasked) == []
    del tasked.env["TREADLE_DIE_AT"]
    tasked.worker()
    wait_for(lambda: tasked.show(run_id)["owner"] == "mail")
    assert heard(tasked) == ["inform", "test_results"]


def test_the_task_of_a_waiting_run_stays_the_runs(tasked):
    tasked.run_fleet("B-1")
    tasked.treadle("process")
    assert tasked.json("task", "show", "B-1")["lane"] == "in_progress"
