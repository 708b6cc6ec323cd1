"""Tell of a run whose process was killed; loaded only for runs that seem to work."""

from treadle.engine.lock import is_abandoned
from treadle.errors import BlockedError
from treadle.store.runs import RunRow


def refusal(row: RunRow) -> BlockedError | None:
    """Return what there is to say of a run that nobody drives any more."""
    if not is_abandoned(row):
        return None
    return BlockedError(
        f"run {row.run_id} is not running: the process that drove it is gone",
        code="not_running",
        fix=[f"treadle run --resume {row.run_id}"],
    )
