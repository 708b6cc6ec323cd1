"""Routines that fail: attempts, what the last one is told, dead letters, another try."""

import json
from pathlib import Path

import pytest

from treadle.errors import TreadleError
from treadle.inbox import box
from treadle.sandbox import jails
from treadle.store.store import Store


def bad(inbox, *lines, tries=3):
    inbox.routine("bad", *lines)
    inbox.settings(f"max_retries = {tries}\n")
    inbox.spec("01-a.spec.md", "---\nroutine: bad\n---\n# A\n")


def test_the_last_of_three_attempts_is_told_what_failed(inbox):
    bad(inbox, "echo broken-pump >&2", 'cp "$message_dir/failure-context.md" kept.md || exit 7')
    (found,) = inbox.process().outcomes
    assert (found.status, len(found.row.run_ids)) == ("done", 3)
    assert "broken-pump" in inbox.read("kept.md")
    assert inbox.tracker() == ["01-a.spec.md"]


def test_a_spec_that_fails_is_never_listed_and_the_next_goes_on(inbox):
    bad(inbox, "exit 7")
    inbox.spec("02-b.spec.md", "---\nroutine: log\n---\n# B\n")
    found = inbox.process()
    assert [item.status for item in found.outcomes] == ["dead", "done"]
    assert (found.exit_code, inbox.tracker()) == (1, ["02-b.spec.md"])
    (reason,) = inbox.reasons().values()
    assert reason["code"] == "routine_failed"
    assert "exited with 7" in reason["message"]
    assert len(reason["run_ids"]) == 3


def test_a_dead_spec_waits_until_it_is_retried_or_changed(inbox):
    bad(inbox, "exit 7", tries=1)
    inbox.process()
    found = inbox.process()
    assert (found.exit_code, len(inbox.runs())) == (1, 1)
    assert found.outcomes[0].fix == "treadle spec retry 01-a.spec.md"
    inbox.spec("01-a.spec.md", "---\nroutine: log\n---\n# Changed\n")
    assert inbox.statuses() == [("01-a.spec.md", "done")]


def test_a_retried_letter_has_all_its_attempts_again(inbox, now):
    bad(inbox, 'test -e "$HOME/ok"', tries=1)
    (found,) = inbox.process().outcomes
    store = Store.open(inbox.layout)
    letter = box.find_dead(inbox.layout, "01-a.spec.md")
    box.retry_dead(inbox.layout, store, letter, now)
    assert [item.kind for item in store.questions()] == []
    store.close()
    inbox.routine("bad", "exit 0")
    (again,) = inbox.process().outcomes
    assert (again.status, again.row.message_id) == ("done", found.row.message_id)
    assert box.dead_letters(inbox.layout) == []


@pytest.mark.parametrize(
    ("line", "words"),
    [("exit 7", "exited with 7"), ("kill -9 $$", "killed by signal 9")],
)
def test_every_bad_end_is_told(inbox, line, words):
    bad(inbox, line, tries=1)
    assert words in inbox.process().outcomes[0].reason


def test_a_daemon_does_not_outlive_its_routine(inbox):
    lines = ("setsid sh -c 'sleep 1000' &", "echo $! > pid.txt", "exit 0")
    bad(inbox, *lines)
    (found,) = inbox.process().outcomes
    assert found.status == "done"
    assert not _is_alive(int(inbox.read("pid.txt")))


