"""A run's pages in a real browser."""

import pytest

from tests.builder import wait_for
from tests.real import browser
from tests.real.browser import chrome
from tests.web import world
from tests.web.test_run_page import LONG, long_run
from treadle.store.store import Store
from treadle.web.pages.report import report_html

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("browser"), pytest.mark.timeout(600)]

__all__ = ["chrome"]

SIX_WIDTHS = (320, 360, 768, 1280, 1600, 1920)
ACT = """
text = (repo / "cart.py").read_text()
(repo / "cart.py").write_text(text.replace("result = 0", f"result = {iteration}"))
(repo / "übersetzung").mkdir(exist_ok=True)
(repo / "übersetzung/日本語.txt").write_text("hello\\n" * iteration)
write("heard.txt", request["context"]["notes"] or "")
ok(f"changed it in round {iteration}")
"""


@pytest.fixture
def shop(project):
    """A project whose act step edits files, and whose check believes whatever it sees."""
    (project.root / "cart.py").write_text("def total(items):\n    result = 0\n    return result\n")
    project.git("add", ".")
    project.git("commit", "-q", "-m", "Add a cart")
    project.good_agents()
    project.agent("check", 'verdict("PASS", AC1=True); ok("it holds")')
    project.agent("act", ACT, edits=True)
    return project


def run(shop, verify, *more):
    return shop.run_json("--verify", f"AC1={verify}", *more)["run_id"]


def fits(page):
    """Return the widths at which a page scrolls sideways."""
    wide = []
    for width in SIX_WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        if page.evaluate("document.documentElement.scrollWidth") > width:
            wide.append(width)
    return wide


def test_truth_why_and_evidence_of_a_refuted_run(shop, chrome):
    found = run(shop, "echo no such thing; false", "--budget", "max_iterations=3")
    with browser.shown(chrome, shop.root) as screen:
        page = screen.go(f"/runs/{found}")
        assert "Claimed PASS, observed FAIL: AC1" in page.locator("#summary").inner_text()
        assert page.locator(".timeline .bar.refuted").count() == 3
        why = page.locator("#why")
        assert "no such thing" in why.inner_text()
        assert fits(page) == []
        page.set_viewport_size({"width": 768, "height": 900})
        assert page.locator(".verdicts tbody th").first.bounding_box()["width"] > 500
        page.locator("a.cell.refuted").last.click()
        page.wait_for_selector(".lines tr#L1:has-text('no such thing')")
        for tab in ("changes", "log", "steps", "events", "steps/3"):
            assert fits(screen.go(f"/runs/{found}/{tab}")) == [], tab
        screen.check()


def test_a_run_of_400_steps_and_30_criteria_fits_and_is_brought_up_to_date_quickly(
    tmp_path, chrome
):
    site = world.site(tmp_path)
    long_run(site.project.layout, 100)
    with browser.shown(chrome, site.project.layout.root, env=site.project.env) as screen:
        page = screen.go(f"/runs/{LONG}")
        assert page.locator(".verdicts tbody tr").count() == 30
        assert page.locator(".verdicts .cell").count() >= 30 * 50
        assert fits(page) == []
        page.set_viewport_size({"width": 768, "height": 900})
        text = page.locator(".verdicts tbody th").first
        assert text.bounding_box()["x"] < 20  # it stays while the newest iterations are shown
        assert min(brought_up_to_date(page) for _ in range(3)) <= 0.05
        screen.check()


def test_a_report_of_a_long_run_fits_on_paper(tmp_path, chrome):
    site, report = world.site(tmp_path), tmp_path / "report.html"
    long_run(site.project.layout, 100)
    with Store.open(site.project.layout) as store:
        report.write_text(report_html(site.project, store, store.run(LONG), site.now()))
    page = chrome.new_context(viewport={"width": 794, "height": 1123}).new_page()
    page.goto(report.as_uri())
    page.emulate_media(media="print")
    assert page.locator(".verdicts th.round").count() == 50
    # Browsers shrink what is wider than the paper: to three quarters it can still be read.
    assert page.evaluate("document.documentElement.scrollWidth") < 794 / 0.75
    page.context.close()


