"""A hostile child in every tier, as root and as somebody else: nothing outside changes."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from treadle.sandbox import jails

WORLD = Path(__file__).with_name("world.py")
NOBODY = 65534
# Covered by an empty folder of the sandbox's own, whose rights are anybody's.
DOCS = Path(__file__).parents[2] / "docs" / "reliability.md"
HARMLESS = {"rights of a key's folder"}


@pytest.fixture
def place():
    """Return a folder that no other session of pytest closes to other users."""
    with tempfile.TemporaryDirectory(prefix="hostile-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def figures():
    """Return what the documentation says, without its line breaks."""
    return " ".join(DOCS.read_text().split())


def run_as(user, folder, tier, network):
    """Return what came of it, or skip and say loudly what cannot run here."""
    found = jails.probe(tier).tier
    if found != tier:
        pytest.skip(f"TIER {tier} CANNOT RUN HERE: {jails.probe(tier).reason}")
    argv = [sys.executable, "-S"]
    if user == "root" and os.getuid() != 0:
        pytest.skip("NOT ROOT HERE: the hostile child was not tried as root")
    if user == "nobody" and os.getuid() == 0:
        argv = as_nobody(folder)
    argv += [str(WORLD), str(folder / "world"), tier, network]
    done = subprocess.run(argv, capture_output=True, text=True, cwd="/", timeout=280)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def as_nobody(folder):
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    setpriv = shutil.which("setpriv")
    if not (python and setpriv):
        pytest.skip("NO setpriv AND NO system python3: not tried as another user")
    for path in (folder, *folder.parents):
        if path.stat().st_uid == os.getuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o011)
    os.chown(folder, NOBODY, NOBODY)
    drop = [setpriv, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    probed = subprocess.run(
        [*drop, python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"], cwd="/"
    )
    if probed.returncode:
        pytest.skip("THE SYSTEM'S python3 IS TOO OLD: not tried as another user")
    return [*drop, python, "-S"]


@pytest.mark.parametrize("user", ["root", "nobody"])
@pytest.mark.parametrize("tier", ["A", "B"])
def test_nothing_outside_changes(place, tier, user):
    found = run_as(user, place, tier, "none")
    answers = found["answers"]
    assert answers, found["stderr"]
    hostile = {g: a for g, a in answers.items() if g not in ("honest", "metadata")}
    tried = sum(map(len, answers.values())) - len(answers["honest"])
    assert tried >= 400
    assert f"try {tried} hostile things in tier {tier}" in figures()
    assert [(g, n) for g, a in hostile.items() for n, word in a.items() if word == "done"] == []
    assert [(n, w) for n, w in answers["honest"].items() if w != "done"] == []
    assert found["changed"] == []
    assert found["reported"]["content"] == []
    assert not found["late"]
    assert (found["state"], found["bystander"], found["received"]) == ([], None, 0)
    assert found["planted"] == []
    done = {name for name, word in answers["metadata"].items() if word == "done"}
    if tier == "A":
        assert found["reported"]["metadata"] == []
        assert done <= HARMLESS
    else:
        seen = set(found["reported"]["metadata"])
        assert [name for name in sorted(done) if found["marked"][name] not in seen] == []
        assert len(done) > len(answers["metadata"]) / 2


@pytest.mark.parametrize("tier", ["A", "B"])
def test_with_a_network_only_the_network_opens(place, tier):
    found = run_as("root" if os.getuid() == 0 else "nobody", place, tier, "full")
    sockets = found["answers"]["sockets"]
    may = {"TCP", "TCP over version 6", "UDP", "listen", "netlink"}
    assert {name for name, word in sockets.items() if word == "done"} == may
    assert found["changed"] == []
