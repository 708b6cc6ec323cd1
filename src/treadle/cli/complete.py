"""The words that a completion script asks for: runs, tasks, specs, agents and the like."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import get_args

from treadle.cli import output
from treadle.config import read_files
from treadle.contract import ROLES
from treadle.ids import short_run
from treadle.layout import Layout
from treadle.project import find_place, here
from treadle.store.questions import Verb
from treadle.store.store import Reader
from treadle.tasks.lanes import LANES

_NEWEST = 50
_SPEC = ".spec.md"
# As the schema has them: it would cost more than all the rest.
BUDGETS = (
    *("max_iterations", "max_minutes", "max_cost_usd", "max_tokens", "max_output_mb"),
    *("max_patch_kb", "max_changed_files", "max_risky_files"),
    *("night.max_cost_usd", "night.max_runs"),
)


def print_words(given: list[str]) -> int:
    """Print what can stand there, a word a line; a completion that fails says nothing."""
    kind, prefix = [*given, "", ""][:2]
    try:
        layout = find_place(here(), os.environ).layout
        with Reader.open(layout) as store:
            found = [word for word in KINDS[kind](layout, store) if word.startswith(prefix)]
        for word in filter(_is_plain, found):
            output.line(word, flush=True)
    except Exception:  # noqa: BLE001  # whoever types sees nothing of it
        return 1
    return 0


def _is_plain(word: str) -> bool:
    """Tell whether a shell takes a word as it is; others would be split, or run."""
    return re.fullmatch(r"[\w.,:=@%+/-]+", word) is not None


def _runs(layout: Layout, store: Reader) -> Iterator[str]:
    rows = store.runs(_NEWEST)
    yield from ["last"] if rows else []
    yield from (short_run(row.run_id) for row in rows)
    yield from dict.fromkeys(row.task_id for row in rows if row.task_id)
    yield from _specs(layout, store) if any(row.message_id for row in rows) else ()
    yield from (row.run_id for row in rows)


def _specs(layout: Layout, store: Reader) -> Iterable[str]:
    return sorted(path.name.removesuffix(_SPEC) for path in layout.specs.glob(f"*{_SPEC}"))


def _agents(layout: Layout, store: Reader) -> Iterable[str]:
    tables = [raw.get("agents") for _, _, raw in read_files(layout, os.environ)]
    names = [name for table in tables if isinstance(table, dict) for name in table]
    return dict.fromkeys([*names, "builtin"])


def _players(layout: Layout, store: Reader) -> Iterable[str]:
    return [f"{role}={name}" for role in ROLES for name in _agents(layout, store)]


def _missions(layout: Layout, store: Reader) -> Iterable[str]:
    return sorted(path.name for path in layout.missions.iterdir() if path.is_dir())


KINDS: dict[str, Callable[[Layout, Reader], Iterable[str]]] = {
    "run": _runs,
    "task": lambda layout, store: store.task_ids(),
    "spec": _specs,
    "agent": _agents,
    "player": _players,
    "lane": lambda layout, store: LANES,
    "budget": lambda layout, store: [f"{name}=" for name in BUDGETS],
    "item": lambda layout, store: [row.question_id for row in store.questions()],
    "action": lambda layout, store: get_args(Verb),
    "mission": _missions,
    "routine": lambda layout, store: sorted(it.stem for it in layout.routines.glob("*.sh")),
}
