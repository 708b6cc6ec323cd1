"""The pages about a project: desk, board, missions, mail, inbox and costs."""

import json
import os

import pytest

from tests.web import world
from tests.web.conftest import URL, Client
from treadle.cli import main
from treadle.store.store import Store
from treadle.web import app
from treadle.web.actions import ACTIONS
from treadle.web.site import WebRequest

SAME_ORIGIN = {"origin": URL}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Return a filled project that these tests only look at."""
    return world.site(tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="module")
def look(shared):
    return entered(shared)


def entered(site):
    client = Client(site)
    client.get("/enter", params={"key": site.keys.new_link()})
    return client


@pytest.fixture
def own(tmp_path):
    """Return a filled project that a test may change."""
    return world.site(tmp_path)


def rows(site, read):
    with Store.open(site.project.layout) as store:
        return read(store)


def said(client, path, **fields):
    found = client.post(path, data=fields, headers=SAME_ORIGIN | {"hx-request": "true"})
    assert found.status_code == 200, found.text
    return found.text


def cli(site, monkeypatch, capsys, *words):
    monkeypatch.chdir(site.project.layout.root)
    assert main.main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/desk", ("desk",)),
        ("/missions", ("mission", "list")),
        ("/missions/later", ("mission", "status", "--mission", "later")),
        ("/mail", ("mail", "list")),
    ],
)
def test_the_twin_gives_what_the_command_gives(shared, look, monkeypatch, capsys, path, words):
    assert look.get(f"{path}.json").json() == cli(shared, monkeypatch, capsys, *words)


def test_twins_of_two_commands_give_what_both_give(shared, look, monkeypatch, capsys):
    tasks = cli(shared, monkeypatch, capsys, "task", "list")
    assert look.get("/board.json").json() == tasks | {"weather": []}
    planned = cli(shared, monkeypatch, capsys, "process", "--dry-run")
    dead = cli(shared, monkeypatch, capsys, "dead", "list")
    assert look.get("/inbox.json").json() == planned | dead


def test_a_letter_is_what_the_command_reads(shared, look, monkeypatch, capsys):
    name = look.get("/mail.json").json()["letters"][0]["file"].rpartition("/")[2]
    expected = cli(shared, monkeypatch, capsys, "mail", "read", name)
    assert look.get(f"/mail/{name}.json").json() == expected


def test_home_is_the_desk(look):
    assert look.get("/", follow_redirects=False).headers["location"] == "/desk"


def test_the_desk_shows_what_was_spent_and_offers_what_would_help(look):
    text = look.get("/desk").text
    assert "spent 3.5 min, 5\u202f000 tokens, 0.25 USD" in text
    assert f"treadle run --resume={world.RUN} --budget=max_iterations=10 --wait" in text
    assert "treadle answer --option=2 Q-1" in text
    assert "treadle answer --option=1 Q-1" not in text  # it would only write down the resume


def test_what_holds_the_project_waits_for_who_holds_it():
    """A run that asks or passes holds it for a moment longer; nobody should have to try again."""
    asked = WebRequest({"run": world.RUN}, {}, is_example=True)
    paths = (
        "/desk/again",
        "/runs/start",
        *(f"/runs/{{run}}/{it}" for it in ("resume", "land", "undo")),
    )
    found = [action.words(asked) for action in ACTIONS if action.path in paths]
    assert ["--wait" in words for words in found] == [True] * 5


def test_the_desk_leads_to_the_letter_that_asks(look):
    assert (
        '/mail/20260122_120000_ada-human_question_HELD.md">read the letter'
        in look.get("/desk").text
    )


def test_the_board_says_who_has_a_task_and_what_stops_one(look):
    text = " ".join(look.get("/board").text.split())
    assert 'ada <span class="soft">for 30 min more' in text
    assert "■ no key: Add a login" in text
    assert 'waits for <a href="#T-1">T-1</a> (planned)' in text


def test_a_mission_that_is_not_ready_is_incomplete(look):
    text = look.get("/missions/later").text
    assert "specify incomplete" in text
    assert "✗ shut" in text
    assert "✓ specify" not in text
    assert "missing: <code>plan.md</code>" in text


def test_a_mission_shows_its_words_as_markdown(look):
    assert "<td>Users can log in</td>" in look.get("/missions/auth").text


def test_mail_counts_what_is_unread_and_names_what_is_no_letter(look):
    text = look.get("/mail").text
    assert "human <b>2</b>" in text
    assert "ada <b>1</b>" in text
    assert "Quarantine" in text


def test_the_inbox_grows_chains_and_says_times_in_words(look):
    text = " ".join(look.get("/inbox").text.split())
    assert "At 03:00 on Monday through Friday" in text
    assert "Fri 23 Jan 03:00 UTC" in text
    assert "wrong.md: cron: &#39;61 3 * * *&#39;" in text
    inner = text.partition("<code>C-0</code>")[2]
    assert inner.index("<ul>") < inner.index("<code>C-1</code>") < inner.index("</ul>")


def test_costs_are_drawn_and_summed(look):
    text = look.get("/cost").text
    assert '<svg class="plot"' in text
    assert "2026-01-22: 0.36 USD" in text
    assert look.get("/cost.json?days=1").json()["total"]["steps"] == 4


def test_costs_of_no_days_say_what_to_do(look):
    assert "Nothing was spent" not in look.get("/cost?days=365").text
    assert look.get("/cost?plot=nonsense&days=x").status_code == 200


def test_an_answer_closes_the_item_and_shows_its_line(own):
    text = said(entered(own), "/desk/Q-3/answer", option="2")
    assert "treadle answer --option=2 Q-3" in text
    assert "Q-3" not in [item.question_id for item in rows(own, lambda store: store.questions())]


def test_an_answer_in_words_may_begin_with_a_dash(own):
    said(entered(own), "/desk/Q-2/answer", text="--json is not what I mean")
    assert rows(own, lambda store: store.question("Q-2")).answer == "--json is not what I mean"


def test_a_refused_action_says_why(own):
    text = said(entered(own), "/tasks/WAITS/move", to="done")
    assert 'class="said bad"' in text
    assert rows(own, lambda store: store.task("WAITS")).lane == "planned"


def test_a_form_that_says_nothing_is_refused_where_it_was_sent(look):
    sent = look.post(
        "/desk/Q-2/answer", data={"text": " "}, headers=SAME_ORIGIN | {"hx-request": "true"}
    )
    assert sent.status_code == 409
    assert sent.text.lstrip().startswith('<div class="said bad"')
    assert "text must not be empty" in sent.text


def test_a_task_is_claimed_and_released(own):
    client = entered(own)
    said(client, "/tasks/T-1/claim")
    assert rows(own, lambda store: store.task("T-1")).owner == "human"
    said(client, "/tasks/T-1/release")
    assert rows(own, lambda store: store.task("T-1")).lane == "planned"


def test_a_reply_is_a_letter_of_the_human(own):
    client = entered(own)
    name = "20260122_120000_ada-human_inform_T-1.md"
    said(client, f"/mail/{name}/reply", text="Thanks,\nwell done")
    said(client, f"/mail/{name}/ack")
    letters = client.get("/mail.json?all=1").json()["letters"]
    sent = next(it for it in letters if it["from"] == "human")
    assert (sent["to"], sent["summary"]) == ("ada", "Thanks,")
    assert next(it for it in letters if it["file"].endswith(name))["box"] == "logs"


def test_a_message_is_sent_and_a_dead_one_put_back(own):
    client = entered(own)
    said(client, "/inbox/send", text="Do it")
    (letter,) = client.get("/inbox.json").json()["letters"]
    said(client, "/inbox/retry", letter=letter["name"])
    found = client.get("/inbox.json").json()
    assert (len(found["planned"]), found["letters"]) == (3, [])


def test_names_that_are_no_text_are_shown_all_the_same(own):
    root = os.fsencode(own.project.layout.inbox_dead)
    with open(os.path.join(root, b"\xff.md"), "wb") as handle:
        handle.write(b"x")
    client = entered(own)
    assert "\\udcff.md" in client.get("/inbox").text
    names = [letter["name"] for letter in client.get("/inbox.json").json()["letters"]]
    assert "\udcff.md" in names


def test_read_only_offers_nothing_and_takes_nothing(shared):
    client = entered(shared._replace(read_only=True))
    for page in ("/desk", "/board", "/mail", "/inbox"):
        assert 'method="post"' not in client.get(page).text
    assert client.post("/inbox/send", data={"text": "x"}, headers=SAME_ORIGIN).status_code == 403


@pytest.mark.parametrize("path", ["/missions/none", "/mail/none.md", "/missions/%2e%2e"])
def test_what_is_not_there_is_said(look, path):
    assert look.get(path).status_code == 404


def test_every_page_of_an_empty_project_says_what_to_do_first(browser):
    for page in app.PAGES:
        if "{" not in page.path:
            text = browser.get(page.path)
            assert text.status_code == 200, page.path
