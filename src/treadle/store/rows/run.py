"""The rows of runs, their steps and events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from treadle.store.codec import Row, kept_in, to_json

if TYPE_CHECKING:
    from treadle.contract.role import Role, RunStatus, StepStatus, VerdictWord


@kept_in("runs")
class RunRow(NamedTuple):
    """One run; `owner` is the encoded identity of the process that drives it."""

    run_id: str
    created_at: str
    goal: str
    status: RunStatus
    iteration: int
    current_step_index: int
    verdict: VerdictWord | None
    run_dir: str
    task_id: str | None = None
    message_id: str | None = None
    routine: str | None = None
    base_commit: str | None = None
    base_branch: str | None = None
    branch: str | None = None
    head_commit: str | None = None
    claim_epoch: int = 0
    owner: str | None = None
    ended_at: str | None = None


class Cursor(NamedTuple):
    """Where a run stands: the part of its row that every commit may change."""

    status: RunStatus
    iteration: int
    current_step_index: int
    verdict: VerdictWord | None = None
    head_commit: str | None = None
    ended_at: str | None = None


@kept_in("steps")
class StepRow(NamedTuple):
    """One committed step; `digest` is the sha256 of its step.json.

    `archive` names the archive of its folder where other machines can read it.
    """

    run_id: str
    step_index: int
    role: Role
    iteration: int
    status: StepStatus
    step_dir: str
    started_at: str
    ended_at: str | None = None
    summary: str | None = None
    agent: str | None = None
    error_code: str | None = None
    before_commit: str | None = None
    after_commit: str | None = None
    tree: str | None = None
    sandbox_tier: str | None = None
    digest: str | None = None
    archive: str | None = None
    archive_sha256: str | None = None


@kept_in("events")
class Event(NamedTuple):
    """One line of a run's timeline."""

    seq: int
    ts: str
    type: str
    message: str
    data: Mapping[str, object] | None = None


@kept_in("usage")
class UsageRow(NamedTuple):
    """What one step's agent spent, as far as its tool says."""

    run_id: str
    step_index: int
    agent: str
    model: str | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None


def to_event(row: Row) -> Event:
    """Read an event."""
    seq, ts, type_, message, data = row
    return Event(seq, ts, type_, message, json.loads(data) if data is not None else None)


def event_values(event: Event) -> tuple[object, ...]:
    """Return an event as the values of its columns."""
    data = None if event.data is None else to_json(event.data)
    return (event.seq, event.ts, str(event.type), event.message, data)
