"""Change tasks and questions inside a transaction."""

from collections.abc import Sequence

from treadle.store import codec
from treadle.store.backend import Connection
from treadle.store.queries import SQL
from treadle.store.rows.mission import MissionStepRow
from treadle.store.rows.question import QuestionRow
from treadle.store.rows.task import MoveRow, TaskRow


def reserve_id(tx: Connection) -> str:
    """Return a task id that was never given before."""
    while True:
        task_id = f"T-{_count_up(tx, 'task')}"
        if tx.execute(SQL["task"], {"task_id": task_id}).fetchone() is None:
            return task_id


def add(tx: Connection, task: TaskRow) -> TaskRow | None:
    """Add a task at the end of the order; None when its id is taken, a new id when it has none."""
    task_id = task.task_id or reserve_id(tx)
    added = task._replace(task_id=task_id, position=_count_up(tx, "position"))
    return added if tx.execute(SQL["insert_task"], codec.values(added)).rowcount else None


def adopt(tx: Connection, tasks: Sequence[TaskRow], links: Sequence[tuple[str, str]]) -> None:
    """Add tasks that are not known yet, describe the others anew, and tie them together."""
    for task in tasks:
        if add(tx, task) is None:
            described = {**task._asdict(), "criteria": codec.to_json(task.criteria)}
            tx.execute(SQL["define_task"], described)
        tx.execute(SQL["unlink_siblings"], {"task_id": task.task_id, "mission": task.mission})
    for task_id, depends_on in links:
        tx.execute(SQL["link_task"], {"task_id": task_id, "depends_on": depends_on})


def report_step(tx: Connection, row: MissionStepRow) -> None:
    """Remember that a mission's step failed or is blocked."""
    tx.execute(SQL["report_step"], row)


def clear_step(tx: Connection, mission: str, step: str) -> bool:
    """Forget what was reported of a mission's step."""
    return tx.execute(SQL["clear_step"], {"mission": mission, "step": step}).rowcount > 0


def swap(tx: Connection, before: TaskRow, after: TaskRow, move: MoveRow | None) -> bool:
    """Change lane and claim if nobody else did since `before` was read."""
    values = after._asdict() | {
        "seen_lane": before.lane,
        "seen_claim_id": before.claim_id,
        "seen_lease_until": before.lease_until,
    }
    if not tx.execute(SQL["swap_task"], values).rowcount:
        return False
    if move:
        seq = tx.execute(SQL["last_task_move"], {"task_id": move.task_id}).fetchone()[0]
        tx.execute(SQL["insert_task_move"], move._replace(seq=(seq or 0) + 1))
    return True


def link(tx: Connection, task_id: str, depends_on: str) -> tuple[str, ...]:
    """Make a task wait for another, unless that closes a circle: then return the circle."""
    circle = _path(tx, depends_on, task_id)
    if not circle:
        tx.execute(SQL["link_task"], {"task_id": task_id, "depends_on": depends_on})
    return circle


def unlink(tx: Connection, task_id: str, depends_on: str) -> bool:
    """Let a task wait no longer for another."""
    values = {"task_id": task_id, "depends_on": depends_on}
    return tx.execute(SQL["unlink_task"], values).rowcount > 0


def ask(tx: Connection, question: QuestionRow) -> str:
    """Put a question on the desk; one that already lies there unanswered is not asked twice."""
    same = tx.execute(SQL["same_question"], question._asdict()).fetchone()
    if same:
        return str(same[0])
    asked = question._replace(question_id=f"Q-{_count_up(tx, 'question')}")
    tx.execute(SQL["insert_question"], codec.values(asked))
    return asked.question_id


def answer(tx: Connection, question_id: str, answer: str, by: str, now: str) -> bool:
    """Answer a question that is still open."""
    values = {"question_id": question_id, "answer": answer, "by": by, "now": now}
    return tx.execute(SQL["answer_question"], values).rowcount > 0


def settle(tx: Connection, run_id: str, answer: str, by: str, now: str) -> int:
    """Answer all open questions of a run that has moved on; return how many there were."""
    values = {"run_id": run_id, "answer": answer, "by": by, "now": now}
    return tx.execute(SQL["settle_questions"], values).rowcount


def _count_up(tx: Connection, name: str) -> int:
    return int(tx.execute(SQL["count_up"], {"name": name}).fetchone()[0])


def _path(tx: Connection, start: str, goal: str) -> tuple[str, ...]:
    """Return the dependencies from `start` to `goal`, both included, or nothing."""
    pending: list[tuple[str, ...]] = [(start,)]
    seen = {start}
    while pending:
        path = pending.pop()
        if path[-1] == goal:
            return path
        for (needed,) in tx.execute(SQL["needed_by"], {"task_id": path[-1]}).fetchall():
            if needed not in seen:
                seen.add(needed)
                pending.append((*path, needed))
    return ()
