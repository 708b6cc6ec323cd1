"""What a letter is for: the standard intents, and what each of them needs."""

from collections.abc import Sequence

from treadle.errors import UsageError
from treadle.ids import hint

WORK = ("implement_feature", "fix_bug", "refactor", "review_code", "test", "audit", "document")
INTENTS = (
    *WORK,
    "status_update",
    "request_help",
    "claim_task",
    "release_task",
    "coordinate",
    "question",
    "answer",
    "escalate",
    "inform",
    "test_results",
    "audit_report",
    "approval_request",
)
NEED_TASK = frozenset((*WORK, "claim_task", "release_task", "test_results", "approval_request"))
# What a person is asked with; addressed to `human` they reach the desk.
ASKING = frozenset(("question", "request_help", "escalate", "approval_request"))
STATUSES = ("new", "in_progress", "completed", "blocked", "failed")

_REPLIES = {
    "test": "test_results",
    "audit": "audit_report",
    "question": "answer",
    "request_help": "answer",
    "review_code": "answer",
    "approval_request": "answer",
    "escalate": "answer",
}


def known(text: str, extra: Sequence[str] = ()) -> str:
    """Return an intent as headers spell it, or raise UsageError with the nearest one."""
    word = text.strip().lower().replace("-", "_")
    intents = every(extra)
    if word in intents:
        return word
    raise UsageError(
        f"there is no intent {text[:64]!r}{hint(word[:64], intents, or_all=True)}",
        code="intent_unknown",
        fix=["treadle mail send --help", "treadle config show"],
    )


def every(extra: Sequence[str]) -> tuple[str, ...]:
    """Return the standard intents and those that the configuration adds."""
    return (*INTENTS, *(item.replace("-", "_") for item in extra))


def status(text: str) -> str:
    """Return a letter's status; `done` is read as completed."""
    word = text.strip().lower().replace("-", "_")
    word = "completed" if word == "done" else word
    if word in STATUSES:
        return word
    near = hint(word[:64], STATUSES, or_all=True)
    raise UsageError(f"there is no status {text[:64]!r}{near}")


def reply(intent: str) -> str:
    """Return the intent with which a letter is usually answered."""
    return _REPLIES.get(intent, "inform")
