"""The JSON documents that several commands give."""

from collections.abc import Mapping, Sequence

from treadle.engine import whereabouts
from treadle.store.runs import RunRow


def results(
    found: list[dict[str, object]], tasks: Sequence[str], refused: Sequence[dict[str, object]] = ()
) -> dict[str, object]:
    """Return the document of runs: of one that was asked for alone, its own."""
    if len(found) == 1 and len(tasks) < 2 and not refused:
        return found[0]
    return {"runs": found, "refused": list(refused)}


def run_result(row: RunRow, kv: Mapping[str, object]) -> dict[str, object]:
    """Return the document of one run."""
    return {
        "run_id": row.run_id,
        "task_id": row.task_id,
        "status": row.status,
        "verdict": row.verdict,
        "iteration": row.iteration,
        "steps": row.current_step_index,
        "branch": row.branch,
        "base_commit": row.base_commit,
        "head_commit": row.head_commit,
        "landed": whereabouts.commit(kv, "landed"),
        "undone": whereabouts.commit(kv, "undone"),
        "reason": kv.get("reason"),
        "reason_code": kv.get("reason_code"),
    }
