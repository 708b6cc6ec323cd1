"""The sentences of the message format's contract, each with the real command."""

import stat
import sys

import pytest

from tests.acceptance.messages import done, drop, log, logged_specs, routine, spec


def use_router(project, code):
    """Let a program that sees the prompt on stdin be the router."""
    path = project.folder / "router.py"
    path.write_text(f"import pathlib, sys\nprompt = sys.stdin.read()\n{code}\n")
    command = f'router = ["{sys.executable}", "{path}"]'
    project.settings(f'default_routine = "log"\n[commands]\n{command}\n')


def test_specs_are_processed_in_alphabetical_order_one_at_a_time(inbox):
    for name in ("10-c.spec.md", "02-b.spec.md", "01-a.spec.md"):
        spec(inbox, name)
    found = inbox.treadle("process", "--json").json
    names = ["01-a.spec.md", "02-b.spec.md", "10-c.spec.md"]
    assert logged_specs(inbox) == found["processed"] == names
    assert (inbox.root / "specs" / "processed-spec.md").read_text().split() == names
    assert (
        inbox.git("log", "-1", "--format=%(trailers:key=Treadle-Spec,valueonly)").strip()
        == names[-1]
    )


def test_a_spec_that_the_tracker_lists_is_skipped(inbox):
    spec(inbox, "01-a.spec.md")
    spec(inbox, "02-b.spec.md")
    (inbox.root / "specs" / "processed-spec.md").write_bytes(
        b"\r\n  01-a.spec.md \r\n01-a.spec.md\r\n"
    )
    assert inbox.treadle("process").code == 0
    assert logged_specs(inbox) == ["02-b.spec.md"]
    tracker = (inbox.root / "specs" / "processed-spec.md").read_bytes()
    assert tracker == b"\r\n  01-a.spec.md \r\n01-a.spec.md\r\n02-b.spec.md\r\n"


def test_a_spec_added_after_a_run_is_picked_up_by_the_next(inbox):
    spec(inbox, "01-a.spec.md")
    assert inbox.treadle("process").code == 0
    spec(inbox, "00-late.spec.md")
    assert inbox.treadle("process", "--json").json["processed"] == ["00-late.spec.md"]
    assert logged_specs(inbox) == ["01-a.spec.md", "00-late.spec.md"]


def test_the_routine_of_a_spec_is_found_sh_first_then_ipynb(inbox):
    routine(inbox, "custom", "#!/bin/sh\n# Custom\necho custom >> log.txt\n")
    (inbox.root / ".treadle" / "routines" / "custom.ipynb").write_text("{}")
    inbox.settings("notebook_support = true\n")
    spec(inbox, "01-a.spec.md", "---\nroutine: custom\n---\n# A\n")
    found = inbox.treadle("process", "--json").json
    assert found["messages"][0]["routine"] == "custom"
    assert log(inbox) == ["custom"]


def test_a_complete_message_is_not_rewritten(inbox):
    fields = "seq: 0 # first\nid: 2025022514320000-0\nchain: 2025022514320000\ntype: task"
    text = f"---\n{fields}\nroutine: log\n---\nx\r\r\n"
    path = drop(inbox, "2025022514320000-0.md", text)
    path.write_bytes(text.encode())
    before = path.stat()
    assert inbox.treadle("process").code == 0
    moved = inbox.root / ".treadle" / "inbox" / "done" / path.name
    assert (moved.stat()[stat.ST_INO], moved.stat().st_mtime_ns) == (
        before.st_ino,
        before.st_mtime_ns,
    )
    assert moved.read_bytes() == text.encode()


def test_a_bare_message_gets_its_fields_from_its_name_and_the_router(inbox):
    routine(inbox, "fix", "#!/bin/sh\n# Fix things\necho fixed >> log.txt\n")
    use_router(inbox, 'print("`fix`.")')
    drop(inbox, "2025022514320000-1.md", "Fix type errors in src/auth.rs\n")
    assert inbox.treadle("process").code == 0
    assert done(inbox, "2025022514320000-1.md") == (
        "---\nid: 2025022514320000-1\nchain: 2025022514320000\nseq: 1\ntype: task\nroutine: fix\n"
        "---\nFix type errors in src/auth.rs\n"
    )
    assert log(inbox) == ["fixed"]


def test_missing_fields_are_filled_in_and_present_ones_stay(inbox):
    drop(inbox, "a.md", "---\nchain: 2025022514320000\nseq: 1\nowner: 'me'  # mine\n---\nFix it.\n")
    assert inbox.treadle("process").code == 0
    assert done(inbox, "2025022514320000-1.md") == (
        "---\nid: 2025022514320000-1\nchain: 2025022514320000\nseq: 1\ntype: task\nroutine: log\n"
        "owner: 'me'  # mine\n---\nFix it.\n"
    )


def test_the_router_gets_the_body_and_the_routines_with_descriptions(inbox):
    routine(inbox, "fix", "#!/bin/sh\n# Fix things\n# in all places\nexit 0\n")
    use_router(inbox, 'print(prompt, file=sys.stderr); print("fix")')
    drop(inbox, "a.md", "Mend the door\n")
    found = inbox.treadle("process", "--json").json["messages"][0]
    kept = (inbox.run_dir(found["run_id"]) / "message" / "router.txt").read_text()
    assert (
        "Select the most appropriate routine for this task.\n\n## Available Routines\n"
        "- develop: Plan, do, check and act until every acceptance criterion holds\n"
        "- fix: Fix things\n- log: Write the message down\n\n## Task\nMend the door\n\n"
        "Respond with ONLY the routine name, nothing else.\n"
    ) in kept.partition("--- errors ---")[2]
    assert found["routine"] == "fix"
    why = inbox.treadle("why", found["run_id"]).out
    assert "routine_chosen: fix: the router answered 'fix'" in why


@pytest.mark.parametrize("code", ['print("nonsense")', "sys.exit(1)"], ids=["unknown", "fails"])
def test_a_router_that_knows_nothing_falls_back_to_spec_then_config_then_develop(inbox, code):
    use_router(inbox, code)
    drop(inbox, "a.md", "Mend the door\n")
    assert inbox.treadle("process", "--json").json["messages"][0]["routine"] == "log"


def test_a_name_without_the_pattern_gets_a_new_chain_and_seq_0(inbox):
    drop(inbox, "please fix.md", "Fix it\n")
    found = inbox.treadle("process", "--json").json["messages"][0]
    chain, seq = found["id"].rsplit("-", 1)
    assert (len(chain), chain.isdigit(), seq) == (16, True, "0")
    assert not (inbox.root / ".treadle" / "inbox" / "please fix.md").exists()
    rows = inbox.treadle("runs", "list", "--chain", chain, "--json").json["runs"]
    assert [row["run_id"] for row in rows] == [found["run_id"]]
    unknown = inbox.treadle("runs", "list", "--chain", f"{chain}-0", "--json")
    assert unknown.code == 1
    assert unknown.json["error"]["message"].endswith(f"did you mean {chain}?")
