"""The words that cross a border, and how JSON from strangers is read.

What happens to a run, who plays in it, what must be true: one word for each, everywhere.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, NamedTuple, Never, get_args

from treadle.errors import FormatError


class EventType(StrEnum):
    """Every type of line in a run's timeline."""

    RUN_STARTED = "run_started"
    RUN_QUEUED = "run_queued"
    RUN_CLAIMED = "run_claimed"
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
    LETTER_REFUSED = "letter_refused"
    ROW_MISMATCH = "row_mismatch"
    STORE_REBUILT = "store_rebuilt"
    BRANCH_MOVED = "branch_moved"
    CHECK_BEFORE = "check_before"
    CHECK_OBSERVED = "check_observed"
    COMMAND_CHANGED_FILES = "command_changed_files"
    OUTSIDE_CHANGE = "outside_change"
    VERDICT = "verdict"
    CLAIM_REFUTED = "claim_refuted"
    PATCH_IGNORED = "patch_ignored"
    PATCH_APPLIED = "patch_applied"
    PATCH_RETRIED = "patch_retried"
    IGNORED_NOT_HARVESTED = "ignored_not_harvested"
    NO_PATCH = "no_patch"
    RISKY_CHANGE = "risky_change"
    NO_PROGRESS = "no_progress"
    BUDGET_EXCEEDED = "budget_exceeded"
    BUDGET_RAISED = "budget_raised"
    STOP_REQUESTED = "stop_requested"
    ATTEMPT_FAILED = "attempt_failed"
    ANSWER_REPAIRED = "answer_repaired"
    ID_MISMATCH = "id_mismatch"
    FIELD_INVALID = "field_invalid"
    SEQ_REASSIGNED = "seq_reassigned"
    DUPLICATE_MESSAGE = "duplicate_message"
    ROUTINE_CHOSEN = "routine_chosen"
    LANDING = "landing"
    LANDED = "landed"
    LAND_REFUSED = "land_refused"
    UNDONE = "undone"
    PUSH_REFUSED = "push_refused"
    GAVE_UP = "gave_up"
    LOGIN_REFRESHED = "login_refreshed"
    ORDER_HELD = "order_held"
    ORDER_REFUSED = "order_refused"
    ARCHIVE_REFUSED = "archive_refused"
    PROTECTED_CHANGED = "protected_changed"
    PROTECTED_APPROVED = "protected_approved"


class NewEvent(NamedTuple):
    """Something that happened to a run, before it has its place in the timeline."""

    type: EventType
    message: str
    data: Mapping[str, object] = {}


class StepError(StrEnum):
    """Why a step failed: the code in its `step_failed` event."""

    PROTOCOL_ERROR = "protocol_error"
    AGENT_FAILED = "agent_failed"
    AGENT_EXIT = "agent_exit"
    AGENT_MISSING = "agent_missing"
    TIMEOUT = "timeout"
    IDLE_TIMEOUT = "idle_timeout"
    OUTPUT_LIMIT = "output_limit"
    DISK_LIMIT = "disk_limit"
    BOUNDARY_VIOLATION = "boundary_violation"
    PATCH_FAILED = "patch_failed"
    PATCH_REFUSED = "patch_refused"
    BUDGET_EXCEEDED = "budget_exceeded"
    REPLAY_EXHAUSTED = "replay_exhausted"
    SETUP_FAILED = "setup_failed"
    INTERRUPTED = "interrupted"
    USAGE_LIMIT = "usage_limit"
    RATE_LIMIT = "rate_limit"
    AUTH_FAILED = "auth_failed"
    MODEL_UNKNOWN = "model_unknown"
    CONTEXT_TOO_LONG = "context_too_long"
    NETWORK = "network"
    SERVER_ERROR = "server_error"
    REQUEST_REFUSED = "request_refused"
    MAY_STILL_RUN = "may_still_run"
    MEMORY_LIMIT = "memory_limit"
    PROCESS_LIMIT = "process_limit"


Role = Literal["plan", "do", "check", "act"]
StepStatus = Literal["ok", "fail", "skipped"]
RunStatus = Literal["running", "passed", "failed", "stopped"]
VerdictWord = Literal["PASS", "FAIL"]

ROLES: tuple[Role, ...] = get_args(Role)


def follows(role: Role) -> Role:
    """Return the role after `role` when the wheel goes on turning."""
    return ROLES[(ROLES.index(role) + 1) % len(ROLES)]


class Criterion(NamedTuple):
    """What must be true; `verify` is the command that observes it, if there is one."""

    id: str
    text: str
    verify: str | None = None


MAX_DEPTH = 32


def load_object(data: bytes, *, source: str) -> dict[str, object]:
    """Return the one JSON object in `data`, or raise FormatError naming `source`."""
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
        value = json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
        _check(value, MAX_DEPTH)
    except UnicodeDecodeError as error:
        raise FormatError(f"{source}: not UTF-8 at byte {error.start}") from error
    except ValueError as error:
        raise FormatError(f"{source}: {error}") from error
    except RecursionError as error:
        raise FormatError(f"{source}: nested deeper than {MAX_DEPTH} levels") from error
    if not isinstance(value, dict):
        raise FormatError(f"{source}: expected a JSON object, got {type(value).__name__}")
    return value


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result: dict[str, object] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"duplicate key {key!r}")
        result[key] = value
    return result


def _no_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")


def _check(value: object, levels: int) -> None:
    """Refuse what SQLite, UTF-8 files, a number column or a recursive reader could not hold."""
    if isinstance(value, dict | list):
        if not levels:
            raise RecursionError
        for item in value:
            _check(item, levels - 1)
        for item in value.values() if isinstance(value, dict) else ():
            _check(item, levels - 1)
    elif isinstance(value, str):
        _check_string(value)
    elif isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise ValueError("number out of range")


def _check_string(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("text with half a surrogate pair") from None
    if "\0" in text:
        raise ValueError("text with a NUL character")
