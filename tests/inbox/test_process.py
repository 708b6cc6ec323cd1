"""Passes over the inbox: what runs, in which order, and where files end up."""

import os
from pathlib import Path

from treadle.engine.landing import land

CHAIN = "2025022514320000"


def test_messages_come_first_by_name_then_specs(inbox):
    inbox.spec("01-a.spec.md")
    inbox.drop(f"{CHAIN}-3.md", "later\n")
    inbox.drop(f"{CHAIN}-1.md", "earlier\n")
    names = [item.name for item in inbox.process().outcomes]
    assert names == [f"{CHAIN}-1", f"{CHAIN}-3", "01-a.spec.md"]


def test_broken_fields_kill_one_message_and_hold_up_no_other(inbox):
    inbox.drop("a.md", "---\nroutine: x\nroutine: y\n---\n")
    inbox.drop("b.md", "---\nlist: [1\n---\n")
    inbox.drop("c.md", "fine\n")
    found = inbox.process()
    assert [item.status for item in found.outcomes] == ["dead", "dead", "done"]
    assert found.exit_code == 1
    reason = inbox.reason("a.md")
    assert (reason["code"], reason["line"], reason["column"]) == ("frontmatter_invalid", 3, 1)
    assert reason["fix"][-1] == "treadle dead retry a.md"
    assert inbox.process().outcomes == ()


def test_whatever_lies_there_the_pass_ends(inbox):
    (inbox.layout.inbox / "1.md").symlink_to("/etc/hostname")
    os.mkfifo(inbox.layout.inbox / "2.md")
    with (inbox.layout.inbox / "3.md").open("wb") as handle:
        handle.truncate(1 << 40)
    inbox.drop("4.md", b"\xff\xfe")
    inbox.drop("5\nnew.md", "fine\n")
    (inbox.layout.inbox / "6.md").mkdir()
    found = [item.status for item in inbox.process().outcomes]
    assert found == ["dead", "dead", "dead", "dead", "done"]
    assert {item["code"] for item in inbox.reasons().values()} == {"message_unreadable"}


def test_an_unsafe_chain_never_reaches_the_file_system(inbox):
    inbox.drop("a.md", "---\nchain: ../../x\n---\n")
    assert inbox.statuses() == [("a.md", "dead")]
    assert inbox.reason("a.md")["code"] == "unsafe_id"


def test_the_same_bytes_again_are_a_second_delivery(inbox):
    text = f"---\nid: {CHAIN}-0\nchain: {CHAIN}\nseq: 0\ntype: task\nroutine: log\n---\nx\n"
    inbox.drop("a.md", text)
    (first,) = inbox.process().outcomes
    inbox.drop("again.md", text)
    assert inbox.statuses() == [(f"{CHAIN}-0", "duplicate")]
    assert "duplicate_message" in inbox.events(first.row.run_ids[-1])
    assert sorted(os.listdir(inbox.layout.inbox_done)) == ["2025022514320000-0.md", "again.md"]


def test_a_done_message_whose_file_a_kill_left_in_the_inbox_only_moves(inbox):
    inbox.settings('default_routine = "log"\n[land]\nprocess = "manual"\n')
    inbox.spec("01-a.spec.md")
    (first,) = inbox.process().outcomes
    kept = inbox.layout.inbox_done / f"{first.row.message_id}.md"
    kept.rename(inbox.layout.inbox / kept.name)
    assert inbox.statuses() == [("01-a.spec.md", "duplicate")]
    assert kept.is_file()
    assert len(inbox.runs()) == 1
    assert "duplicate_message" not in inbox.events(first.row.run_ids[-1])


def test_other_bytes_under_a_taken_id_get_the_next_number(inbox):
    inbox.drop(f"{CHAIN}-0.md", "one\n")
    inbox.process()
    inbox.drop(f"{CHAIN}-0.md", "two\n")
    (found,) = inbox.process().outcomes
    assert found.row.message_id == f"{CHAIN}-1"
    assert "seq_reassigned" in inbox.events(found.row.run_ids[-1])


def test_a_message_for_a_spec_that_is_not_there_is_dead(inbox):
    for name, path in [("a.md", "specs/none.spec.md"), ("b.md", "../x"), ("c.md", "/etc/hostname")]:
        inbox.drop(name, f"---\ntype: spec\ninput_file: {path}\n---\n")
    inbox.drop("d.md", "---\ntype: spec\n---\n")
    assert {status for _, status in inbox.statuses()} == {"dead"}
    assert {item["code"] for item in inbox.reasons().values()} == {"spec_not_found"}


