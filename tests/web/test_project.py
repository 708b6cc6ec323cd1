"""The pages about a project: desk, board, missions, mail, inbox and costs."""

import json
import os
import re
import sys
import time
from urllib.parse import urljoin

import pytest

from tests.builder import git, wait_for
from tests.engine.test_lock import waiting
from tests.web import world
from tests.web.conftest import URL, Client
from treadle.cli import main
from treadle.engine import lock
from treadle.ids import utc
from treadle.store import fleet
from treadle.store.fleet import WorkerRow
from treadle.store.runs import History
from treadle.store.store import Store
from treadle.web import app
from treadle.web.actions import ACTIONS, PAGES
from treadle.web.pages import runs
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
        ("/desk/Q-1", ("desk", "show", "Q-1")),
        ("/tasks/STUCK", ("task", "show", "STUCK")),
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
    specs = cli(shared, monkeypatch, capsys, "spec", "list")
    assert look.get("/inbox.json").json() == planned | dead | specs


def test_a_letter_is_what_the_command_reads(shared, look, monkeypatch, capsys):
    name = look.get("/mail.json").json()["letters"][0]["file"].rpartition("/")[2]
    expected = cli(shared, monkeypatch, capsys, "mail", "read", name)
    assert look.get(f"/mail/{name}.json").json() == expected


def test_home_is_the_desk(look):
    assert look.get("/", follow_redirects=False).headers["location"] == "/desk"


def test_the_desk_shows_what_was_spent_and_offers_what_would_help(look):
    text = look.get("/desk/Q-1").text
    assert "spent 3.5 min · 5,000 tok · $0.25" in text
    assert "treadle answer Q-1 resume --wait" in text
    assert "treadle answer Q-1 leave --wait" in text
    assert 'action="/desk/Q-1/work"' in text  # nobody waits for the end of a run


def test_what_holds_the_project_waits_for_who_holds_it():
    """A run that asks or passes holds it for a moment longer; nobody should have to try again."""
    asked = WebRequest({"run": world.RUN}, {}, is_example=True)
    paths = (
        "/runs/start",
        *(f"/runs/{{run}}/{it}" for it in ("resume", "land", "undo")),
    )
    found = [action.words(asked) for action in ACTIONS if action.path in paths]
    assert ["--wait" in words for words in found] == [True] * 4


def test_the_desk_leads_to_the_letter_that_asks(look):
    item = look.get("/desk.json").json()["items"][-1]["item_id"]
    text = look.get(f"/desk/{item}").text
    assert '/mail/20260122_120000_ada-human_question_HELD.md">read the letter' in text


def test_the_desk_lists_by_group_and_shows_one_item_whole(look):
    text = look.get("/desk").text
    groups = re.findall(r'<h2 id="group-\d">([^<]+?) <', text)
    assert groups == ["blocked agents", "budgets"]
    assert re.findall('<article class="item" id="([^"]+)"', text) == ["Q-2"]
    budget = look.get("/desk/Q-1").text
    assert '<h2 class="goal">Add a login</h2>' in budget
    assert '<p class="question">max_iterations is 5</p>' in budget
    assert "resume with max_iterations=10" in budget


def test_what_was_answered_says_so_and_offers_nothing(own):
    client = entered(own)
    said(client, "/desk/Q-1/answer", action="leave")
    text = client.get("/desk/Q-1").text
    assert "Answered by human" in text
    assert 'action="/desk/Q-1' not in text


def test_the_board_says_who_has_a_task_and_what_stops_one(look):
    text = " ".join(look.get("/board").text.split())
    assert re.search('ada <time class="soft" datetime="[^"]+">for 30 min more', text)
    ways = re.findall(r'id="acts-([^"]+)"><summary class="small">([^<]+)<', text)
    assert dict(ways) == {
        "T-1": "claim, move…",
        "WAITS": "move…",
        "HELD": "release, move…",
        "STUCK": "move…",
    }
    assert "■ no key: Add a login" in text
    assert 'waits for <a href="/tasks/T-1">T-1</a> (planned)' in text


def test_a_mission_that_is_not_ready_is_incomplete(look):
    text = look.get("/missions/later").text
    assert "specify incomplete" in text
    assert "gate shut" in text
    assert "✓ specify" not in text
    assert "missing: <code>plan.md</code>" in text


def test_a_mission_shows_its_words_as_markdown(look):
    assert "<td>Users can log in</td>" in look.get("/missions/auth").text


def test_a_mission_shows_which_task_covers_which_requirement(look):
    text = " ".join(look.get("/missions/auth").text.split())
    assert '<td>FR-001</td><td class="fit"><span class="state passed">✓ covered' in text


