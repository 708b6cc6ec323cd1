"""Whatever one types in a clone that nobody trusts: nothing of it runs, nothing outside changes."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.clones import RUN, SHAPES, Trap, roles
from tests.builder import git, write_files
from treadle.cli import main

# Each needs the user's word first.
WORKING = [
    ("run",),
    ("run", "--goal", "x", "--ac", "works"),
    ("run", "--resume", RUN),
    ("run", "--fleet", "--goal", "x", "--ac", "works"),
    ("process",),
    ("serve", "--once"),
    ("land", RUN),
    ("land", "--all"),
    ("rebase", RUN),
    ("replay", "README.md"),
    ("agent", "try", "do"),
    ("route", "x"),
    ("routine", "check"),
    ("pr", RUN),
    ("verify", "--all"),
    ("enter", RUN, "--", "true"),
    ("notify",),
]
READING = [
    ("process", "--dry-run"),
    ("undo", RUN),
    ("next",),
    ("next", "--query"),
    ("mission", "list"),
    ("mission", "status", "--mission", "evil"),
    ("mission", "dossier", "--mission", "evil"),
    ("task", "list"),
    ("task", "add", "x", "--verify", "AC1=true"),
    ("task", "show", "T-1"),
    ("mail", "list"),
    ("mail", "send", "--to", "a", "--intent", "inform", "--summary", "x"),
    ("mail", "claim", "--as", "a"),
    ("mail", "reindex"),
    ("desk",),
    ("answer", "Q-1", "yes"),
    ("runs", "list"),
    ("runs", "show", RUN),
    ("runs", "prune"),
    ("log", RUN),
    ("why", RUN),
    ("report", RUN),
    ("doctor",),
    ("doctor", "--repair"),
    ("config", "show"),
    ("routine", "list"),
    ("dead", "list"),
    ("agent", "show", "do"),
    ("send", "x"),
    ("stop", RUN),
    ("fleet", "status"),
    ("store", "copy", "--to", "sqlite:.treadle/copy/x.db"),
    ("init", "--dry-run"),
    ("init",),
    ("trust", "--show"),
    ("uninstall", "--dry-run"),
    ("adopt",),
    ("import", "README.md"),
    ("pr", "status"),
    ("telemetry", RUN),
]
EVIL = ("--mission", "evil")
AS = ("--as", "a")
# What is typed less often: all of it is tried in the longest suite alone.
SELDOM = [
    (),
    *((word,) for word in ("status", "instructions", "describe")),
    ("status", RUN),
    ("desk", "show", "Q-1"),
    ("spec", "list"),
    *(("spec", word, "01") for word in ("show", "retry", "drop")),
    ("next", "--agent", "x", *EVIL),
    ("next", "--agent", "x", "--worktree", *EVIL),
    ("next", "--agent", "x", "--result", "success", *EVIL),
    ("next", "--agent", "x", "--result", "failed", "--note", "n", *EVIL),
    ("mission", "create", "new-one", "--goal", "x"),
    *(("mission", word, *EVIL) for word in ("setup-plan", "tasks", "merge", "archive")),
    ("mission", "rename", "evil", "other"),
    ("mission", "reopen", "plan", *EVIL),
    ("mission", "cancel", "--reason", "x", *EVIL),
    ("comment", RUN, "x"),
    ("review", RUN, "--text", "x"),
    ("compare", RUN),
    *(("runs", *words) for words in (("cost",), ("events", RUN), ("prune", "--history"))),
    *(("dead", word, "x") for word in ("show", "retry")),
    *(("routine", "show", name) for name in ("develop", "evil")),
    ("task", "add", "x", "--id", "x", "--image", "img.png"),
    ("task", "edit", "T-1", "--goal", "x"),
    *(("task", word, "T-1", *AS) for word in ("claim", "reserve", "done")),
    ("task", "remove", "T-1"),
    *(("mail", *words) for words in (("search", "x"), ("agents",))),
    ("mail", "watch", *AS, "--timeout", "0.05"),
    ("mail", "read", "x", *AS),
    ("mail", "archive", "--older-than", "0"),
    *(("fleet", word) for word in ("check", "key", "rebuild")),
    *(("fleet", word, RUN) for word in ("remove", "cancel")),
    ("worker", "--once", "--idle-exit", "0.1"),
    ("replay", "export", RUN, "out.tar"),
    *(("import", *words) for words in (("#1",), ("--label", "x"))),
    ("completion", "bash"),
    ("uninstall", "--purge"),
]
AFTERWARDS = [("trust",), ("doctor",), ("config", "show"), ("trust", "--revoke"), ("run",)]
# One of each kind, for every day.
SAMPLE = ["exec_agents", "linked_home", "tracked_runs", "mail_with_linked_folders"]
COUNT = len(SHAPES) * len([*WORKING, *READING, *SELDOM, *AFTERWARDS])
_PATIENCE = 20


def test_there_are_enough_of_them():
    assert COUNT >= 880


class Clone:
    """A hostile clone, what tells that something of it ran, and what must stay as it is."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, source = folder, folder / "source"
        self.canary, self.elsewhere = folder / "canary", folder / "elsewhere"
        for path in (source, self.canary, self.elsewhere):
            path.mkdir()
        (self.elsewhere / "mine.txt").write_text("mine\n")
        git(source, "init", "-q")
        (source / "README.md").write_text("# Project\n")
        git(source, "add", ".")
        git(source, "commit", "-q", "-m", "Begin")
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.setblocking(False)
        trap = Trap(source, self.canary, self.elsewhere, self.server.getsockname()[1])
        SHAPES[name](trap)
        git(source, "add", "-Af")
        git(source, "commit", "-q", "--allow-empty", "-m", "A gift")
        allow = ("-c", "protocol.file.allow=always")
        git(folder, *allow, "clone", "-q", "--recurse-submodules", str(source), "clone")
        shutil.rmtree(source)
        self.root = folder / "clone"
        for plant in trap.later:
            plant(self.root)

    def outside(self) -> dict[str, bytes | None]:
        """Return everything that is not the clone's, and not where treadle keeps its records."""
        state = Path(os.environ["XDG_STATE_HOME"])
        home = [path for path in Path(os.environ["HOME"]).rglob("*") if path != state]
        return {
            str(path): path.read_bytes() if path.is_file() else None
            for path in (*self.elsewhere.rglob("*"), *home)
            if not path.is_relative_to(state / "treadle")
        }

    def held(self, words: tuple[str, ...], code: int, before: dict[str, bytes | None]) -> None:
        assert not list(self.canary.iterdir()), f"{words}: something of the clone ran"
        assert self.outside() == before, f"{words}: wrote outside"
        if self.server.fileno() >= 0:
            with pytest.raises(BlockingIOError):  # nobody has called
                self.server.accept()
        assert code != 70, f"{words}: a bug"
        if words in WORKING:
            assert code, f"{words}: worked in a clone that nobody trusts"


