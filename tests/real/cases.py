"""Which tools take part, and under which command; apart, because benches have no pytest."""

import pytest

from tests.real.tools import EVERY, MORE


def marks(tool: str) -> list[pytest.MarkDecorator]:
    """Return what holds back the tools that take part only under scripts/test --all."""
    return [pytest.mark.all] if tool in MORE else []


TOOLS = [pytest.param(tool, marks=marks(tool)) for tool in (*EVERY, *MORE)]
