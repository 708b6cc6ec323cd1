"""A warm start is a start like any other."""

import os
import subprocess
import sys

import pytest

from tests import warm


@pytest.mark.parametrize(
    "words", [("runs", "list"), ("no-such-command",), ("why", "x", "--json"), ("config", "show")]
)
def test_a_command_does_the_same(project, words):
    cold = subprocess.run(
        [sys.executable, "-m", "treadle", *words],
        cwd=project.root,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    warmed = warm.run(words, project.root, project.environment(), 60)
    assert (warmed.returncode, warmed.stdout, warmed.stderr) == (
        cold.returncode,
        cold.stdout,
        cold.stderr,
    )


def test_a_command_that_takes_too_long_is_ended(project):
    project.good_agents()
    project.command("plan", ["sleep", "600"])
    words = ("run", "--goal", "g", "--ac", "a")
    with pytest.raises(subprocess.TimeoutExpired):
        warm.run(words, project.root, project.environment(), 0.5)


@pytest.mark.parametrize("name", ["PYTHONPATH", "LC_ALL", "TREADLE_DIE_AT"])
def test_what_is_read_at_the_start_needs_a_cold_one(name):
    assert warm.can_start(os.environ)
    assert not warm.can_start({**os.environ, name: "x"})
