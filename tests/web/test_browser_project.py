"""The pages about a project in a real browser."""

from datetime import UTC, datetime

import pytest

from tests.builder import wait_for
from tests.real.browser import PATIENCE, Screen, chrome, free_port, served, shown
from tests.web import world
from treadle.layout import Layout
from treadle.store.store import Store
from treadle.store.tasks import TaskRow
from treadle.tasks import task

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("browser"), pytest.mark.timeout(600)]

__all__ = ["chrome"]

PAGES = ("/desk", "/board", "/missions", "/missions/auth", "/mail", "/inbox", "/cost")
# A browser that nobody looks at never hides a tab: the page is told so, and its streams are kept.
HIDE = """(is) => { Object.defineProperty(document, "hidden", {value: is, configurable: true});
    document.dispatchEvent(new Event("visibilitychange")); }"""
KEEP = """window.streams = []; window.EventSource = class extends EventSource {
    constructor(url) { super(url); window.streams.push(this); } }"""
KEEP_NEWS = """() => { window.news = 'id="Q-1"'; document.addEventListener("htmx:beforeSwap",
    (it) => { window.news = it.detail.serverResponse; }); }"""
OPEN = "window.streams.filter((it) => it.readyState !== EventSource.CLOSED).length"


@pytest.fixture
def root(tmp_path):
    return root_of(tmp_path, ("Add a login with a session cookie", "Make the export faster"))


def root_of(folder, texts):
    return world.site(folder, texts, datetime.now(UTC)).project.layout.root


def letters(screen):
    found = screen.page.request.get(f"{screen.url}/mail.json").json()["letters"]
    return [f"/mail/{letter['file'].rpartition('/')[2]}" for letter in found]


def add(root, goal):
    with Store.open(Layout(root)) as store:
        task.add(store, TaskRow("", goal), datetime.now(UTC))


def test_every_page_fits_both_widths_without_a_complaint(root, chrome):
    with shown(chrome, root) as screen:
        for path in (*PAGES, letters(screen)[0]):
            screen.go(path)
            assert screen.shoot(path.strip("/").split(".")[0].replace("/", "-")) == [], path
        screen.check()


def test_no_hostile_string_is_active_anywhere(tmp_path, chrome):
    with shown(chrome, root_of(tmp_path, world.XSS)) as screen:
        names = letters(screen)
        run = f"/runs/{world.RUN}"
        for path in (*PAGES, "/runs", run, f"{run}/steps/1", f"{run}/events", "/health", *names):
            screen.page.goto(screen.url + path)
            assert screen.active == [], path
        assert len(names) >= 100
        screen.check()


def test_an_answer_on_the_desk_unblocks_a_run(project, chrome):
    project.good_agents()
    run_id = project.run_json("--budget", "max_iterations=1")["run_id"]
    with shown(chrome, project.root) as screen:
        card = screen.page.locator("article", has_text=run_id)
        card.get_by_role("button", name="resume").click()
        # The page is never loaded again: what changes comes by itself.
        card.wait_for(state="detached")
        wait_for(lambda: project.show(run_id)["status"] == "passed", PATIENCE)
        screen.page.locator("#waiting", has_text="passed, not landed").wait_for()
        screen.check()


def test_an_answer_to_a_letter_lets_a_blocked_task_go_on(project, chrome):
    project.treadle("task", "add", "Paint", "--id", "PAINT")
    project.treadle("task", "claim", "PAINT", "--as", "ada")
    words = ("--task", "PAINT", "--summary", "Which colour?")
    project.treadle(
        "mail", "send", "--from", "ada", "--to", "human", "--intent", "escalate", *words
    )
    with shown(chrome, project.root) as screen:
        screen.page.get_by_label("Your answer").fill("Red, please")
        screen.page.get_by_role("button", name="answer").click()
        screen.page.get_by_text("Nothing waits for you.").wait_for()
        assert screen.go("/board").locator("#PAINT").get_by_text("ada").count()
        screen.check()
    found = project.treadle("task", "show", "PAINT", "--json").json
    assert found["lane"] == "in_progress"


