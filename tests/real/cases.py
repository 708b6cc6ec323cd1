"""Which tools take part, and under which command; apart, because benches have no pytest."""

from collections.abc import Iterable

import pytest

from tests.real.tools import EVERY, MORE, NEWEST, PRESETS


def marks(tool: str) -> list[pytest.MarkDecorator]:
    """Return what holds back the tools that take part only under scripts/test --all."""
    return [] if tool in EVERY else [pytest.mark.all]


def cases(*tools: str) -> list:
    return [pytest.param(tool, marks=marks(tool)) for tool in tools]


def in_turn(tools: tuple[str, ...], values: Iterable[str], *always: str) -> list:
    """Return every tool with every value; outside of --all, each value meets one of five in turn.

    Those named besides meet every value.
    """
    return [
        pytest.param(
            *(tool, value),
            id=f"{tool}-{value}",
            marks=[] if tool in (ONE_SHOT[at % len(ONE_SHOT)], *always) else [pytest.mark.all],
        )
        for at, value in enumerate(values)
        for tool in tools
    ]


ONE_SHOT = (*EVERY, "opencode", "copilot")
TOOLS = cases(*EVERY, *MORE)
SERVERS = cases(*PRESETS)
VERSIONS = (*ONE_SHOT, *(NEWEST + tool for tool in ONE_SHOT))
