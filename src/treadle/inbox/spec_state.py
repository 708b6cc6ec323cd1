"""Where every spec stands, and what a person does about one: try it again, or leave it out."""

import contextlib
from datetime import datetime
from typing import NamedTuple

from treadle.engine.landing import tracker
from treadle.engine.run import memory
from treadle.engine.run.run import reach
from treadle.engine.show import ends
from treadle.errors import BlockedError, FormatError, NotFoundError, argument
from treadle.ids import utc
from treadle.inbox import box, specs
from treadle.inbox.known import InboxView
from treadle.inbox.spec_choice import SpecState, decide_spec
from treadle.layout import Layout
from treadle.store.messages import MessageRow, waiting
from treadle.store.store import Store


class SpecView(NamedTuple):
    """One spec: where it stands since when, its newest run, why, and the command that goes on."""

    name: str
    state: SpecState
    run_id: str | None
    since: str | None
    reason: str
    next: str | None


def spec_views(view: InboxView) -> list[SpecView]:
    """Return every spec, in the order they are worked on; those that are listed come first."""
    found = specs.names(view.layout)
    done = [*sorted(name for name in view.processed if name not in found)]
    done += [name for name in found if name in view.processed]
    left = [look(view, name) for name in found if name not in view.processed]
    return [*(_look_back(view, name) for name in done), *left]


def specs_document(found: list[SpecView]) -> dict[str, object]:
    """Return specs as programs get them."""
    return {"specs": [item._asdict() for item in found]}


def look(view: InboxView, name: str) -> SpecView:
    """Say where a spec stands."""
    if name in view.processed:
        return _look_back(view, name)
    found = decide_spec(view, name)
    since = found.row.updated_at if found.row else None
    return SpecView(name, found.state, found.run_id, since, found.reason, found.fix)


def ways(name: str, state: str, go_on: object) -> list[str]:
    """Return every command that goes on with a spec, one way or another."""
    if state in ("done", "running", "queued"):
        return [str(go_on)] if go_on else []
    word = argument(name)
    others = {"retry": f"treadle spec retry {word}", "drop": f"treadle spec drop {word}"}
    if state in ("waiting", "empty"):
        others.pop("retry")
    if state == "dropped":
        others.pop("drop")
    return list(dict.fromkeys([*([str(go_on)] if go_on else []), *others.values()]))


def details(view: InboxView, name: str) -> dict[str, object]:
    """Return what a spec asks for, who tried it, and what it says."""
    row, wish = view.store.spec_message(name), specs.glance(view.layout, name).wish
    runs = view.store.message_runs(row.message_id, "") if row else []
    wished = wish._asdict() | {"depends_on": list(wish.depends_on)}
    try:
        text = box.read(view.layout.specs / name).decode()
    except (FormatError, OSError) as error:
        text = f"({error})"
    return {
        **{key: value for key, value in wished.items() if value and key != "own"},
        "message_id": row.message_id if row else None,
        "runs": [f"{run.run_id} ({run.status})" for run in runs],
        "text": text,
    }


def _look_back(view: InboxView, name: str) -> SpecView:
    row = view.store.spec_message(name)
    run_id = row.run_ids[-1] if row and row.run_ids else None
    told = memory.recall(view.store, run_id).landing_words if run_id else []
    if is_edited_since(view, name):
        told = ["edited after it was processed"]
    elif not (view.layout.specs / name).exists():
        told = ["its file is gone"]
    land = ends.landing_command(view.store, run_id)
    return SpecView(name, "done", run_id, row and row.updated_at, "; ".join(told), land)


def is_edited_since(view: InboxView, name: str) -> bool:
    """Tell whether a finished spec says something else by now."""
    row, digest = view.store.spec_message(name), specs.glance(view.layout, name).digest
    return bool(row and digest and row.status == "done" and row.spec_digest != digest)


def require_unprocessed(view: InboxView, name: str) -> None:
    """Refuse a spec that is finished, and say how it can be done once more."""
    if name not in view.processed:
        return
    found = _look_back(view, name)
    undo = [f"treadle undo {found.run_id}"] if _has_landed(view, found) else []
    raise BlockedError(
        f"{name} is done; {found.reason or 'it is listed'}",
        code="spec_done",
        fix=[*undo, f"treadle spec retry {argument(name)}"],
    )


def _has_landed(view: InboxView, found: SpecView) -> bool:
    return bool(found.run_id and memory.recall(view.store, found.run_id).landed_commit)


def retry(view: InboxView, store: Store, name: str, now: datetime) -> SpecView:
    """Let a spec begin once more, whatever became of it; the next pass takes it.

    One that is listed as done and whose work has not landed is taken out of the list.
    """
    if _has_landed(view, look(view, name)):
        require_unprocessed(view, name)
    _require_quiet(view, name)
    if row := store.spec_message(name):
        start_anew(view.layout, store, row, now)
    tracker.take_out(view.layout, name)
    return look(view, name)


def start_anew(layout: Layout, store: Store, row: MessageRow, now: datetime) -> None:
    """Forget the attempts at a spec; it gets a new message, as it may name another routine."""
    digest = specs.glance(layout, row.spec or "").digest
    box.start_anew(store, row._replace(spec_digest=digest), now)
    reach("after_spec_row")
    _put_away(layout, row)


def _put_away(layout: Layout, row: MessageRow) -> None:
    """Move the file of a message that counts no more out of the way, dead letter or not."""
    if (path := layout.inbox / f"{row.message_id}.md").exists():
        box.move(path, layout.inbox_done)
    with contextlib.suppress(NotFoundError):
        letter = box.find_dead(layout, row.message_id)
        box.move(layout.inbox_dead / letter.name, layout.inbox_done)
        box.forget_reason(layout, letter)


def drop(view: InboxView, store: Store, name: str, now: datetime) -> SpecView:
    """Leave a spec out until somebody retries it: recorded first, its message put away second."""
    require_unprocessed(view, name)
    _require_quiet(view, name)
    layout, digest = view.layout, specs.glance(view.layout, name).digest
    row = store.spec_message(name)
    if row is None:
        new = waiting("", 0, utc(now))._replace(spec=name, spec_digest=digest, status="dropped")
        row = store.add_message(new)
    runs = [run.run_id for run in store.message_runs(row.message_id, row.after_run or "")]
    gone = row._replace(status="dropped", reason=None, updated_at=utc(now))

    def tell(tx: Store) -> None:
        tx.save_message(gone)
        box.close_questions(tx, row, runs, "dropped", now)

    store.write(tell)
    reach("after_spec_row")
    _put_away(layout, row)
    return look(view, name)


def _require_quiet(view: InboxView, name: str) -> None:
    """Refuse while somebody drives the spec's run."""
    found = look(view, name)
    if found.state in ("running", "queued"):
        text = f"{name} is being worked on: run {found.run_id}"
        raise BlockedError(text, code="still_running", fix=[f"treadle stop {found.run_id}"])
