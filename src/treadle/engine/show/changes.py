"""What a run has changed since its base, and which of it deserves a closer look."""

from collections.abc import Mapping
from typing import NamedTuple

from treadle.engine.checks import protected
from treadle.engine.show import view
from treadle.engine.show.verdicts import by_id, text
from treadle.errors import GitError
from treadle.git import judge, trees
from treadle.layout import Layout
from treadle.project.context import Context
from treadle.store.runs import RunRow

_RISKS = {
    "treadle_config": "configures treadle",
    "work": "is work that agents are given",
    "config": "steers tools",
    "hook": "is a hook",
}


class RunChanges(NamedTuple):
    """The whole change of a run as a patch, and why some of its files stand out."""

    base: str
    head: str
    patch: bytes
    flags: Mapping[str, str]

    @property
    def command(self) -> str:
        """Return the command that shows the same."""
        return f"git diff {self.base[:12]} {self.head[:12]}"


def run_changes(project: Context, row: RunRow) -> RunChanges | None:
    """Return what lies between a run's base and its head; None if that can no longer be read."""
    if not row.base_commit or not row.head_commit:
        return None
    base, head = row.base_commit, row.head_commit
    try:
        patch = trees.diff_text(project.repo, base, head)
        return RunChanges(base, head, patch, _flags(project, row, base, head))
    except GitError:
        return None


def _flags(project: Context, row: RunRow, base: str, head: str) -> dict[str, str]:
    """Say of each file that decides the checks, or is risky to change, why it is."""
    repo, (commands, globs, setup) = project.repo, _asked(project.layout, row.run_id)
    found = {
        it.path: f"protected: {it.reason}"
        for it in protected.find(repo, base, head, commands, globs, setup).files
    }
    for change in trees.changed_files(repo.place, base, head):
        reason = judge.risk(change, (), repo.prefix)
        if reason and change.path not in found:
            found[change.path] = f"risky: {_RISKS.get(reason, reason)}"
    return found


def _asked(layout: Layout, run_id: str) -> tuple[list[str], list[str], list[str]]:
    """Return the commands of a run's criteria, the globs it protects, and its setup."""
    order = view.asked_order(layout, run_id)
    criteria = by_id(order.get("criteria")).values()
    commands = [it for item in criteria if (it := text(item.get("verify")))]
    globs, setup = (
        _words(order, *keys) for keys in (("checks", "protect"), ("workspace", "setup"))
    )
    return commands, globs, setup


def _words(order: Mapping[str, object], table: str, key: str) -> list[str]:
    found = order.get(table)
    words = found.get(key) if isinstance(found, dict) else None
    return [str(word) for word in words] if isinstance(words, list) else []
