"""Patches and edits become trees; no checkout is touched."""

import os

import pytest

from tests.builder import git, write_files
from tests.git.corpus import APP_EDIT, BASE, DOS_EDIT, README_EDIT, TWO_FILES, new
from tests.git.support import harvest, head, make, open_workspace, snapshot
from tests.git.test_commit import WHEN
from treadle.errors import GitError
from treadle.git import build, scratch, workspace
from treadle.git.build import FALLBACK_AUTHOR, Built, PatchFailed


@pytest.fixture
def place(tmp_path):
    return make(tmp_path / "p", BASE)


@pytest.fixture
def ws(place, tmp_path):
    return open_workspace(place, tmp_path)


def show(built: Built, path: str) -> bytes:
    return scratch.out(built.scratch, "cat-file", "blob", f"{built.tree}:{path}")


def test_patch_is_applied_to_the_commit_not_to_files(place, tmp_path):
    write_files(place.root, {"src/app.py": "the user is typing\n"})
    git(place.root, "add", ".")
    before = (snapshot(place.root), (place.git_dir / "index").read_bytes())
    built = build.from_patch(place, head(place), APP_EDIT, tmp_path / "s")
    assert show(built, "src/app.py") == b"def main():\n    return 2\n"
    assert (snapshot(place.root), (place.git_dir / "index").read_bytes()) == before


def test_workspaces_index_gives_the_same_tree(place, ws, tmp_path):
    first = build.from_patch(place, head(place), TWO_FILES, tmp_path / "s")
    second = build.from_patch(place, head(place), TWO_FILES, tmp_path / "t", ws=ws)
    assert first.tree == second.tree


def test_index_of_another_commit_is_not_used(place, ws, tmp_path):
    git(place.root, "commit", "-q", "--allow-empty", "-m", "next")
    git(place.root, "rm", "-q", "Makefile")
    git(place.root, "commit", "-q", "-m", "next")
    built = build.from_patch(place, head(place), APP_EDIT, tmp_path / "s", ws=ws)
    assert b"Makefile" not in scratch.out(built.scratch, "ls-tree", "--name-only", built.tree)


def test_damaged_index_is_not_used(place, ws, tmp_path):
    right = build.from_patch(place, head(place), APP_EDIT, tmp_path / "s").tree
    data = bytearray(ws.index.read_bytes())
    data[80] ^= 1
    ws.index.write_bytes(data)
    assert build.from_patch(place, head(place), APP_EDIT, tmp_path / "t", ws=ws).tree == right


def test_patch_that_does_not_apply_says_where(place, tmp_path):
    patch = README_EDIT.replace(b" Two.", b" Too.")
    failed = build.from_patch(place, head(place), patch, tmp_path / "s")
    assert failed == PatchFailed("patch failed: README.md:1; README.md: patch does not apply")


@pytest.mark.parametrize("patch", [b"", b"just words\n"])
def test_text_without_a_diff_is_named_as_such(place, tmp_path, patch):
    failed = build.from_patch(place, head(place), patch, tmp_path / "s")
    assert failed == PatchFailed("there is no diff in it")


def test_a_header_without_end_is_refused_at_once(place, tmp_path):
    failed = build.from_patch(place, head(place), b"diff --git " + b"a " * 10**5, tmp_path / "s")
    assert failed == PatchFailed("there is no diff in it")


def test_patch_with_carriage_returns_is_applied_without_them(place, tmp_path):
    patch = APP_EDIT.replace(b"\n", b"\r\n")
    built = build.from_patch(place, head(place), patch, tmp_path / "s")
    assert built.notes == ("applied after removing carriage returns from the patch",)
    assert b"\r" not in show(built, "src/app.py")


def test_file_with_carriage_returns_keeps_them(place, tmp_path):
    built = build.from_patch(place, head(place), DOS_EDIT, tmp_path / "s")
    assert (show(built, "dos.txt"), built.notes) == (b"one\r\nzwei\r\nthree\r\n", ())


@pytest.mark.parametrize("setting", ["apply.whitespace=error", "core.autocrlf=true"])
def test_settings_do_not_change_what_a_patch_means(place, tmp_path, setting):
    git(place.root, "config", *setting.split("="))
    built = build.from_patch(place, head(place), new("a", "trailing  "), tmp_path / "s")
    assert show(built, "a") == b"trailing  \n"


