"""Every page shows what the command says, and no name leads astray."""

import itertools
import re
from urllib.parse import unquote

import pytest

from tests.web.conftest import URL
from tests.web.world import NOW
from treadle.errors import TreadleError
from treadle.layout import Layout
from treadle.store.store import Store
from treadle.store.tasks import TaskRow
from treadle.tasks import task
from treadle.web.actions import ACTIONS, PAGES
from treadle.web.pages import changes, runs
from treadle.web.pages import step as pages_step
from treadle.web.site import Readers, WebRequest

OURS = {"origin": URL, "hx-request": "true"}
# What a path may be made of by somebody who means ill.
HOSTILE = [
    *("%2e%2e", "..%2f..%2f..%2fetc%2fpasswd", "%2e%2e%2f%2e%2e%2fsecret.txt", "%2fetc%2fpasswd"),
    *("....//....//etc/passwd", "a%00b", "%ff%fe", "-rf", "--help", "*", "%0d%0ax", "x" * 3000),
    *("20260101-000000-00000g", "<script>alert(1)</script>", "{run}", "'; DROP TABLE runs"),
]
ELSEWHERE = [*HOSTILE, "workspace/README.md", "..%2f..%2ftreadle.db", "steps", "link"]


# What a page can be asked for beside its path, and what that may be spoilt to.
FIELDS = {
    "/runs": ("q", "sort", "status", "limit", "before"),
    "/runs/{run}": ("until",),
    "/runs/{run}/changes": ("on", "from", "view"),
    "/runs/{run}/events": ("after", "limit"),
    "/runs/{run}/log": ("file", "from", "q", "step"),
    "/compare": ("run",),
    "/cost": ("days", "plot"),
    "/runs/{run}/steps": ("before",),
    "/mail": ("task", "all"),
}
SPOILT = [
    *(unquote(it) for it in HOSTILE),
    *("-1", "0", "9" * 400, "1e999", "NaN", "١٢", "1.1,1.1," * 500, "1.-", "999999.999999"),
    *("steps/001-plan/", "steps/../../", "/", "logs/", ".", "steps/001-plan/logs/growth.jsonl"),
    *("(" * 500, "[", "\\", "\n", "\u202e", '"><script>alert(1)</script>', "' OR 1=1 --", "%"),
]
ASKED = sum(len(names) for names in FIELDS.values()) * len(SPOILT)


def names(path):
    return re.findall(r"{(\w+)}", path)


def paths(table):
    """Return every path with each of its names spoilt, the others plausible."""
    for item, bad in itertools.product(table, HOSTILE):
        for spoilt in names(item.path):
            good = {"run": "20260101-000000-000000", "step": "1"}
            values = {name: good.get(name, "x") for name in names(item.path)} | {spoilt: bad}
            yield item.path.format_map(values)


def test_runs_are_what_the_command_lists(worked):
    assert worked.browser.get("/runs.json").json() == worked.json("runs", "list")


def test_a_run_is_what_the_command_shows(worked):
    assert worked.browser.get(f"/runs/{worked.run}.json").json() == worked.json(
        "runs", "show", worked.run
    )


def test_events_are_what_the_command_shows(worked):
    found = worked.browser.get(f"/runs/{worked.run}/events.json")
    assert found.json() == worked.json("runs", "events", worked.run)
    later = worked.browser.get(f"/runs/{worked.run}/events.json", params={"after": 3, "limit": 2})
    assert [event["seq"] for event in later.json()["events"]] == [4, 5]


def test_health_is_what_doctor_says(worked):
    found, said = worked.browser.get("/health.json").json(), worked.json("doctor")
    assert [check["name"] for check in found["checks"]] == [c["name"] for c in said["checks"]]
    assert found["sandbox"] == said["sandbox"]


