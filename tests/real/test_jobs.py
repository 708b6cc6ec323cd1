"""What people come to the page for: each job in three clicks, every page for everyone."""

import re
import sqlite3
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.builder import wait_for
from tests.real import shots
from tests.real.browser import PATIENCE, chrome, scriptless, served, shown
from tests.real.shop import CENTS, COUNT, DISCOUNT, IMPORT, SHORTEN, TAX, Shop
from treadle.store.questions import LEAVE, Action
from treadle.store.store import Store
from treadle.tasks import questions
from treadle.tasks.questions import Question
from treadle.web.actions import ACTIONS

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("browser"), pytest.mark.timeout(1200)]

__all__ = ["chrome"]

AXE = Path(__file__).parent / "axe/node_modules/axe-core/axe.min.js"
# Words that stand below each other, letter by letter.
NARROW = """[...document.querySelectorAll("main :is(td, th, p, li, dd)")]
    .filter((it) => it.innerText.trim().length > 24 && it.clientWidth && it.clientWidth < 32)
    .map((it) => `${it.innerText.trim()} is ${it.clientWidth} px wide`)"""
WRONG = """async () => (await axe.run()).violations.flatMap((it) =>
    it.nodes.map((node) => `${it.id}: ${node.target} ${node.any[0]?.message || ""}`))"""
# What may have been spent in three weeks, and that it was not.
DEAR = """UPDATE kv_run SET value_json = json_set(value_json, '$.minutes',
    json_extract(value_json, '$.minutes') + :sign * 31234.5) WHERE key = 'spent'"""
DEARER = """UPDATE usage SET input_tokens = input_tokens + :sign * 123456789,
    cost_usd = cost_usd + :sign * 12345"""
# Controls that only a script could use.
DEAD = """() => [...document.querySelectorAll("[hx-post]")].filter((it) =>
    it.method !== "post" || it.getAttribute("action") !== it.getAttribute("hx-post"))
    .map((it) => it.outerHTML)"""
MOST = 3
AT = "(it) => it.getBoundingClientRect().top + scrollY"


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        with closing(Shop(tmp_path_factory.mktemp("shop"))) as found:
            found.fill()
            found.runs[IMPORT] = found.runs[COUNT]
            found.pages = shots.pages(found)  # before anything is answered
            yield found


class Hand:
    """Somebody at the desk with a mouse, whose clicks are counted, and a keyboard."""

    def __init__(self, screen):
        self.screen, self.page, self.clicks = screen, screen.page, {}

    def job(self, name):
        """Begin at home."""
        self.name, self.clicks[name] = name, 0
        self.screen.go("/desk")

    def click(self, what, **options):
        # Before its scripts have come, a page does what one without scripts would.
        self.sees("#live[data-state=live]")
        self.clicks[self.name] += 1
        found = self.page.locator(what, **options) if isinstance(what, str) else what
        found.first.click()

    def press(self, label):
        self.click(self.page.get_by_role("button", name=label, exact=True))

    def sees(self, what, **options):
        self.page.locator(what, **options).first.wait_for()


def test_every_job_takes_three_clicks_at_most(shop, chrome):
    with shown(chrome, shop.root, env=shop.env) as screen:
        hand = Hand(screen)
        why_and_where(hand, shop)
        what_it_cost(hand)
        say_yes(hand, shop)
        land_and_undo(hand, shop)
        send_back(hand, shop)
        start_and_stop(hand, shop)
        screen.check()
    print(hand.clicks)
    assert len(hand.clicks) == 11
    assert max(hand.clicks.values()) <= MOST, hand.clicks


def why_and_where(hand, shop):
    hand.job("why did it fail")
    hand.click("#waiting a", has_text=TAX)
    hand.click(f".item a[href='/runs/{shop.runs[TAX]}']")
    hand.sees("#summary", has_text="Claimed PASS, observed FAIL: AC1 AC2")
    hand.sees("#why pre", has_text="expected 119.00")
    hand.job("find a log line")
    hand.click("#waiting a", has_text=TAX)
    hand.click(f".item a[href='/runs/{shop.runs[TAX]}']")
    hand.click(hand.page.locator("#why a", has_text="the whole log").last)
    hand.page.wait_for_url("**/log?**")  # and for its scripts, which know the keys
    hand.page.keyboard.press("/")
    hand.page.keyboard.type("price 007")
    hand.page.keyboard.press("Enter")
    hand.sees(".found a", has_text="7")
    hand.sees(".found td", has_text="price 007")