def test_mail_counts_what_is_unread_and_names_what_is_no_letter(look):
    text = look.get("/mail").text
    assert "human <b>2</b>" in text
    assert "ada <b>1</b>" in text
    assert "Quarantine" in text


def test_the_inbox_grows_chains_and_says_times_in_words(look, monkeypatch):
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        text = " ".join(look.get("/inbox").text.split())
    time.tzset()
    assert "At 03:00 on Monday through Friday" in text
    assert "0 3 * * 1-5 UTC" in text  # the zone that its file names
    assert 'title="2026-01-23 03:00:00 UTC">Fri 23 Jan 12:00 JST</time>' in text
    assert "wrong.md: cron: &#39;61 3 * * *&#39;" in text
    inner = text.partition("<code>C-0</code>")[2]
    assert inner.index("<ul>") < inner.index("<code>C-1</code>") < inner.index("</ul>")


def test_the_inbox_shows_where_each_spec_stands_and_what_goes_on_with_it(look, shared):
    path = shared.project.layout.specs / "07-x.spec.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text("# X\n")
    text = " ".join(look.get("/inbox").text.split())
    path.unlink()
    row = text.partition("<td><code>07-x.spec.md</code><br>X</td>")[2]
    assert "waiting" in row
    assert "<code>treadle process 07-x.spec.md</code>" in row


def test_costs_are_drawn_and_summed(look):
    text = look.get("/cost").text
    assert '<svg class="plot"' in text
    assert "2026-01-22: 0.36 USD, 0.12 of it acter" in text
    assert 'href="/runs?q=20260122"' in text
    assert look.get("/cost.json?days=1").json()["total"]["steps"] == 4


def test_costs_of_no_days_say_what_to_do(look):
    assert "Nothing was spent" not in look.get("/cost?days=365").text
    assert look.get("/cost?plot=nonsense&days=x").status_code == 200


def test_an_answer_closes_the_item_and_shows_its_line(own):
    text = said(entered(own), "/desk/Q-3/answer", option="2")
    assert "treadle answer Q-3 --option=2 --wait" in text
    assert "Q-3" not in [item.question_id for item in rows(own, lambda store: store.questions())]


def test_an_action_closes_the_item_with_words_that_may_begin_with_a_dash(own):
    text = said(entered(own), "/desk/Q-1/answer", action="leave", text="--no")
    assert "treadle answer Q-1 leave --text=--no --wait" in text
    assert rows(own, lambda store: store.question("Q-1")).answer == "--no"


def test_what_is_no_action_is_no_word_of_the_command(look):
    sent = look.post(
        "/desk/Q-1/work", data={"action": "--help"}, headers=SAME_ORIGIN | {"hx-request": "true"}
    )
    assert sent.status_code == 409


def test_an_answer_in_words_may_begin_with_a_dash(own):
    said(entered(own), "/desk/Q-2/answer", text="--json is not what I mean")
    assert rows(own, lambda store: store.question("Q-2")).answer == "--json is not what I mean"


def test_a_refused_action_says_why(own):
    text = said(entered(own), "/tasks/WAITS/move", to="done")
    assert 'class="said bad refused"' in text
    assert rows(own, lambda store: store.task("WAITS")).lane == "planned"


def test_a_form_that_says_nothing_is_refused_where_it_was_sent(look):
    sent = look.post(
        "/desk/Q-2/answer", data={"text": " "}, headers=SAME_ORIGIN | {"hx-request": "true"}
    )
    assert sent.status_code == 409
    assert sent.text.lstrip().startswith('<div class="said bad refused"')
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
    thread = client.get(f"/mail/{name}").text.partition("The thread")[2]
    assert "Thanks," in thread


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


def test_a_task_has_a_page_with_all_its_runs(look):
    text = look.get("/tasks/T-1").text
    assert f'href="/runs/{world.RUN}"' in text
    assert "in progress → blocked, codex: no key: Add a login" in look.get("/tasks/STUCK").text


def note(row, other):
    heads = {"head": row.head_commit, "other_head": other.head_commit}
    return {"run_id": other.run_id, "files": ["shop/cart.py"], **heads}


@pytest.mark.parametrize(("head", "said"), [("a", "no change"), ("b", "not landed")])
def test_only_what_changed_something_can_be_landed(own, head, said):
    with Store.open(own.project.layout) as store:
        row = store.run(world.RUN)._replace(run_id=f"{world.RUN[:-1]}f", status="passed")
        row = row._replace(base_commit="a" * 40, head_commit=head * 40)
        store.restore(row, History())
    client = entered(own)
    assert f">{said}<" in client.get("/runs").text
    assert (">Land<" in client.get(f"/runs/{row.run_id}").text) == (head == "b")