def test_a_step_is_its_row_and_its_files(worked):
    found = worked.browser.get(f"/runs/{worked.run}/steps/4.json").json()
    row = worked.json("runs", "show", worked.run)["steps"][3]
    assert {key: found[key] for key in row} == row
    assert "patch.diff" in [item["path"] for item in found["files"]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
def test_every_page_without_names_opens(worked, page):
    if not names(page.path):
        found = worked.browser.get(page.path)
        assert (found.status_code, "<main" in found.text) == (200, True)


def test_pages_of_a_run_show_it(worked):
    base = f"/runs/{worked.run}"
    run = worked.browser.get(base).text
    assert "Make done.txt" in run
    assert '<svg class="timeline"' in run
    # A run that has just passed may still hold the project for a moment.
    assert f"treadle land {worked.run} --wait" in run
    step = worked.browser.get(f"{base}/steps/4").text
    assert '<td class="ins">done</td>' in step
    assert "run_passed" in worked.browser.get(f"{base}/events").text


def test_changes_are_one_patch_with_a_form_at_each_line_that_is_asked_for(worked):
    base = f"/runs/{worked.run}/changes"
    told = worked.browser.get(f"{base}.json").json()
    assert [(it["path"], it["added"]) for it in told["files"]] == [("done.txt", 1)]
    page = worked.browser.get(base, params={"on": "1.1"}).text
    assert '<td class="ins">done</td>' in page
    assert 'name="on:done.txt:1"' in page
    assert f"treadle review --back {worked.run}" in page
    assert "<textarea" not in worked.client(read_only=True).get(base).text


def test_a_review_is_one_command():
    fields = {"on:a b.py:3": "why?", "on:x:-2": " ", "text": "all of it"}
    asked = WebRequest({"run": "20260101-000000-000000"}, fields)
    words = ["review", asked.run, "--on=a b.py:3=why?", "--text=all of it"]
    assert changes.review(asked) == words
    assert changes.send_back(asked)[:2] == ["review", "--back"]


def test_runs_are_filtered_and_paged(worked):
    get = worked.browser.get
    assert worked.run in get("/runs", params={"q": "DONE.txt"}).text
    assert "No run matches" in get("/runs", params={"q": "nothing"}).text
    assert "No run matches" in get("/runs", params={"status": "failed"}).text
    assert get("/runs.json", params={"before": worked.run}).json()["runs"] == []
    assert 'rel="next"' in get("/runs", params={"limit": "1"}).text
    assert get("/runs", params={"limit": "0"}).status_code == 200


def test_no_name_in_a_path_leads_astray(worked):
    (worked.root.parent / "secret.txt").write_text("top secret")
    for path in {*paths(PAGES), *(f"{path}.json" for path in paths(PAGES))}:
        found = worked.browser.get(path)
        assert found.status_code in (404, 409), path
        assert "top secret" not in found.text


@pytest.mark.real
def test_no_field_of_a_page_leads_astray(worked):
    (worked.root.parent / "secret.txt").write_text("top secret")
    asked = 0
    for (path, fields), bad in itertools.product(FIELDS.items(), SPOILT):
        for field in fields:
            found = worked.browser.get(path.format(run=worked.run), params={field: bad})
            assert found.status_code in (200, 404, 409), (path, field, bad)
            assert "top secret" not in found.text
            assert "<script>alert" not in found.text
            asked += 1
    assert asked == ASKED


def test_no_word_of_a_form_becomes_an_option():
    for word in SPOILT:
        fields = {f"on:{word}:{word}": word, f"on:{word}": word, "text": word}
        words = changes.review(WebRequest({"run": "20260101-000000-000000"}, fields))
        assert words[:2] == ["review", "20260101-000000-000000"]
        assert all(it.startswith(("--on=", "--text=")) for it in words[2:])


def test_only_what_was_pressed_here_is_followed_or_cancelled(worked):
    for bad in HOSTILE:
        assert worked.browser.get(f"/pressed/{bad}").status_code == 404
        found = worked.browser.post(f"/pressed/{bad}/cancel", headers=OURS)
        assert found.status_code == 404
    foreign = {"origin": "http://evil.example"}
    for path in ("/pressed/x/cancel", "/waiting/wait-000000/stop"):
        assert worked.browser.post(path, headers=foreign).status_code == 403
        assert worked.client(read_only=True).post(path, headers=OURS).status_code in (403, 405)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.path)
def test_no_name_in_an_action_becomes_an_option(action):
    for spoilt, bad in itertools.product(names(action.path), ["-rf", "--help", "--budget=x"]):
        good = {"run": "20260101-000000-000000", "step": "1"}
        values = {name: good.get(name, "x") for name in names(action.path)} | {spoilt: bad}
        try:
            words = action.words(WebRequest(values, {}, is_example=True))
        except TreadleError:
            continue
        assert bad not in words or "--" in words[: words.index(bad)]


@pytest.mark.parametrize(
    "name",
    ["run.json", "steps/004-act/patch.diff", "steps/001-plan/logs/stdout.txt"],
)
def test_files_of_a_run_are_plain_text(worked, name):
    found = worked.browser.get(f"/runs/{worked.run}/files/{name}")
    assert found.status_code == 200
    assert found.headers["content-type"].startswith("text/plain")
    assert found.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("name", ELSEWHERE)
def test_nothing_else_is_read_through_a_run(worked, name):
    link = worked.root / ".treadle" / "runs" / worked.run / "link"
    if not link.is_symlink():
        link.symlink_to("/etc/passwd")
    found = worked.browser.get(f"/runs/{worked.run}/files/{name}")
    assert found.status_code == 404


def test_an_action_is_its_command_line(worked):
    found = worked.browser.post(f"/runs/{worked.run}/stop", headers=OURS)
    assert f"treadle stop {worked.run}" in found.text
    assert "is not running: it has passed" in found.text
    assert f"treadle why {worked.run}" in found.text


def test_an_action_without_its_text_or_with_too_much_is_refused(worked):
    assert "must not be empty" in worked.browser.post("/runs/start", headers=OURS).text
    for goal in ("x" * (1 << 20), "x" * (128 << 10), "a\0b"):
        found = worked.browser.post("/runs/start", headers=OURS, data={"goal": goal})
        assert (found.status_code, "at most" in found.text) == (409, True)


def test_days_that_are_no_number_prune_nothing(worked):
    found = worked.browser.post("/health/prune", headers=OURS, data={"days": "-1"})
    assert "✗" in found.text


def test_words_that_look_like_options_stay_words():
    asked = WebRequest({}, {"goal": "--help", "command": "true"})
    assert runs.start(asked) == ["run", "--goal=--help", "--verify=AC1=true", "--wait"]


def test_a_read_only_page_offers_nothing_to_press(worked):
    text = worked.client(read_only=True).get(f"/runs/{worked.run}").text
    assert "read-only" in text
    assert "<form" not in text
    assert 'class="button"' not in text  # which leads to a form


def test_an_empty_project_says_what_to_do_first(browser):
    assert "No runs yet" in browser.get("/runs").text


def test_json_that_nests_without_end_is_shown_as_it_is():
    assert pages_step._laid_out("[" * 100_000) == "[" * 100_000


def test_a_page_that_was_open_before_the_store_was_set_up_sees_what_comes(tmp_path):
    layout = Layout(tmp_path)
    layout.home.mkdir()
    layout.database.touch()  # as SQLite makes it, a moment before its tables are there
    readers = Readers(layout)
    with readers.one() as reader:
        assert reader.task("T-1") is None
    with Store.open(layout) as store:
        task.add(store, TaskRow("", "Paint the door"), NOW)
    with readers.one() as reader:
        assert reader.task("T-1").goal == "Paint the door"
