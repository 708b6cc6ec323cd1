"""Output, time and disk are bounded in every tier, and treadle itself stays small."""

import json
import os
import re
import time
from pathlib import Path

import pytest

from tests.crash import survivors
from treadle.proc.keeper import Command, Keeper, Limits
from treadle.sandbox import jails
from treadle.sandbox.policy import Policy

MB = 1 << 20
HOGS = {
    "output_limit": "yes | head -c 100G",
    "timeout": "trap '' TERM; while :; do sleep 600; done",
    "idle_timeout": "sleep 600",
    "disk_limit": "while :; do head -c 4M /dev/zero >> big; done",
    "memory_limit": "python3 -S -c 'a = []\nwhile 1: a.append(bytearray(1 << 20))'",
    "process_limit": "while :; do sleep 600 & done",
}
# Other ways to take what is not theirs.
MORE = {
    "workspace": ("disk_limit", "while :; do head -c 4M /dev/zero >> ../work/big; done"),
    "many small": ("memory_limit", 'for n in 1 2 3 4 5 6; do python3 -S -c "$HOG" & done; wait'),
    "no name": ("memory_limit", 'python3 -S -c "$NAMELESS"'),
    "bomb": (
        "process_limit",
        "b() { [ $1 -eq 0 ] || { b $(($1 - 1)) & b $(($1 - 1)) & }; sleep 600; }; b 8",
    ),
    "sessions": ("process_limit", "for n in $(seq 600); do setsid sleep 600 & done; wait"),
    "threads": ("process_limit", 'python3 -S -c "$THREADS"'),
}


# One tier for every day, the others for the real tests.
TIERS = [
    pytest.param(tier, marks=() if tier == "B" else pytest.mark.real) for tier in survivors.tiers()
]


def slow(way):
    """Leave the storms of processes to the real tests; they end where the machine feels nothing."""
    return pytest.param(way, marks=pytest.mark.real) if MORE[way][0] == "process_limit" else way


SCRIPTS = {
    "HOG": "import time\na = bytearray(30 << 20)\ntime.sleep(600)",
    "NAMELESS": "import os, time\nf = os.memfd_create('x')\n"
    "for n in range(200): os.write(f, bytes(1 << 20))\ntime.sleep(600)",
    "THREADS": "import threading, time\nthreading.stack_size(1 << 16)\n"
    "for n in range(600): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
    "time.sleep(600)",
    "SHM": "import time\nf = open('/dev/shm/x', 'wb')\n"
    "for n in range(200): f.write(bytes(1 << 20)); f.flush()\ntime.sleep(600)",
}


# When each of them meets its limit: at once, or after a second of doing nothing.
MEETS = dict.fromkeys(HOGS, 0) | {"timeout": 1, "idle_timeout": 1}


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("reason", HOGS)
def test_a_hog_is_stopped_and_nobody_grows(tmp_path, tier, reason):
    before = resident()
    ended = stop(tmp_path, tier, reason)
    assert ended.reason == reason
    assert (tmp_path / "out").stat().st_size <= 8 * MB
    assert resident() - before < 100_000


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("way", [slow(way) for way in MORE])
def test_other_ways_to_take_too_much_are_stopped(tmp_path, tier, way):
    reason, script = MORE[way]
    ended = stop(tmp_path, tier, reason, script)
    assert ended.reason == reason
    assert ended.vouched


@pytest.mark.skipif("A" not in survivors.tiers(), reason="TIER A CANNOT RUN HERE")
def test_a_folder_in_memory_of_the_sandbox_counts_as_memory(tmp_path):
    ended = stop(tmp_path, "A", "memory_limit", 'python3 -S -c "$SHM"')
    assert ended.reason == "memory_limit"


@pytest.mark.parametrize("tier", TIERS)
def test_pages_that_processes_share_count_once(tmp_path, tier):
    share = "import os, time\na = bytearray(40 << 20)\nfor n in range(5):\n if not os.fork(): break"
    script = f"python3 -S -c '{share}\ntime.sleep(1.5)'"
    assert stop(tmp_path, tier, "exit", script).reason == "exit"


@pytest.mark.parametrize("tier", survivors.tiers())
def test_what_was_in_the_workspace_before_does_not_count(tmp_path, tier):
    work = tmp_path / "work"
    work.mkdir()
    (work / "old").write_bytes(bytes(60 * MB))
    script = "head -c 20M /dev/zero > ../work/new; sleep 0.5"
    assert stop(tmp_path, tier, "exit", script).reason == "exit"


@pytest.mark.real
@pytest.mark.timeout(900)
@pytest.mark.parametrize("tier", survivors.tiers())
@pytest.mark.parametrize("reason", HOGS)
def test_a_hog_is_stopped_two_seconds_after_its_limit(tmp_path, tier, reason):
    fewest = 60.0  # a busy machine only ever adds to it
    for turn in range(30):
        fewest = min(fewest, stop(tmp_path / str(turn), tier, reason).seconds)
        if fewest <= MEETS[reason] + 2:
            break
    assert fewest <= MEETS[reason] + 2


@pytest.mark.real
def test_a_run_whose_agent_never_stops_writing_stays_small(project):
    project.command("plan", ["sh", "-c", "yes | head -c 100G"])
    for role in ("do", "check", "act"):
        project.command(role, ["true"])
    process, peak = project.start("run", "--goal", "x", "--ac", "y"), 0
    while process.poll() is None:
        peak = max(peak, resident(process.pid))
        time.sleep(0.02)
    process.communicate()
    run = project.only_run()
    assert "output_limit" in json.dumps(project.show(run["run_id"]))
    assert 0 < peak < 100_000


def stop(folder, tier, reason, script=None):
    """Let a hog run into its limit, and return how it ended."""
    step, work, out = folder / "step", folder / "work", folder / "out"
    step.mkdir(parents=True)
    work.mkdir(exist_ok=True)
    limits = Limits(
        wall=1 if reason == "timeout" else 60,
        idle=1 if reason == "idle_timeout" else 600,
        output_bytes=8 * MB,
        grace=0.2,
        disk_bytes=40 * MB,
        disk=(step,),
        memory_bytes=120 * MB,
        processes=200,
        growth_bytes=40 * MB,
        growing=(work,),
    )
    held = jails.jail_for(tier, Policy((step, work)))
    words, env = ("sh", "-c", script or HOGS[reason]), {**os.environ, **SCRIPTS}
    with Keeper() as keeper:
        return keeper.run(Command(words, step, env, None, out, out, limits, held))


def resident(pid="self"):
    """Return the most kilobytes that a process has had in memory; 0 if it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+)", text)
    return int(found[1]) if found else 0
