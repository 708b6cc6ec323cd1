"""A report is one page that needs nothing else and does nothing."""

from html.parser import HTMLParser

import pytest

from tests.builder import git
from tests.web import world
from tests.web.test_run_page import LONG, long_run
from treadle.store.store import Reader
from treadle.web.pages import report


class Page(HTMLParser):
    """Collect what a page would load or run."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.loads = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.loads += [
            (name, value)
            for name, value in attrs
            if name in ("src", "href", "action", "data") or name.startswith("on")
        ]


def written(site):
    """Return the report of a run that changed a file."""
    project = site.project
    root = project.layout.root
    base = git(root, "rev-parse", "HEAD").strip()
    (root / "shout.py").write_text("".join(f"print({text!r})\n" for text in world.XSS))
    git(root, "add", "shout.py")
    git(root, "commit", "-q", "-m", "Shout")
    head = git(root, "rev-parse", "HEAD").strip()
    with Reader.open(project.layout) as store:
        row = store.run(world.RUN)._replace(base_commit=base, head_commit=head)
        return report.report_html(project, store, row, world.NOW)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return written(world.site(tmp_path_factory.mktemp("report"), (" ".join(world.XSS),)))


def test_a_report_loads_nothing_and_runs_nothing(text):
    page = Page(text)
    assert page.loads == []
    assert page.tags.isdisjoint({"script", "iframe", "img", "link", "form", "object", "embed"})
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text


def test_a_report_has_criteria_timeline_changes_and_cost(text):
    for part in ("<h2>Criteria</h2>", '<svg class="timeline"', "shout.py", "0.12"):
        assert part in text
    assert f"+{len(world.XSS)}</span>" in text


def test_a_report_without_its_commits_says_so(tmp_path):
    site = world.site(tmp_path)
    with Reader.open(site.project.layout) as store:
        found = report.report_html(site.project, store, store.run(world.RUN), world.NOW)
    assert "The changes cannot be read any more." in found


def test_a_report_tells_what_was_observed(tmp_path):
    site = world.site(tmp_path)
    long_run(site.project.layout, 3)
    with Reader.open(site.project.layout) as store:
        found = report.report_html(site.project, store, store.run(LONG), world.NOW)
    assert "Claimed PASS, observed FAIL: AC1 AC2" in found
    assert found.count('class="bar refuted"') == 3
    assert found.count('class="cell refuted"') == 2 * 3
    assert found.count('<li>3 <span class="outcome refuted">') == 1
    assert "line 39" in found
    assert Page(found).loads == []
