"""Changes outside are seen, and what only rights and times tell is told apart."""

import os
import time

import pytest

from treadle.sandbox import home as homes
from treadle.sandbox import outside
from treadle.sandbox.policy import Policy


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("a", "b", "sub/c"):
        (tmp_path / name).write_text(name)
    past = time.time_ns() - 10**10
    for path in (tmp_path / "a", tmp_path / "b", tmp_path / "sub/c", tmp_path / "sub", tmp_path):
        os.utime(path, ns=(past, past))
    return tmp_path


def changes(tree, act):
    before = outside.look((tree,), ())
    act()
    found = outside.compare(before, outside.look((tree,), ()))
    return [[os.path.relpath(path, tree) for path in paths] for paths in found]


ONLY_ABOUT = {
    "rights": lambda tree: (tree / "a").chmod(0o600),
    "old time": lambda tree: os.utime(tree / "a", (1, 1)),
    "time to come": lambda tree: os.utime(tree / "a", (2**31, 2**31)),
    "owner": lambda tree: os.chown(tree / "a", os.getuid(), os.getgid()),
    "attribute": lambda tree: os.setxattr(tree / "a", "user.x", b"y"),
}


@pytest.mark.parametrize("how", ONLY_ABOUT)
def test_what_is_said_about_a_file(tree, how):
    try:
        assert changes(tree, lambda: ONLY_ABOUT[how](tree)) == [[], ["a"]]
    except OSError as error:
        pytest.skip(f"this file system has none: {error}")


def test_rights_of_a_folder(tree):
    assert changes(tree, lambda: (tree / "sub").chmod(0o700)) == [[], ["sub"]]


def rewrite(tree):
    (tree / "b").unlink()
    (tree / "b").write_text("b")


CONTENT = {
    "write": (lambda tree: (tree / "sub/c").write_text("C"), ["sub/c"]),
    "same size": (lambda tree: (tree / "a").write_text("A"), ["a"]),
    "new": (lambda tree: (tree / "sub/new").touch(), ["sub/new"]),
    "gone": (lambda tree: (tree / "a").unlink(), ["a"]),
    "renamed": (lambda tree: (tree / "a").rename(tree / "z"), ["a", "z"]),
    "rewritten": (rewrite, ["b"]),
}


@pytest.mark.parametrize("how", CONTENT)
def test_what_a_file_holds(tree, how):
    act, paths = CONTENT[how]
    assert changes(tree, lambda: act(tree)) == [paths, []]


def test_nothing_happened(tree):
    assert changes(tree, lambda: (tree / "a").read_text()) == [[], []]


def test_of_too_many_files_the_nearest_are_watched(tree, monkeypatch):
    monkeypatch.setattr(outside, "MAX_ENTRIES", 3)
    before = outside.look((tree,), ())
    assert sorted(os.path.relpath(path, tree) for path in before.marks) == [".", "a", "b", "sub"]
    assert not before.is_whole
    (tree / "new").touch()
    (tree / "a").chmod(0o600)
    found = outside.compare(before, outside.look((tree,), ()))
    assert found == outside.Changes((), (str(tree / "a"),))
    assert len(outside.look((), (tree,)).marks) == 5


def test_of_busy_files_only_rights_count(tree):
    before = outside.look((), (), busy=(tree, tree / "sub/c"))
    (tree / "new").touch()
    (tree / "a").write_text("busy")
    os.utime(tree / "b", (1, 1))
    (tree / "sub/c").chmod(0o600)
    found = outside.compare(before, outside.look((), (), busy=(tree, tree / "sub/c")))
    assert found == outside.Changes((), (str(tree / "sub/c"),))


@pytest.fixture
def home(tmp_path):
    for name in ("home/.npm", "home/.ssh", "work"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path / "home"


def told(home, text, **policy):
    log = home / "log.txt"
    log.write_text(text)
    rules = Policy((home.parent / "work",), (home / ".ssh",), **policy)
    return outside.explain_denial(log, rules, home) or ""


WRITES = [
    "npm ERR! EROFS: read-only file system, mkdir '{home}/.npm/_cacache'",
    "npm ERR! EACCES: permission denied, open '{home}/.npm/_logs/x'",
    "PermissionError: [Errno 13] Permission denied: '{home}/.npm/x'",
    "sh: 1: cannot create {home}/.npm/x: Read-only file system",
    "touch: cannot touch '{home}/.npm/x': Permission denied",
    "open {home}/.npm/x: read-only file system",
    "touch: cannot touch \u2018{home}/.npm/x\u2019: Permission denied",
]


@pytest.mark.parametrize("text", WRITES)
def test_a_folder_it_may_not_write(home, text):
    assert 'checks.writable = ["~/.npm"]' in told(home, text.format(home=home))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("EROFS: read-only file system, mkdir '{home}/.yarn'", '["~/.yarn"]'),
        ("EACCES: permission denied, open '{home}/.yarn/x'", '["~/.yarn"]'),
        ("open {home}/.cache/go-build/00/x: read-only file system", '["~/.cache/go-build"]'),
        (
            "mkdir: cannot create directory \u2018{home}/.yarn\u2019: Read-only file system",
            '["~/.yarn"]',
        ),
        ("cannot create {home}/.x: Read-only file system", "a folder there may stand in"),
    ],
)
def test_a_missing_folder_is_named_itself_and_not_what_is_around_it(home, text, key):
    (home / ".cache").mkdir()
    assert key in told(home, text.format(home=home))


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
    "cat: \u2018{path}\u2019: No such file or directory",
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
    assert told in (outside.explain_denial(log, rules, home) or "")
    opened = homes.closed({"HOME": str(home)}, read=["~/company/ca.pem"])
    assert "blocked reading" not in (outside.explain_denial(log, opened, home) or "")
    log.write_text(text.format(path=home / "company/missing"))
    assert "blocked reading" not in (outside.explain_denial(log, rules, home) or "")


def test_a_file_that_treadle_hides_in_a_folder_that_can_be_read(home):
    (home / ".m2").mkdir()
    (home / ".m2/settings.xml").touch()
    log = home.parent / "log.txt"
    log.write_text(f"Non-parseable settings {home}/.m2/settings.xml: no data")
    told = outside.explain_denial(log, homes.closed({"HOME": str(home)}), home)
    assert told is not None
    assert 'sandbox.read = ["~/.m2/settings.xml"] would allow it' in told


def test_an_agent_is_told_its_own_key(home):
    log = home.parent / "log.txt"
    log.write_text(f"open {home}/.npm/x: read-only file system")
    told = outside.explain_denial(log, homes.closed({"HOME": str(home)}), home, "agents.do")
    assert told is not None
    assert 'agents.do.writable = ["~/.npm"]' in told


def test_nobody_is_told_to_open_the_whole_home(home):
    log = home.parent / "log.txt"
    log.write_text(f"open {home}/new: read-only file system")
    told = outside.explain_denial(log, homes.closed({"HOME": str(home)}), home)
    assert (
        told
        == f"the sandbox blocked a write to {home}/new; a folder there may stand in checks.writable"
    )
