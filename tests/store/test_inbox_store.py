"""Ids of chains are given out once, however many are wanted."""

from datetime import UTC, datetime

NOW = datetime(2026, 1, 1, 12, 0, 59, tzinfo=UTC)


def test_the_hundred_and_first_chain_of_a_second_takes_the_next(store):
    found = [store.reserve_chain(NOW) for _ in range(101)]
    assert found[:2] == ["2026010112005900", "2026010112005901"]
    assert found[99:] == ["2026010112005999", "2026010112010000"]


def test_a_chain_is_not_given_again_when_the_clock_goes_back(store):
    later = store.reserve_chain(NOW)
    assert store.reserve_chain(NOW.replace(year=2025)) > later
