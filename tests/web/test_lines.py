"""Logs by lines, whatever their size."""

import time

import pytest

from treadle.web import lines


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("".join(f"line {n} of the log\n" for n in range(1, 100_001)) + "half")
    with path.open("rb") as handle:
        yield handle


def test_any_range_and_the_end_are_read(log):
    found = lines.read_range(log, 70_000, 3, 1 << 16)
    assert (found.first, found.total) == (70_000, 100_001)
    assert found.lines == tuple(f"line {n} of the log" for n in (70_000, 70_001, 70_002))
    assert found.before.endswith("line 69999 of the log\n")
    end = lines.read_range(log, None, 2, 1 << 16)
    assert (end.lines, end.is_cut) == (("line 100000 of the log", "half"), True)
    assert lines.read_range(log, 10**9, 5, 1 << 16).lines == ("half",)
    small = lines.read_range(log, 1, 500, 100)
    assert small.lines == tuple(f"line {n} of the log" for n in range(1, 6))


def test_a_line_longer_than_a_page_is_cut(tmp_path):
    (tmp_path / "x").write_bytes(b"a" * 1000 + b"\nb\n")
    with (tmp_path / "x").open("rb") as handle:
        found = lines.read_range(handle, 1, 10, 100)
        assert (found.lines, found.is_cut, found.total) == (("a" * 100,), True, 2)
        assert lines.read_range(handle, None, 1, 100).lines == ("b",)


def test_the_whole_file_is_searched(log):
    found, count = lines.search(log, "LINE 9999", 3)
    assert [it.number for it in found] == [9999, 99990, 99991]
    assert count == 11
    assert lines.search(log, "(", 3) == ([], 0)
    assert lines.search(log, "HALF", 3)[0][0].number == 100_001


def test_what_is_cut_off_before_a_match_is_said(tmp_path):
    path = tmp_path / "long"
    short = "x" * 200 + "word"
    path.write_text(f"{short}\nxxxx{short}{short}\n")
    with path.open("rb") as handle:
        whole, cut = lines.search(handle, "word", 3)[0]
    assert (whole.text, cut.text) == (short, "…" + "x" * 60 + "word" + "x" * 180)


def test_a_large_log_is_answered_at_once(tmp_path):
    path = tmp_path / "large"
    path.write_bytes(b"some words that were printed by a program 0123456789\n" * 1_000_000)
    with path.open("rb") as handle:
        begun = time.process_time()
        found = lines.read_range(handle, 900_000, 500, 128 << 10)
        _, count = lines.search(handle, "nowhere", 10)
        assert (found.total, len(found.lines), count) == (1_000_000, 500, 0)
        assert time.process_time() - begun < 5