def what_it_cost(hand):
    hand.job("compare")
    hand.click("#nav a", has_text="Board")
    hand.click("#T-2 a")
    hand.click("a", has_text="compare them")
    hand.sees("td", has_text="refuted")
    hand.job("what cost most")
    hand.click("#nav a", has_text="Cost")
    hand.sees(".plot .agent-1")
    hand.click(".bars a")
    hand.page.wait_for_url("**/runs/2*")


def say_yes(hand, shop):
    hand.job("approve")
    hand.click("#waiting a", has_text=SHORTEN)
    hand.sees(".diff", has_text="they should cost 5")
    hand.press("approve the change of protected files")
    wait_for(lambda: shop.project.show(shop.runs[SHORTEN])["status"] == "passed", PATIENCE)
    hand.job("answer")
    hand.click("#waiting a", has_text="Be held")
    hand.press("red")
    hand.sees(".note", has_text="Answered by human")


def land_and_undo(hand, shop):
    hand.job("land")
    hand.click("#waiting a", has_text=DISCOUNT)
    hand.sees(".diff", has_text="discount")
    hand.press("Land")
    hand.sees("#done .said.good:not(.going)")
    hand.job("undo")
    hand.click("#nav a", has_text="Runs")
    hand.click("td.goal a", has_text=DISCOUNT)
    hand.press("Undo")
    hand.sees("#done .said.good:not(.going)")


def send_back(hand, shop):
    hand.job("review and comment")
    hand.click("#waiting a", has_text=CENTS)
    hand.click("a[data-on='cart.py:17']")
    hand.sees("textarea[name='on:cart.py:17']:focus")
    hand.page.keyboard.type("round half to even")
    hand.press("Send back")
    hand.sees("#review .said.good:not(.going)")
    notes = [
        it.read_text() for it in shop.project.run_dir(shop.runs[CENTS]).glob("steps/*/input.json")
    ]
    assert any("round half to even" in it for it in notes)


def start_and_stop(hand, shop):
    hand.job("start")
    hand.click("#nav a", has_text="Runs")
    hand.click("[name=goal]")
    hand.page.keyboard.type(IMPORT)
    hand.page.keyboard.press("Tab")
    hand.page.keyboard.press("Tab")
    hand.page.keyboard.type("test -f orders.csv")
    hand.press("Start")
    hand.sees("#now", has_text=IMPORT)
    hand.job("stop")
    hand.click("#nav a", has_text="Runs")
    hand.sees("#now .last", has_text="of 100000")
    hand.click("#now button", has_text="Stop")
    hand.sees("#runs tr", has_text="stopped")
    hand.page.locator("#now article").first.wait_for(state="detached")


@contextmanager
def dear(shop):
    """Let every run have used a lot, for a while: limits would stop what comes later."""
    spend(shop, 1)
    try:
        yield
    finally:
        spend(shop, -1)


def spend(shop, sign):
    with sqlite3.connect(shop.layout.database) as database:
        for change in (DEAR, DEARER):
            database.execute(change, {"sign": sign})


def test_every_page_is_open_to_all_at_every_width(shop, chrome, tmp_path):
    if not AXE.exists():
        pytest.skip("axe-core is NOT INSTALLED: npm --prefix tests/real/axe ci")
    wrong, report = [], tmp_path / "report.html"
    shop.project.treadle("report", shop.runs[TAX], "--html", str(report))
    with dear(shop), shown(chrome, shop.root, env=shop.env) as screen:
        addresses = {**shop.pages, "report": report.as_uri()}
        for name, path in addresses.items():
            page = screen.page
            page.goto(path) if name == "report" else screen.go(path)
            page.evaluate(
                "document.querySelectorAll('details').forEach((it) => { it.open = true; })"
            )
            wrong += [f"{name} {it}" for it in page.evaluate(DEAD)]
            for width in (320, 360, 641, 768, 1001, 1280, 1600, 1920):
                page.set_viewport_size({"width": width, "height": 900})
                if page.evaluate("document.documentElement.scrollWidth") > width:
                    wrong.append(f"{name} is too wide at {width}")
                wrong += [f"{name} at {width}: {it}" for it in page.evaluate(NARROW)]
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                page.evaluate(AXE.read_text())
                wrong += [f"{name} {scheme} {it}" for it in page.evaluate(WRONG)]
    assert not wrong, "\n".join(wrong)


def test_every_page_can_be_read_without_scripts(shop, chrome):
    with served(shop.root, env=shop.env) as (url, link, _):
        page = scriptless(chrome, link)
        for name, path in shop.pages.items():
            found = page.goto(url + path)
            assert found.status == 200, name
            assert page.locator("main h1").first.is_visible(), name
            # Nothing says that it will do what only a script does.
            assert not page.locator("#live, .scripted").filter(visible=True).count(), name


