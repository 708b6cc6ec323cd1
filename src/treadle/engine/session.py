"""What a working command holds: lock, store, keeper and signals; on entry it recovers."""

import contextlib
import gc
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from types import FrameType

from treadle.engine import lock
from treadle.engine.recovery import recover
from treadle.engine.run.progress import Watch
from treadle.engine.run.run import Tools
from treadle.errors import StoreError
from treadle.git import settings
from treadle.layout import Layout
from treadle.proc import helper
from treadle.proc.keeper import Keeper
from treadle.project.project import Project
from treadle.store import address
from treadle.store.store import Store

_NAMES = {signal.SIGINT: "SIGINT", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGTERM"}


class Interrupts:
    """Remembers the first signal; a second one ends the process at once."""

    def __init__(self) -> None:
        self.name: str | None = None

    def reason(self) -> str | None:
        """Return why the work must stop, or None."""
        return f"stopped by {self.name}" if self.name else None

    @contextlib.contextmanager
    def installed(self) -> Iterator["Interrupts"]:
        """Listen while the block runs."""
        before = {number: signal.signal(number, self._notice) for number in _NAMES}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            helper.forget_stop()

    def _notice(self, number: int, frame: FrameType | None) -> None:
        self.name = _NAMES[signal.Signals(number)]
        helper.note_stop()
        signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def opened(
    project: Project,
    *,
    watch: Watch,
    wait: bool = False,
    now: Callable[[], datetime] | None = None,
) -> Iterator[Tools]:
    """Hold the project while the block works; on entry whatever crashed before is recovered."""
    gc.enable()
    interrupts = Interrupts()
    with contextlib.ExitStack() as stack:
        dead = stack.enter_context(lock.hold(project.layout, wait=wait))
        store = stack.enter_context(contextlib.closing(open_store(project.layout, watch, now)))
        keeper = stack.enter_context(Keeper())
        stack.enter_context(interrupts.installed())
        tools = Tools(
            project=project,
            store=store,
            keeper=keeper,
            git_settings=settings.read(project.repo),
            now=now or store.now,
            interrupted=interrupts.reason,
            watch=watch,
        )
        recover.recover(tools, dead)
        yield tools


def open_store(layout: Layout, watch: Watch, now: Callable[[], datetime] | None = None) -> Store:
    """Open the store; one that is lost or damaged is rebuilt from the run folders."""
    lost = not address.exists(layout)
    try:
        store = Store.open(layout)
    except StoreError as error:
        if error.code != "store_damaged":
            raise
        set_aside(layout)
        store, lost = Store.open(layout), True
    if lost:
        recover.rebuild(store, layout, now or store.now, watch)
    return store


def set_aside(layout: Layout) -> None:
    """Keep a damaged database under another name for whoever wants to look at it."""
    stamp = datetime.now(UTC).strftime("%Y%m%d%H%M%S")
    for suffix in ("", "-wal", "-shm"):
        old = layout.database.with_name(layout.database.name + suffix)
        if old.exists():
            old.replace(old.with_name(f"{old.name}.damaged-{stamp}"))
