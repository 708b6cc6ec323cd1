"""Wait until somebody has committed to the store; what was committed is for readers to find."""

import os
from collections.abc import Mapping

from treadle.layout import Layout
from treadle.store import address
from treadle.store.backend import Waker


def open_waker(layout: Layout, env: Mapping[str, str] = os.environ) -> Waker:
    """Return what tells of changes to the project's store; the first wait ends at once."""
    return address.find(layout, env).open_waker()