def test_what_is_being_typed_survives_news(root, chrome):
    with shown(chrome, root) as screen:
        page = screen.page
        page.locator("#Q-2 summary").click()
        field = page.locator("#Q-2 textarea")
        field.press_sequentially("half an ans")
        page.request.post(
            f"{screen.url}/desk/Q-1/answer", form={"option": "2"}, headers={"origin": screen.url}
        )
        page.locator("#Q-1").wait_for(state="detached")
        page.keyboard.type("wer")
        assert field.input_value() == "half an answer"


def test_a_refused_press_says_why(root, chrome):
    with shown(chrome, root) as screen:
        page = screen.page
        page.locator("#Q-2 summary").click()
        page.locator("#Q-2 textarea").fill("   ")
        page.locator("#Q-2").get_by_role("button", name="answer").click()
        page.locator("#said").get_by_text("must not be empty").wait_for()


def test_a_press_that_nobody_hears_says_so(root, chrome):
    with shown(chrome, root) as screen:
        page = screen.page
        page.route("**/answer", lambda route: route.abort())
        page.locator("#Q-2 summary").click()
        page.locator("#Q-2 textarea").fill("blue")
        page.locator("#Q-2").get_by_role("button", name="answer").click()
        page.locator("#said").get_by_text("Is treadle serve running?").wait_for()


def test_a_click_is_not_lost_when_news_come_while_the_button_is_down(root, chrome):
    with shown(chrome, root) as screen:
        page = screen.page
        page.evaluate(KEEP_NEWS)
        page.locator("#Q-2 summary").hover()
        page.mouse.down()
        page.request.post(
            f"{screen.url}/desk/Q-1/answer", form={"option": "2"}, headers={"origin": screen.url}
        )
        wait_for(lambda: 'id="Q-1"' not in page.evaluate("window.news"), PATIENCE)
        page.mouse.up()
        page.locator("#Q-2 textarea").wait_for()
        page.locator("#Q-1").wait_for(state="detached")


def test_a_hidden_tab_pauses_and_catches_up_with_one_stream(root, chrome):
    with shown(chrome, root) as screen:
        screen.page.add_init_script(KEEP)
        page = screen.go("/board")
        for is_hidden in (True, False, True, False, True):
            page.evaluate(HIDE, is_hidden)
        page.wait_for_selector("#live[data-state=paused]")
        wait_for(lambda: page.evaluate(OPEN) == 0, PATIENCE)
        add(root, "Done meanwhile")
        page.evaluate(HIDE, False)
        page.wait_for_selector("text=Done meanwhile")
        wait_for(lambda: page.evaluate("window.streams.length") > 2, PATIENCE)
        wait_for(lambda: page.evaluate(OPEN) == 1, PATIENCE)
        assert screen.wrong == []


def test_a_run_that_is_removed_while_it_is_shown_is_said_to_be_gone(root, chrome):
    with shown(chrome, root) as screen:
        page = screen.go(f"/runs/{world.RUN}")
        with Store.open(Layout(root)) as store:
            assert store.delete_run(world.RUN)
        page.wait_for_selector("text=no run is called")


def test_a_tab_comes_back_when_the_server_does(root, chrome):
    port = free_port()
    with served(root, port=port) as (url, link, _):
        screen = Screen(chrome, url, link)
        page = screen.go("/board")
        page.evaluate("window.same = true")
    page.wait_for_selector("#live[data-state='not live'][title*='serve --link']")
    add(root, "Done meanwhile")
    with served(root, port=port) as (_, link, _):
        page.context.new_page().goto(link)
        page.wait_for_selector("text=Done meanwhile")
        page.wait_for_selector("#live[data-state=live]")
        add(root, "Done after it")
        page.wait_for_selector("text=Done after it")
        assert page.evaluate("window.same")
