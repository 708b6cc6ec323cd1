"""Output, time and disk are bounded in every tier, and treadle itself stays small."""

import os
import re
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("tier", survivors.tiers())
@pytest.mark.parametrize("reason", HOGS)
def test_a_hog_is_stopped_and_nobody_grows(tmp_path, tier, reason):
    step, out = tmp_path / "step", tmp_path / "out"
    step.mkdir()
    limits = Limits(
        wall=1 if reason == "timeout" else 60,
        idle=1 if reason == "idle_timeout" else None,
        output_bytes=8 * MB,
        grace=0.2,
        disk_bytes=40 * MB,
        disk=(step,),
    )
    held = jail.build(tier, Policy((step,)))
    before = resident()
    with Keeper() as keeper:
        ended = keeper.run(
            Command(("sh", "-c", HOGS[reason]), step, os.environ, None, out, out, limits, held)
        )
    assert ended.reason == reason
    assert out.stat().st_size <= 8 * MB
    assert resident() - before < 100_000


def resident():
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(found[1]) if found else 0