@pytest.mark.parametrize("name", ["src/app.py", "app.py"])
def test_patch_of_a_subfolder_may_be_relative_to_it(place, tmp_path, name):
    patch = APP_EDIT.replace(b"src/app.py", name.encode())
    built = build.from_patch(place, head(place), patch, tmp_path / "s", subdir="src")
    assert b"return 2" in show(built, "src/app.py")


def test_earlier_scratch_is_swept_away(place, tmp_path):
    write_files(tmp_path, {"s/index.lock": "", "s/objects/aa/junk": ""})
    assert isinstance(build.from_patch(place, head(place), APP_EDIT, tmp_path / "s"), Built)


def test_edits_become_a_tree(ws, tmp_path):
    write_files(ws.path, {"src/app.py": "new\n", "n/x.txt": "n\n"})
    (ws.path / "Makefile").unlink()
    built, judged = harvest(ws, tmp_path / "s")
    assert [change.path for change in judged.files] == ["Makefile", "n/x.txt", "src/app.py"]
    assert (show(built, "src/app.py"), judged.refusals) == (b"new\n", ())


def test_edits_equal_what_the_agents_own_git_would_commit(ws, tmp_path):
    write_files(ws.path, {"src/app.py": "new\n", "n/ü.bin": bytes(999), "e": ""})
    (ws.path / "src" / "app.py").chmod(0o755)
    built, _ = harvest(ws, tmp_path / "s")
    git(ws.path, "add", "-A")
    assert built.tree == git(ws.path, "write-tree").strip()


def test_commits_of_the_agent_are_harvested_as_contents(ws, tmp_path):
    write_files(ws.path, {"src/app.py": "new\n", "n": "n\n"})
    git(ws.path, "add", "-A")
    git(ws.path, "commit", "-q", "-m", "agent")
    git(ws.path, "switch", "-q", "-c", "other")
    _, judged = harvest(ws, tmp_path / "s")
    assert [change.path for change in judged.files] == ["n", "src/app.py"]


def test_file_and_folder_swap_places(ws, tmp_path):
    (ws.path / "Makefile").unlink()
    write_files(ws.path, {"Makefile/x": "x\n"})
    for name in ("src/lib/util.py", "src/lib/names with space.py"):
        (ws.path / name).unlink()
    (ws.path / "src" / "lib").rmdir()
    write_files(ws.path, {"src/lib": "file\n"})
    built, _ = harvest(ws, tmp_path / "s")
    git(ws.path, "add", "-A")
    assert built.tree == git(ws.path, "write-tree").strip()


def test_file_replaced_by_an_empty_folder_is_deleted(ws, tmp_path):
    (ws.path / "Makefile").unlink()
    (ws.path / "Makefile").mkdir()
    _, judged = harvest(ws, tmp_path / "s")
    assert [(change.path, change.new) for change in judged.files] == [("Makefile", None)]


def test_folder_replaced_by_a_link_is_refused(ws, tmp_path):
    write_files(tmp_path, {"outside/app.py": "secret\n"})
    for name in ("util.py", "names with space.py"):
        (ws.path / "src" / "lib" / name).unlink()
    (ws.path / "src" / "lib").rmdir()
    (ws.path / "src" / "lib").symlink_to(tmp_path / "outside")
    _, judged = harvest(ws, tmp_path / "s")
    assert [refusal.rule for refusal in judged.refusals] == ["symlink"]
    assert (tmp_path / "outside" / "app.py").stat().st_mode & 0o777 != 0


def test_ignored_link_above_tracked_files_leads_nowhere(ws, tmp_path):
    write_files(tmp_path, {"outside/util.py": "secret\n"})
    (tmp_path / "outside" / "util.py").chmod(0o200)
    for name in ("util.py", "names with space.py"):
        (ws.path / "src" / "lib" / name).unlink()
    (ws.path / "src" / "lib").rmdir()
    (ws.path / "src" / "lib").symlink_to(tmp_path / "outside")
    write_files(ws.path, {".gitignore": "lib\n"})
    _, judged = harvest(ws, tmp_path / "s")
    assert {change.path for change in judged.files if change.new} == {".gitignore"}
    assert (tmp_path / "outside" / "util.py").stat().st_mode & 0o777 == 0o200


