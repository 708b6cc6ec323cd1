"""Output, time and disk are bounded in every tier, and treadle itself stays small."""

import json
import os
import re
import time
from pathlib import Path

import pytest

from tests.acceptance.conftest import project  # noqa: F401  # the fixture
from tests.crash import survivors
from treadle.proc.keeper import Command, Keeper, Limits
from treadle.sandbox import jail
from treadle.sandbox.policy import Policy

MB = 1 << 20
HOGS = {
    "output_limit": "yes | head -c 100G",
    "timeout": "trap '' TERM; while :; do sleep 600; done",
    "idle_timeout": "sleep 600",
    "disk_limit": "while :; do head -c 4M /dev/zero >> big; done",
}


# When each of them meets its limit: at once, or after a second of doing nothing.
MEETS = {"output_limit": 0, "timeout": 1, "idle_timeout": 1, "disk_limit": 0}


@pytest.mark.parametrize("tier", survivors.tiers())
@pytest.mark.parametrize("reason", HOGS)
def test_a_hog_is_stopped_and_nobody_grows(tmp_path, tier, reason):
    before = resident()
    ended = stop(tmp_path, tier, reason)
    assert ended.reason == reason
    assert (tmp_path / "out").stat().st_size <= 8 * MB
    assert resident() - before < 100_000


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
def test_a_run_whose_agent_never_stops_writing_stays_small(project):  # noqa: F811
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


def stop(folder, tier, reason):
    """Let a hog run into its limit, and return how it ended."""
    step, out = folder / "step", folder / "out"
    step.mkdir(parents=True)
    limits = Limits(
        wall=1 if reason == "timeout" else 60,
        idle=1 if reason == "idle_timeout" else None,
        output_bytes=8 * MB,
        grace=0.2,
        disk_bytes=40 * MB,
        disk=(step,),
    )
    held = jail.build(tier, Policy((step,)))
    with Keeper() as keeper:
        return keeper.run(
            Command(("sh", "-c", HOGS[reason]), step, os.environ, None, out, out, limits, held)
        )


def resident(pid="self"):
    """Return the most kilobytes that a process has had in memory; 0 if it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+)", text)
    return int(found[1]) if found else 0