@pytest.fixture
def no_hang():
    """End a command that waits for ever."""

    def ring(*_: object) -> None:
        raise TimeoutError("a command did not end")

    before = signal.signal(signal.SIGALRM, ring)
    yield lambda: signal.alarm(_PATIENCE)
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _visit(clone: Clone, monkeypatch, no_hang, capfd, commands, folder="") -> None:
    monkeypatch.chdir(clone.root / folder)
    monkeypatch.setenv("TREADLE_SANDBOX", "off")  # whatever runs can reach the canary
    before = clone.outside()
    for words in commands:
        no_hang()
        if words == ("trust",):
            clone.server.close()  # from now on it may be called
        code = main.main([*words, "--json"])
        shown = capfd.readouterr()
        assert "Traceback" not in shown.err, words
        clone.held(words, code, before)


@pytest.mark.parametrize("name", SAMPLE)
def test_a_few_clones(name, tmp_path, monkeypatch, no_hang, capfd):
    few = [*WORKING[:6], *READING[::4], ("trust",), ("trust", "--revoke")]
    _visit(Clone(tmp_path, name), monkeypatch, no_hang, capfd, few)


@pytest.mark.real
@pytest.mark.parametrize("name", SHAPES)
def test_a_hostile_clone(name, tmp_path, monkeypatch, no_hang, capfd):
    every = [*WORKING, *READING, *AFTERWARDS]
    _visit(Clone(tmp_path, name), monkeypatch, no_hang, capfd, every)


