"""Only a process that died leaves the sign of a kill behind, and only then all is looked at."""

import json
import os
import signal

import pytest

from tests.builder import wait_for
from treadle import layout
from treadle.agents.login import _IN_USE


@pytest.fixture
def leftover(project):
    """What a killed agent left: the start after a kill removes it, every other one passes by."""
    place = layout.agent_states(project.environment())
    place.mkdir(parents=True)
    (place / "old").mkdir()
    (place / f"old{_IN_USE}").touch()
    return place / "old"


def sign(project) -> bytes:
    return (project.root / ".treadle" / "locks" / "run.lock").read_bytes()


def interrupted(project, tmp_path, number):
    """Send a signal to a run whose agent works."""
    begun = tmp_path / "begun"
    line = ["sh", "-c", f"touch {begun}; sleep 60"]
    project.settings(
        f'[sandbox]\nmode = "off"\n[agents.do]\ntype = "builtin"\nrun = {json.dumps(line)}\n'
    )
    process = project.start("run", "--goal", "g", "--ac", "x", "--verify", "AC1=false")
    wait_for(begun.exists)
    os.kill(process.pid, number)
    process.communicate(timeout=60)
    return process.returncode


REFUSED = (
    ("land", "nothing-like-this"),
    ("run", "--goal", "g", "--ac", "x"),  # nobody could check it
    ("run", "--resume", "nothing-like-this"),
    ("undo", "nothing-like-this"),
)


@pytest.mark.real
@pytest.mark.parametrize("words", REFUSED, ids=lambda words: words[0])
def test_an_error_or_a_refusal_leaves_no_sign(project, leftover, words):
    assert project.treadle(*words).code != 0
    assert sign(project) == b""
    assert project.treadle("run", "--goal", "g", "--ac", "x", "--verify", "AC1=false").code != 0
    assert leftover.is_dir()


def test_a_store_that_cannot_be_read_leaves_no_sign(project, leftover):
    (project.root / ".treadle" / "treadle.db").mkdir()
    assert project.treadle("run", "--goal", "g", "--ac", "x", "--verify", "AC1=true").code != 0
    assert sign(project) == b""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_no_sign(project, leftover, tmp_path, number, code):
    assert interrupted(project, tmp_path, number) == code
    assert sign(project) == b""
    project.treadle("doctor", "--repair")
    assert leftover.is_dir()


@pytest.mark.real
def test_a_kill_leaves_its_sign_until_the_next_start(project, leftover, tmp_path):
    assert interrupted(project, tmp_path, signal.SIGKILL) == -signal.SIGKILL
    assert json.loads(sign(project))["identity"]
    project.treadle("doctor", "--repair")
    assert not leftover.exists()
    assert sign(project) == b""
