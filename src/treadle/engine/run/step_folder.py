"""Prepare the folder a step works in, and close it when its agent is gone."""

import functools
import os
import secrets
import stat
import time
from pathlib import Path

from msgspec import Struct

from treadle.agents import growth
from treadle.contract import Role
from treadle.engine.run.run import Run
from treadle.files import atomic, beneath, walk
from treadle.ids import utc
from treadle.layout import (
    EVENTS,
    GROWTH,
    INPUT_JSON,
    OUTPUT_JSON,
    PATCH,
    PROMPT,
    STDERR,
    STDOUT,
    STEP_JSON,
    WORKSPACE_DIFF,
    RunLayout,
)
from treadle.sandbox.mask import MASKED, Mask

OUTBOX = "outbox"

# Names in a step's folder that treadle writes itself once the agent is dead.
_OWN = (
    *(INPUT_JSON, OUTPUT_JSON, STEP_JSON, "logs", "attempts"),
    *("files/checks", f"files/{WORKSPACE_DIFF}"),
)

# What an agent prints, and what is seen of a run's checks, while they work.
_SAID, _CHECKS = (STDOUT, STDERR), "checks"

# What a tool was asked in words, what it told while it worked, and when it printed.
_SPOKEN = (PROMPT, EVENTS, GROWTH)


class Stage(Struct, frozen=True, kw_only=True, dict=True):
    """A step's folder before it is committed as `final`, and treadle's own captures beside it."""

    index: int
    role: Role
    iteration: int
    folder: Path
    final: Path
    live: Path
    started_at: str
    started: float

    @property
    def checks(self) -> Path:
        """Return where logs of observed checks go while they run."""
        return self.live / _CHECKS

    @functools.cached_property
    def outbox(self) -> Path:
        """Return where agents leave letters, and routines what is to follow."""
        return self.folder / OUTBOX

    @property
    def scratch(self) -> Path:
        """Return where a change is built before it is judged."""
        return self.live / "scratch"

    @property
    def patch(self) -> Path:
        """Return where an act agent leaves its patch."""
        return self.folder / PATCH

    def seconds(self) -> float:
        """Return how long this step has worked."""
        return time.monotonic() - self.started


def open_stage(run: Run, role: Role) -> Stage:
    """Make the folder of the next step under its temporary name."""
    index = run.row.current_step_index + 1
    beneath.empty(run.folder.live)
    folder = run.folder.staged(index, role, secrets.token_hex(4))
    folder.mkdir(parents=True)
    return Stage(
        index=index,
        role=role,
        iteration=run.row.iteration,
        folder=folder,
        final=run.folder.step(index, role),
        live=run.folder.live,
        started_at=utc(run.tools.now()),
        started=time.monotonic(),
    )


def lay_out(stage: Stage, request: bytes, *, has_outbox: bool) -> None:
    """Put into an empty folder what its agent finds there; logs of checks are copies."""
    atomic.create(f"{stage.folder}/{INPUT_JSON}", request)
    if has_outbox:
        stage.outbox.mkdir()
    if stage.role != "check" or not stage.checks.is_dir():
        return
    shown = stage.folder / "files" / _CHECKS
    shown.mkdir(parents=True)
    for entry in walk.walk(stage.checks):
        if not entry.is_folder and "/" not in entry.path:
            atomic.create(shown / entry.path, (stage.checks / entry.path).read_bytes())


def close_stage(stage: Stage, request: bytes, output: bytes | None, mask: Mask) -> list[walk.Entry]:
    """Put treadle's own files in place of whatever stands there; return all that is in it."""
    if walk.is_folder(stage.outbox) and not walk.names(stage.outbox):
        stage.outbox.rename(f"{stage.live}/{OUTBOX}")  # quicker than deleting it
    # Some file systems take `Logs` for `logs`.
    there = {name.lower() for name in walk.names(stage.folder)}
    for name in _OWN:
        if name.partition("/")[0] in there:
            beneath.remove(stage.folder, name)
    atomic.create(f"{stage.folder}/{INPUT_JSON}", request)
    if output is not None:
        atomic.create(f"{stage.folder}/{OUTPUT_JSON}", output)
    _take_captures(stage)
    entries = _without_secret_names(stage.folder, walk.walk(stage.folder), mask)
    for entry in entries:
        if entry.size and entry.path != INPUT_JSON:  # that stays as it was sent
            growth.shorten(stage.folder, entry.path, mask.file_in(stage.folder, entry.path))
    return entries


