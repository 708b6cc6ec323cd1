"""Give every test a private home, a real repository on request, and no way out to the network."""

import os
import socket
import subprocess
from pathlib import Path

import pytest

GIT_IDENTITY = """[user]
\tname = Test
\temail = test@example.invalid
[init]
\tdefaultBranch = main
"""
LOOPBACK = ("127.", "::1", "localhost")


@pytest.fixture(autouse=True)
def private_home(tmp_path_factory, monkeypatch):
    """Point HOME, XDG and git's global configuration at a folder of this test."""
    home = tmp_path_factory.mktemp("home")
    for name in [name for name in os.environ if name.startswith(("TREADLE_", "GIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    # Children start several times slower when they may not keep their bytecode.
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    (home / ".gitconfig").write_text(GIT_IDENTITY)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return home


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Refuse every connection that would leave this machine."""
    connect = socket.socket.connect

    def guarded(self, address):
        if self.family != socket.AF_UNIX and not str(address[0]).startswith(LOOPBACK):
            raise PermissionError(f"tests stay on loopback, not {address}")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture
def repo(tmp_path) -> Path:
    """Return a real git repository with one commit."""
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "-q")
    (root / "README.md").write_text("# Project\n")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "Begin")
    return root


def git(root: Path, *args: str, check: bool = True) -> str:
    """Run the real git in `root` and return what it printed."""
    done = subprocess.run(["git", *args], cwd=root, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise AssertionError(f"git {' '.join(args)}: {done.stderr}")
    return done.stdout
