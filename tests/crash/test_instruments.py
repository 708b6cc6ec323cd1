"""Prove the crash instruments on a protocol that is right and on ones that are not."""

import errno
import subprocess
import sys

import pytest

from tests.crash import counts, experiments
from tests.crash.crew import Crew
from tests.crash.machine import missing

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(missing()), reason=f"NO CRASH TESTS HERE: {missing()}"),
]


@pytest.fixture(scope="module")
def careful():
    with Crew("tests.crash.toys:Careful") as crew:
        yield crew


def caught(name, experiment):
    with Crew(f"tests.crash.toys:{name}", stops=True) as crew:
        return experiment(crew).broken


@pytest.mark.real
def test_right_protocol_survives_a_kill_at_every_call(careful):
    report = experiments.kills(careful, "group")
    assert report.tried > 50
    assert report.broken == []


@pytest.mark.real
def test_right_protocol_survives_a_second_kill_in_recovery(careful):
    report = experiments.doubles(careful, 2)
    assert report.tried > 20
    assert report.broken == []


@pytest.mark.real
def test_right_protocol_never_promises_on_a_failing_disk(careful):
    assert experiments.failures(careful, errno.EIO, lasts=False, sample=20).broken == []
    assert experiments.failures(careful, errno.ENOSPC, lasts=True, sample=20).broken == []
    assert experiments.fills(careful, 6).broken == []


@pytest.mark.real
@pytest.mark.parametrize("kind", ["ext4", "strict"])
def test_right_protocol_survives_power_cuts(careful, kind):
    report = experiments.power(careful, kind, 80)
    assert report.tried == 80
    assert report.broken == []


@pytest.mark.real
def test_every_sync_of_the_right_protocol_is_needed(careful):
    report = experiments.mutants(careful, 40)
    assert report.tried == 9
    assert report.broken == []


FLAWS = {
    "NoSync": lambda crew: experiments.power(crew, "ext4", 80),
    "NoFileSync": lambda crew: experiments.power(crew, "ext4", 80),
    "NoParentSync": lambda crew: experiments.power(crew, "strict", 80),
    "RowFirst": lambda crew: experiments.kills(crew, "root"),
    "EarlyWord": lambda crew: experiments.failures(crew, errno.EIO, lasts=False),
    "Deaf": lambda crew: experiments.failures(crew, errno.ENOSPC, lasts=False),
    "Demoting": lambda crew: experiments.kills(crew, "group"),
    "Orphaning": lambda crew: experiments.kills(crew, "root", sample=2),
}


@pytest.mark.real
@pytest.mark.parametrize("name", FLAWS)
def test_flaw_is_caught(name):
    assert caught(name, FLAWS[name])


def test_kills_alone_do_not_see_missing_syncs():
    with Crew("tests.crash.toys:NoSync") as crew:
        assert experiments.kills(crew, "group", sample=10).broken == []


def test_replay_follows_every_way_to_write():
    with Crew("tests.crash.toys:Odd", jobs=1) as crew:
        assert len(experiments.recording(crew).operations) > 20


def test_barriers_count_only_syncs_that_wait_for_each_other():
    assert counts.barriers([(0, 3), (1, 4), (2, 5), (6, 7), (8, 8)]) == 3


def test_a_name_that_was_tried_along_the_path_is_no_program(tmp_path):
    (tmp_path / "log").write_text(
        '1 execve("/a/git", ["git"], 0x1) = -1 ENOENT (No such file or directory)\n'
        '1 execve("/b/git", ["git"], 0x1 <unfinished ...>\n'
        '2 execve("/c/sh", ["sh"], 0x1) = 0\n'
        "1 <... execve resumed>) = -1 ENOENT (No such file or directory)\n"
        '1 execve("/d/git", ["git"], 0x1 <unfinished ...>\n'
        "1 <... execve resumed>) = 0\n"
    )
    assert counts.read(tmp_path / "log").programs == {"git": 1, "sh": 1}


def test_counts_see_syncs_and_programs(tmp_path):
    code = "import os; fd = os.open('f', os.O_CREAT | os.O_RDWR); os.fsync(fd); os.fsync(fd)"
    log = tmp_path / "log"
    command = ["sh", "-c", f'true; git --version; "{sys.executable}" -c "{code}"']
    subprocess.run(counts.argv(command, log), cwd=tmp_path, check=True, capture_output=True)
    found = counts.read(log)
    assert (found.syncs, found.barriers) == (2, 2)
    assert found.programs["git"] == 1
