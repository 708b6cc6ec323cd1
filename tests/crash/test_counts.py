"""Count what a run asks of the kernel: programs, git processes, syncs and the waits for them."""

import shutil
import subprocess
import sys

import pytest

from tests.crash import counts

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not shutil.which("strace"), reason="strace counts system calls"),
]

RUN = ("run", "--goal", "Make done.txt", "--ac", "done.txt is there")


def counted(project, log, tries, enough=0):  # the fixture, handed on
    """Return the fewest waits of some runs: a busy machine only ever adds to them."""
    found = []
    while len(found) < tries and (not found or found[-1].barriers > enough):
        found.append(once(project, log.with_name(f"{log.name}{len(found)}"), *RUN))
    return min(found, key=lambda it: it.barriers)


def once(project, log, *words):  # the fixture, handed on
    argv = counts.argv([sys.executable, "-m", "treadle", *words], log)
    subprocess.run(argv, cwd=project.root, check=False, capture_output=True)
    return counts.read(log)


def test_a_step_costs_one_git_process_and_three_waits_for_the_disk(project, tmp_path):
    project.settings("[workspace]\nkeep = 100\n")  # the sixth run would remove the first one's
    project.good_agents()
    good = project.config["plan"]
    project.agent("do", "sys.exit(1)")
    project.command("plan", ["false"])
    project.run()  # the store is made once
    one = counted(project, tmp_path / "one", 3)
    project.config["plan"] = good
    project.save()
    two = counted(project, tmp_path / "two", 12, enough=one.barriers + 3)
    assert two.programs["git"] - one.programs["git"] == 1
    assert two.barriers - one.barriers <= 3
    assert two.syncs - one.syncs <= 10


def test_an_act_step_with_a_patch_costs_seven_git_processes(project, tmp_path):
    project.good_agents()
    project.treadle("trust")  # written down once, not by the first of the two runs
    whole = once(project, tmp_path / "whole", *RUN)
    project.agent("check", "sys.exit(1)")
    three = once(project, tmp_path / "three", *RUN)
    # Behind the third step come act and three steps of the second iteration, and a PASS looks
    # for protected files in the base and in the run's tree.
    assert whole.programs["git"] - three.programs["git"] <= 7 + 3 + 2
