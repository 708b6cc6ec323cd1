"""Which of stdout and stderr was written when, as far as looks can tell."""

import os

import pytest

from tests.contracts.test_backends import turn
from treadle.agents import growth
from treadle.agents.growth import Chunk, Growth
from treadle.config.schema import AgentConfig
from treadle.layout import GROWTH, STDERR, STDOUT
from treadle.proc.keeper import Keeper


def noted(folder):
    return [(it.stream, it.end) for it in growth.read((folder / GROWTH).read_bytes())]


def say(folder, name, text, at):
    with (folder / name).open("a") as stream:
        stream.write(text)
    os.utime(folder / name, (at, at))


class Clock:
    now = 1000.0


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(growth.time, "time", lambda: Clock.now)
    yield Clock
    Clock.now = 1000.0


def test_what_grew_between_two_looks_is_in_the_order_of_the_last_writes(tmp_path, clock):
    found = Growth(tmp_path)
    say(tmp_path, STDERR, "e1\n", 1000.1)
    say(tmp_path, STDOUT, "o1\n", 1000.2)
    clock.now = 1000.25
    found.look()
    say(tmp_path, STDOUT, "o2\n", 2000)  # a time that lies ahead is not believed
    found.close()
    assert noted(tmp_path) == [(STDERR, 3), (STDOUT, 6)]
    assert [it.at for it in growth.read((tmp_path / GROWTH).read_bytes())] == [1000.1, 1000.25]


def test_one_chunk_of_one_stream_needs_no_file(tmp_path):
    found = Growth(tmp_path)
    say(tmp_path, STDOUT, "all\n", 1000)
    found.look()
    found.close()
    assert not (tmp_path / GROWTH).exists()


def test_a_stream_that_goes_on_alone_is_noted_once_a_second(tmp_path, monkeypatch, clock):
    monkeypatch.setattr(growth, "MOST", 3)
    found = Growth(tmp_path)
    for _ in range(40):
        clock.now += 0.25
        say(tmp_path, STDOUT, "x", clock.now)
        found.look()
    assert noted(tmp_path) == [(STDOUT, 5), (STDOUT, 10), (STDOUT, 15)]  # and no more of them
    found.close()
    assert len(noted(tmp_path)) == 3


def test_what_is_spoilt_is_left_out():
    data = b'["stdout.txt", 3, 1.5]\n[]\n{}\n["x", 1, 1]\n["stdout.txt", 4, 1e300]\n'
    data += b'["stdout.txt", Infinity, 1]\n["stde'
    assert growth.read(data) == [Chunk(STDOUT, 3, 1.5)]
    assert growth.read(b"[" * 100_000) == []


@pytest.mark.parametrize(
    ("end", "becomes"), [(5, 5), (10, 10), (15, 18), (30, 18), (31, 19), (60, 48), (61, 56)]
)
def test_a_chunk_ends_behind_the_secret_that_it_ended_in(end, becomes):
    assert growth._moved(end, [(10, 30), (60, 75)]) == becomes


def test_the_order_of_an_agents_output_is_known(tmp_path):
    for name in ("step", "live", "workspace"):
        (tmp_path / name).mkdir()
    wait = "until test -f ../{0}; do sleep 0.01; done; "
    script = f"echo one; {wait.format(1)}echo two >&2; {wait.format(2)}echo three"
    seen = []

    def hook():
        """Let it go on once what it said was there at a look before."""
        said = sum((tmp_path / "live" / name).stat().st_size for name in growth.STREAMS)
        if said and said == (seen[-1] if seen else 0):
            (tmp_path / str(1 if said == 4 else 2)).touch()
        seen.append(said)

    config = AgentConfig(type="command", cmd=("sh", "-c", script))
    with Keeper() as keeper:
        turn(keeper, tmp_path, config, should_stop=hook)
    first = tmp_path / "live" / "attempts" / "1"  # its answer could not be used
    assert noted(first) == [(STDOUT, 4), (STDERR, 4), (STDOUT, 10)]
