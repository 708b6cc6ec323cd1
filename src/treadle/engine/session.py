"""What a working command holds: lock, store, keeper and signals; on entry it recovers."""

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from treadle.engine import lock, notices
from treadle.engine.checks import clean
from treadle.engine.interrupts import Interrupts
from treadle.engine.recovery import recover
from treadle.engine.run.memory import Watch
from treadle.engine.run.run import Tools
from treadle.errors import ProjectError, StoreError, TreadleError
from treadle.git import repo
from treadle.layout import Layout
from treadle.proc.keeper import Keeper
from treadle.project.context import Context
from treadle.store.store import Store

_PAUSE = 0.2


@contextlib.contextmanager
def opened(
    project: Context, *, watch: Watch, wait: bool = False, now: Callable[[], datetime] | None = None
) -> Iterator[Tools]:
    """Hold the project while the block works; on entry whatever crashed before is recovered."""
    interrupts = Interrupts()
    with contextlib.ExitStack() as stack:
        held = stack.enter_context(lock.hold(project.layout, wait=wait))
        stack.enter_context(_said_if_deleted(project.layout))
        store = stack.enter_context(contextlib.closing(open_store(project.layout)))
        _wait_alone(store, wait)
        keeper = stack.enter_context(Keeper())
        stack.enter_context(interrupts.installed())
        tools = Tools(
            project=project,
            store=store,
            keeper=keeper,
            git_settings=repo.read_settings(project.repo),
            now=now or store.now,
            interrupted=lambda: interrupts.reason() or held.lost(),
            watch=watch,
        )
        recover.recover(tools, held.last)
        notices.take_failures(tools)
        begun = tools.now()
        yield tools
        clean.bound_workspaces(tools)
        notices.asked_since(tools, begun)
        notices.take_failures(tools)


@contextlib.contextmanager
def beside(project: Context, store: Store) -> Iterator[Tools]:
    """Work beside whoever holds the project: commands are run, no run is driven or recovered."""
    with Keeper() as keeper, Interrupts().installed() as interrupts:
        yield Tools(
            project=project,
            store=store,
            keeper=keeper,
            git_settings=repo.read_settings(project.repo),
            now=store.now,
            interrupted=interrupts.reason,
            watch=lambda moment: None,
        )


def _wait_alone(store: Store, wait: bool) -> None:
    """See to it that nobody else drives runs here, which a deleted lock would let happen."""
    while other := lock.other_driver(store.running()):
        if not wait:
            raise other
        time.sleep(_PAUSE)


@contextlib.contextmanager
def _said_if_deleted(layout: Layout) -> Iterator[None]:
    """Say in words that somebody deleted what the block works in."""
    try:
        yield
    except (OSError, TreadleError) as error:
        gone = _deleted(layout, str(getattr(error, "filename", None) or ""))
        if gone is None:
            raise
        text = f"{layout.shown(gone)} was deleted while treadle worked in it"
        text = f"{text}; what was not committed is lost"
        fix = ["treadle doctor --repair"]
        raise ProjectError(text, code="project_gone", fix=fix) from error


def _deleted(layout: Layout, named: str) -> Path | None:
    """Return the folder that somebody deleted, if that is why a file could not be found."""
    if not layout.home.is_dir():
        return layout.home
    inside, above, rest = named.partition(f"{layout.runs}/")
    run = layout.run(rest.partition("/")[0])
    return run.folder if above and not inside and not run.run_json.exists() else None


def open_store(layout: Layout) -> Store:
    """Open the store; a damaged one is set aside, and recovery fills the new one from `runs/`."""
    try:
        return Store.open(layout)
    except StoreError as error:
        if error.code != "store_damaged":
            raise
    set_aside(layout)
    return Store.open(layout)


def set_aside(layout: Layout) -> None:
    """Keep a damaged database under another name for whoever wants to look at it."""
    stamp = datetime.now(UTC).strftime("%Y%m%d%H%M%S")
    for suffix in ("", "-wal", "-shm"):
        old = layout.database.with_name(layout.database.name + suffix)
        if old.exists():
            old.replace(old.with_name(f"{old.name}.damaged-{stamp}"))
