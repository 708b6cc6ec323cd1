"""Another user who only reads sees everything and leaves nothing that locks the owner out."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import urllib.request
from pathlib import Path

import pytest

from tests.acceptance.test_unprivileged import Nobody
from tests.builder import GIT_IDENTITY, wait_for
from tests.sandbox.test_hostile import NOBODY

OTHER = NOBODY - 1


class Reader:
    """A user beside the owner, with a home of its own."""

    def __init__(self, owner):
        self.owner, home = owner, owner.place / "other"
        home.mkdir()
        safe = f"[safe]\n\tdirectory = {owner.root}\n"
        (home / ".gitconfig").write_text(GIT_IDENTITY + safe)
        os.chown(home, OTHER, OTHER)
        self.drop = [word.replace(str(NOBODY), str(OTHER)) for word in owner.drop]
        self.env = owner.env | {"HOME": str(home)}
        self.words = [*self.drop, owner.python, "-P", "-m", "treadle"]

    def treadle(self, *words):
        asked = [*self.words, *words]
        return subprocess.run(
            asked, cwd=self.owner.root, env=self.env, capture_output=True, text=True
        )

    def left(self):
        """Return what this user made or took in the project."""
        paths = self.owner.root.rglob("*")
        return [path for path in paths if path.lstat().st_uid not in (NOBODY, 0)]


@pytest.fixture
def owner():
    if os.getuid():
        pytest.skip("NOT ROOT HERE: nobody can be two users")
    if not shutil.which("setpriv"):
        pytest.skip("NO setpriv: not tried as another user")
    with tempfile.TemporaryDirectory(prefix="nobody-", ignore_cleanup_errors=True) as folder:
        made = Nobody(Path(folder))
        made.place.chmod(0o755)
        made.treadle("task", "add", "Make it")
        send = ("mail", "send", "--to", "human", "--from", "amy", "--intent", "question")
        made.treadle(*send, "--summary", "Which one?")
        yield made


@pytest.fixture
def reader(owner):
    return Reader(owner)


READ = (
    ("runs", "list"),
    ("desk",),
    ("task", "list"),
    ("mail", "list"),
    ("doctor",),
)


@pytest.mark.real
@pytest.mark.parametrize("words", READ, ids=" ".join)
def test_reading_leaves_nothing(owner, reader, words):
    letters = owner.root / ".treadle" / "mail" / "NEW_MESSAGES"
    first = next(letters.iterdir())
    shutil.copy(first, letters / first.name.replace("amy", "eve"))  # unread by the owner as yet
    owner.own()
    done = reader.treadle(*words)
    assert done.returncode == 0 or words == ("doctor",), done  # which says whom to ask
    assert reader.left() == []
    owner.treadle("task", "add", "Another")


def test_reading_while_the_owner_works(owner, reader):
    begun = owner.place / "begun"
    line = ["sh", "-c", f"touch {begun}; sleep 30"]
    owner.settings(
        f'[sandbox]\nmode = "off"\n[agents.do]\ntype = "builtin"\nrun = {json.dumps(line)}\n'
    )
    process = owner.start("run", "--goal", "Go", "--ac", "x", "--verify", "AC1=false")
    try:
        wait_for(begun.exists)
        assert "running" in reader.treadle("runs", "list").stdout
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert reader.left() == []
    owner.treadle("task", "add", "Another")


def test_the_page_of_another_user_leaves_nothing(owner, reader):
    words = [*reader.words, "serve", "--no-work", "--port", "0", "--json"]
    process = subprocess.Popen(
        words, cwd=owner.root, env=reader.env, stdout=subprocess.PIPE, text=True
    )
    try:
        link = json.loads(process.stdout.readline())["link"]
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        assert opener.open(link, timeout=60).status == 200
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert reader.left() == []
    owner.treadle("task", "add", "Another")


@pytest.mark.real
@pytest.mark.parametrize("path", [".treadle", ".treadle/treadle.db"])
def test_who_may_not_even_read_is_told_whom_to_ask(owner, reader, path):
    (owner.root / path).chmod(0o700)
    done = reader.treadle("runs", "list")
    assert done.returncode == 1
    assert "ask its owner, " in done.stderr


def test_who_may_only_read_is_told_whom_to_ask_for_more(owner, reader):
    done = reader.treadle("task", "add", "Mine")
    assert done.returncode == 1
    assert "nothing was saved; ask its owner, " in done.stderr
    assert reader.left() == []
