"""A log tells which denial a command met, and the key that would allow it."""

import pytest

from treadle.sandbox import denial
from treadle.sandbox import home as homes
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
    assert "the sandbox blocked a write to" in told(home, f"{home}/{'x' * 300}: Permission denied")


READS = [
    "cat: {path}: No such file or directory",
    "cat: {path}: Permission denied",
    "FileNotFoundError: [Errno 2] No such file or directory: '{path}'",
    "Error: ENOENT: no such file or directory, open '{path}'",
    "fatal: unable to access '{path}': Permission denied",
    "bwrap: execvp {path}: No such file or directory",
    "error: failed to read {path}",
    "Non-parseable settings {path}: input contained no data",
]


@pytest.mark.parametrize("text", READS)
def test_a_file_of_the_home_that_is_not_on_the_list(home, text):
    (home / "company").mkdir()
    (home / "company/ca.pem").touch()
    log = home.parent / "log.txt"
    log.write_text(text.format(path=home / "company/ca.pem"))
    rules = homes.closed({"HOME": str(home)})
    told = 'the sandbox blocked reading ~/company/ca.pem; sandbox.read = ["~/company/ca.pem"]'
    assert told in (denial.explain(log, rules, home) or "")
    opened = homes.closed({"HOME": str(home)}, read=["~/company/ca.pem"])
    assert "blocked reading" not in (denial.explain(log, opened, home) or "")
    log.write_text(text.format(path=home / "company/missing"))
    assert "blocked reading" not in (denial.explain(log, rules, home) or "")


def test_a_file_that_treadle_hides_in_a_folder_that_can_be_read(home):
    (home / ".m2").mkdir()
    (home / ".m2/settings.xml").touch()
    log = home.parent / "log.txt"
    log.write_text(f"Non-parseable settings {home}/.m2/settings.xml: no data")
    told = denial.explain(log, homes.closed({"HOME": str(home)}), home)
    assert told is not None
    assert 'sandbox.read = ["~/.m2/settings.xml"] would allow it' in told


def test_an_agent_is_told_its_own_key(home):
    log = home.parent / "log.txt"
    log.write_text(f"open {home}/.npm/x: read-only file system")
    told = denial.explain(log, homes.closed({"HOME": str(home)}), home, "agents.do")
    assert told is not None
    assert 'agents.do.writable = ["~/.npm"]' in told


def test_nobody_is_told_to_open_the_whole_home(home):
    log = home.parent / "log.txt"
    log.write_text(f"open {home}/new: read-only file system")
    told = denial.explain(log, homes.closed({"HOME": str(home)}), home)
    assert (
        told
        == f"the sandbox blocked a write to {home}/new; a folder there may stand in checks.writable"
    )
