"""Read `--budget key=value` flags."""

from collections.abc import Sequence

from treadle.config import check, keys
from treadle.config.schema import BudgetsConfig
from treadle.errors import ConfigError, UsageError
from treadle.ids import hint


def parse(items: Sequence[str]) -> dict[str, int | float]:
    """Return the limits by name, or raise UsageError with the nearest name."""
    limits: dict[str, int | float] = {}
    for item in items:
        name, value = _split(item)
        if name in limits:
            raise UsageError(f"--budget {name} is given twice")
        limits[name] = value
    return limits


def _split(item: str) -> tuple[str, int | float]:
    known = keys.field_types(BudgetsConfig)
    name, equals, text = (part.strip() for part in item.partition("="))
    if name not in known:
        raise UsageError(f"--budget {name}: no such budget{hint(name, known, or_all=True)}")
    if not equals:
        raise UsageError(f"--budget {item}: write it as --budget {name}=NUMBER")
    return name, _number(name, text, known[name])


def _number(name: str, text: str, type_: object) -> int | float:
    complaint = f"--budget {name} must be {keys.expectation(type_)}, not {text!r}"
    try:
        value = check.leaf(text, type_, ("budgets", name), "--budget", text=True)
    except ConfigError as error:
        raise UsageError(complaint) from error
    if not isinstance(value, int | float):
        raise UsageError(complaint)
    return value