def test_repository_made_by_an_agent_is_taken_as_files(ws, tmp_path):
    git(ws.path, "init", "-q", "app")
    write_files(ws.path, {"app/main.py": "m\n", "app/.gitignore": "out/\n", "app/out/x": "x\n"})
    built, judged = harvest(ws, tmp_path / "s")
    assert [change.path for change in judged.files] == ["app/.gitignore", "app/main.py"]
    assert built.notes == ("app/ was a repository of its own; only its files were taken",)


def test_repositories_inside_repositories(ws, tmp_path):
    git(ws.path, "init", "-q", "app")
    git(ws.path / "app", "init", "-q", "lib")
    write_files(ws.path, {"app/main.py": "m\n", "app/lib/l.py": "l\n"})
    _, judged = harvest(ws, tmp_path / "s")
    assert [change.path for change in judged.files] == ["app/lib/l.py", "app/main.py"]


def test_unreadable_and_special_files(ws, tmp_path):
    write_files(ws.path, {"src/app.py": "new\n"})
    (ws.path / "src" / "app.py").chmod(0)
    (ws.path / "Makefile").unlink()
    os.mkfifo(ws.path / "Makefile")
    built, judged = harvest(ws, tmp_path / "s")
    assert [change.path for change in judged.files] == ["Makefile", "src/app.py"]
    assert show(built, "src/app.py") == b"new\n"


def test_hostile_names_reach_the_judge(ws, tmp_path):
    write_files(ws.path, {"-rf": "", "a\nb": "", "README.MD": ""})
    (ws.path / os.fsdecode(b"\xff")).write_text("")
    _, judged = harvest(ws, tmp_path / "s")
    rules = {refusal.rule for refusal in judged.refusals}
    assert rules == {"name_dash", "name_control", "collision", "name_encoding"}


def test_line_ends_are_stored_as_the_project_wants(tmp_path):
    place = make(tmp_path / "p", {".gitattributes": "* text=auto\n", "a": "1\n"})
    git(place.root, "config", "core.autocrlf", "true")
    git(place.root, "config", "core.safecrlf", "true")
    ws = open_workspace(place, tmp_path)
    write_files(ws.path, {"a": "1\r\n2\r\n", "new": "n\r\nmixed\n"})
    built, _ = harvest(ws, tmp_path / "s")
    assert (show(built, "a"), show(built, "new")) == (b"1\n2\n", b"n\nmixed\n")


def test_edits_outside_a_sparse_checkout(place, tmp_path):
    git(place.root, "sparse-checkout", "set", "--cone", "src")
    ws = open_workspace(place, tmp_path)
    assert not (ws.path / ".github").exists()
    write_files(
        ws.path, {".github/workflows/ci.yml": "on: never\n", "src/app.py": "x\n", "docs/n": "n\n"}
    )
    _, judged = harvest(ws, tmp_path / "s")
    assert [change.path for change in judged.files if change.new] == [
        ".github/workflows/ci.yml",
        "docs/n",
        "src/app.py",
    ]
    assert len(judged.files) == 3


def test_patch_outside_a_sparse_checkout(place, tmp_path):
    git(place.root, "sparse-checkout", "set", "--cone", "docs")
    ws = open_workspace(place, tmp_path)
    base = head(place)
    built = build.from_patch(place, base, TWO_FILES, tmp_path / "s", ws=ws)
    new_commit = build.commit(built, base, "act", WHEN, FALLBACK_AUTHOR)
    workspace.follow(ws, new_commit)
    assert (workspace.changes(ws), (ws.path / "src").exists()) == ((), False)
    assert show(built, "src/new.py") == b"Z = 1\n"


def test_refused_edits_leave_no_objects_behind(place, ws, tmp_path):
    before = sorted(path for path in place.objects.rglob("*") if path.is_file())
    write_files(ws.path, {"secret": "s\n"})
    harvest(ws, tmp_path / "s")
    build.write_patch(ws, head(place), tmp_path / "x.diff")
    assert sorted(path for path in place.objects.rglob("*") if path.is_file()) == before


def test_adopted_edits_are_clean_for_treadle_and_agent(place, ws, tmp_path):
    write_files(ws.path, {"src/app.py": "new\n", "n": "n\n"})
    built, _ = harvest(ws, tmp_path / "s")
    new_commit = build.commit(built, head(place), "do 1", WHEN, FALLBACK_AUTHOR)
    workspace.adopt(ws, built.scratch.index, new_commit)
    assert workspace.changes(ws) == ()
    assert git(ws.path, "status", "--porcelain") == ""
    assert git(ws.path, "log", "-1", "--format=%s").strip() == "do 1"


