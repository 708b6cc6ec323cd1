"""What a run remembers from step to step, and how that is said."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, NamedTuple

from treadle.ids import utc
from treadle.store.runs import RunRow
from treadle.store.store import Reader

Moved = Literal["landed", "undone"]


def commit_of(kv: Mapping[str, object], key: Moved) -> str | None:
    """Return the commit that landed or undid a run."""
    return _landing_field(kv, key, "commit")


def landed_commit(kv: Mapping[str, object]) -> str | None:
    """Return the commit in which the work is in the user's branch, unless it was undone."""
    return None if kv.get("undone") else commit_of(kv, "landed")


def landing_words(kv: Mapping[str, object]) -> list[str]:
    """Return a line for each thing that happened to the work after the run."""
    found = []
    if landed := commit_of(kv, "landed"):
        found.append(f"landed as {landed[:12]} on {_landing_field(kv, 'landed', 'branch')}")
    if undone := commit_of(kv, "undone"):
        found.append(f"undone by {undone[:12]} on {_landing_field(kv, 'undone', 'branch')}")
    if refused := _landing_field(kv, "land_refused", "message"):
        found.append(f"{_landing_field(kv, 'land_refused', 'what')} was refused: {refused}")
    return found


def _landing_field(kv: Mapping[str, object], key: str, name: str) -> str | None:
    found = kv.get(key)
    value = found.get(name) if isinstance(found, dict) else None
    return value if isinstance(value, str) else None


PROTECTED = "protected"
WAITS_FOR_APPROVAL = "protected_changed"  # the reason of a run that waits for a person's word
PROTECTED_DIFF = "protected.diff"
_NAMED = 20


class SecondLook(NamedTuple):
    """Protected files that a passing run changed, and what fails with those of the base."""

    files: tuple[str, ...]
    failing: tuple[str, ...]
    is_observed: bool

    @property
    def sentence(self) -> str:
        """Say what the base's own files show."""
        if not self.is_observed:
            return "no command shows whether the work passes without these changes"
        if self.failing:
            verb = "fail" if len(self.failing) > 1 else "fails"
            return f"with these files as the base has them, {', '.join(self.failing)} {verb}"
        return "with these files as the base has them the commands pass too"


def remembered_look(
    look: SecondLook, tree: str, step: str, *, is_refused: bool
) -> dict[str, object]:
    """Return what is kept of a second look: which tree it was about, and what it showed."""
    return {
        "files": list(look.files),
        "failing": list(look.failing),
        "sentence": look.sentence,
        "tree": tree,
        "diff": f"{step}/files/{PROTECTED_DIFF}",
        "refused": is_refused,
    }


def protected_files(kv: Mapping[str, object]) -> tuple[str, ...]:
    """Return the protected files that a run had changed when its last check passed."""
    names = _protected_field(kv, "files")
    return tuple(map(str, names)) if isinstance(names, list) else ()


def protected_names(kv: Mapping[str, object]) -> str:
    """Name the first twenty of them; an odd name is shown in quotes."""
    names = protected_files(kv)
    shown = [name if name.isprintable() else repr(name) for name in names[:_NAMED]]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(shown) + more


def protected_words(kv: Mapping[str, object]) -> str | None:
    """Say which protected files a run changed, and what the base's own ones show."""
    return (
        f"{protected_names(kv)}: {_protected_field(kv, 'sentence')}"
        if protected_files(kv)
        else None
    )


def protected_diff(kv: Mapping[str, object]) -> str | None:
    """Return where the difference of just these files can be read."""
    found = _protected_field(kv, "diff")
    return found if isinstance(found, str) else None


def protected_note(kv: Mapping[str, object]) -> str:
    """Tell the next agents that a change of protected files was not accepted."""
    if not _protected_field(kv, "refused"):
        return ""
    return (
        f"Not accepted: the commands pass only because of changes to {protected_names(kv)}, which"
        " decide what they check. Put these files back as they were and make the commands pass with"
        f" them; the difference is in {protected_diff(kv)}"
    )


def _protected_field(kv: Mapping[str, object], name: str) -> object:
    found = kv.get(PROTECTED)
    return found.get(name) if isinstance(found, dict) else None


def next_commands(row: RunRow, kv: Mapping[str, object]) -> tuple[str, ...]:
    """Return what a user would do now, as literal commands."""
    run_id, code = row.run_id, kv.get("reason_code")
    if row.status == "running":
        return (f"treadle log -f {run_id}", f"treadle stop {run_id}")
    if row.status == "passed":
        return _commands_after_pass(row, kv)
    again = f"treadle run {row.task_id}" if row.task_id else "treadle run --goal …"
    if row.status == "failed":
        return (f"treadle runs show {run_id}", again)
    if code == "queued":
        return (f"treadle log -f {run_id}", "treadle fleet status", f"treadle stop {run_id}")
    if code == "budget_exceeded":
        return (f"treadle run --resume {run_id} --budget {kv.get('budget_needed')}",)
    if code == WAITS_FOR_APPROVAL:
        go_on = f"treadle run --resume {run_id}"
        return (f"cat {protected_diff(kv)}", f"{go_on} --approve protected", go_on)
    if code == "no_progress":
        return (f"treadle run --resume {run_id} --agent act=NAME", again)
    return (f"treadle run --resume {run_id}",)


def _commands_after_pass(row: RunRow, kv: Mapping[str, object]) -> tuple[str, ...]:
    if landed := landed_commit(kv):
        return (f"git show {landed[:12]}", f"treadle undo {row.run_id}")
    look = f"git diff {(row.base_commit or '')[:12]}..{row.branch}"
    return (look, f"treadle land {row.run_id}")


RESUME_AT = "resume_at"
LANDS = "lands"  # whether a run that passes lands without being asked


def due_runs(store: Reader, now: datetime) -> list[RunRow]:
    """Return the stopped runs whose usage limit is over by now, oldest first."""
    found = (store.run(run_id) for run_id in store.runs_with_key(RESUME_AT))
    return [row for row in found if row and row.status == "stopped" and _is_over(store, row, now)]


def _is_over(store: Reader, row: RunRow, now: datetime) -> bool:
    at = store.kv_value(row.run_id, RESUME_AT)
    return isinstance(at, str) and at <= utc(now)
