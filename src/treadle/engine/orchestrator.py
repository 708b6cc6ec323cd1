"""Open everything a working command needs: lock, store, keeper, recovery."""

import contextlib
import gc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from treadle.engine import lock, rebuild, recover
from treadle.engine.progress import Watch
from treadle.engine.run import Tools
from treadle.engine.signals import Interrupts
from treadle.errors import StoreError
from treadle.git import settings
from treadle.layout import Layout
from treadle.proc.keeper import Keeper
from treadle.project.project import Project
from treadle.store import address
from treadle.store.store import Store


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
        rebuild.rebuild(store, layout, now or store.now, watch)
    return store


def set_aside(layout: Layout) -> None:
    """Keep a damaged database under another name for whoever wants to look at it."""
    stamp = datetime.now(UTC).strftime("%Y%m%d%H%M%S")
    for suffix in ("", "-wal", "-shm"):
        old = layout.database.with_name(layout.database.name + suffix)
        if old.exists():
            old.replace(old.with_name(f"{old.name}.damaged-{stamp}"))
