"""The link to the page reaches the browser, and nobody who looks at processes or files."""

import json
import os
import re
import signal
from pathlib import Path

import pytest

from tests.acceptance.test_serve import enter, get
from tests.builder import wait_for
from treadle.sandbox import jails

TIERS = [tier for tier in "AB" if jails.probe(tier).tier == tier]
# It says how it was called, and stays for whoever wants to look at it.
BROWSER = """#!/bin/sh
{ printf '%s\\n' "$@"; pwd; } > $DESK/args.new; env > $DESK/env; mv $DESK/args.new $DESK/args
read -r _ < $DESK/stay
"""
# What an agent beside it can see: all command lines, all environments, the folder of links.
SPY = """
for f in /proc/[0-9]*/cmdline /proc/[0-9]*/environ; do tr '\\0' '\\n' < $f; done
cat $STATE/*.open/*; ls -R $STATE; cat $DOOR; ls ${DOOR%/*}; true
"""


@pytest.fixture
def desk(project, tmp_path, monkeypatch):
    """A desktop whose browser is a script, and what a clone brings in its place."""
    folder, brought = tmp_path / "desk", project.root / "bin"
    folder.mkdir()
    brought.mkdir()
    (brought / "xdg-open").write_text(f'#!/bin/sh\ncp "$1" {folder}/brought\n')
    (brought / "xdg-open").chmod(0o755)
    (folder / "xdg-open").write_text(BROWSER)
    (folder / "xdg-open").chmod(0o755)
    os.mkfifo(folder / "stay")
    monkeypatch.setenv("PATH", f"{brought}:{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("DESK", str(folder))
    return folder


@pytest.fixture
def served(project, desk):
    process = project.start("serve", "--no-work", "--port", "0", "--open", "--json")
    said = json.loads(process.stdout.readline())
    wait_for(lambda: (desk / "args").exists() or (desk / "brought").exists())
    yield said, process, *(desk / "args").read_text().splitlines()
    end = os.open(desk / "stay", os.O_RDWR)
    os.write(end, b"\n" * 9)
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 143
    os.close(end)
    process.stdout.close()
    process.stderr.close()


def key(said):
    return said["link"].partition("key=")[2]


def test_the_browser_gets_a_file_of_the_users_own(desk, served):
    said, _, door, folder = served
    path = Path(door)
    assert key(said) not in door + (desk / "env").read_text()
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert folder == "/"
    target = re.search(r'http-equiv="refresh" content="0;url=([^"]+)"', path.read_text())[1]
    assert target == said["link"]
    assert "default-src 'none'" in path.read_text()


def test_it_goes_when_the_link_is_followed_and_the_link_works_once(served):
    said, _, door, _ = served
    assert get(said["url"], "/enter?key=wrong")[0].status == 401
    assert Path(door).exists()
    cookie = enter(said["link"])
    assert not Path(door).exists()
    assert get(said["url"], "/runs.json", cookie=cookie)[0].status == 200
    assert get(said["url"], f"/enter?key={key(said)}")[0].status == 401


def test_it_goes_with_the_server(project, served):
    _, process, door, _ = served
    process.send_signal(signal.SIGTERM)
    process.wait(120)
    assert not Path(door).exists()


def test_another_link_is_opened_the_same_way(project, desk, served):
    _, _, door, _ = served
    (desk / "args").unlink()
    further = project.start("serve", "--link", "--open", "--json")
    wait_for((desk / "args").exists)
    other = (desk / "args").read_text().splitlines()[0]
    link = json.loads(further.communicate(timeout=120)[0])["link"]
    assert link in Path(other).read_text()
    assert (other != door, link not in other) == (True, True)


@pytest.mark.parametrize("tier", TIERS)
def test_a_neighbour_finds_the_key_nowhere(project, served, tier):
    said, _, door, _ = served
    state = Path(os.environ["XDG_STATE_HOME"], "treadle")
    script = f"STATE={state}; DOOR={door}\n{SPY}"
    do = f"run = ['sh', '-c', '''({script}) > seen.txt 2>&1''']"
    project.settings(f'[sandbox]\ntier = "{tier}"\n[agents.do]\ntype = "builtin"\n{do}\n')
    words = ("--verify", "AC1=test -s seen.txt", "--budget", "max_iterations=1")
    found = project.run_json(*words)
    assert found["status"] == "passed", found
    seen = project.git("show", f"{found['branch']}:seen.txt")
    assert key(said) not in seen
    assert ("xdg-open" in seen) == (tier == "B")  # in tier B it sees the others' command lines
    assert "http-equiv" not in seen
