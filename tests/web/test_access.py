"""Further links come over a socket, one per question."""

import stat

import pytest

from treadle.errors import BlockedError, LockedError
from treadle.web import access
from treadle.web.access import Keys


@pytest.mark.parametrize("name", ["s.sock", f"{'x' * 120}/s.sock"], ids=["short", "long"])
def test_every_question_gets_a_link_of_its_own(tmp_path, name):
    place = tmp_path / "state" / name
    links = iter("ab")
    with access.offer_links(place, lambda: next(links)):
        assert (access.get_link(place), access.get_link(place)) == ("a", "b")
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert not place.exists()


def test_without_a_server_there_is_no_link(tmp_path):
    with pytest.raises(BlockedError, match="nobody serves"):
        access.get_link(tmp_path / "s.sock")


def test_a_second_server_is_refused_and_a_dead_one_is_not_in_the_way(tmp_path):
    place = tmp_path / "s.sock"
    place.write_text("")
    with (
        access.offer_links(place, lambda: "x"),
        pytest.raises(LockedError, match="served already"),
        access.offer_links(place, lambda: "y"),
    ):
        pass


def test_a_port_that_is_taken_is_named():
    with access.bind_port(0) as server:
        port = server.getsockname()[1]
        with pytest.raises(LockedError, match=str(port)):
            access.bind_port(port)


def test_only_the_newest_links_count_and_each_once():
    keys = Keys()
    links = [keys.new_link() for _ in range(20)]
    assert keys.redeem(links[0]) is None
    token = keys.redeem(links[-1])
    assert token is not None
    assert keys.opens(token)
    assert keys.redeem(links[-1]) is None
