"""Trouble that passes: wait for it, keep what is finished, and leave runs to other workers."""

import contextlib
import errno
import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from threading import Event, Lock, Thread
from typing import NamedTuple, TypeVar

from treadle.contract.events import StepError
from treadle.engine.elsewhere import archive
from treadle.engine.elsewhere.archive import Shelf
from treadle.errors import GitError, StoreError, TreadleError
from treadle.files import atomic
from treadle.files.walk import names
from treadle.git import call
from treadle.proc import sweep
from treadle.proc.keeper import Keeper

T = TypeVar("T")

# What may lie in the run itself: it is not tried for ever. Each try works in a clone of its own.
COUNTED = (StepError.AGENT_LOST, StepError.MAY_STILL_RUN, "git_killed")
# What another try, or another worker, need not meet: it lies with this machine or its lines.
_PASSING = (
    *("remote_failed", "artifacts_failed", "no_sandbox", "extra_missing", "fleet_key_missing"),
    *("fleet_key_unfit", *COUNTED, *call.BEFALLS),
)
# What may lie with one project: its repository or its archives are gone.
_OF_PROJECT = ("remote_failed", "artifacts_failed")
_FAILURES = 3  # of one kind in a row, after which a worker leaves runs to others
_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_QUARANTINE = 10.0
_ROOM = 1 << 20


def kind_of(error: Exception) -> str | None:
    """Name a kind of trouble that passes, or that other workers need not have; else None."""
    if isinstance(error, TreadleError) and error.code in _PASSING:
        return error.code
    found = error.__cause__ if isinstance(error, StoreError | GitError) else error
    if isinstance(found, OSError):
        return errno.errorcode.get(found.errno or 0, type(found).__name__).lower()
    return None


def wait_out(do: Callable[[], T], patience: float, leaving: Event, say: Callable[[str], None]) -> T:
    """Do something again and again, after growing pauses, until trouble has passed.

    Raise it when patience is at its end, or the worker leaves.
    """
    until, pause = time.monotonic() + patience, _PAUSE
    while True:
        try:
            return do()
        except (TreadleError, OSError) as error:
            if kind_of(error) is None or time.monotonic() + pause > until or leaving.is_set():
                raise
            say(f"waits for {patience:.0f} s at most: {error}")
        leaving.wait(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


class Room:
    """Remembers when a folder's disk was full: whatever works there then may be spoilt by that,
    and neither agents nor git need say so, for their words find no room either."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._full_at = -math.inf

    def was_full(self, since: float = 0.0) -> bool:
        """Look, and tell whether it was full at any look since then."""
        with contextlib.suppress(OSError):
            found = os.statvfs(self._folder)
            if found.f_bavail * found.f_frsize < _ROOM:
                self._full_at = time.monotonic()
        return self._full_at >= since


class Failures(NamedTuple):
    """Failures of one kind in a row, and until when they keep a worker from runs."""

    kind: str
    times: int
    until: float
    words: str


class Fitness:
    """How a worker fares: it leaves runs to others for a while when it only fails.

    What may lie with a project, such as its repository, keeps it from that project's runs alone,
    unless it fails with others, too.
    """

    def __init__(self, patience: float, say: Callable[[str], None]) -> None:
        self._longest = max(patience, _PAUSE)
        self._say = say
        self._lock = Lock()
        self._found: dict[str, Failures] = {}
        self._row: set[str] = set()  # projects since anything went well
        self.failures = 0

    @property
    def trouble(self) -> str | None:
        """Say why the worker leaves runs to others at the moment, all or some."""
        with self._lock:
            return next(filter(None, map(self.trouble_of, self._found)), None)

    def trouble_of(self, project: str = "") -> str | None:
        """Say why the worker takes no runs of a project; without one, why it takes none at all."""
        found = self._found.get(project)
        return found.words if found and time.monotonic() < found.until else None

    def failed(self, kind: str, message: str, project: str = "") -> None:
        """Count a failure; three of a kind in a row, and each one after that, make a quarantine."""
        with self._lock:
            self._row.add(project)
            whose = project if kind in _OF_PROJECT and len(self._row) < _FAILURES else ""
            before = self._found.get(whose)
            times = before.times + 1 if before and before.kind == kind else 1
            self.failures += 1
            pause = min(_QUARANTINE * 2 ** max(times - _FAILURES, 0), self._longest)
            until = time.monotonic() + pause if times >= _FAILURES else 0.0
            words = f"{kind}{f' with {whose}' if whose else ''}: {message}"
            self._found[whose] = Failures(kind, times, until, words)
        if until:
            runs = f"no runs of {whose}" if whose else "no runs"
            self._say(f"takes {runs} for {pause:.0f} s after {times} failures: {words}")

    def worked(self, project: str) -> None:
        """Note that something went well: whatever was wrong has passed."""
        with self._lock:
            self._row.clear()
            for whose in ("", project):
                self._found.pop(whose, None)


def park(folder: Path, url: str, name: str, data: bytes) -> None:
    """Keep a finished step's archive on this machine until it can be uploaded."""
    folder.mkdir(parents=True, exist_ok=True)
    head = json.dumps({"artifacts": url, "name": name}).encode()
    atomic.write(folder / name.replace("/", "~"), head + b"\n" + data)


def upload_parked(folder: Path) -> None:
    """Upload what was kept; a worker that goes on with the run finds it, unless it came first."""
    for kept in sorted(names(folder)):
        with contextlib.suppress(TreadleError, OSError, ValueError):
            head, _, data = (folder / kept).read_bytes().partition(b"\n")
            place = json.loads(head)
            archive.put(Shelf(place["artifacts"]), place["name"], data)
            (folder / kept).unlink()


class Standstill(Thread):
    """Stops what a worker started while it cannot know whether its runs are still its own.

    Another worker may have them by now. If they are its own after all, their agents go on where
    they stood; if not, they end with the worker.
    """

    def __init__(
        self, keeper: Keeper, silence: Callable[[], float], after: float, say: Callable[[str], None]
    ) -> None:
        super().__init__(name="standstill", daemon=True)
        self._keeper, self._silence, self._after, self._say = keeper, silence, after, say
        self._over = Event()

    def run(self) -> None:
        """Look at the beats; whatever is started during a silence is stopped as well."""
        stands = False
        while not self._over.wait(min(self._after / 5, 1.0)):
            is_cut_off = self._silence() >= self._after
            if is_cut_off != stands:
                self._say("stops its agents until it beats again" if is_cut_off else "goes on")
            if is_cut_off or stands:
                self._signal(SIGSTOP if is_cut_off else SIGCONT)
            stands = is_cut_off

    def end(self) -> None:
        """Look no more; nothing is left standing."""
        self._over.set()
        self.join()
        self._signal(SIGCONT)

    def _signal(self, number: int) -> None:
        """Leave out the keeper and its shims, which see to it that nothing outlives the worker."""
        keeper = self._keeper.pid
        for pid, parent, *_ in sweep.doomed(sweep.rows(), keeper, 0, set()) if keeper else ():
            if parent != keeper:
                sweep.send(pid, number)
