"""What a run remembers of the protected files it changed, and how that is said."""

from collections.abc import Mapping
from typing import NamedTuple

KEY = "protected"
WAITS = "protected_changed"  # the reason of a run that waits for a person's word
DIFF = "protected.diff"
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


def remembered(look: SecondLook, tree: str, step: str, *, is_refused: bool) -> dict[str, object]:
    """Return what is kept of a second look: which tree it was about, and what it showed."""
    return {
        "files": list(look.files),
        "failing": list(look.failing),
        "sentence": look.sentence,
        "tree": tree,
        "diff": f"{step}/files/{DIFF}",
        "refused": is_refused,
    }


def files(kv: Mapping[str, object]) -> tuple[str, ...]:
    """Return the protected files that a run had changed when its last check passed."""
    names = _field(kv, "files")
    return tuple(map(str, names)) if isinstance(names, list) else ()


def named(kv: Mapping[str, object]) -> str:
    """Name the first twenty of them; an odd name is shown in quotes."""
    names = files(kv)
    shown = [name if name.isprintable() else repr(name) for name in names[:_NAMED]]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(shown) + more


def words(kv: Mapping[str, object]) -> str | None:
    """Say which protected files a run changed, and what the base's own ones show."""
    return f"{named(kv)}: {_field(kv, 'sentence')}" if files(kv) else None


def diff(kv: Mapping[str, object]) -> str | None:
    """Return where the difference of just these files can be read."""
    found = _field(kv, "diff")
    return found if isinstance(found, str) else None


def note(kv: Mapping[str, object]) -> str:
    """Tell the next agents that a change of protected files was not accepted."""
    if not _field(kv, "refused"):
        return ""
    return (
        f"Not accepted: the commands pass only because of changes to {named(kv)}, which decide"
        " what they check. Put these files back as they were and make the commands pass with them;"
        f" the difference is in {diff(kv)}"
    )


def _field(kv: Mapping[str, object], name: str) -> object:
    found = kv.get(KEY)
    return found.get(name) if isinstance(found, dict) else None
