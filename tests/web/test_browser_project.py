"""The pages about a project in a real browser."""

from datetime import UTC, datetime

import pytest

from tests.acceptance.conftest import project, wait_for
from tests.web import chromium, world

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

__all__ = ["project"]

PAGES = ("/desk", "/board", "/missions", "/missions/auth", "/mail", "/inbox", "/cost")


def root_of(folder, texts):
    return world.site(folder, texts, datetime.now(UTC)).project.layout.root


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_both_widths_without_a_complaint(tmp_path, scheme):
    root = root_of(tmp_path, ("Add a login with a session cookie", "Make the export faster"))
    with chromium.tab(root, scheme=scheme) as tab:
        letter = tab.page.request.get(f"{tab.base}/mail.json").json()["letters"][0]["file"]
        for path in (*PAGES, f"/mail/{letter.rpartition('/')[2]}"):
            for width in chromium.WIDTHS:
                tab.open(path, width)
                tab.page.locator("#live[data-state=live]").wait_for()
                tab.keep(f"{path.strip('/').split('.')[0].replace('/', '-')}-{width}-{scheme}")
                assert tab.overflow <= 0, (path, width)
        assert (tab.complaints, tab.outside) == ([], [])


def test_no_hostile_string_is_active_anywhere(tmp_path):
    with chromium.tab(root_of(tmp_path, world.XSS)) as tab:
        letters = tab.page.request.get(f"{tab.base}/mail.json").json()["letters"]
        names = [letter["file"].rpartition("/")[2] for letter in letters]
        run = f"/runs/{world.RUN}"
        paths = (*PAGES, "/runs", run, f"{run}/steps/1", f"{run}/events", "/health")
        for path in (*paths, *(f"/mail/{name}" for name in names)):
            tab.open(path)
            assert tab.active == [], path
        assert len(names) >= 100
        assert (tab.complaints, tab.outside) == ([], [])


def test_an_answer_on_the_desk_unblocks_a_run(project):
    project.good_agents()
    run_id = project.run_json("--budget", "max_iterations=1")["run_id"]
    with chromium.tab(project.root) as tab:
        card = tab.page.locator("article", has_text=run_id)
        card.get_by_role("button", name="resume").click()
        # The page is never loaded again: what changes comes by itself.
        card.wait_for(state="detached", timeout=60_000)
        wait_for(lambda: project.show(run_id)["status"] == "passed", 60)
        tab.page.get_by_text("Nothing waits for you.").wait_for()
        assert tab.complaints == []


def test_an_answer_to_a_letter_lets_a_blocked_task_go_on(project):
    project.treadle("task", "add", "Paint", "--id", "PAINT")
    project.treadle("task", "claim", "PAINT", "--as", "ada")
    words = ("--task", "PAINT", "--summary", "Which colour?")
    project.treadle(
        "mail", "send", "--from", "ada", "--to", "human", "--intent", "escalate", *words
    )
    with chromium.tab(project.root) as tab:
        tab.page.get_by_label("Your answer").fill("Red, please")
        tab.page.get_by_role("button", name="answer").click()
        tab.page.get_by_text("Nothing waits for you.").wait_for()
        tab.open("/board")
        assert tab.page.locator("#PAINT").get_by_text("ada").count()
        assert tab.complaints == []
    found = project.treadle("task", "show", "PAINT", "--json").json
    assert found["lane"] == "in_progress"


def test_what_is_being_typed_survives_news(tmp_path):
    root = root_of(tmp_path, ("Add a login",))
    with chromium.tab(root) as tab:
        tab.page.locator("#Q-2 summary").click()
        field = tab.page.locator("#Q-2 textarea")
        field.press_sequentially("half an ans")
        tab.page.request.post(
            f"{tab.base}/desk/Q-1/answer", form={"option": "2"}, headers={"origin": tab.base}
        )
        tab.page.locator("#Q-1").wait_for(state="detached")
        tab.page.keyboard.type("wer")
        assert field.input_value() == "half an answer"