def test_conflicts_are_one_line_and_a_page_with_an_order(own):
    with Store.open(own.project.layout) as store:
        head = store.run(world.RUN)._replace(branch="treadle/it")
        rows = [
            head._replace(run_id=f"{world.RUN[:-6]}{n:06x}", head_commit=f"{n:040x}", status=state)
            for n, state in ((1, "stopped"), (2, "passed"), (3, "passed"))
        ]
        for row in rows:
            others = [note(row, it) for it in rows if it.run_id < row.run_id]
            store.restore(row, History(kv={"weather": others}))
    client = entered(own)
    for path in ("/board", "/runs", *(f"/runs/{row.run_id}" for row in rows)):
        text = client.get(path).text
        assert text.count("3 unlanded runs touch <code>shop/cart.py</code>") == 1, path
    found = client.get("/conflicts.json").json()
    assert [(it["file"], len(it["runs"])) for it in found["files"]] == [("shop/cart.py", 3)]
    assert len(found["order"]) == 3
    page = client.get("/conflicts").text
    landable, _, others = page.partition("Not passed, so not to be landed yet")
    assert [rows[0].run_id in it for it in (landable, others.partition("Files")[0])] == [
        False,
        True,
    ]
    ids = re.findall(r'<a href="/runs/([^"]+)/changes"', client.get("/desk").text)
    assert ids == [rows[1].run_id, rows[2].run_id]  # the oldest first


def test_a_read_only_page_writes_nothing(own):
    """Not even a letter that somebody laid there, or a file that is none."""
    new = own.project.layout.mail.new
    (new / "20260122_130000_bob-human_inform.md").write_text("From: bob\n\nhello\n")
    (new / "nothing.md").write_text("?")
    client = Client(own._replace(read_only=True))
    client.get("/enter", params={"key": own.keys.new_link()})
    before = content(own.project.layout.root)
    run = f"/runs/{world.RUN}"
    paths = [page.path for page in PAGES if "{" not in page.path]
    paths += ["/desk/Q-1", run, f"{run}/steps/1", f"{run}/events", "/missions/auth"]
    for path in paths:
        for end in ("", ".json"):
            assert client.get(path + end).status_code == 200, path
    assert content(own.project.layout.root) == before


def content(root):
    """Return every file but what the database keeps of who reads it."""
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(it): it.read_bytes() for it in files if not it.name.endswith(("-shm", "-wal"))}


@pytest.mark.real
def test_the_fleet_shows_its_workers_and_their_slots(own):
    now = utc(own.now())
    row = WorkerRow("w-1", "tower", 7, 4, 3, "alive", now, now)
    rows(own, lambda store: fleet.register(store, row, "2000"))
    page = entered(own).get("/fleet").text
    assert "tower" in page
    assert "3 of 4" in page


def test_health_says_what_the_desk_says_and_outlives_a_store_that_is_away(own):
    client = entered(own)
    assert re.search(
        "[0-9]+ things wait on the desk|something here needs you", client.get("/health").text
    )
    own.project.layout.database.write_bytes(b"no database" * 2000)
    found = client.get("/health")
    assert (found.status_code, "the store cannot be read" in found.text) == (200, True)
    assert client.get("/desk").status_code == 503


def test_a_store_that_is_gone_is_not_taken_for_an_empty_one(own):
    client, layout = entered(own), own.project.layout
    (layout.runs / "20260120-100000-00000a").mkdir(parents=True, exist_ok=True)
    assert client.get("/desk").status_code == 200
    kept = layout.database.rename(layout.home / "kept.db")
    found = client.get("/desk")
    assert (found.status_code, "treadle.db is missing" in found.text) == (503, True)
    health = client.get("/health")
    assert (health.status_code, "the store cannot be read" in health.text) == (200, True)
    (store,) = [it for it in client.get("/health.json").json()["checks"] if it["name"] == "store"]
    assert (store["ok"], store["fix"]) == (False, ["treadle doctor --repair"])
    kept.rename(layout.database)
    assert client.get("/desk").status_code == 200


def test_health_looks_no_more_than_once_a_minute_unless_asked_to(own):
    client, root = entered(own), own.project.layout.root
    seen = client.get("/health.json").json()
    words = ("commit", "-q", "--allow-empty", "-m", "Change the commit that doctor names")
    git(root, *words, env=own.project.env)
    assert client.get("/health.json").json() == seen
    assert client.get("/health.json?again").json() != seen


@pytest.mark.parametrize("path", ["/health", "/fleet"])
def test_who_looked_again_once_is_brought_up_to_date_without_looking_again(own, path):
    page = entered(own).get(f"{path}?again=1").text
    news = re.search('id="news" hx-get="([^"]*)"', page)
    assert urljoin(f"{path}?again=1", news[1]) == path


