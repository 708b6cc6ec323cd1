"""Whoever swaps names in a step's folder while treadle closes it reaches nothing outside."""

import contextlib
import os
import subprocess
import sys
import time

import pytest

from treadle.engine.run.step_folder import Stage, close_stage
from treadle.errors import TreadleError
from treadle.files import beneath, walk
from treadle.sandbox.mask import Mask

SECRET = "sesame-open-0815"
MASK = Mask({"DOOR_TOKEN": SECRET})
ROUNDS = 60
# Turns a folder into a link to one outside and back, and a file into a link, as fast as it can.
SWAP = """
import contextlib, os, sys
step, outside = sys.argv[1:]
while True:
    for name in ("files", "logs", "output.json", "input.json", "deep"):
        at = f"{step}/{name}"
        with contextlib.suppress(OSError):
            os.rename(at, f"{step}/.{name}")
        with contextlib.suppress(OSError):
            os.symlink(f"{outside}/{name}", at)
        with contextlib.suppress(OSError):
            os.unlink(at)
        with contextlib.suppress(OSError):
            os.rename(f"{step}/.{name}", at)
"""


@pytest.fixture
def outside(tmp_path):
    """Return a folder whose names are those of a step; every file in it holds a secret."""
    folder = tmp_path / "outside"
    for name in ("files/checks/AC1.txt", "files/workspace.diff", "logs/stdout.txt", "deep/a/b"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(SECRET)
    for name in ("input.json", "output.json", "step.json"):
        (folder / name).write_text(SECRET)
    return folder


def held(folder):
    return {str(path.relative_to(folder)): path.is_dir() or path.read_text()
            for path in sorted(folder.rglob("*"))}  # fmt: skip


def stage_in(tmp_path):
    folder, live = tmp_path / "step", tmp_path / "live"
    beneath.remove_tree(folder)
    beneath.empty(live)
    (live / "checks").mkdir()
    for name in ("stdout.txt", "stderr.txt", "prompt.md", "checks/AC1.txt", "workspace.diff"):
        (live / name).write_text(f"said {SECRET}")
    (live / "growth.jsonl").write_text('["stdout.txt", 5, 1.0]\n["stdout.txt", 21, 2.0]\n')
    new = tmp_path / "new"  # whoever swaps names cannot reach it yet
    beneath.empty(new)
    (new / "files").mkdir()
    (new / "deep").mkdir()
    for name in ("deep/note", "files/note", "plan.md"):
        (new / name).write_text(f"my {SECRET}")
    new.rename(folder)
    return Stage(
        index=1,
        role="plan",
        iteration=1,
        folder=folder,
        final=tmp_path / "001-plan",
        live=live,
        started_at="",
        started=time.monotonic(),
    )


def close(stage):
    return close_stage(stage, b'{"asked": 1}', b"{}", MASK)


def test_a_step_is_closed_and_masked(tmp_path):
    stage = stage_in(tmp_path)
    entries = close(stage)
    assert {item.path for item in entries if not item.is_folder} == {
        "deep/note", "files/checks/AC1.txt", "files/note", "files/workspace.diff", "input.json",
        "logs/growth.jsonl", "logs/prompt.md", "logs/stderr.txt", "logs/stdout.txt",
        "output.json", "plan.md",
    }  # fmt: skip
    assert not [path for path in stage.folder.rglob("*")
                if path.is_file() and SECRET in path.read_text()]  # fmt: skip
    assert (stage.folder / "logs/stdout.txt").read_text() == "said [masked]"
    noted = (stage.folder / "logs/growth.jsonl").read_text()
    assert noted == '["stdout.txt", 5, 1.0]\n["stdout.txt", 13, 2.0]\n'


@pytest.mark.parametrize("name", ["files", "logs", "output.json", "input.json", "step.json"])
@pytest.mark.parametrize("how", ["link", "hard link"])
def test_names_planted_beforehand(tmp_path, outside, name, how):
    stage, before = stage_in(tmp_path), held(outside)
    beneath.remove_tree(stage.folder / name)
    target = outside / name
    if how == "link":
        (stage.folder / name).symlink_to(target)
    elif target.is_dir():
        (stage.folder / name).mkdir()
        for found in target.rglob("*"):
            if found.is_file():
                planted = stage.folder / name / found.relative_to(target)
                planted.parent.mkdir(parents=True, exist_ok=True)
                os.link(found, planted)
    else:
        os.link(target, stage.folder / name)
    close(stage)
    assert held(outside) == before


def test_a_mask_follows_no_link(tmp_path, outside):
    before, step = held(outside), tmp_path / "step"
    step.mkdir()
    (step / "files").symlink_to(outside / "files")
    (step / "note").symlink_to(outside / "input.json")
    for name in ("files/workspace.diff", "note"):
        with pytest.raises(TreadleError):
            MASK.file_in(step, name)
    beneath.remove(step, "files/checks")
    beneath.remove(step, "note")
    assert held(outside) == before


def test_names_swapped_all_the_time(tmp_path, outside):
    before, finished = held(outside), 0
    stage = stage_in(tmp_path)
    argv = [sys.executable, "-S", "-c", SWAP, str(stage.folder), str(outside)]
    racer = subprocess.Popen(argv)
    try:
        for _ in range(ROUNDS):
            with contextlib.suppress(TreadleError, OSError):
                stage = stage_in(tmp_path)
                close(stage)
                finished += 1
            with contextlib.suppress(TreadleError, OSError):
                walk.walk(stage.folder)
            with contextlib.suppress(OSError):
                beneath.remove_tree(stage.folder)
            assert held(outside) == before
    finally:
        racer.kill()
        racer.wait()
    assert finished