def test_a_routine_that_is_not_there_is_named_with_the_nearest(inbox):
    inbox.drop("a.md", "---\nroutine: lok\n---\nx\n")
    (found,) = inbox.process().outcomes
    assert (found.status, inbox.reasons().popitem()[1]["code"]) == ("dead", "routine_not_found")
    assert "did you mean log?" in found.reason


def test_odd_fields_are_told_in_the_timeline(inbox):
    inbox.drop(f"{CHAIN}-1.md", "---\nseq: 2\ntype: job\n---\nx\n")
    (found,) = inbox.process().outcomes
    assert found.row.message_id == f"{CHAIN}-2"
    assert {"id_mismatch", "field_invalid"} <= set(inbox.events(found.row.run_ids[-1]))


def test_each_spec_builds_on_the_last_and_the_list_is_part_of_its_commit(inbox):
    inbox.spec("01-a.spec.md")
    inbox.spec("02-b.spec.md")
    assert inbox.process().exit_code == 0
    assert len(inbox.read("log.txt").splitlines()) == 2
    files = inbox.git("show", "--name-only", "--format=", "HEAD").split()
    assert files == ["log.txt", "specs/02-b.spec.md", "specs/processed-spec.md"]
    assert inbox.git("status", "--porcelain", "--", "log.txt", "specs/processed-spec.md") == ""


def test_numbers_that_disagree_with_names_get_a_warning(inbox):
    inbox.spec("10-b.spec.md")
    inbox.spec("9-a.spec.md")
    assert [item.name for item in inbox.process().outcomes] == ["10-b.spec.md", "9-a.spec.md"]
    assert any("names count, not numbers" in text for text in inbox.told)


def test_a_processed_spec_that_was_edited_gets_a_warning_and_no_run(inbox):
    path = inbox.spec("01-a.spec.md")
    inbox.process()
    path.write_text("# Something else\n")
    assert inbox.process().outcomes == ()
    assert any("edited after it was processed" in text for text in inbox.told)


def test_a_spec_whose_line_a_kill_kept_back_is_listed_and_not_run_again(inbox):
    inbox.settings('default_routine = "log"\n[land]\nprocess = "manual"\n')
    inbox.spec("01-a.spec.md")
    (first,) = inbox.process().outcomes
    inbox.layout.tracker.unlink()
    name = f"{first.row.message_id}.md"
    (inbox.layout.inbox_done / name).rename(inbox.layout.inbox / name)
    assert inbox.statuses() == [("01-a.spec.md", "duplicate")]
    assert inbox.tracker() == ["01-a.spec.md"]
    assert len(inbox.runs()) == 1


def test_a_spec_whose_line_somebody_took_out_is_unprocessed_again(inbox):
    inbox.settings('default_routine = "log"\n[land]\nprocess = "manual"\n')
    inbox.spec("01-a.spec.md")
    inbox.process()
    inbox.layout.tracker.unlink()
    assert inbox.statuses() == [("01-a.spec.md", "done")]
    assert inbox.tracker() == ["01-a.spec.md"]
    assert len(inbox.runs()) == 2


def test_a_refused_landing_waits_and_the_next_spec_builds_on_it(inbox):
    inbox.drop("mine.txt", "")
    (inbox.root / "log.txt").write_text("mine\n")
    inbox.spec("01-a.spec.md")
    inbox.spec("02-b.spec.md")
    found = inbox.process()
    assert [(item.status, found.exit_code) for item in found.outcomes] == [("refused", 3)] * 2
    assert inbox.tracker() == []
    first, second = inbox.runs()
    assert second.base_commit == first.head_commit
    (inbox.root / "log.txt").unlink()
    again = inbox.process()
    assert [item.status for item in again.outcomes] == ["refused", "refused"]


def test_what_was_landed_by_hand_is_done_in_the_next_pass(inbox):
    (inbox.root / "log.txt").write_text("mine\n")
    inbox.spec("01-a.spec.md")
    inbox.process()
    (inbox.root / "log.txt").unlink()
    inbox.with_tools(lambda tools: land.land(tools, inbox.runs()[0]))
    assert inbox.tracker() == ["01-a.spec.md"]
    assert inbox.statuses() == [("01-a.spec.md", "done")]
    assert len(inbox.runs()) == 1


