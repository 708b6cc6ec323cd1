"""A log tells which denial a command met, and the key that would allow it."""

import pytest

from treadle.sandbox import denial
from treadle.sandbox.policy import Policy


@pytest.fixture
def home(tmp_path):
    for name in ("home/.npm", "home/.ssh", "work"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path / "home"


def told(home, text, **policy):
    log = home / "log.txt"
    log.write_text(text)
    rules = Policy((home.parent / "work",), (home / ".ssh",), **policy)
    return denial.explain(log, rules, home) or ""


WRITES = [
    "npm ERR! EROFS: read-only file system, mkdir '{home}/.npm/_cacache'",
    "npm ERR! EACCES: permission denied, open '{home}/.npm/_logs/x'",
    "PermissionError: [Errno 13] Permission denied: '{home}/.npm/x'",
    "sh: 1: cannot create {home}/.npm/x: Read-only file system",
    "touch: cannot touch '{home}/.npm/x': Permission denied",
    "open {home}/.npm/x: read-only file system",
]


@pytest.mark.parametrize("text", WRITES)
def test_a_folder_it_may_not_write(home, text):
    assert 'checks.writable = ["~/.npm"]' in told(home, text.format(home=home))


def test_a_hidden_file(home):
    text = f"cat: {home}/.ssh/id: Permission denied"
    assert "take ~/.ssh out of sandbox.hide" in told(home, text)


def test_sockets(home):
    text = "OSError: [Errno 97] Address family not supported by protocol"
    assert "checks.unix_sockets = true" in told(home, text)
    assert told(home, text, unix_sockets=True) == ""
    assert 'checks.network = "full"' in told(home, text, network=False)


def test_no_network(home):
    text = "curl: (6) Could not resolve host: example.org"
    assert 'checks.network = "full"' in told(home, text, network=False)
    assert told(home, text) == ""


def test_failures_of_its_own(home):
    assert told(home, "AssertionError: 1 != 2") == ""
    work = home.parent / "work"
    assert told(home, f"PermissionError: [Errno 13] Permission denied: '{work}/x'") == ""


@pytest.mark.parametrize("flood", ["/", "abcdefgh/", "/a:", "EACCES", "EACCES/"])
def test_a_log_of_one_endless_line_holds_nobody_up(home, flood):
    told(home, flood * 60_000)


def test_what_only_looks_like_a_path(home):
    assert "the sandbox let it not write" in told(home, f"{home}/{'x' * 300}: Permission denied")