def test_lists_stay_in_view_ages_go_on_and_an_approval_follows_its_diff(shop, chrome):
    with shown(chrome, shop.root, env=shop.env) as screen:
        page = screen.go(shop.pages["changes"])
        page.set_viewport_size({"width": 1280, "height": 420})
        page.locator("#review").scroll_into_view_if_needed()
        top = page.locator(".files").bounding_box()["y"]
        assert page.evaluate("scrollY") > 100
        assert 0 <= top < 100
        page = screen.go(shop.pages["run"])
        age = page.locator(".facts time", has_text="ago").first
        said = age.inner_text()
        page.clock.install()
        page.goto(page.url)
        page.clock.fast_forward("50:00:00")  # by the page's own clock: an age may be one in hours
        wait_for(lambda: age.inner_text() != said, PATIENCE)
        assert "UTC" in page.locator(".facts time").first.get_attribute("title")
        shop.run(SHORTEN)  # the first one may be answered already
        page = screen.go(f"/runs/{shop.runs[SHORTEN]}")
        assert page.locator("#summary .note").count() == 1  # what to approve is said once
        page = screen.go(f"/desk/{shop.item('approval')}")
        shown_at = [page.locator(it).first.evaluate(AT) for it in (".item .diff", ".item .first")]
        assert shown_at == sorted(shown_at)
        page.set_viewport_size({"width": 360, "height": 640})
        assert page.locator(".acts.bar").bounding_box()["height"] < 200
        page.locator(".acts.bar .first button").click(trial=True)  # no diff lies over it
        screen.check()


def test_a_report_is_for_light_dark_and_paper(shop, chrome, tmp_path):
    report = tmp_path / "report.html"
    shop.project.treadle("report", shop.runs[TAX], "--html", str(report))
    page = chrome.new_context(viewport={"width": 794, "height": 1123}).new_page()
    page.goto(report.as_uri())
    grounds = {}
    for name, media in {
        "light": {"color_scheme": "light", "media": "screen"},
        "dark": {"color_scheme": "dark", "media": "screen"},
        "paper": {"color_scheme": "dark", "media": "print"},
    }.items():
        page.emulate_media(**media)
        grounds[name] = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert grounds["light"] != grounds["dark"] != grounds["paper"] == "rgb(255, 255, 255)"
    whole = "(it) => getComputedStyle(it).maxHeight"  # paper cannot be scrolled
    assert page.locator(".log").first.evaluate(whole) == "none"
    assert page.locator(".cell.refuted").count() > 6
    texts, rows = (page.locator(f".verdicts tbody {it}").first for it in ("th > div", "tr"))
    assert texts.bounding_box()["width"] > rows.bounding_box()["width"] / 2  # few iterations
    page.context.close()


class Typist:
    """Somebody without a mouse: every way leads over Tab, Enter and letters."""

    def __init__(self, screen):
        self.screen, self.page, self.done = screen, screen.page, set()

    def to(self, selector):
        """Step on until the focus is there."""
        for _ in range(400):
            if self.page.evaluate("(it) => document.activeElement.matches(it)", selector):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"Tab does not lead to {selector} on {self.page.url}")

    def send(self, path, button="button", **fields):
        """Fill the form of an action in and send it; its result comes beside it."""
        form = f"form[action='{path}']"
        for name, text in fields.items():
            self.to(f"{form} [name={name}]")
            self.page.keyboard.type(text)
        self.to(f"{form} {button}")
        with self.page.expect_response(f"{self.screen.url}{path}") as answer:
            self.page.keyboard.press("Enter")
        assert answer.value.status == 200
        self.page.locator(".said").first.wait_for()
        self.done.add(next(it.path for it in ACTIONS if fits(it.path, path)))

    def open(self, path):
        """Go to a page; its folds are opened by key."""
        self.screen.go(path)
        return self


def fits(pattern, path):
    return re.fullmatch(re.sub(r"{\w+}", "[^/]+", pattern), path) is not None


@pytest.mark.all
def test_every_action_can_be_done_by_keyboard_alone(shop, chrome):
    specs = shop.root / "specs"
    specs.mkdir(exist_ok=True)
    for name in ("90-later", "91-never"):
        (specs / f"{name}.spec.md").write_text("# Later\n\n## Acceptance Criteria\n\n- one\n")
    shop.project.treadle("spec", "drop", "91-never")
    with shown(chrome, shop.root, env=shop.env) as screen:
        hand = Typist(screen)
        tasks_and_letters(hand, shop)
        finished_runs(hand, shop)
        what_waits(hand, shop)
        screen.check()
    assert {it.path for it in ACTIONS} - hand.done == set()


