"""Trouble that passes is waited for, and a worker that only fails leaves runs to the others."""

import pytest

from tests.builder import git, run_treadle
from tests.fleet.lab import wait_for
from tests.fleet.test_faults import in_do

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


def test_a_worker_that_only_fails_stops_no_run_and_leaves_them_to_the_others(shared):
    shared.env["TREADLE_FLEET_PER_REPOSITORY"] = "6"
    mirrors = shared.folder / "hosts" / "bad" / "cache" / "treadle" / "fleet" / "mirrors"
    mirrors.parent.mkdir(parents=True)
    mirrors.write_text("so there is no room for clones")
    runs = shared.queue(6)
    bad = shared.worker("--slots", "2", name="bad")
    (row,) = wait_for(lambda: [it for it in shared.status()["workers"] if it["trouble"]])
    assert "mirrors" in row["trouble"]
    assert "quarantined" in shared.treadle("fleet", "status")
    shared.worker("--slots", "2", name="good")
    assert {it["status"] for it in shared.wait_over(6)} == {"passed"}
    assert {it["run_id"] for it in shared.runs()} == set(runs)
    assert shared.json("desk")["items"] == []
    assert "takes no runs for" in (shared.folder / "hosts/bad/worker.log").read_text()
    assert bad.poll() is None
    mirrors.unlink()
    wait_for(lambda: not any(it["trouble"] for it in shared.status()["workers"]))


def test_a_repository_that_is_gone_keeps_no_other_project_waiting(shared):
    """It makes the workers leave the runs of its own project, not those of everybody."""
    second = shared.folder / "second.git"
    git(shared.root, "clone", "-q", "--bare", "../origin.git", str(second))
    git(shared.root, "remote", "add", "second", str(second))
    shared.configure(more='[fleet]\nremote = "second"')
    shared.env["TREADLE_STORE_SCHEMA"] = "shop"
    (doomed,) = shared.queue()
    second.rename(shared.folder / "gone.git")
    shared.worker()
    wait_for(lambda: "takes no runs of shop for 20 s" in shared.words())
    why = "leaves runs to others: remote_failed with shop"
    wait_for(lambda: why in said(shared, "fleet", "status"))
    shared.configure()
    del shared.env["TREADLE_STORE_SCHEMA"]
    (innocent,) = shared.queue()
    assert [row["run_id"] for row in shared.wait_over(1)] == [innocent]
    assert shared.words().count("takes no runs of shop") < 4
    shared.env["TREADLE_STORE_SCHEMA"] = "shop"
    (shared.folder / "gone.git").rename(second)
    assert [row["run_id"] for row in shared.wait_over(1)] == [doomed]


def said(lab, *words):
    done = run_treadle(words, lab.root, lab.env)
    return done.stdout + done.stderr


def test_archives_and_a_repository_that_are_away_cost_no_agent_its_work(held):
    held.env["TREADLE_FLEET_PATIENCE"] = "3"
    archives, origin = held.folder / "archives", held.folder / "origin.git"
    (run_id,) = held.queue()
    held.worker()
    in_do(held, run_id)
    archives.rename(held.folder / "kept")
    archives.touch()
    held.hold.unlink()
    parked = f"*/cache/treadle/fleet/parked/*/runs~{run_id}~002-do*"
    assert len(wait_for(lambda: list((held.folder / "hosts").glob(parked)))) == 1
    origin.rename(held.folder / "away.git")
    archives.unlink()
    (held.folder / "kept").rename(archives)
    wait_for(lambda: "remote_failed" in held.words())
    (held.folder / "away.git").rename(origin)
    assert [row["status"] for row in held.wait_over(1)] == ["passed"]
    assert [words[1] for words in held.spawned()] == ["plan", "do", "check"]
    assert held.json("desk")["items"] == []
    assert held.refs()[f"refs/heads/treadle/{run_id}"] == held.show(run_id)["head_commit"]


def test_many_runs_are_canceled_resumed_and_queued_again_at_once(held):
    runs = held.queue(3)
    project = held.status()["repositories"][0]["repository"]
    held.worker()
    in_do(held, runs[0])

    def change(what, where):
        return [
            (it["run_id"], it["problem"])
            for it in held.json("fleet", what, "--where", where)["runs"]
        ]

    assert change("cancel", "queued") == [(it, None) for it in runs[1:]]
    assert [held.show(it)["reason_code"] for it in runs[1:]] == ["interrupted", "interrupted"]
    assert change("resume", "interrupted") == [(it, None) for it in runs[1:]]
    assert change("requeue", project) == [(runs[0], None)]
    nobody = held.treadle("fleet", "resume", "--where", "x", "--json", check=False)
    assert "no run to resume" in nobody
    held.hold.unlink()
    assert {it["status"] for it in held.wait_over(3)} == {"passed"}
    assert held.types(runs[0]).count("run_claimed") == 2
