"""Whoever reads, points, types or steps through the page keeps their place while it changes."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.builder import wait_for
from tests.real.browser import PATIENCE, chrome, scriptless, served, shown
from tests.web import world
from treadle.layout import Layout
from treadle.mail import effect as mail
from treadle.mail.letter import Draft
from treadle.store.questions import LEAVE, Action
from treadle.store.store import Store
from treadle.tasks import questions
from treadle.tasks.questions import Question

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("browser"), pytest.mark.timeout(600)]

__all__ = ["chrome"]

COLOURS = ("red", "blue", "green", "white")


@pytest.fixture
def root(tmp_path):
    return world.site(tmp_path, ("Add a login",), datetime.now(UTC)).project.layout.root


def ask(root, text, *options):
    with Store.open(Layout(root)) as store:
        actions = (*(Action("answer", option) for option in options), LEAVE)
        return questions.ask(store, Question("question", text, actions=actions), datetime.now(UTC))


def letter(root, text):
    body = f"## Summary\n{text}\n\n## Options\n- red\n- blue\n- green\n"
    mail.send(Layout(root), Draft("ada", "human", "question", body, "HELD"), datetime.now(UTC))


def answered(root, item):
    with Store.open(Layout(root)) as store:
        return questions.find(store, item).answer


def leave(screen, item):
    """Answer as if from another tab."""
    url, origin = f"{screen.url}/desk/{item}/answer", {"origin": screen.url}
    assert screen.page.request.post(url, form={"action": "leave"}, headers=origin).ok


def test_enter_sends_the_option_that_had_the_focus_when_letters_arrive(root, chrome):
    item = ask(root, "Which colour has the door?", *COLOURS)
    with shown(chrome, root) as screen:
        page = screen.go(f"/desk/{item}")
        button = page.locator(f"form[action='/desk/{item}/answer'] button", has_text="green")
        button.focus()
        for number in range(3):
            letter(root, f"Another one, {number}?")
            page.get_by_text(f"Another one, {number}?").first.wait_for()
        page.keyboard.press("Enter")
        wait_for(lambda: answered(root, item) == "green", PATIENCE)
        # What is gone took the focus with it, and no other answer got it.
        page.locator(f"form[action='/desk/{item}/answer']").first.wait_for(state="detached")
        assert page.evaluate("document.activeElement.closest('form')") is None
        screen.check()


def test_place_survives_what_comes_above_it(root, chrome):
    before = [ask(root, f"Question {number}?", *COLOURS) for number in range(12)]
    last = ask(root, "The last one?", *COLOURS)
    with shown(chrome, root) as screen:
        page = screen.go(f"/desk/{last}")
        page.set_viewport_size({"width": 1280, "height": 500})
        card = page.locator(f"#{last}")
        card.locator("summary").click()
        card.locator("textarea").press_sequentially("half an")
        page.evaluate(f"getSelection().selectAllChildren(document.querySelector('#{last} .goal'))")
        assert page.evaluate("String(getSelection()).trim()") == "The last one?"
        line = page.locator(f"#waiting a[href='/desk/{last}']")
        line.hover()
        top = line.bounding_box()["y"]
        for item in before[:3]:
            leave(screen, item)
            page.locator(f"#waiting a[href='/desk/{item}']").wait_for(state="detached")
        assert abs(line.bounding_box()["y"] - top) < 2
        assert page.evaluate("String(getSelection()).trim()") == "The last one?"
        assert card.locator("textarea").input_value() == "half an"
        assert card.locator("details").get_attribute("open") is not None
        screen.check()


def test_words_outlive_a_question_that_somebody_else_answers(root, chrome):
    item = ask(root, "Which colour?", *COLOURS)
    with shown(chrome, root) as screen:
        page = screen.go(f"/desk/{item}")
        page.locator(f"#{item} summary").click()
        page.locator(f"#{item} textarea").press_sequentially("a long ans")
        leave(screen, item)
        page.locator(f"#{item}").get_by_text("This can no longer be sent").wait_for()
        page.locator(f"#{item}").get_by_text("Answered by human").wait_for()
        page.keyboard.type("wer")
        assert page.locator(f"#{item} textarea").input_value() == "a long answer"
        assert page.locator(f"#{item} button").first.is_disabled()
        screen.check()


TOLD = """window.told = []; window.Notification = class {
    static permission = "granted"; static async requestPermission() { return "granted"; }
    constructor(title, options) { window.told.push([title, options.body]); } }"""


def test_counts_title_icon_and_notification_follow_the_desk(root, chrome):
    with shown(chrome, root) as screen:
        screen.page.add_init_script(TOLD)
        page = screen.go("/runs")
        count = int(page.locator("#nav .badge").inner_text())
        page.get_by_role("button", name="notify me").click()
        page.get_by_role("button", name="notifies you").wait_for()
        ask(root, "Which colour?", *COLOURS)
        page.locator("#nav .badge", has_text=str(count + 1)).wait_for()
        wait_for(lambda: page.title().startswith(f"({count + 1}) Runs"), PATIENCE)
        assert page.locator("#icon").get_attribute("href") == "/static/treadle-waits.svg"
        assert page.evaluate("window.told") == [[f"{count + 1} on the desk", "Which colour?"]]
        screen.check()


def test_a_card_moves_by_hand_and_by_key_and_the_board_scrolls_alone(root, chrome):
    with shown(chrome, root) as screen:
        page = screen.go("/board")
        page.locator("#T-1").drag_to(page.locator("#lane-claimed"))
        page.locator("#in-claimed #T-1").wait_for()
        page.locator("#T-1").focus()
        page.keyboard.press(">")
        page.locator("#in-in_progress #T-1").wait_for()
        assert page.evaluate("document.activeElement.id") == "T-1"
        page.keyboard.press("Enter")
        page.wait_for_url("**/tasks/T-1")
        page.go_back()
        for width in (320, 768, 1280, 1600):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        screen.check()


def test_runs_are_filtered_while_typing_and_two_are_compared(root, chrome):
    with shown(chrome, root) as screen:
        page = screen.go("/runs")
        page.keyboard.press("/")
        page.keyboard.type("nothing like it")
        page.get_by_text("No run matches.").wait_for()
        assert page.evaluate("document.activeElement.name") == "q"
        page.locator("[name=q]").fill("login")
        page.set_viewport_size({"width": 1280, "height": 300})
        page.get_by_role("link", name="New run").click()
        assert page.evaluate("document.activeElement.name") == "goal"
        page.locator(f"#pick-{world.RUN}").check()
        page.evaluate("scrollTo(0, 0)")
        compare = page.get_by_role("button", name="Compare")
        assert compare.bounding_box()["y"] < 300
        compare.click()
        page.wait_for_url("**/compare?*")
        page.get_by_text("1 run side by side").wait_for()
        page.set_viewport_size({"width": 360, "height": 900})
        page.goto(f"{page.url}&run={world.RUN}")
        long = "it => { it.textContent = 'a criterion of many words '.repeat(3); }"
        page.locator(".matrix tbody tr:last-child th").evaluate(long)
        cells = page.locator(".matrix tbody tr:last-child td")
        assert 0 < cells.first.bounding_box()["x"] < 180  # beside its name, not behind it
        screen.check()


AXE = Path(__file__).parent / "axe/node_modules/axe-core/axe.min.js"
PAGES = (
    *("/desk", "/desk/Q-1", "/runs", f"/compare?run={world.RUN}", "/conflicts", "/board"),
    *("/tasks/T-1", "/missions", "/missions/auth", "/mail", "/inbox", "/cost", "/health"),
    "/runs/none",
)
WRONG = """async () => (await axe.run()).violations.flatMap((it) =>
    it.nodes.map((node) => `${it.id}: ${node.target} ${node.any[0]?.message || ""}`))"""


def test_every_page_is_open_to_all_in_light_and_dark(root, chrome):
    if not AXE.exists():
        pytest.skip("axe-core is NOT INSTALLED: npm --prefix tests/real/axe ci")
    wrong = []
    with shown(chrome, root) as screen:
        names = screen.page.request.get(f"{screen.url}/mail.json").json()["letters"]
        letter = f"/mail/{names[0]['file'].rpartition('/')[2]}"
        for path in (*PAGES, letter):
            page = screen.go(path)
            page.evaluate(
                "document.querySelectorAll('details').forEach((it) => { it.open = true; })"
            )
            for scheme, width in (("light", 1280), ("dark", 360)):
                page.emulate_media(color_scheme=scheme)
                page.set_viewport_size({"width": width, "height": 900})
                page.evaluate(AXE.read_text())
                wrong += [f"{path} {scheme} {it}" for it in page.evaluate(WRONG)]
                assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    assert not wrong, "\n".join(wrong)


def test_the_palette_leads_to_a_task_and_to_a_button_and_times_are_local(root, chrome):
    with shown(chrome, root) as screen:
        page = screen.go("/desk/Q-1")
        assert "Z" in page.locator("#Q-1 time").first.get_attribute("title")
        page.keyboard.press("Control+k")
        page.keyboard.type("leave it")
        page.locator("#palette li", has_text="leave it").wait_for()
        page.keyboard.press("Enter")
        assert "leave it" in page.evaluate("document.activeElement.textContent")
        page.keyboard.press("Control+k")
        page.keyboard.type("be stuck")
        page.keyboard.press("Escape")
        page.locator("#palette").wait_for(state="hidden")
        page.keyboard.press("Control+k")
        page.keyboard.type("be stuck")
        page.locator("#palette li", has_text="STUCK").wait_for()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_url("**/tasks/STUCK")
        page.keyboard.press("?")
        assert page.locator("#keys").is_visible()
        screen.check()


def test_an_answer_is_given_without_scripts(root, chrome):
    item = ask(root, "Which colour?", *COLOURS)
    with served(root) as (url, link, _):
        page = scriptless(chrome, link)
        page.goto(f"{url}/desk/{item}")
        page.get_by_role("button", name="green").click()
        page.locator(".said.good").wait_for()
        assert page.locator("main h1").inner_text() == "Done"
    assert answered(root, item) == "green"