def tasks_and_letters(hand, shop):
    hand.open("/tasks/WAITS").send("/tasks/WAITS/move", reason="for now")
    hand.open("/tasks/T-3").send("/tasks/T-3/claim")
    hand.open("/tasks/T-3").send("/tasks/T-3/release")
    hand.open("/inbox").to("#send summary")
    if not hand.page.locator("#send[open]").count():
        hand.page.keyboard.press("Enter")
    hand.send("/inbox/send", text="Count the boxes")
    hand.open("/inbox").send("/inbox/retry")
    hand.open("/inbox").send("/specs/retry")
    hand.open("/inbox").send("/specs/drop")
    letters = shop.project.treadle("mail", "list", "--json").json["letters"]
    mine = next(it for it in letters if it["to"] == "human")["file"].rpartition("/")[2]
    hand.open(f"/mail/{mine}").send(f"/mail/{mine}/reply", text="Yes, do")
    hand.open(f"/mail/{mine}").send(f"/mail/{mine}/ack")
    hand.open("/health").send("/health/prune", days="9")
    with Store.open(shop.layout) as store:
        asked = Question("question", "Which colour?", actions=(Action("answer", "red"), LEAVE))
        item = questions.ask(store, asked, datetime.now(UTC))
    hand.open(f"/desk/{item}").send(f"/desk/{item}/answer", "button:not(.danger)")


def finished_runs(hand, shop):
    land, cents, tax = (shop.runs[it] for it in (DISCOUNT, CENTS, TAX))
    hand.open(f"/runs/{land}").send(f"/runs/{land}/land")
    hand.page.locator("#done .said.good:not(.going)").wait_for()
    hand.open(f"/runs/{cents}").send(f"/runs/{cents}/land")
    hand.page.locator("#done .said", has_text="cart.py").wait_for()
    hand.open(f"/runs/{cents}").send(f"/runs/{cents}/rebase")
    hand.page.locator("#done .said:not(.going)").wait_for()
    hand.open(f"/runs/{land}").send(f"/runs/{land}/undo")
    hand.page.locator("#done .said.good:not(.going)").wait_for()
    for run, way in ((land, "back"), (tax, "review")):
        hand.open(f"/runs/{run}/changes").to("a[data-on='cart.py:17']")
        hand.page.keyboard.press("Enter")
        hand.page.locator("textarea[name='on:cart.py:17']:focus").wait_for()
        hand.page.keyboard.type("mind the cents")
        hand.send(f"/runs/{run}/{way}")
        hand.page.locator("#review .said.good:not(.going)").wait_for()
    item = next(
        it["item_id"]
        for it in shop.project.treadle("desk", "--json").json["items"]
        if it["run_id"] == tax
    )
    hand.open(f"/desk/{item}").send(f"/desk/{item}/work")
    hand.page.locator(".said.bad", has_text="stopped: ").wait_for()
    stopped = shop.project.treadle("runs", "list", "--status", "stopped", "--json").json["runs"]
    run = next(it["run_id"] for it in stopped if it["task_id"] == "T-2")
    hand.open(f"/runs/{run}").send(f"/runs/{run}/resume")
    hand.page.locator("#done .said:not(.going)").wait_for()


def what_waits(hand, shop):
    hand.open("/runs").to("[name=goal]")
    hand.page.keyboard.type(IMPORT)
    hand.send("/runs/start", command="test -f orders.csv")
    hand.page.locator("#now .last", has_text="of 100000").wait_for()
    run = hand.page.locator("#now article").first.get_attribute("id").removeprefix("now-")
    with shop.project.start("land", shop.runs[DISCOUNT], "--wait", "--json") as waits:
        name = hand.page.locator("article[id^=wait-]").get_attribute("id")
        hand.to(f"#{name} button")
        hand.send(f"/waiting/{name}/stop")
        assert waits.wait(PATIENCE) == 75
    hand.open(f"/runs/{shop.runs[COUNT]}").send(f"/runs/{shop.runs[COUNT]}/undo")
    hand.open("/runs").to(f"article[id^=pressed-][data-line*='{shop.runs[COUNT]}'] button")
    hand.page.keyboard.press("Enter")
    hand.page.locator(".said", has_text="cancelled").first.wait_for()
    hand.open("/runs").send(f"/runs/{run}/stop")
    hand.page.locator("#now article").first.wait_for(state="detached")
