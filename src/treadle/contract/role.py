"""Name the four roles of the wheel and who follows whom."""

from typing import Literal, get_args

Role = Literal["plan", "do", "check", "act"]
StepStatus = Literal["ok", "fail", "skipped"]
RunStatus = Literal["running", "passed", "failed", "stopped"]
VerdictWord = Literal["PASS", "FAIL"]

ROLES: tuple[Role, ...] = get_args(Role)


def follows(role: Role) -> Role:
    """Return the role after `role` when the wheel goes on turning."""
    return ROLES[(ROLES.index(role) + 1) % len(ROLES)]
