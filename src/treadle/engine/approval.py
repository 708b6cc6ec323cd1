"""Take a person's word about protected files that a passing run changed."""

from treadle.contract.event import EventType
from treadle.engine import protection
from treadle.engine.run import Run
from treadle.errors import BlockedError


def approve(run: Run) -> None:
    """Let a run pass that waits for it, with exactly the tree that was looked at."""
    found = run.kv.get(protection.KEY)
    if run.kv.get("reason_code") != protection.WAITS or not isinstance(found, dict):
        raise BlockedError(
            f"run {run.id} does not wait for an approval of protected files",
            code="nothing_to_approve",
            fix=[f"treadle why {run.id}"],
        )
    if found.get("tree") != run.tree:
        raise BlockedError(
            f"run {run.id} stands on another tree than the one that was looked at",
            code="tree_changed",
            fix=[f"treadle run --resume {run.id}"],
        )
    names = protection.named(run.kv)
    told = list(protection.files(run.kv))
    run.timeline.add(EventType.PROTECTED_APPROVED, names, tree=run.tree, files=told[:100])
    run.end("passed", "passed", f"every criterion passed; changes approved: {names}")


def refuse(run: Run) -> dict[str, object]:
    """Return what a run remembers that goes on without approval: the criteria have failed."""
    found = run.kv.get(protection.KEY)
    if run.kv.get("reason_code") != protection.WAITS or not isinstance(found, dict):
        return {}
    failing = list(found.get("failing", []))
    return {
        protection.KEY: {**found, "refused": True},
        "failing": failing,
        "refuted": failing,
        "last_check": {"tree": run.tree, "failing": failing},
    }