def brought_up_to_date(page):
    """Return the seconds of CPU that the page's main thread needs for one refresh."""
    about = page.context.new_cdp_session(page)
    about.send("Performance.enable", {"timeDomain": "threadTicks"})

    def used():
        metrics = about.send("Performance.getMetrics")["metrics"]
        return next(it["value"] for it in metrics if it["name"] == "TaskDuration")

    begun = used()
    with page.expect_response(f"**/runs/{LONG}"):
        page.evaluate("htmx.trigger('#news', 'sse:store')")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 200)))")
    return used() - begun


def test_any_line_of_a_large_log_is_found_and_linked(shop, chrome):
    found = run(shop, "seq 1 300000 | sed 's/^/number /'; false", "--budget", "max_iterations=1")
    with browser.shown(chrome, shop.root) as screen:
        page = screen.go(f"/runs/{found}")
        page.locator("#why a:has-text('the whole log')").click()
        page.wait_for_selector("#logfile:has-text('of 300')")
        page.locator("input[name=q]").fill("number 123456")
        page.keyboard.press("Enter")
        page.locator(".found a:has-text('123456')").click()
        page.wait_for_url("**#L123456")
        line = page.locator("tr#L123456")
        assert "number 123456" in line.inner_text()
        assert line.bounding_box()["y"] < 900
        assert fits(page) == []
        screen.check()


def test_a_review_goes_from_lines_to_the_next_act_step(shop, chrome):
    found = run(shop, "test -d übersetzung")
    with browser.shown(chrome, shop.root) as screen:
        page = screen.go(f"/runs/{found}/changes")
        assert "übersetzung/日本語.txt" in page.locator(".files").inner_text()
        assert page.locator(".ins .x").first.is_visible()
        page.locator("#file-1 td.no.new a[data-on='cart.py:2']").click()
        page.locator("textarea[name='on:cart.py:2']").fill("count from zero")
        page.locator("#file-1 td.no.old a[data-on='cart.py:-2']").click()
        page.locator("textarea[name='on:cart.py:-2']").fill("this was right")
        page.locator("#file-1 .viewed input").check()
        page.reload()
        page.wait_for_selector("#drafts:has-text('2 comments to send')")
        assert page.locator("#file-1 .viewed input").is_checked()
        page.locator("#file-1 > summary").click()
        page.locator("#review button").click()
        page.wait_for_selector("#review .said")
        page.wait_for_selector("#file-1 .note:has-text('count from zero (sent)')")
        assert "to send" not in page.locator("#drafts").inner_text()
        wait_for(lambda: shop.show(found)["steps"][-1]["step_index"] == 9)
        heard = (shop.step_dir(found, "008-act") / "heard.txt").read_text()
        assert "cart.py line 2:\n> count from zero" in heard
        assert "this was right" in heard
        page = screen.go(f"/runs/{found}/changes")
        page.locator("#file-1 .note:has-text('count from zero')").wait_for(state="attached")
        screen.check()


def test_a_review_works_without_javascript(shop, chrome):
    shop.agent("check", 'verdict("FAIL", AC1=False); ok("no")')
    found = run(shop, "false", "--budget", "max_iterations=2")
    with browser.served(shop.root) as (url, link, _):
        page = browser.scriptless(chrome, link)
        page.goto(f"{url}/runs/{found}/changes")
        page.locator("a[data-on='cart.py:2']").click()
        page.locator("textarea[name='on:cart.py:2']").fill("count from zero")
        page.locator("#review button").click()
        page.wait_for_selector(".said.good")
        page.goto(f"{url}/runs/{found}")
        assert "cart.py line 2: count from zero" in page.locator("#summary").inner_text()
        page.context.close()