def test_diff_can_be_applied_again(place, ws, tmp_path):
    write_files(
        ws.path, {"logo.bin": bytes(range(255, -1, -1)) * 8, "dos.txt": "x\r\n", "n/ü n": "no end"}
    )
    (ws.path / "README.md").unlink()
    (ws.path / "Makefile").chmod(0o755)
    edits = build.write_patch(ws, head(place), tmp_path / "x.diff")
    assert len(edits) == 5
    expected = snapshot(ws.path)
    workspace.restore(ws, head(place))
    git(ws.path, "apply", str(tmp_path / "x.diff"))
    assert snapshot(ws.path) == expected
    assert sorted(path.name for path in tmp_path.glob("*x.diff*")) == ["x.diff"]


def test_diff_only_names_what_is_too_big_or_a_repository(place, ws, tmp_path):
    git(ws.path, "init", "-q", "inner")
    with (ws.path / "huge").open("wb") as handle:
        handle.truncate(build.MAX_FILE_BYTES + 1)
    write_files(ws.path, {"small": "s\n"})
    build.write_patch(ws, head(place), tmp_path / "x.diff")
    text = (tmp_path / "x.diff").read_text()
    assert "+s\n" in text
    assert text.endswith("# not shown: 'huge' (added)\n# not shown: 'inner/' (repository)\n")
    assert len(text) < 1000


def test_edits_beyond_measure_are_not_read(ws, tmp_path):
    with (ws.path / "huge").open("wb") as handle:
        handle.truncate(build.MAX_EDIT_BYTES + 1)
    with pytest.raises(GitError) as error:
        build.from_edits(ws, head(ws.repo), tmp_path / "s")
    assert error.value.code == "edits_too_big"


def test_diff_of_very_many_files_names_some(place, ws, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "MAX_FILES", 3)
    write_files(ws.path, {f"n{n:03}": "n\n" for n in range(300)})
    build.write_patch(ws, head(place), tmp_path / "x.diff")
    text = (tmp_path / "x.diff").read_text()
    assert (text.count("+n\n"), text.count("# not shown: 'n")) == (3, 200)
    assert text.endswith("# not shown: 97 more\n")


def test_copied_index_keeps_its_time(ws, tmp_path):
    """Git reads files again whose time is not before that of the index."""
    os.utime(ws.index, (1, 1))
    workspace.copy_index(ws.index, tmp_path / "copy")
    assert (tmp_path / "copy").stat().st_mtime == 1


def test_diff_of_nothing_is_empty(place, ws, tmp_path):
    assert build.write_patch(ws, head(place), tmp_path / "x.diff") == ()
    assert (tmp_path / "x.diff").read_bytes() == b""


LFS = """#!/bin/sh
store=$(git config lfs.storage)/objects; mkdir -p "$store"; cat > "$store/new"
oid=$(sha256sum < "$store/new" | cut -c1-64)
mkdir -p "$store/$(echo $oid | cut -c1-2)/$(echo $oid | cut -c3-4)"
mv "$store/new" "$store/$(echo $oid | cut -c1-2)/$(echo $oid | cut -c3-4)/$oid"
echo "oid $oid"
"""


@pytest.mark.parametrize("text", ["large\n", "large\r\n"], ids=["plain", "index"])
def test_what_lfs_stores_comes_into_the_repository_with_the_commit(tmp_path, text):
    place = make(tmp_path / "p", {".gitattributes": "*.big filter=lfs\n"})
    tool = tmp_path / "git-lfs"
    tool.write_text(LFS)
    tool.chmod(0o755)
    git(place.root, "config", "filter.lfs.clean", str(tool))
    ws = open_workspace(place, tmp_path)
    (ws.path / "x.big").write_bytes(text.encode())
    built, _ = harvest(ws, tmp_path / "s")
    name = show(built, "x.big").decode().split()[1]
    stored = place.common_dir / "lfs" / "objects" / name[:2] / name[2:4] / name
    assert not stored.exists()
    build.commit(built, head(place), "m", WHEN, FALLBACK_AUTHOR)
    assert stored.read_bytes() == text.encode()