@pytest.mark.real
@pytest.mark.all
@pytest.mark.parametrize("name", SHAPES)
def test_what_is_typed_seldom_in_a_hostile_clone(name, tmp_path, monkeypatch, no_hang, capfd):
    _visit(Clone(tmp_path, name), monkeypatch, no_hang, capfd, [*SELDOM, ("trust",)])


@pytest.mark.real
@pytest.mark.parametrize("name", ["links_further_down", "linked_missions"])
def test_links_lead_nothing_out(name, tmp_path, monkeypatch, no_hang, capfd):
    few = [it for it in (*READING, *SELDOM) if "--image" in it or it[:1] == ("mission",)]
    _visit(Clone(tmp_path, name), monkeypatch, no_hang, capfd, [*few, ("trust",)])


# What the interpreter and the shell find by themselves shows only in processes of their own.
OWN_PROCESS = ["shadow_modules", "programs_in_the_way", "exec_agents", "tracked_runs"]


@pytest.mark.real
@pytest.mark.parametrize("name", OWN_PROCESS)
def test_a_hostile_clone_met_by_the_installed_command(name, tmp_path):
    clone = Clone(tmp_path, name)
    before = clone.outside()
    treadle = Path(sys.executable).with_name("treadle")
    env = {
        **os.environ,
        "PATH": f"{clone.root}:{os.environ['PATH']}",
    }  # as node_modules/.bin may be
    shown = [("next",), ("doctor",), ("agent", "show", "do"), ("runs", "list"), ("trust", "--show")]
    for words in [*WORKING[:6], *shown]:
        done = subprocess.run(
            [treadle, *words],
            cwd=clone.root,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
        )
        clone.held(words, done.returncode, before)
    clone.server.close()


@pytest.mark.parametrize("folder", ["docs/x", "docs/x/refs"])
def test_a_folder_that_looks_like_a_repository(folder, tmp_path, monkeypatch, no_hang, capfd):
    """Nothing that it would have git run runs, wherever somebody stands in it."""
    create = ("mission", "create", "new", "--goal", "x")
    commands = (("init", "--here"), create, ("init", "--here", "--commit"), ("doctor",), ("trust",))
    _visit(Clone(tmp_path, "repository_below"), monkeypatch, no_hang, capfd, commands, folder)


SHIM = """#!/usr/bin/env interpreter
for hook in ./hook "$SHIM_HOME/hook"; do [ -x "$hook" ] && "$hook"; done
echo codex-cli 1.0
"""


@pytest.mark.parametrize("words", [("doctor",), ("agent", "show", "do")], ids=" ".join)
def test_a_tool_says_its_version_without_meeting_the_clone(words, tmp_path, monkeypatch, capfd):
    """Version managers choose what runs by the folder, by variables and by the PATH."""
    clone, tools = Clone(tmp_path, "exec_agents"), tmp_path / "tools"
    trap = Trap(clone.root, clone.canary, clone.elsewhere, 0)
    for name in ("hook", "elsewhere/hook", "interpreter"):
        trap.script(name)
    trap.config(roles(f'type = "codex"\nenv = {{ SHIM_HOME = "{clone.root}/elsewhere" }}'))
    write_files(tools, {"codex": SHIM, "interpreter": '#!/bin/sh\nexec sh "$@"\n'})
    for name in ("codex", "interpreter"):
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{clone.root}:{tools}:{os.environ['PATH']}")
    monkeypatch.chdir(clone.root)
    before = clone.outside()
    clone.held(words, main.main([*words, "--json"]), before)
    assert "codex-cli 1.0" in capfd.readouterr().out
    clone.server.close()
