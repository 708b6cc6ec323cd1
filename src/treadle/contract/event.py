"""Name everything that can happen to a run, and how a step can fail."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class EventType(StrEnum):
    """Every type of line in a run's timeline."""

    RUN_STARTED = "run_started"
    RUN_RESUMED = "run_resumed"
    RUN_INTERRUPTED = "run_interrupted"
    RUN_PASSED = "run_passed"
    RUN_FAILED = "run_failed"
    RUN_STOPPED = "run_stopped"
    BASE_DIRTY = "base_dirty"
    WORKSPACE_READY = "workspace_ready"
    WORKSPACE_RESTORED = "workspace_restored"
    STEP_COMMITTED = "step_committed"
    STEP_FAILED = "step_failed"
    RECONCILED_STEP = "reconciled_step"
    ROW_MISMATCH = "row_mismatch"
    STORE_REBUILT = "store_rebuilt"
    BRANCH_MOVED = "branch_moved"
    CHECK_BEFORE = "check_before"
    CHECK_OBSERVED = "check_observed"
    COMMAND_CHANGED_FILES = "command_changed_files"
    VERDICT = "verdict"
    CLAIM_REFUTED = "claim_refuted"
    PATCH_IGNORED = "patch_ignored"
    PATCH_APPLIED = "patch_applied"
    PATCH_RETRIED = "patch_retried"
    NO_PATCH = "no_patch"
    RISKY_CHANGE = "risky_change"
    NO_PROGRESS = "no_progress"
    BUDGET_EXCEEDED = "budget_exceeded"
    BUDGET_RAISED = "budget_raised"
    STOP_REQUESTED = "stop_requested"
    LANDING = "landing"
    LANDED = "landed"
    LAND_REFUSED = "land_refused"
    UNDONE = "undone"


class StepError(StrEnum):
    """Why a step failed: the code in its `step_failed` event."""

    PROTOCOL_ERROR = "protocol_error"
    AGENT_FAILED = "agent_failed"
    AGENT_EXIT = "agent_exit"
    AGENT_MISSING = "agent_missing"
    TIMEOUT = "timeout"
    IDLE_TIMEOUT = "idle_timeout"
    OUTPUT_LIMIT = "output_limit"
    BOUNDARY_VIOLATION = "boundary_violation"
    PATCH_FAILED = "patch_failed"
    PATCH_REFUSED = "patch_refused"
    BUDGET_EXCEEDED = "budget_exceeded"
    REPLAY_EXHAUSTED = "replay_exhausted"
    SETUP_FAILED = "setup_failed"
    INTERRUPTED = "interrupted"


class Event(NamedTuple):
    """One line of a run's timeline."""

    seq: int
    ts: str
    type: str
    message: str
    data: Mapping[str, object] | None = None
