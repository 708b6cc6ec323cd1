"""Each operation calls git as rarely as promised."""

from datetime import UTC, datetime

import pytest

from tests.builder import write_files
from tests.git.corpus import BASE, TWO_FILES
from tests.git.support import calls, count_calls, head, make, open_workspace
from treadle.git import build, judge, refs, repo, workspace

NAME = "treadle/20260101-000000-abcdef"
MOVED = ["update-ref"]


@pytest.fixture
def place(tmp_path):
    return make(tmp_path / "p", BASE)


@pytest.fixture
def log(tmp_path, monkeypatch):
    return count_calls(tmp_path, monkeypatch)


def test_finding_and_reading_a_repository(place, log):
    repo.version.cache_clear()
    repo.find(place.root)
    assert calls(log) == ["version", "rev-parse"]
    repo.head(place)
    repo.operation_in_progress(place)
    assert calls(log) == []
    repo.dirty_files(place.root)
    assert calls(log) == ["status"]


def test_creating_a_workspace(place, log, tmp_path):
    open_workspace(place, tmp_path)
    assert calls(log) == ["config", "read-tree"]


@pytest.mark.parametrize("look", [workspace.changes, workspace.survey])
def test_looking_at_a_workspace(place, log, tmp_path, look):
    ws = open_workspace(place, tmp_path)
    write_files(ws.path, {"new": "n\n", "src/app.py": "x\n"})
    calls(log)
    look(ws)
    assert calls(log) == ["status"]


def test_restoring_a_clean_workspace(place, log, tmp_path):
    ws = open_workspace(place, tmp_path)
    calls(log)
    workspace.restore(ws, head(place))
    assert calls(log) == ["status"]


def test_act_step_with_a_patch(place, log, tmp_path):
    ws = open_workspace(place, tmp_path)
    base, tree = head(place), repo.tree_of(place, head(place))
    refs.create(place, NAME, base)
    calls(log)
    workspace.changes(ws)
    built = build.from_patch(place, base, TWO_FILES, tmp_path / "s", ws=ws)
    judge.judge(built.scratch, tree, built.tree)
    new = build.commit(built, base, "act", datetime.now(UTC), build.FALLBACK_AUTHOR)
    refs.move(place, NAME, new, base)
    workspace.follow(ws, new)
    judged = ["diff-tree", "cat-file"]
    assert calls(log) == ["status", "apply", "write-tree", *judged, *MOVED, "read-tree"]


def test_do_step_with_edits(place, log, tmp_path):
    ws = open_workspace(place, tmp_path)
    base, tree = head(place), repo.tree_of(place, head(place))
    refs.create(place, NAME, base)
    write_files(ws.path, {"new/file": "n\n", "src/app.py": "x\n"})
    calls(log)
    found = workspace.survey(ws)
    built = build.from_edits(ws, base, tmp_path / "s", found.changes)
    judge.judge(built.scratch, tree, built.tree)
    new = build.commit(built, base, "do", datetime.now(UTC), build.FALLBACK_AUTHOR)
    refs.move(place, NAME, new, base)
    workspace.adopt(ws, built.scratch.index, new)
    found = calls(log)
    assert workspace.changes(ws) == ()
    judged = ["diff-tree", "cat-file"]
    assert found == ["status", "update-index", "write-tree", *judged, *MOVED]


def test_patch_to_judged_tree(place, log, tmp_path):
    calls(log)
    built = build.from_patch(place, head(place), TWO_FILES, tmp_path / "s")
    judge.judge(built.scratch, "HEAD^{tree}", built.tree)
    assert calls(log) == ["read-tree", "apply", "write-tree", "diff-tree", "cat-file"]
