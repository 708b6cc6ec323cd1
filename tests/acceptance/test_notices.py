"""Whoever ends a run tells the user, and waits for nobody."""

import os
import signal
import time

import pytest

from tests.acceptance.messages import routine, spec
from tests.acceptance.site import Site
from tests.builder import git, wait_for
from tests.project.test_notify import ear as ear

DO = 'type = "builtin"\nrun = ["sh", "-c", "echo x >> x"]\n'


def heard(ear, kind):
    return [told for _, told in ear.heard if told["kind"] == kind]


@pytest.mark.real
def test_ends_questions_and_the_digest_arrive_once_each(project, ear):
    site = Site(project)
    hook = f'[notify]\nwebhook = "{ear.url}"\n'
    run_id = site.passed(extra=hook)
    (told,) = wait_for(lambda: heard(ear, "run_ended"))
    assert (told["run_id"], told["status"]) == (run_id, "passed")
    assert told["text"] == "passed: Make done"
    assert f"treadle land {run_id}" in told["next"]
    project.settings(f"{hook}[budgets]\nmax_iterations = 1\n[agents.do]\n{DO}")
    git(site.root, "commit", "-qm", "Settings", "--", ".treadle/config.toml")
    project.treadle("run", "--goal", "No way", "--ac", "x", "--verify", "AC1=false")
    (asked,) = wait_for(lambda: heard(ear, "question"))
    assert asked["question"]["item_id"] == "Q-1"
    assert "No way" in asked["text"]
    assert len(heard(ear, "run_ended")) == 1

    routine(project, "make", "#!/bin/sh\n# Make a file\necho made > made\n")
    spec(project, "01-a.spec.md", "# Make it\n")
    project.settings(f'default_routine = "make"\n{hook}on = ["night_ended"]\n')
    git(site.root, "add", ".")
    git(site.root, "commit", "-qm", "Specs")
    assert project.treadle("process", "--json").json["processed"] == ["01-a.spec.md"]
    (digest,) = wait_for(lambda: heard(ear, "night_ended"))
    assert digest["text"].startswith("process ended: 1 passed")
    assert [run["spec"] for run in digest["runs"]] == ["01-a.spec.md"]
    assert [item["question"]["item_id"] for item in digest["questions"]] == ["Q-1"]


@pytest.mark.real
def test_a_night_that_is_spent_is_summed_up_once(project, ear):
    routine(project, "make", "#!/bin/sh\n# Make a file\necho made > $message_id\n")
    hook = f'[notify]\nwebhook = "{ear.url}"\non = ["night_ended"]\n'
    project.settings(f'default_routine = "make"\n[night]\nmax_runs = 1\n{hook}')
    for name in ("01-a", "02-b"):
        spec(project, f"{name}.spec.md", f"# Make {name}\n")
        # One that is young may still be being written.
        os.utime(project.root / "specs" / f"{name}.spec.md", (0, 0))
    git(project.root, "add", ".")
    git(project.root, "commit", "-qm", "Specs")
    done = project.treadle("serve", "--once")
    assert done.out == "1 done, 1 not\n", done
    (digest,) = wait_for(lambda: heard(ear, "night_ended"))
    assert digest["text"].startswith("the night is over: 1 passed")
    assert project.treadle("serve", "--once").out == "0 done, 1 not\n"
    project.treadle("notify")  # what was sent before has arrived by now
    assert len(heard(ear, "night_ended")) == 1


@pytest.mark.real
def test_nobody_waits_for_a_webhook_that_hangs_and_a_failure_is_an_event(project, ear):
    site = Site(project)
    ear.answer = "hang"
    begun = time.monotonic()
    run_id = site.passed(extra=f'[notify]\nwebhook = "{ear.url}"\n')
    assert wait_for(lambda: heard(ear, "run_ended"))
    assert not ear.goes_on.is_set()  # it still hangs while the command has long ended
    assert time.monotonic() - begun < 60
    ear.answer = 500
    ear.goes_on.set()
    found = wait_for(lambda: _failed(project, run_id))
    assert "it answered 500" in found["message"]
    test = project.treadle("notify", "--json")
    assert (test.code, test.json["deliveries"][0]["tries"]) == (1, 3)
    ear.answer = 204
    assert "SENT webhook" in project.treadle("notify").out


@pytest.mark.real
def test_serve_sums_up_when_it_ends_and_says_that_it_fails(project, ear):
    routine(project, "make", "#!/bin/sh\n# Make a file\necho made > made\n")
    spec(project, "01-a.spec.md", "# Make it\n")
    project.settings(f'default_routine = "make"\n[notify]\nwebhook = "{ear.url}"\n')
    git(project.root, "add", ".")
    git(project.root, "commit", "-qm", "Specs")
    served = project.start("serve", "--no-web")
    wait_for(lambda: heard(ear, "run_ended"))
    served.send_signal(signal.SIGTERM)
    served.communicate(timeout=60)
    (digest,) = wait_for(lambda: heard(ear, "night_ended"))
    assert digest["text"] == "serve ended: 1 passed"
    # A store that no round can open: nobody is there to see it, so it is told.
    for path in (project.root / ".treadle").glob("treadle.db*"):
        path.unlink()
    (project.root / ".treadle" / "treadle.db").mkdir()
    failing = project.start("serve", "--no-web")
    failing.communicate(timeout=60)
    (told,) = wait_for(lambda: heard(ear, "serve_failed"))
    assert told["text"] == "serve ended, for its first round failed with exit code 1"
    assert failing.returncode == 1
    # Nothing is sent for a repository that nobody trusts.
    project.treadle("trust", "--revoke")
    before = len(ear.heard)
    assert project.treadle("notify", "--json").json["error"]["code"] == "untrusted"
    assert len(ear.heard) == before


def _failed(project, run_id):
    project.treadle("runs", "prune")  # a command that works takes up what was left
    found = [event for event in project.events(run_id) if event["type"] == "notice_failed"]
    return found[0] if found else None
