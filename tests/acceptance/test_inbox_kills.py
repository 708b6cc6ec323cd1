"""Kill passes at any moment: every message is carried out, and its work is there once."""

import random
import subprocess

import pytest

from tests.acceptance.messages import routine, spec

SPECS = 5


@pytest.mark.real
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3))
def test_whenever_a_pass_is_killed_each_message_is_done_once(inbox, seed):
    send = '[ "$seq" != 0 ] || echo more > "$TREADLE_OUTBOX/more.md"'
    routine(inbox, "log", f'#!/bin/sh\n# Log\necho "$message_id" >> log.txt\n{send}\n')
    names = [f"{number:02d}-x.spec.md" for number in range(SPECS)]
    for name in names:
        spec(inbox, name)
    chance = random.Random(seed)
    for _ in range(12):
        process = inbox.start("process")
        try:
            process.communicate(timeout=chance.uniform(0.3, 2.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
    assert inbox.treadle("process", timeout=280).code == 0
    assert (inbox.root / "specs" / "processed-spec.md").read_text().split() == names
    ids = (inbox.root / "log.txt").read_text().split()
    assert (len(ids), len(set(ids))) == (2 * SPECS, 2 * SPECS)
    left = {path.name for path in (inbox.root / ".treadle" / "inbox").iterdir()}
    assert left == {"done"}
    assert len(list((inbox.root / ".treadle" / "inbox" / "done").iterdir())) == 2 * SPECS
