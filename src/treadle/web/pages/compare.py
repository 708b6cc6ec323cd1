"""Compare: several runs side by side, and what differs between the work of two."""

from contextlib import suppress

from treadle.engine.run import memory
from treadle.engine.show import view as show_view
from treadle.errors import GitError
from treadle.git import trees
from treadle.store.runs import RunRow
from treadle.store.store import Reader
from treadle.web import diff
from treadle.web.pages import runs
from treadle.web.site import Document, Site, WebRequest

_MOST = 6


def document(site: Site, asked: WebRequest) -> Document:
    """Return what each run holds, cost and changed, as `treadle runs show --json` tells of one."""
    names = list(dict.fromkeys(filter(None, asked.lines("run"))))[:_MOST]
    with site.store() as store:
        rows = [show_view.find_run(store, name) for name in names]
        return {"runs": [_document(site, store, row) for row in rows]}


def view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add every criterion that one of them has, and the difference between the first two."""
    names = [name for name in asked.lines("run") if name][:2]
    with site.store() as store:
        heads = [show_view.find_run(store, name).head_commit for name in names]
    between, repo = None, site.project.repo
    if len(heads) == 2 and all(heads):
        with suppress(GitError):
            text = trees.diff_text(repo, str(heads[0]), str(heads[1])).decode(errors="replace")
            between = diff.paint_all(diff.parse_diff(site.mask.text(text)))
    return {"diff": between, "texts": _texts(found)}


def _document(site: Site, store: Reader, row: RunRow) -> Document:
    layout, lines = site.project.layout, None
    with suppress(GitError):
        if row.base_commit and row.head_commit:
            lines = trees.changed_lines(site.project.repo, row.base_commit, row.head_commit)
    known = memory.recall(store, row.run_id)
    return {
        **{name: getattr(row, name) for name in ("run_id", "goal", "task_id", "status")},
        "iterations": row.iteration,
        "minutes": round(known.spent.minutes, 1) if known.spent else None,
        "cost_usd": round(known.spent.cost_usd, 4) if known.spent else None,
        "landed": known.landed_commit,
        "lines": lines,
        "agents": list(runs.agents(show_view.asked_order(layout, row.run_id))),
        "criteria": {
            it.id: {name: getattr(it, name) for name in ("text", "claimed", "observed", "outcome")}
            for it in show_view.criteria(layout, store, row)
        },
    }


def _texts(found: Document) -> dict[str, str]:
    """Return each criterion's words, none where the runs mean different things by it."""
    told: dict[str, str] = {}
    for run in found["runs"] if isinstance(found["runs"], list) else ():
        for id_, it in run["criteria"].items():
            told[id_] = it["text"] if told.get(id_, it["text"]) == it["text"] else ""
    return told
