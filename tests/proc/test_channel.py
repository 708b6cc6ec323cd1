"""What is kept of too much output."""

import pytest

from treadle.proc.channel import shares


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ([500], [100]),
        ([50], [50]),
        ([500, 0], [100, 0]),
        ([0, 500], [0, 100]),
        ([500, 30], [70, 30]),
        ([30, 500], [30, 70]),
        ([500, 500], [50, 50]),
        ([10, 20], [10, 20]),
    ],
)
def test_cap_is_shared_so_that_the_smaller_file_survives(sizes, kept):
    assert shares(sizes, 100) == kept