def _is_alive(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as handle:
            return b"sleep" in handle.read()
    except FileNotFoundError:
        return False


def test_hooks_run_around_the_pass_and_each_message(inbox):
    for hook in ("beforeAll", "beforeEach", "afterEach", "afterAll"):
        path = inbox.root.parent / hook
        path.write_text(f'#!/bin/sh\necho "$TREADLE_HOOK $message_id" >> {inbox.root}/hooks\n')
        path.chmod(0o755)
    table = "".join(
        f'{hook} = ["{inbox.root.parent / hook}"]\n'
        for hook in ("beforeAll", "afterAll", "beforeEach", "afterEach")
    )
    inbox.settings(f'default_routine = "log"\n[hooks]\n{table}')
    inbox.drop("2025022514320000-0.md", "x\n")
    inbox.process()
    assert (inbox.root / "hooks").read_text().splitlines() == [
        "beforeAll ",
        "beforeEach 2025022514320000-0",
        "afterEach 2025022514320000-0",
        "afterAll ",
    ]


@pytest.mark.skipif(jails.probe("A").tier == "0", reason="no sandbox here")
def test_a_hook_may_write_in_the_project_and_not_beside_it(inbox):
    beside = inbox.root.parent / "beside"
    command = json.dumps(f"git gc -q && touch mine $TMPDIR/x && echo > {beside}")
    inbox.settings(f'[hooks]\nbeforeAll = ["sh", "-c", {command}]\n')
    with pytest.raises(TreadleError, match=r"the sandbox blocked a write to .*beside"):
        inbox.process()
    assert (inbox.root / "mine").exists()
    assert not beside.exists()


def test_a_hook_that_fails_before_a_message_kills_it(inbox):
    inbox.settings('default_routine = "log"\n[hooks]\nbeforeEach = ["false"]\n')
    inbox.drop("a.md", "x\n")
    (found,) = inbox.process().outcomes
    assert (found.status, inbox.reasons().popitem()[1]["code"]) == ("dead", "hook_failed")
    assert inbox.runs() == []


def test_a_routine_that_cannot_work_here_keeps_its_message_waiting(inbox):
    inbox.routine("picky", "exit 0", about="Picky\n# pre-check: echo no pump; exit 1")
    inbox.drop("a.md", "---\nroutine: picky\n---\nx\n")
    found = inbox.process()
    assert (found.outcomes[0].status, found.exit_code) == ("held", 3)
    assert "no pump" in found.outcomes[0].reason
    inbox.routine("picky", "exit 0")
    assert [status for _, status in inbox.statuses()] == ["done"]


@pytest.mark.skipif(jails.probe("A").tier == "0", reason="no sandbox here")
def test_a_pre_check_may_not_write_in_the_project(inbox):
    inbox.routine("picky", "exit 0", about="Picky\n# pre-check: touch mine")
    inbox.drop("a.md", "---\nroutine: picky\n---\nx\n")
    found = inbox.process().outcomes[0]
    assert (found.status, (inbox.root / "mine").exists()) == ("held", False)
    assert "mine" in found.reason


def test_a_hook_that_fails_after_a_message_is_told_and_harms_nothing(inbox):
    inbox.settings('default_routine = "log"\n[hooks]\nafterEach = ["false"]\n')
    inbox.drop("a.md", "x\n")
    found = inbox.process()
    assert ([item.status for item in found.outcomes], found.exit_code) == (["done"], 1)
    assert "hooks.afterEach exited with 1" in found.failed_hook


READERS = {
    "hook": ('[hooks]\nbeforeAll = ["cat", "{path}"]\n', "exit 0"),
    "pre-check": ("", "Picky\n# pre-check: cat {path}"),
    "routine": ("", "cat {path}"),
    "router": ('[commands]\nrouter = ["cat", "{path}"]\n', "exit 0"),
}


@pytest.mark.real
@pytest.mark.parametrize("tier", [it for it in ("A", "B") if jails.probe(it).tier == it])
@pytest.mark.parametrize("who", READERS)
def test_what_may_not_be_read_is_named_with_its_key(inbox, who, tier):
    needed = Path("~/company/rules.txt").expanduser()
    needed.parent.mkdir()
    needed.write_text("log\n")
    table, script = (text.format(path=needed) for text in READERS[who])
    about = {"about": script} if who == "pre-check" else {}
    inbox.routine("picky", script if not about else "exit 0", **about)
    named = "" if who == "router" else "---\nroutine: picky\n---\n"
    key = 'sandbox.read = ["~/company/rules.txt"] would allow it'
    head = f'default_routine = "log"\n[sandbox]\ntier = "{tier}"\n'
    inbox.settings(f"{head}{table}")
    inbox.drop("a.md", f"{named}x\n")
    assert key in _said(inbox)
    inbox.settings(f'{head}read = ["~/company/rules.txt"]\n{table}')
    inbox.drop("b.md", f"{named}x\n")
    assert key not in _said(inbox)


def _said(inbox):
    """Return everything that a pass tells: its error, its outcomes, its runs' events, a router."""
    try:
        said = [repr(inbox.process().outcomes)]
    except TreadleError as error:
        return error.message
    for run in inbox.runs()[-1:]:
        with inbox.reader() as store:
            said += [event.message for event in store.events(run.run_id)]
        said += [path.read_text() for path in inbox.layout.run(run.run_id).folder.rglob("*.txt")]
    return "\n".join(said)
