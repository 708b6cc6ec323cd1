"""Name the rows of the store; a record's fields are its table's columns, in order."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from treadle.contract.criterion import Criterion
from treadle.contract.role import Role, RunStatus, StepStatus, VerdictWord

Phase = Literal["before", "check"]


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


class StepRow(NamedTuple):
    """One committed step; `digest` is the sha256 of its step.json."""

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


class Event(NamedTuple):
    """One line of a run's timeline."""

    seq: int
    ts: str
    type: str
    message: str
    data: Mapping[str, object] | None = None


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


class CheckRow(NamedTuple):
    """What treadle saw when it ran one criterion's command on one tree."""

    run_id: str
    step_index: int
    criterion_id: str
    phase: Phase
    command: str
    tree: str | None
    passed: bool
    exit_code: int | None
    seconds: float
    log: str | None = None
    note: str | None = None


class TaskRow(NamedTuple):
    """One task; whoever knows `claim_id` holds it until `lease_until`."""

    task_id: str
    goal: str
    text: str | None
    criteria: tuple[Criterion, ...]
    lane: str
    owner: str | None
    claim_id: str | None
    lease_until: str | None
    mission: str | None
    source: str | None
    created_at: str
    updated_at: str
    position: int


class MoveRow(NamedTuple):
    """One change of a task's lane: who, when and why."""

    task_id: str
    seq: int
    at: str
    who: str
    from_lane: str
    to_lane: str
    reason: str | None
    forced: bool


class QuestionRow(NamedTuple):
    """Something that waits for a human, with answers to choose from and commands that help."""

    question_id: str
    kind: str
    summary: str
    options: tuple[str, ...]
    fix: tuple[str, ...]
    run_id: str | None
    task_id: str | None
    created_at: str
    answered_at: str | None = None
    answer: str | None = None
    answered_by: str | None = None


class LetterRow(NamedTuple):
    """Where one letter lies and what its headers say; `pending` while its effect is not made."""

    letter_id: int | None
    box: str
    agent: str | None
    folder: str
    name: str
    sender: str
    recipient: str
    intent: str
    task_id: str | None
    status: str
    created_at: str
    message_id: str | None
    in_reply_to: str | None
    expires_at: str | None
    summary: str
    claim_id: str | None = None
    copy_of: str | None = None
    question_id: str | None = None
    pending: bool = False


class FolderRow(NamedTuple):
    """How a folder of letters looked when it was last read."""

    folder: str
    mtime_ns: int
    seen_ns: int


class TaskClaimRow(NamedTuple):
    """What a letter says about a task's checks."""

    task_id: str
    name: str
    value: bool
    claimed_by: str
    claimed_at: str


class ReservationRow(NamedTuple):
    """Files that an owner keeps to one task for a while."""

    task_id: str
    owner: str
    pattern: str
    until: str


class MessageRow(NamedTuple):
    """One message: its place in its chain, how far it got, and the runs that tried it.

    After a retry `after_run` is the last run that counts no more.
    """

    message_id: str
    chain: str
    seq: int
    status: str
    routine: str | None
    spec: str | None
    spec_digest: str | None
    digest: str | None
    parent: str | None
    depth: int
    run_ids: tuple[str, ...]
    reason: str | None
    created_at: str
    updated_at: str
    after_run: str | None = None


class LaneRow(NamedTuple):
    """Where one task of a mission stands."""

    task_id: str
    lane: str
    owner: str | None
    claim_id: str | None
    lease_until: str | None


class MissionStepRow(NamedTuple):
    """What was reported of a mission's step that is not done: failures, or what blocks it."""

    mission: str
    step: str
    failures: int
    is_blocked: bool
    note: str | None
    who: str
    at: str