def test_a_new_run_takes_several_criteria_agents_and_budgets():
    fields = {
        "goal": "G",
        "criterion": "one\n\nthree\n",
        "command": "c1\nc2\n\n",
        "agent": "do=codex\n",
        "budget": "max_minutes=5\nmax_cost_usd=1",
    }
    assert runs.start(WebRequest({}, fields)) == [
        *("run", "--goal=G", "--ac=one", "--verify=AC1=c1", "--ac=c2", "--verify=AC2=c2"),
        *("--ac=three", "--agent=do=codex", "--budget=max_minutes=5", "--budget=max_cost_usd=1"),
        "--wait",
    ]
    spec = runs.start(WebRequest({}, {"spec": "03-login"}))
    assert spec == ["process", "--wait", "--", "03-login"]


def test_runs_are_counted_sorted_and_compared(tmp_path):
    client = entered(world.site(tmp_path, ("b", "a", "c")))
    text = " ".join(client.get("/runs", params={"sort": "goal"}).text.split())
    assert "all <b>3</b>" in text
    assert "stopped <b>3</b>" in text
    assert re.findall(r'<td class="goal"><a href="[^"]+">(.)</a>', text) == ["a", "b", "c"]
    names = [run["run_id"] for run in client.get("/runs.json").json()["runs"]][:2]
    found = client.get("/compare.json", params={"run": names}).json()["runs"]
    assert [run["run_id"] for run in found] == names
    page = client.get("/compare", params={"run": names}).text
    assert "Runs of different goals" in page
    assert '<th scope="row" title="">AC1 </th>' in page  # each has its own words
    task = client.get("/compare", params={"run": [names[0]] * 2}).text
    assert "Runs of different goals" not in task


def test_costs_name_the_dearest_run_and_task_and_a_day_opens_its_runs(look):
    text = look.get("/cost").text
    assert f'<a href="/runs/{world.RUN}">Add a login</a>' in text
    assert '<a href="/tasks/T-1">T-1</a>' in text
    assert 'href="/runs?q=20260122"' in text


def test_costs_stand_against_limits_as_soon_as_there_are_some(own):
    client, settings = entered(own), own.project.layout.root / ".treadle" / "config.toml"
    assert "<dt>today</dt>" not in client.get("/cost").text
    settings.write_text("[night]\nmax_cost_usd = 7\n")
    wait_for(lambda: "of 7.00 USD" in client.get("/cost").text)


def test_a_letter_that_asks_can_be_answered_where_it_is_read(look):
    text = look.get("/mail/20260122_120000_ada-human_question_HELD.md").text
    assert re.findall(r"<button title=\"[^\"]+\">(red|blue)</button>", text) == ["red", "blue"]


def test_a_mission_shows_its_phases_in_order(look):
    text = look.get("/missions/later").text
    found = re.findall(r'<li class="(\w+)"[^>]*><b>(\w+)</b>', text)
    assert found[0] == ("now", "specify")
    assert [name for _, name in found][-1] == "accept"


def test_the_inbox_says_how_a_message_begins_and_drops_a_spec(own):
    specs = own.project.layout.specs
    specs.mkdir(exist_ok=True)
    (specs / "01-door.spec.md").write_text("# Paint the door\n\n- AC1: red\n  verify: true\n")
    client = entered(own)
    text = client.get("/inbox").text
    assert "-0.md</code><br>Add a login" in text
    assert "<td><code>01-door.spec.md</code><br>Paint the door" in text
    chains = " ".join(text.partition("<h2>Chains</h2>")[2].split())
    assert "… waiting</span> Add a login" in chains
    assert 'action="/specs/drop"' in text
    assert "treadle spec drop" in said(client, "/specs/drop", spec="01-door")
    assert "dropped" in client.get("/inbox").text


def test_a_command_that_waits_for_its_turn_is_listed_and_can_be_called_off(
    own, monkeypatch, capsys
):
    client, layout, ended = entered(own), own.project.layout, []
    monkeypatch.setattr(sys, "argv", ["x", "land", "last", "--wait"])
    with lock.hold(layout):
        thread = waiting(layout, ended)
        (waiter,) = wait_for(lambda: lock.waiters(layout))
        page = client.get("/runs").text
        assert f'id="{waiter.name}"' in page
        assert "<code>treadle land last --wait</code>" in page
        assert f"treadle stop -- {waiter.name}" in page
        queued = cli(own, monkeypatch, capsys, "status")["queued"]
        assert (queued[0]["kind"], queued[0]["next"]) == ("command", f"treadle stop {waiter.name}")
        assert "done" in said(client, f"/waiting/{waiter.name}/stop")
        thread.join()
        assert ended == ["called_off"]
        assert waiter.name not in client.get("/runs").text
        assert "no run" in said(client, "/waiting/--help/stop")
