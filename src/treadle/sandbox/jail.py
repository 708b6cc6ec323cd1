"""Turn a policy into what the starting process needs to enforce it."""

import sys

from treadle.proc.command import Jail
from treadle.sandbox import bubblewrap, landlock, seatbelt
from treadle.sandbox.policy import Policy


def build(tier: str, policy: Policy) -> Jail | None:
    """Return the jail of this tier; None where there is none."""
    if tier == "0":
        return None
    if sys.platform == "darwin":
        return seatbelt.jail(policy)
    return bubblewrap.jail(policy) if tier == "A" else landlock.jail(policy)
