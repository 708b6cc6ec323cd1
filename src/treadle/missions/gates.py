"""The gates of a mission: its spec and its plan must be committed and substantive."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from treadle.git import light
from treadle.git.light import Committed
from treadle.missions import substance
from treadle.missions.mission import Mission
from treadle.missions.substance import Kind

SENTENCES: dict[Kind, str] = {
    "spec": (
        "spec.md must be committed and substantive before the plan phase can begin. "
        "Populate Functional Requirements and commit, then re-run setup-plan."
    ),
    "plan": (
        "plan.md content is not substantive yet; populate Technical Context with real values "
        "and re-run setup-plan to commit."
    ),
}

Head = Mapping[str, Committed]


class Gate(NamedTuple):
    """One gate and what keeps it shut; nothing missing means that it is open."""

    kind: Kind
    missing: tuple[str, ...]

    @property
    def reason(self) -> str | None:
        """Return the sentence that says why it may not."""
        return SENTENCES[self.kind] if self.missing else None


def is_substantive(file_path: Path, kind: Kind) -> bool:
    """Tell whether a file has content of its own and is no scaffold."""
    text, _ = _read(file_path)
    return text is not None and not substance.missing(text, kind)


def is_committed(file_path: Path, repo_root: Path) -> bool:
    """Tell whether git tracks a file and the last commit has it."""
    name = file_path.relative_to(repo_root).as_posix()
    return _is_committed(light.read_head(repo_root, [name])[name])


def read_head(missions: Iterable[Mission]) -> Head:
    """Read specs and plans as the last commit has them, with one git process for all."""
    missions = list(missions)
    names = [m.name(path) for m in missions for path in (m.files.spec, m.files.plan)]
    return light.read_head(missions[0].root, names) if missions else {}


def judge(mission: Mission, head: Head, kind: Kind) -> Gate:
    """Hold a spec or plan against its gate: the file in the work tree, and the one committed."""
    path = mission.files.spec if kind == "spec" else mission.files.plan
    text, problem = _read(path)
    if text is None:
        return Gate(kind, (f"{path.name}: {problem}",))
    return Gate(kind, substance.missing(text, kind) or _uncommitted(mission, path, head, kind))


def _uncommitted(mission: Mission, path: Path, head: Head, kind: Kind) -> tuple[str, ...]:
    committed = head[mission.name(path)]
    if not _is_committed(committed):
        return (f"{path.name} is not committed",)
    text = (committed.content or b"").decode(errors="replace")
    if found := substance.missing(text, kind):
        return (f"{path.name} is written but not committed; the last commit has:", *found)
    return ()


def _is_committed(found: Committed) -> bool:
    return found.is_tracked and found.content is not None


def _read(path: Path) -> tuple[str | None, str]:
    """Return a file's text, or None and why there is none."""
    if not path.exists():
        return None, "this file does not exist"
    if not path.is_file():  # opening a pipe would wait for ever
        return None, "this is no file, but a folder or something else"
    try:
        return path.read_bytes().decode("utf-8"), ""
    except UnicodeDecodeError as error:
        return None, f"not UTF-8: byte {error.start} cannot be read; save it as UTF-8"
    except OSError as error:
        return None, f"this file cannot be read: {error.strerror}"
