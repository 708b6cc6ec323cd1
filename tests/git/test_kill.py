"""A treadle that is killed anywhere leaves what the next one can go on from."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.builder import git
from tests.git.support import make, open_workspace, snapshot, workspace_at
from treadle.git import refs, workspace

NAME = "treadle/20260101-000000-abcdef"
FILES = {f"d{n % 7}/f{n}.txt": f"{n}\n" * 20 for n in range(150)}

WORK = """
import itertools, sys
from datetime import UTC, datetime
from pathlib import Path
from tests.builder import write_files
from tests.git.support import workspace_at
from tests.git.test_kill import NAME
from treadle.git import build, refs, repo, workspace
place = repo.find(Path(sys.argv[1]))
head = refs.resolve(place, NAME)
ws = workspace_at(place, Path(sys.argv[2]), Path(sys.argv[3]), head)
print("ready", flush=True)
for turn in itertools.count():
    stamp = f"{head[:8]} {turn}"
    write_files(ws.path, {"d0/f0.txt": stamp, f"new/{stamp}": stamp, "x/y": stamp})
    built = build.from_edits(ws, head, Path(sys.argv[3]).parent / "scratch")
    new = build.commit(built, head, stamp, datetime.now(UTC), build.FALLBACK_AUTHOR)
    assert refs.move(place, NAME, new, head)
    if turn % 2:
        workspace.follow(ws, new)
    else:
        workspace.adopt(ws, built.scratch.index, new)
    head = new
"""


def kill_once(place, ws, delay: float) -> None:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    argv = [sys.executable, "-c", WORK, str(place.root), str(ws.path), str(ws.index)]
    child = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, start_new_session=True)
    if delay > 0.05:
        child.stdout.readline()
    time.sleep(delay)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    assert child.returncode == -signal.SIGKILL


@pytest.mark.parametrize("kills", [4, pytest.param(120, marks=pytest.mark.real)])
@pytest.mark.timeout(600)
def test_killed_work_goes_on(tmp_path, kills):
    place = make(tmp_path / "p", FILES)
    ws = open_workspace(place, tmp_path)
    refs.create(place, NAME, git(place.root, "rev-parse", "HEAD").strip())
    mine = snapshot(place.root)
    pick = random.Random(kills)
    for _ in range(kills):
        kill_once(place, ws, pick.uniform(0.0, 0.4))
        tip = refs.resolve(place, NAME)
        again = workspace_at(place, ws.path, ws.index, tip)
        assert workspace.changes(again) == ()
        names = git(place.root, "ls-tree", "-r", "-z", "--name-only", tip).split("\0")[:-1]
        assert sorted(snapshot(again.path)) == sorted(names)
    git(place.root, "fsck", "--strict", "--no-dangling")
    assert snapshot(place.root) == mine
    assert git(place.root, "rev-list", "--count", NAME) > "1"
