"""Workers that are killed at the worst moments; another one finishes what they began."""

import json

import pytest

from tests.builder import git
from tests.fleet.lab import wait_for

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("boundary", "spawned"),
    [
        ("after_agent", ["do", "do"]),  # nothing was kept yet
        ("before_transaction", ["do"]),  # the archive is there: it is adopted
        ("after_transaction", ["do"]),  # the row is there: only the push is missing
    ],
)
def test_a_worker_killed_around_a_commit_loses_and_doubles_nothing(lab, boundary, spawned):
    lab.make_agent('[ "$role" = do ] && echo "$TREADLE_RUN" > "$OLDPWD/done.txt"')
    (run_id,) = lab.queue()
    lab.env["TREADLE_FLEET_DEAD_AFTER"] = "2"
    lab.env["TREADLE_DIE_AT"] = f"{boundary}:2"
    assert lab.worker(name="first").wait(180) == -9
    del lab.env["TREADLE_DIE_AT"]
    lab.worker("--once", name="second")
    lab.wait_over(1)
    shown = lab.show(run_id)
    assert [step["role"] for step in shown["steps"]] == ["plan", "do", "check"]
    assert [words[1] for words in lab.spawned() if words[1] == "do"] == spawned
    assert shown["status"] == "passed"
    assert lab.refs()[f"refs/heads/{shown['branch']}"] == shown["head_commit"]
    assert ("reconciled_step" in lab.types(run_id)) == (boundary == "before_transaction")


def test_a_branch_that_somebody_moved_meanwhile_is_not_overwritten(lab):
    lab.make_agent('[ "$role" = do ] && echo "$TREADLE_RUN" > "$OLDPWD/done.txt"')
    (run_id,) = lab.queue()
    lab.env["TREADLE_FLEET_DEAD_AFTER"] = "2"
    lab.env["TREADLE_DIE_AT"] = "before_transaction:2"
    assert lab.worker(name="first").wait(180) == -9
    del lab.env["TREADLE_DIE_AT"]
    shown = lab.show(run_id)
    words = ("commit-tree", "-p", shown["base_commit"], "-m", "Mine", "HEAD^{tree}")
    mine = git(lab.root, *words).strip()
    git(lab.root, "push", "-q", "origin", f"+{mine}:refs/heads/{shown['branch']}")
    lab.worker("--once", name="second")
    wait_for(lambda: lab.show(run_id)["status"] == "stopped")
    assert lab.show(run_id)["reason_code"] == "push_stale"
    assert lab.refs()[f"refs/heads/{shown['branch']}"] == mine
    assert [step["role"] for step in lab.show(run_id)["steps"]] == ["plan", "do"]


def test_specs_are_queued_by_one_pass_and_landed_by_a_later_one(lab):
    lab.make_agent('[ "$role" = do ] && echo "$TREADLE_RUN" > "$OLDPWD/done.txt"')
    (lab.root / "specs").mkdir(exist_ok=True)
    spec = "# Make it\n\n## Acceptance Criteria\n\n- It is fine\n"
    (lab.root / "specs" / "01-it.spec.md").write_text(spec)
    first = json.loads(lab.treadle("process", "--fleet", "--json"))
    assert [item["status"] for item in first["messages"]] == ["queued"]
    again = json.loads(lab.treadle("process", "--fleet", "--json"))
    assert [item["status"] for item in again["messages"]] == ["queued"]
    worker = lab.worker("--once")
    assert worker.wait(180) == 0, lab.words()
    last = json.loads(lab.treadle("process", "--json"))
    assert last["processed"] == ["01-it.spec.md"]
    assert (lab.root / "done.txt").exists()
    assert wait_for(lambda: "01-it" in (lab.root / "specs" / "processed-spec.md").read_text())
