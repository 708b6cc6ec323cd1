"""No filter of the user runs an agent's code outside of the sandbox, in any tier, as any user."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.git.filters import KEPT_OUT, KINDS, TRAPS
from tests.sandbox.test_hostile import as_nobody
from treadle.sandbox import jails

SCRIPT = Path(__file__).with_name("filters.py")
SLOW = "npx"  # takes seconds for each file
PROGRAMS = {"npx": "npx", "node-module": "node", "node-package": "node", "make": "make"}
QUICK = ("make link", "process-sh")
ALL = (*KINDS, *(f"make {trap}" for trap in TRAPS), *(f"sh-script {trap}" for trap in TRAPS))


@pytest.fixture
def place():
    """Return a folder that no other session of pytest closes to other users."""
    with tempfile.TemporaryDirectory(prefix="filters-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def attack(place, tier, user, attacks):
    """Return what came of it, or skip and say loudly what cannot run here."""
    found = "0" if tier == "0" else jails.probe(tier).tier
    if found != tier:
        pytest.skip(f"TIER {tier} CANNOT RUN HERE: {jails.probe(tier).reason}")
    if user == "root" and os.getuid() != 0:
        pytest.skip("NOT ROOT HERE: the filters were not tried as root")
    argv = [sys.executable, "-S"]
    if user == "nobody" and os.getuid() == 0:
        argv = as_nobody(place)
    there = [it for it in attacks if shutil.which(PROGRAMS.get(it.split()[0], "sh"))]
    argv += [str(SCRIPT), str(place / "world"), tier, *there]
    done = subprocess.run(argv, capture_output=True, text=True, cwd="/", timeout=500)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def judge(found):
    assert {name: it["changed"] for name, it in found.items() if it["changed"]} == {}
    assert {name: it["alive"] for name, it in found.items() if it["alive"]} == {}
    ran = {name for name, it in found.items() if it["ran"]}
    assert ran == {name for name in found if name.split()[0] not in KEPT_OUT}
    # A link in its index's place git replaces by itself; every other trap is seen and refused.
    traps = [name for name in found if " " in name and not name.endswith(" index")]
    assert [name for name in traps if not found[name]["refused"]] == []


@pytest.mark.parametrize("user", ["root", "nobody"])
@pytest.mark.parametrize("tier", ["A", "B"])
def test_nothing_outside_changes(place, tier, user):
    judge(attack(place, tier, user, QUICK))


@pytest.mark.real
@pytest.mark.timeout(600)
@pytest.mark.parametrize("user", ["root", "nobody"])
@pytest.mark.parametrize("tier", ["A", "B"])
def test_nothing_outside_changes_in_any_of_the_ways(place, tier, user):
    judge(attack(place, tier, user, ALL))


def test_the_attacks_work_where_nobody_guards(place):
    found = attack(place, "0", "root" if os.getuid() == 0 else "nobody", ["make", "sh-relative"])
    assert all("project/victim.txt" in it["changed"] for it in found.values())


def test_there_are_enough_kinds():
    assert len(ALL) >= 24
