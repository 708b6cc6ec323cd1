"""Index a mission's files in a snapshot that spec-kitty loads, and load the ones it wrote."""

import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from treadle import frontmatter
from treadle.errors import FormatError
from treadle.files import atomic
from treadle.frontmatter import Value
from treadle.ids import utc
from treadle.missions import taskfile
from treadle.missions.mission import Mission

_ANY_TASK = "tasks/WP*.md"
_COUNTS = (
    *("total_artifacts", "required_artifacts", "required_present", "required_missing"),
    *("optional_artifacts", "optional_present"),
)
# What spec-kitty calls evidence; whatever has no class of its own is "other".
_EVIDENCE = ("research", "gap-analysis", "quickstart", "data-model")
# A task's content is what its author wrote in these fields. Lanes and agents change while the work
# goes on, and spec-kitty leaves them out of the hash; both programs must come to the same one.
_TEXTS = (
    *("work_package_id", "title", "priority", "execution_mode", "authoritative_surface", "scope"),
    *("task_type", "phase"),
)
_LISTS = (
    *("dependencies", "requirement_refs", "tracker_refs", "owned_files", "create_intent"),
    "subtasks",
)


class Artifact(NamedTuple):
    """One file of a mission, or one that is required and not there."""

    artifact_key: str
    artifact_class: str
    relative_path: str
    content_hash_sha256: str
    size_bytes: int
    wp_id: str | None
    step_id: str | None
    required_status: str
    is_present: bool
    error_reason: str | None
    indexed_at: str
    provenance: Mapping[str, str] | None = None


class SavedDossier(NamedTuple):
    """A snapshot, where it lies, and whether it had to be written."""

    snapshot: Mapping[str, object]
    path: Path
    is_new: bool


def save_dossier(mission: Mission, now: datetime) -> SavedDossier:
    """Compute the snapshot and write it, unless the one that is there says the same."""
    path = mission.files.snapshot
    snapshot = compute_dossier(mission, now)
    known = load_dossier(path)
    if known and _told(known) == _told(snapshot):
        return SavedDossier(known, path, False)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, (json.dumps(snapshot, indent=2) + "\n").encode())
    return SavedDossier(snapshot, path, True)


_SAYS = ("mission_slug", "parity_hash_sha256", "completeness_status")


def load_dossier(path: Path) -> Mapping[str, object] | None:
    """Return the snapshot that was saved; None if there is none, or it is damaged."""
    try:
        found = json.loads(path.read_bytes())
        is_sound = (
            all(type(found[key]) is int for key in _COUNTS)
            and all(isinstance(found[key], str) for key in (*_SAYS, "snapshot_id", "computed_at"))
            and found["total_artifacts"] == len(found["artifact_summaries"])
            and found["parity_hash_sha256"] == _parity(found["artifact_summaries"])
        )
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return None
    return found if is_sound else None


def _told(snapshot: Mapping[str, Any]) -> tuple[object, ...]:
    """Return what two snapshots that say the same agree in, whoever wrote them.

    Sizes, because words below a task's fields are in no hash.
    """
    sizes = {it["relative_path"]: it["size_bytes"] for it in snapshot["artifact_summaries"]}
    return (sizes, *(snapshot[key] for key in _SAYS))


def _parity(summaries: Iterable[Mapping[str, object]]) -> str:
    present = (item for item in summaries if item["is_present"])
    lines = sorted(f"{item['relative_path']}\t{item['content_hash_sha256']}" for item in present)
    data = "\n".join(lines).encode(errors="surrogateescape")
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def missing_artifacts(mission: Mission) -> list[str]:
    """Return the required files that are not there or cannot be read."""
    return [item.relative_path for item in _artifacts(mission, "") if _is_missing(item)]


def _is_missing(item: Artifact) -> bool:
    return item.required_status == "required" and not item.is_present


