"""Tell a run as one page that needs nothing else: to attach to a pull request."""

from datetime import datetime

from markupsafe import Markup

from treadle.engine.run import memory
from treadle.engine.show import report
from treadle.engine.show import view as show_view
from treadle.errors import GitError
from treadle.git import trees as git_diff
from treadle.project.context import Context
from treadle.sandbox.mask import Mask
from treadle.store.runs import RunRow
from treadle.store.store import Reader
from treadle.web import draw, foreign, render
from treadle.web.foreign import Diff

_STYLES = ("treadle.css", "report.css")


def html(project: Context, store: Reader, row: RunRow, now: datetime) -> str:
    """Return goal, criteria with evidence, timeline, changes and cost of a run."""
    views = show_view.criteria(project.layout, store, row)
    steps = store.steps(row.run_id)
    folder = project.layout.run(row.run_id).steps
    held, total = show_view.counts(views)
    styles = "\n".join((render.STATIC / name).read_text("utf-8") for name in _STYLES)
    mask = Mask(project.env)
    text = (
        render.environment({})
        .get_template("report.html")
        .render(
            styles=Markup(styles),
            project=project.layout.root.name,
            read_only=True,
            doc=show_view.run_document(project.layout, store, row),
            run=row,
            held=held,
            total=total,
            where=memory.recall(store, row.run_id).landing_words,
            evidence=[
                (view.id, report.tail(folder / (view.evidence or "")))
                for view in views
                if view.observed is not None
            ],
            picture=draw.draw_timeline([draw.step_bar(step._asdict()) for step in steps]),
            diff=_changes(project, row, mask),
            usage=store.usage(row.run_id),
            now=now,
        )
    )
    return mask.text(text)


def _changes(project: Context, row: RunRow, mask: Mask) -> Diff | None:
    if not row.base_commit or not row.head_commit:
        return None
    try:
        found = git_diff.diff_text(project.repo, row.base_commit, row.head_commit)
        return foreign.parse_diff(mask.text(found.decode(errors="replace")))
    except GitError:
        return None
