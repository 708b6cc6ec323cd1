"""A commit has the id that git would give it, every time."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from tests.builder import git
from tests.git.corpus import APP_EDIT, BASE
from tests.git.support import head, make
from treadle.git import build, repo
from treadle.git.build import Author

WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ME = Author("Ada Lovelace", "ada@example.org")


@pytest.fixture(params=["sha1", "sha256"])
def place(request, tmp_path):
    return make(tmp_path / "p", BASE, f"--object-format={request.param}")


@pytest.fixture
def built(place, tmp_path):
    return build.from_patch(place, head(place), APP_EDIT, tmp_path / "scratch")


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=5, minutes=-30))])
def test_commit_equals_that_of_commit_tree(place, built, zone, monkeypatch):
    message = "act 1: größer\n\nTreadle-Run: x\n"
    when = WHEN.astimezone(zone)
    name = build.commit(built, head(place), message, when, ME)
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", ME.name)
        monkeypatch.setenv(f"GIT_{role}_EMAIL", ME.email)
        monkeypatch.setenv(f"GIT_{role}_DATE", f"{int(when.timestamp())} {when:%z}")
    args = ["commit-tree", built.tree, "-p", head(place), "-m", message.strip()]
    assert name == git(place.root, *args).strip()


def test_commit_is_whole_and_no_branch_moved(place, built):
    before = git(place.root, "for-each-ref")
    name = build.commit(built, head(place), "m", WHEN, ME)
    git(place.root, "fsck", "--strict", "--no-dangling")
    assert git(place.root, "show", "-s", "--format=%an <%ae> %cn %s", name).strip() == (
        "Ada Lovelace <ada@example.org> Ada Lovelace m"
    )
    assert git(place.root, "show", f"{name}:src/app.py").endswith("return 2\n")
    assert git(place.root, "for-each-ref") == before


def test_signing_and_encoding_settings_change_nothing(place, built):
    git(place.root, "config", "commit.gpgSign", "true")
    git(place.root, "config", "i18n.commitEncoding", "latin-1")
    name = build.commit(built, head(place), "ü", WHEN, ME)
    assert git(place.root, "cat-file", "commit", name).count("\n") == 6


def test_names_cannot_break_the_object(place, built):
    evil = Author("a\nparent 000 <x>", "<>\n")
    name = build.commit(built, head(place), "m\0m", WHEN, evil)
    git(place.root, "fsck", "--strict", "--no-dangling")
    assert git(place.root, "show", "-s", "--format=%an|%ae|%P", name).strip() == (
        f"aparent 000 x|treadle|{head(place)}"
    )


def test_identity_is_the_users(place):
    git(place.root, "config", "user.name", "Local")
    assert build.author_of(repo.read_settings(place)) == ("Local", "test@example.invalid")


def test_identity_falls_back_to_treadle(place, private_home):
    (private_home / ".gitconfig").write_text("")
    assert build.author_of(repo.read_settings(place)) == ("treadle", "treadle@localhost")