def test_the_bar_stays_says_what_came_of_a_press_and_follows_it(shop, chrome, tmp_path):
    found = run(shop, "test -d übersetzung")
    (shop.root / "übersetzung").mkdir()
    (shop.root / "übersetzung" / "日本語.txt").write_text("mine\n")
    with browser.shown(chrome, shop.root) as screen:
        page = screen.go(f"/runs/{found}")
        page.set_viewport_size({"width": 360, "height": 600})
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        land = page.locator("#acts button:has-text('Land')")
        assert land.is_visible()
        assert page.evaluate("document.querySelector('.bar').getBoundingClientRect().top") == 0
        land.click()
        page.wait_for_selector("#done .said.bad:has-text('日本語.txt')")
        assert page.locator("#done .said").bounding_box()["y"] < 600
        assert page.locator("#done .said code").count() > 1
        (shop.root / "übersetzung" / "日本語.txt").unlink()
        land.dblclick()
        page.wait_for_selector("#done .said.good:not(.going)")
        page.wait_for_selector("#acts button:has-text('Undo')")
        screen.check()


def test_a_press_that_waits_is_told_in_every_tab_and_followed_to_its_end(shop, chrome, tmp_path):
    found, go = run(shop, "test -d übersetzung"), tmp_path / "go"
    shop.agent("plan", f"while not pathlib.Path({str(go)!r}).exists(): time.sleep(.05)\nok()")
    holder = shop.start("run", "--goal", "Hold the lock", "--verify", "AC1=true", "--anyway")
    running = ("runs", "list", "--status", "running", "--json")
    wait_for(lambda: shop.treadle(*running).json["runs"])
    with browser.shown(chrome, shop.root) as screen:
        page = screen.go(f"/runs/{found}")
        page.locator("#acts button:has-text('Land')").click()
        page.locator("#done.htmx-request").wait_for()
        tab = page.context.new_page()
        said = tab.locator("#done .going", has_text="waits until no other treadle works")
        wait_for(lambda: tab.goto(page.url) and tab.locator("#done .going").count())
        said.wait_for()
        go.touch()
        for shown in (tab, page):
            shown.locator("#done .said.good:not(.going)").wait_for()
            shown.locator("#acts button:has-text('Undo')").wait_for()
        screen.check()
    holder.communicate(timeout=browser.PATIENCE)


def test_an_open_page_of_changes_says_what_was_approved_and_what_came_since(shop, chrome):
    found = run(shop, "test -d übersetzung", "--approve", "plan")
    with browser.shown(chrome, shop.root) as screen:
        page = screen.go(f"/runs/{found}/changes")
        page.locator("#review textarea").fill("count from zero")
        approve = page.get_by_role("button", name="Approve this plan")
        approve.click()
        page.wait_for_selector("#done .said.good:not(.going):has-text('passed')")
        approve.wait_for(state="detached")
        assert "Waits for your approval" not in page.locator("#waits").inner_text()
        newest = page.locator("#moved a", has_text="Show the newest")
        assert page.locator("#review textarea").input_value() == "count from zero"
        newest.click()
        page.wait_for_selector(".files:has-text('cart.py')")
        assert page.locator("#moved").inner_text() == ""
        screen.check()


def test_an_open_page_says_that_a_run_has_ended(shop, chrome, tmp_path):
    go = tmp_path / "go"
    shop.agent("act", f"while not pathlib.Path({str(go)!r}).exists(): time.sleep(.05)\nok()")
    working = shop.start("run", "--goal", "Wait", "--verify", "AC1=false")
    listed = ("runs", "list", "--status", "running", "--json")
    (row,) = wait_for(lambda: shop.treadle(*listed).json["runs"])
    with browser.shown(chrome, shop.root) as screen:
        page = screen.go(f"/runs/{row['run_id']}")
        page.get_by_role("heading", name="The log, as it grows").wait_for()
        go.touch()
        page.get_by_role("heading", name="The last step's log").wait_for()
        page.locator("#where dt", has_text="ended").wait_for()
        screen.check()
    working.communicate(timeout=browser.PATIENCE)
