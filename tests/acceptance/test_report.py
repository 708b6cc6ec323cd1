"""`treadle report` tells a run so that it can be handed on."""

import pytest

from tests.acceptance.site import Site


@pytest.fixture
def site(project):
    return Site(project)


def test_a_report_tells_goal_criteria_steps_changes_and_cost(site):
    run_id = site.passed(verify="echo seen; test -f done.txt")
    text = site.project.treadle("report", run_id, "--markdown").out
    assert text.startswith("# Make done\n")
    assert "| **AC1** works | yes | yes | ` echo seen; test -f done.txt ` |" in text
    assert "```text\nseen\n```" in text
    assert "| 2 | do | do | ok |" in text
    assert " done.txt    | 1 +\n" in text
    assert "3 files changed" in text
    assert "## Cost\n\n0.0 minutes" in text
    page = site.project.folder / "report.html"
    assert site.project.treadle("report", run_id, "--html", str(page), "--json").json == {
        "run_id": run_id,
        "file": str(page),
    }
    assert "done.txt" in page.read_text()


def test_a_report_says_where_the_work_is(site):
    run_id = site.passed()
    site.land(run_id)
    text = site.project.treadle("report", run_id, "--json").json["markdown"]
    assert f"Landed as {site.tip()[:12]} on main." in text


def test_an_agents_words_cannot_leave_their_place(project):
    project.good_agents()
    project.agent("do", 'ok("@all | fixes #1 <b>\\n# loud `x`")')
    run_id = project.run_json()["run_id"]
    text = project.treadle("report", run_id).out
    assert "| &#64;all \\| fixes &#35;1 &lt;b&gt; &#35; loud \\`x\\` |" in text


def test_output_with_fences_stays_inside_its_own(site):
    run_id = site.passed(verify="printf '```\\n# x\\n'; test -f done.txt")
    text = site.project.treadle("report", run_id).out
    assert "````text\n```\n# x\n````" in text


def test_a_run_that_changed_nothing_has_a_report_too(site):
    run_id = site.passed("true", verify="true")
    assert "No files changed." in site.project.treadle("report", run_id).out
