"""Index a mission's artifacts in a derived file that git ignores and nothing waits for."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from treadle.files import atomic
from treadle.ids import utc
from treadle.missions import taskfile
from treadle.missions.mission import Mission

_ANY_TASK = "tasks/WP*.md"
_OWN = ".kittify"


class Artifact(NamedTuple):
    """One file of a mission."""

    path: str
    sha256: str
    size: int
    required: bool


class Saved(NamedTuple):
    """A snapshot, where it lies, and whether it had to be written."""

    snapshot: Mapping[str, object]
    path: Path
    is_new: bool


def save(mission: Mission, now: datetime) -> Saved:
    """Compute the snapshot and write it, unless the one that is there says the same."""
    path = mission.files.snapshot
    snapshot = compute(mission, now)
    known = load(path)
    if known is not None and _content(known) == _content(snapshot):
        return Saved(known, path, False)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, (json.dumps(snapshot, indent=2) + "\n").encode())
    return Saved(snapshot, path, True)


def load(path: Path) -> Mapping[str, object] | None:
    """Return the snapshot that was saved; None if there is none, or it is damaged."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def compute(mission: Mission, now: datetime) -> dict[str, object]:
    """Return the index of a mission's artifacts."""
    artifacts = sorted(_artifacts(mission))
    components = [f"{item.path}\t{item.sha256}" for item in artifacts]
    parity = "sha256:" + hashlib.sha256("\n".join(components).encode()).hexdigest()
    required = [item.path for item in artifacts if item.required]
    needed = (mission.files.spec.name, mission.files.plan.name)
    missing = [name for name in needed if name not in required]
    missing += [] if taskfile.names(mission) else [_ANY_TASK]
    optional = len(artifacts) - len(required)
    return {
        "mission_slug": mission.slug,
        "snapshot_id": parity.removeprefix("sha256:")[:16],
        "total_artifacts": len(artifacts),
        "required_artifacts": len(required) + len(missing),
        "required_present": len(required),
        "required_missing": missing,
        "optional_artifacts": optional,
        "optional_present": optional,
        "completeness_status": _completeness(artifacts, missing),
        "parity_hash_sha256": parity,
        "parity_hash_components": components,
        "artifact_summaries": [item._asdict() for item in artifacts],
        "computed_at": utc(now),
    }


def _completeness(artifacts: list[Artifact], missing: list[str]) -> str:
    if not artifacts:
        return "unknown"
    return "incomplete" if missing else "complete"


def _artifacts(mission: Mission) -> Iterator[Artifact]:
    folder = mission.files.folder
    tasks = {f"tasks/{name}" for name in taskfile.names(mission).values()}
    needed = (mission.files.spec.name, mission.files.plan.name)
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not path.is_file() or name.split("/")[0] == _OWN:
            continue
        data = path.read_bytes()
        is_required = name in needed or name in tasks
        yield Artifact(name, hashlib.sha256(data).hexdigest(), len(data), is_required)


def _content(snapshot: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in snapshot.items() if key != "computed_at"}