def compute_dossier(mission: Mission, now: datetime) -> dict[str, object]:
    """Return the index of a mission's artifacts, sorted by key."""
    artifacts = sorted(_artifacts(mission, utc(now)))
    summaries = [item._asdict() for item in artifacts]
    parity = _parity(summaries)
    present = [item for item in artifacts if item.is_present]
    required = [item for item in artifacts if item.required_status == "required"]
    missing = sum(map(_is_missing, artifacts))
    optional = len(artifacts) - len(required)
    status = "incomplete" if missing else "complete"
    return {
        "mission_slug": mission.slug,
        "snapshot_id": str(uuid.uuid5(uuid.NAMESPACE_OID, parity)),
        "total_artifacts": len(artifacts),
        "required_artifacts": len(required),
        "required_present": len(required) - missing,
        "required_missing": missing,
        "optional_artifacts": optional,
        "optional_present": len(present) - len(required) + missing,
        "completeness_status": status if present else "unknown",
        "parity_hash_sha256": parity,
        "parity_hash_components": sorted(item.content_hash_sha256 for item in present),
        "artifact_summaries": summaries,
        "computed_at": utc(now),
    }


def _artifacts(mission: Mission, now: str) -> Iterator[Artifact]:
    """Yield every file that is not hidden, and what stands for those that are missing."""
    folder = mission.files.folder
    tasks = {f"tasks/{name}": id_ for id_, name in taskfile.task_names(mission).items()}
    found = set()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not path.is_file() or "/." in f"/{name}":
            continue
        found.add(name)
        yield _artifact(mission, name, tasks.get(name), now)
    needed = [mission.files.spec.name, mission.files.plan.name, *([] if tasks else [_ANY_TASK])]
    for name in needed:
        if name not in found:
            known = _described(mission, name, None)
            yield Artifact(*known[:3], "", 0, None, *known[3:], False, "not_found", now)


def _artifact(mission: Mission, name: str, id_: str | None, now: str) -> Artifact:
    known = _described(mission, name, id_)
    data, wrong = b"", "unreadable"
    try:
        data = (mission.files.folder / name).read_bytes()
        data.decode()
        content = _content(data) if id_ else data
        wrong = ""
    except OSError:
        content = b""
    except UnicodeDecodeError:
        content, wrong = b"", "invalid_utf8"
    digest = "" if wrong else hashlib.sha256(content).hexdigest()
    return Artifact(*known[:3], digest, len(data), id_, *known[3:], not wrong, wrong or None, now)


def _described(
    mission: Mission, name: str, id_: str | None
) -> tuple[str, str, str, str | None, str]:
    """Return a file's key, class, path, step, and whether a mission needs it."""
    files, stem = mission.files, name.removesuffix(".md")
    if name == files.spec.name:
        return "input.spec.main", "input", name, "specify", "required"
    if name == files.plan.name:
        return "output.plan.main", "output", name, "plan", "required"
    if id_ or name == _ANY_TASK:
        return f"output.tasks.{(id_ or 'per_wp').lower()}", "output", name, "tasks", "required"
    if stem in _EVIDENCE:
        return f"evidence.{stem}", "evidence", name, None, "optional"
    key = re.sub(r"[^a-z0-9_-]+", ".", name.lower()).strip(".")
    return f"artifact.{key}", "other", name, None, "optional"


def _content(data: bytes) -> bytes:
    """Return what is hashed of a task's file: its authored fields, else all of it."""
    try:
        fields, _ = frontmatter.read(data)
    except FormatError:
        return data
    if "work_package_id" not in fields:
        return data
    authored = {key: _text(fields.get(key, "")) for key in _TEXTS}
    authored |= {key: _items(fields.get(key, "")) for key in _LISTS}
    text = json.dumps(authored, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode(errors="replace")


def _text(value: Value) -> Value | None:
    return None if value in ("", "~", "null") else value


def _items(value: Value) -> Value:
    if not isinstance(value, str):
        return value
    return [] if value == "[]" else [item.strip() for item in value.split(",") if item.strip()]