def _without_secret_names(folder: Path, entries: list[walk.Entry], mask: Mask) -> list[walk.Entry]:
    """Give files and folders whose names hold a secret names without it; return what is there."""
    odd = [entry.path for entry in entries if mask.text(entry.path) != entry.path]
    for path in sorted(odd, key=lambda path: path.count("/"), reverse=True):
        above, _, name = path.rpartition("/")
        shown = mask.text(name)
        if shown == name:  # a secret with a slash, or one further up
            shown = name if mask.text(above) != above else MASKED
        _rename(folder / above, name, shown)
    return walk.walk(folder) if odd else entries


def _rename(folder: Path, name: str, shown: str) -> None:
    there, number, free = walk.names(folder), 1, shown
    while free in there and free != name:
        number += 1
        free = f"{shown}~{number}"
    os.rename(folder / name, folder / free)


def open_up(folder: Path) -> list[str]:
    """Let treadle read again what an agent closed even to its owner; return the names of it.

    What is gone, lies too deep or is a link in the folder's place is told by the walk that follows.
    """
    found: list[str] = []
    if folder.is_symlink():
        return found
    _open_up(folder, folder, found)
    for above, inner, names in os.walk(folder):
        for name in (*inner, *names):
            _open_up(folder, Path(above, name), found)
    return found


def _open_up(folder: Path, path: Path, found: list[str]) -> None:
    try:
        state = path.lstat()
    except OSError:
        return
    is_folder = stat.S_ISDIR(state.st_mode)
    needed = 0o700 if is_folder else 0o400
    # A file with another name may lie anywhere, so its rights are not ours to change.
    is_ours = is_folder or (stat.S_ISREG(state.st_mode) and state.st_nlink == 1)
    if is_ours and state.st_mode & needed != needed:
        path.chmod(stat.S_IMODE(state.st_mode) | needed)
        found.append(path.relative_to(folder).as_posix())


def remove_staged(folder: RunLayout) -> None:
    """Remove what steps that never came to their end have left."""
    for name in walk.names(folder.steps):
        if ".tmp-" in name:
            beneath.remove_tree(folder.steps / name)


def discard_contents(stage: Stage) -> None:
    """Empty the folder of a step whose agent left something that must not be kept."""
    beneath.remove_tree(stage.folder)
    stage.folder.mkdir()


def set_apart(run: Run, stage: Stage) -> None:
    """Leave the folder to whoever may still write in it; what it was is not looked at.

    Rights hang on a folder, not on its name, so the one made anew is out of their reach.
    """
    run.folder.abandoned.mkdir(exist_ok=True)
    os.rename(stage.folder, run.folder.abandoned / stage.folder.name)
    stage.folder.mkdir()


def _take_captures(stage: Stage) -> None:
    """Move treadle's captures in; the folder of logs is filled before anybody could reach it."""
    live, folder, there = str(stage.live), stage.folder, sorted(walk.names(stage.live))
    logs = f"{live}/logs"
    os.mkdir(logs)
    for name in (*_SAID, *_SPOKEN):
        if name in there:
            os.rename(f"{live}/{name}", f"{logs}/{name}")
        elif name in _SAID:
            atomic.create(f"{logs}/{name}", b"")
    beneath.take(logs, folder, "logs")
    if "attempts" in there:
        beneath.take(f"{live}/attempts", folder, "attempts")
    for name in there:
        if name == _CHECKS or name.endswith(".diff"):
            beneath.take(f"{live}/{name}", folder, f"files/{name}")


MESSAGE_FILE = "message.md"


def message_environment(run: Run, stage: Stage) -> dict[str, str]:
    """Return what a run that carries out a message tells its children about it."""
    message, script = run.order.message, run.order.script
    if message is None:
        return {}
    outbox = {"TREADLE_OUTBOX": str(stage.outbox)}
    if script is None:
        return outbox
    root, folder = run.tools.layout.root, str(run.folder.message)
    input_file = str(root / message.input_file) if message.input_file else ""
    return {
        **outbox,
        **script.env,
        "spec_file": input_file if message.type == "spec" else "",
        "message_file": f"{folder}/{MESSAGE_FILE}",
        "message_id": message.id,
        "message_dir": folder,
        "chain": message.chain,
        "seq": str(message.seq),
        "input_file": input_file,
    }
