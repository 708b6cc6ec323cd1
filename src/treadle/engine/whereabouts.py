"""Say where a run's work is, from what the run remembers."""

from collections.abc import Mapping
from typing import Literal

Key = Literal["landed", "undone"]


def commit(kv: Mapping[str, object], key: Key) -> str | None:
    """Return the commit that landed or undid a run."""
    return _field(kv, key, "commit")


def now(kv: Mapping[str, object]) -> str | None:
    """Return the commit in which the work is in the user's branch, unless it was undone."""
    return None if kv.get("undone") else commit(kv, "landed")


def words(kv: Mapping[str, object]) -> list[str]:
    """Return a line for each thing that happened to the work after the run."""
    found = []
    if landed := commit(kv, "landed"):
        found.append(f"landed as {landed[:12]} on {_field(kv, 'landed', 'branch')}")
    if undone := commit(kv, "undone"):
        found.append(f"undone by {undone[:12]} on {_field(kv, 'undone', 'branch')}")
    if refused := _field(kv, "land_refused", "message"):
        found.append(f"{_field(kv, 'land_refused', 'what')} was refused: {refused}")
    return found


def _field(kv: Mapping[str, object], key: str, name: str) -> str | None:
    found = kv.get(key)
    value = found.get(name) if isinstance(found, dict) else None
    return value if isinstance(value, str) else None
