"""Die on request at a named boundary, so that recovery is shown on the real program.

`TREADLE_DIE_AT=after_rename` kills the process the first time it gets there,
`TREADLE_DIE_AT=after_rename:3` the third time.
"""

import os
import signal

_STEPS = """
    before_run_row after_run_row after_stage after_agent before_manifest before_sync before_rename
    after_rename before_branch after_branch after_workspace before_transaction after_transaction
    before_run_file after_run_file
"""
BOUNDARIES = tuple(_STEPS.split())

# The boundaries of moving a user's branch, by `land` and `undo`.
MOVES = ("after_intent", "after_move", "after_landed")

_name, _, _count = os.environ.get("TREADLE_DIE_AT", "").partition(":")
_left = {_name: int(_count or 1)}


def reach(name: str) -> None:
    """Kill this process if somebody asked for it here."""
    if name not in _left:
        return
    _left[name] -= 1
    if _left[name] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
