"""The report of a run: one file that needs nothing else and does nothing."""

from datetime import datetime
from pathlib import Path

from markupsafe import Markup

from treadle.engine.run import memory
from treadle.engine.show import changes, report, verdicts
from treadle.engine.show import view as show_view
from treadle.engine.show.changes import RunChanges
from treadle.engine.show.view import CriterionView
from treadle.project.context import Context
from treadle.sandbox.mask import Mask
from treadle.store.runs import RunRow
from treadle.store.store import Reader
from treadle.web import diff, render
from treadle.web.diff import Diff
from treadle.web.pages.run import Matrix

_STYLES = ("treadle.css", "run.css", "report.css")


def report_html(project: Context, store: Reader, row: RunRow, now: datetime) -> str:
    """Return what was observed of a run, criteria with evidence, timeline, changes and cost."""
    layout, run_id = project.layout, row.run_id
    views = show_view.criteria(layout, store, row)
    seen = verdicts.run_verdicts(layout, store.steps(run_id), store.checks(run_id))
    found = changes.run_changes(project, row)
    mask = Mask(project.secrets)
    context = {
        "styles": Markup("\n".join((render.STATIC / it).read_text("utf-8") for it in _STYLES)),
        "project": layout.root.name,
        "read_only": True,
        "doc": show_view.run_document(layout, store, row),
        "run": row,
        "counts": show_view.counts(views),
        "where": memory.recall(store, run_id).landing_words,
        "check": verdicts.last_check(seen),
        "checks": [it for it in seen if it.criteria],
        "matrix": Matrix.of(seen),
        "evidence": _evidence(layout.run(run_id).steps, views),
        "picture": render.draw_timeline(
            [render.step_bar(it.step._asdict() | {"status": it.outcome}) for it in seen]
        ),
        "changes": found,
        "diff": _parsed(found, mask) if found else None,
        "usage": store.usage(run_id),
        "now": now,
    }
    text = render.environment().get_template("report.html").render(context)
    return mask.text(text)


def _evidence(steps: Path, views: list[CriterionView]) -> list[tuple[CriterionView, str]]:
    """Return the end of what each command said, as far as it said anything."""
    seen = (view for view in views if view.observed is not None)
    found = ((view, report.tail(steps / (view.evidence or ""))) for view in seen)
    return [(view, text) for view, text in found if text]


def _parsed(found: RunChanges, mask: Mask) -> Diff:
    return diff.paint_all(diff.parse_diff(mask.text(found.patch.decode(errors="replace"))))
