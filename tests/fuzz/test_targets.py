"""Five hundred inputs for every parser: chance, and known inputs with a few bytes changed."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS, attempt

EXAMPLES = 500


def inputs(target):
    """Mix pieces of known inputs with odd bytes."""
    pieces = [seed[at : at + 8] for seed in target.seeds for at in range(0, len(seed), 4)]
    odd = [b"\xff", b"\0", b"\r\r\n", "\u202e".encode(), b"\xed\xa0\x80", b"{" * 40, b"9" * 5000]
    piece = st.one_of(st.sampled_from(pieces + odd), st.binary(max_size=12))
    changed = st.builds(
        lambda seed, at, new: seed[: at % (len(seed) + 1)] + new + seed[at % (len(seed) + 1) + 1 :],
        st.sampled_from(target.seeds),
        st.integers(0, 200),
        piece,
    )
    return st.one_of(changed, st.lists(piece, max_size=12).map(b"".join), st.binary(max_size=200))


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_are_read_or_refused_in_words(name):
    target = TARGETS[name]

    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(inputs(target))
    def reads(data):
        attempt(target, data)

    for seed in target.seeds:
        attempt(target, seed)
    reads()
