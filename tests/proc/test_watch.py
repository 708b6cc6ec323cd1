"""Limits, the wish to stop and the growth of output are noticed while a command runs."""

import pytest

from tests.proc.conftest import eventually, is_alive, once, orchestrate
from treadle.proc.command import Limits
from treadle.proc.watch import breach

DEAF = "trap '' TERM; echo $$; while :; do sleep 0.05; done"
CHATTY = "for n in $(seq 40); do echo tick; sleep 0.05; done"


@pytest.mark.parametrize(
    ("limits", "elapsed", "quiet", "written", "reason"),
    [
        (Limits(), 1e9, 1e9, 1 << 60, None),
        (Limits(wall=10), 9.9, 0, 0, None),
        (Limits(wall=10), 10, 0, 0, "timeout"),
        (Limits(idle=5), 100, 4.9, 0, None),
        (Limits(idle=5), 100, 5, 0, "idle_timeout"),
        (Limits(output_bytes=10), 0, 0, 10, None),
        (Limits(output_bytes=10), 0, 0, 11, "output_limit"),
        (Limits(wall=1, idle=1, output_bytes=1), 1, 1, 2, "output_limit"),
    ],
)
def test_breach_names_the_limit(limits, elapsed, quiet, written, reason):
    found = breach(limits, elapsed, quiet, written)
    assert (found.reason if found else None) == reason


def test_deaf_command_is_killed_after_the_grace(keeper, command, tmp_path):
    ended = keeper.run(command("sh", "-c", DEAF, wall=1, grace=0.2))
    assert (ended.reason, ended.signal) == ("timeout", 9)
    assert ended.seconds >= 1.2
    assert not is_alive(int((tmp_path / "out").read_text()))


def test_polite_command_may_finish_within_the_grace(keeper, command, tmp_path):
    tidy = "trap 'echo tidied; exit 4' TERM; echo ready; while :; do sleep 0.02; done"
    ended = keeper.run(
        command("sh", "-c", tidy, wall=60, grace=60), should_stop=once(tmp_path / "out", "ready")
    )
    assert (ended.reason, ended.exit_code, ended.signal) == ("stopped", 4, None)
    assert (tmp_path / "out").read_text() == "ready\ntidied\n"


def test_processes_in_sessions_of_their_own_are_asked_too(keeper, command, tmp_path):
    tidy = "trap 'echo tidied; exit' TERM; echo ready; while :; do sleep 0.02; done"
    (tmp_path / "tidy.sh").write_text(tidy)
    wait = "trap : TERM; setsid sh tidy.sh"
    ended = keeper.run(
        command("sh", "-c", wait, wall=60, grace=60), should_stop=once(tmp_path / "out", "ready")
    )
    assert (ended.reason, ended.signal) == ("stopped", None)
    assert (tmp_path / "out").read_text() == "ready\ntidied\n"


def test_silence_is_noticed(keeper, command):
    ended = keeper.run(command("sh", "-c", DEAF, idle=0.3, grace=0.1))
    assert ended.reason == "idle_timeout"
    assert ended.detail == "wrote nothing for 0.3 s"


def test_output_keeps_a_command_from_being_idle(keeper, command):
    ended = keeper.run(command("sh", "-c", CHATTY, idle=1.5))
    assert (ended.reason, ended.seconds > 1.5) == ("exit", True)


def test_too_much_output_ends_the_command_and_is_cut(keeper, command, tmp_path):
    ended = keeper.run(command("sh", "-c", "yes | cat", output_bytes=10_000, wall=30))
    assert (ended.reason, ended.output_bytes) == ("output_limit", 10_000)
    assert (tmp_path / "out").read_bytes() == b"y\n" * 5000


def test_too_much_output_counts_even_after_a_quick_exit(keeper, command, tmp_path):
    ended = keeper.run(command("head", "-c", "5000", "/dev/zero", output_bytes=10))
    assert (ended.reason, ended.exit_code, ended.output_bytes) == ("output_limit", 0, 10)


def test_both_files_count_and_the_smaller_one_survives(keeper, command, tmp_path):
    noisy = "echo important >&2; yes"
    ended = keeper.run(command("sh", "-c", noisy, output_bytes=1000, wall=30))
    assert (ended.reason, ended.output_bytes) == ("output_limit", 1000)
    assert (tmp_path / "err").read_text() == "important\n"


def test_memory_stays_flat_however_much_is_printed(tmp_path):
    code = """
import os, resource, sys
from pathlib import Path
from treadle.proc.keeper import Command, Keeper, Limits
here = Path(sys.argv[1])
def run(*argv, cap):
    limits = Limits(60, output_bytes=cap)
    return keeper.run(Command(argv, here, os.environ, None, here / "o", here / "e", limits))
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with Keeper() as keeper:
    run("true", cap=1)
    before = peak()
    whole = run("head", "-c", "300000000", "/dev/zero", cap=1 << 60)
    capped = run("sh", "-c", "head -c 1000000000 /dev/zero", cap=1_000_000)
    print(whole.output_bytes, capped.reason, capped.output_bytes, peak() - before < 4096)
"""
    with orchestrate(code, str(tmp_path)) as process:
        assert process.communicate()[0] == b"300000000 output_limit 1000000 True\n"


def test_wish_to_stop_ends_the_command(keeper, command, tmp_path):
    ended = keeper.run(
        command("sh", "-c", DEAF, grace=0.1, wall=60), should_stop=once(tmp_path / "out")
    )
    assert (ended.reason, ended.detail) == ("stopped", "asked from another terminal")
    assert eventually(lambda: not is_alive(int((tmp_path / "out").read_text())))


def test_an_empty_reason_is_still_a_wish(keeper, command):
    assert keeper.run(command("sleep", "60", grace=1), should_stop=lambda: "").reason == "stopped"


def test_ticks_tell_the_time(keeper, command):
    seen: list[float] = []
    keeper.run(command("sleep", "0.5"), on_tick=seen.append)
    assert 2 <= len(seen) <= 10 + 10 * seen[-1]
    assert seen == sorted(seen)