def test_a_routine_may_work_in_the_project_itself(inbox):
    inbox.routine("here", "pwd > where.txt", about="Here\n# workspace: project")
    inbox.spec("01-a.spec.md", "---\nroutine: here\n---\n# A\n")
    head = inbox.git("rev-parse", "HEAD")
    inbox.process()
    assert inbox.read("where.txt").strip() == str(inbox.root)
    assert (inbox.git("rev-parse", "HEAD"), inbox.tracker()) == (head, ["01-a.spec.md"])
    assert inbox.runs()[0].branch is None


def test_fail_fast_stops_at_the_first_failure(inbox):
    inbox.routine("bad", "exit 7")
    inbox.settings("max_retries = 1\n")
    inbox.spec("01-a.spec.md", "---\nroutine: bad\n---\n# A\n")
    inbox.spec("02-b.spec.md", "---\nroutine: log\n---\n# B\n")
    assert inbox.statuses(fail_fast=True) == [("01-a.spec.md", "dead")]
    assert inbox.statuses() == [("01-a.spec.md", "dead"), ("02-b.spec.md", "done")]


def test_a_spec_whose_name_is_no_line_of_text_is_named_and_left(inbox):
    inbox.spec("01\nx.spec.md")
    os.close(os.open(os.fsencode(inbox.layout.specs) + b"/\xff.spec.md", os.O_CREAT))
    assert inbox.process().outcomes == ()
    assert sum("its name is not a single line of text" in text for text in inbox.told) == 2


def test_a_message_is_carried_out_whatever_its_name(inbox):
    os.close(os.open(os.fsencode(inbox.layout.inbox) + b"/\xff.md", os.O_CREAT))
    assert [status for _, status in inbox.statuses()] == ["done"]


def test_after_the_store_is_lost_nothing_runs_again(inbox):
    inbox.spec("01-a.spec.md")
    inbox.drop("2025022514320000-0.md", "x\n")
    inbox.process()
    for path in inbox.layout.home.glob("treadle.db*"):
        path.unlink()
    assert inbox.process().outcomes == ()
    with inbox.reader() as store:
        assert store.message("2025022514320000-0").status == "done"
        assert store.spec_message("01-a.spec.md").status == "done"


def test_a_routine_is_told_its_message_by_absolute_paths(inbox):
    names = "spec_file message_file message_id message_dir chain seq input_file"
    inbox.routine("tell", *(f'echo "{name}=${name}" >> told.txt' for name in names.split()))
    inbox.spec("1.spec.md", "---\nroutine: tell\n---\n# Do it\n")
    inbox.process()
    told = dict(line.split("=", 1) for line in inbox.read("told.txt").splitlines())
    (run,) = inbox.runs()
    folder, spec = inbox.layout.run(run.run_id).message, inbox.layout.specs / "1.spec.md"
    chain = run.message_id.removesuffix("-0")
    assert told == {
        **dict.fromkeys(("spec_file", "input_file"), str(spec)),
        "message_file": str(folder / "message.md"),
        "message_dir": str(folder),
        "message_id": run.message_id,
        **{"chain": chain, "seq": "0"},
    }
    assert b"type: spec" in (folder / "message.md").read_bytes()


def test_a_run_that_a_kill_kept_from_beginning_leaves_nothing(inbox):
    unborn = Path(inbox.layout.staged_run("20250101-000000-abcdef"))
    (unborn / "steps").mkdir(parents=True)
    inbox.layout.locks.mkdir(exist_ok=True)
    inbox.layout.run_lock.write_text('{"identity": "gone"}')
    inbox.process()
    assert not unborn.exists()


def test_what_a_killed_pass_had_begun_to_write_goes(inbox):
    beginning = inbox.drop(".2025022514320000-0.md.tmp-eec552bb", "---\n")
    inbox.drop(".mine.md", "x\n")
    assert inbox.process().outcomes == ()
    assert not beginning.exists()
    assert (inbox.layout.inbox / ".mine.md").exists()


def test_a_routine_may_take_the_folders_away(inbox):
    away = f"rm -rf {inbox.layout.specs} {inbox.layout.inbox_done}"
    inbox.routine("away", away, about="Tidy up\n# workspace: project")
    inbox.settings('sandbox = "off"\n')
    inbox.spec("01-a.spec.md", "---\nroutine: away\n---\n# Tidy up\n")
    assert inbox.statuses() == [("01-a.spec.md", "done")]
    assert inbox.layout.tracker.read_text() == "01-a.spec.md\n"
    assert len(list(inbox.layout.inbox_done.iterdir())) == 1
