"""Patches that nobody thought of: honest edits come in whole, twisted ones never get out."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builder import make_home, make_repository, write_files
from tests.git import corpus
from tests.git.support import head, snapshot
from treadle.errors import GitError
from treadle.files import beneath
from treadle.git import build, judge, repo
from treadle.git.build import PatchFailed
from treadle.git.judge import Judged

FILES: dict[str, bytes] = {
    "src/app.py": b"def main():\n    return 1\n",
    "src/long.py": b"".join(b"line %d\n" % n for n in range(40)),
    "src/dos.txt": b"one\r\ntwo\r\nthree\r\n",
    "docs/no newline.md": b"# Title\n\nend",
    "docs/\xe2\x82\xac.md".encode("latin-1").decode(): b"euro\n",
    "data/empty": b"",
    "data/blob.bin": bytes(range(256)) * 3,
}
FOLDERS = ("", "src/", "docs/", "new/deep/er/", "with space/", "数据/")
STYLES = (
    (),
    ("--no-prefix",),
    ("--no-renames", "--full-index"),
    ("-M", "-C", "--find-copies-harder"),
    ("-M30%", "--no-prefix"),
    ("-U1", "--minimal"),
    ("-U20", "--patience"),
    ("--src-prefix=i/", "--dst-prefix=w/", "--histogram"),
    ("--src-prefix=old/", "--dst-prefix=new/", "--no-renames"),
    ("--patch-with-stat",),
)
AROUND = (
    (b"", b""),
    (b"Here you are:\n\n", b"\nThat is all.\n"),
    (b"```diff\n", b"```\n"),
    (b"From: a@b\nSubject: [PATCH] x\n\n---\n", b"-- \n2.39.5\n"),
)
IN_A_HURRY = settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

texts = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=12))
contents = st.one_of(
    st.builds(
        lambda lines, end: "\n".join(lines).encode() + end, texts, st.sampled_from([b"", b"\n"])
    ),
    st.builds(lambda lines: "".join(f"{line}\r\n" for line in lines).encode(), texts),
    st.binary(max_size=200),
)
names = st.builds("{}f{}.txt".format, st.sampled_from(FOLDERS), st.text("abcxyz-_. +", max_size=6))
edits = st.dictionaries(
    st.one_of(names, st.sampled_from(sorted(FILES))),
    st.one_of(st.none(), contents),
    min_size=1,
    max_size=5,
)


class Site:
    """A repository, and a copy of its files in which patches are made by git itself."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.env = {"PATH": os.environ["PATH"], **make_home(folder)}
        self.root = make_repository(folder / "project", FILES, env=self.env)
        self.repo = repo.find(self.root)
        self.commit = head(self.repo)
        self.tree = repo.tree_of(self.repo, self.commit)
        self.outside = _state(folder)

    def git(self, *args: str, **extra: str) -> bytes:
        done = subprocess.run(
            ["git", *args], cwd=self.root, env=self.env | extra, capture_output=True, check=True
        )
        return done.stdout

    def diff(self, changes: dict[str, bytes | None], *style: str) -> tuple[str, bytes]:
        """Return the tree that the changes make, and git's own patch to it."""
        work, index = self.folder / "work", self.folder / "index"
        store = self.folder / "objects"
        store.mkdir(exist_ok=True)
        place = {
            "GIT_WORK_TREE": str(work),
            "GIT_INDEX_FILE": str(index),
            "GIT_DIR": str(self.root / ".git"),
            "GIT_OBJECT_DIRECTORY": str(store),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self.root / ".git" / "objects"),
        }
        write_files(
            work, FILES | {name: data for name, data in changes.items() if data is not None}
        )
        for name in [name for name, data in changes.items() if data is None]:
            (work / name).unlink(missing_ok=True)
        try:
            self.git("add", "-A", "--force", ".", **place)
            tree = self.git("write-tree", **place).decode().strip()
            return tree, self.git(
                "diff-index", "--cached", "-p", "--binary", *style, self.commit, **place
            )
        finally:
            for path in (work, store, index):
                beneath.remove_tree(path)

    def judge(self, patch: bytes) -> tuple[str | None, Judged | PatchFailed]:
        """Build and judge a patch; whatever comes of it, nothing lies about afterwards."""
        scratch = self.folder / "scratch"
        try:
            built = build.from_patch(self.repo, self.commit, patch, scratch)
            if isinstance(built, PatchFailed):
                return None, built
            return built.tree, judge.judge(built.scratch, self.tree, built.tree)
        finally:
            beneath.remove_tree(scratch)
            assert _state(self.folder) == self.outside


def _state(folder: Path) -> dict[str, bytes | str]:
    return {
        **snapshot(folder),
        **{f".git/{k}": v for k, v in snapshot(folder / "project/.git").items()},
    }


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return Site(tmp_path_factory.mktemp("random"))


@IN_A_HURRY
@given(edits, st.sampled_from(STYLES), st.sampled_from(AROUND))
def test_honest_edits_come_in_whatever_the_style(site, changes, style, around):
    tree, patch = site.diff(changes, *style)
    if tree == site.tree:
        return
    built, found = site.judge(around[0] + patch + around[1])
    assert built == tree, (found, patch)
    assert isinstance(found, Judged)
    assert (found.refusals, found.risky) == ((), ())


HOSTILE_NAMES = (
    *("../{}", "src/../../{}", "/{}", ".git/{}", ".GIT/{}", "sub/.git/{}", "git~1/{}", "./{}"),
    *(
        ".treadle/{}",
        ".treadle/runs/{}",
        "src//{}",
        "C:{}",
        "..\\{}",
        ".g\u200cit/{}",
        "-{}",
        " {}",
    ),
    *("{}\n", "{}\x1b", "{}\u202e", "SRC/{}", "src/{} ", "con.{}", "{}\udcff", ".github/{}"),
)
HOSTILE_MODES = ("120000", "160000", "040000", "104755", "010644", "100777")
plain_names = st.text("abcdefgh", min_size=1, max_size=8)


@IN_A_HURRY
@given(edits, st.sampled_from(HOSTILE_NAMES), plain_names, st.booleans())
def test_one_hostile_name_keeps_all_of_a_patch_out(site, changes, form, name, is_first):
    _, patch = site.diff(changes)
    evil = corpus.new(form.format(name))
    _, found = site.judge(evil + patch if is_first else patch + evil)
    assert isinstance(found, PatchFailed) or found.refusals or found.risky, (found, patch)


@IN_A_HURRY
@given(edits, st.sampled_from(HOSTILE_MODES), plain_names, st.booleans())
def test_one_hostile_mode_keeps_all_of_a_patch_out(site, changes, mode, name, is_first):
    _, patch = site.diff(changes)
    evil = corpus.new(f"z-{name}", mode=mode)
    _, found = site.judge(evil + patch if is_first else patch + evil)
    assert isinstance(found, PatchFailed) or found.refusals or found.risky, (found, patch)


@IN_A_HURRY
@given(edits, st.sampled_from(STYLES), st.data())
def test_a_damaged_patch_is_an_answer_and_leaves_no_trace(site, changes, style, data):
    """Bytes are dropped, doubled and changed: whatever still applies is judged like any other."""
    _, patch = site.diff(changes, *style)
    damaged = bytearray(patch)
    for _ in range(data.draw(st.integers(1, 4))):
        if damaged:
            at = data.draw(st.integers(0, len(damaged) - 1))
            damaged[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        tree, found = site.judge(bytes(damaged))
    except GitError:
        return
    assert isinstance(found, PatchFailed) or tree
