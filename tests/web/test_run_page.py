"""A run's page tells the truth first: what was observed, why, and what to do."""

import gzip
import json
import random
import re
import threading
from base64 import b64encode
from datetime import timedelta

import pytest

from tests.builder import wait_for
from tests.web import world
from tests.web.conftest import Client
from treadle.agents.growth import Chunk
from treadle.engine.show import changes
from treadle.engine.show.changes import RunChanges
from treadle.ids import utc
from treadle.proc.helper import Captured
from treadle.sandbox.mask import Mask
from treadle.store.runs import CheckRow, Cursor, History, RunRow, StepRow
from treadle.store.store import Store
from treadle.web import actions, lines
from treadle.web.actions import PAGES
from treadle.web.pages import log
from treadle.web.pressed import Pressed

LONG = "20260120-100000-0000ff"
ROLES = ("plan", "do", "check", "act")
IDS = [f"AC{number}" for number in range(1, 31)]


def long_run(layout, rounds):
    """Add a run of many steps whose last check claims PASS while AC1 and AC2 fail."""
    folder = layout.run(LONG)
    stamp = utc(world.NOW - timedelta(hours=9))
    criteria = [{"id": id_, "text": f"{id_} holds", "verify": "./check"} for id_ in IDS]
    folder.folder.mkdir(parents=True)
    folder.run_json.write_text(json.dumps({"order": {"criteria": criteria}}))
    steps = [_step(layout, number, rounds) for number in range(1, 4 * rounds)]
    checks = [row for step in steps if step.role == "check" for row in _checks(folder, step)]
    row = RunRow(
        LONG, stamp, "Go on for long", "running", 1, 0, None, layout.relative(folder.folder)
    )
    with Store.open(layout) as store:
        store.insert_run(row, [], {})
        end = Cursor("stopped", rounds, len(steps), "FAIL", None, utc(world.NOW))
        kv = {"reason": "standstill", "reason_code": "no_progress"}
        store.advance(LONG, History(steps, kv=kv, checks=checks), end, 0)


def _step(layout, number, rounds):
    role, begun = ROLES[(number - 1) % 4], world.NOW - timedelta(hours=9, seconds=-10 * number)
    folder = layout.run(LONG).step(number, role)
    folder.mkdir(parents=True)
    if role == "check":
        said = [{"id": id_, "pass": True, "evidence": "sure"} for id_ in IDS]
        (folder / "verdict.json").write_text(json.dumps({"verdict": "PASS", "criteria": said}))
    failed = ("fail", "interrupted") if number == 2 else ("ok", None)
    row = StepRow(
        LONG, number, role, (number + 3) // 4, failed[0], layout.relative(folder), utc(begun)
    )
    return row._replace(ended_at=utc(begun + timedelta(seconds=9)), error_code=failed[1])


def _checks(folder, step):
    for id_ in IDS:
        log = f"{step.step_dir.rpartition('/')[2]}/checks/{id_}.txt"
        (folder.steps / log).parent.mkdir(exist_ok=True)
        is_good = id_ not in ("AC1", "AC2")
        if not is_good:
            (folder.steps / log).write_text("".join(f"line {n}\n" for n in range(40)))
        yield CheckRow(LONG, step.step_index, id_, "check", "./check", None, is_good, 1, 0.1, log)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    site = world.site(tmp_path_factory.mktemp("long"))
    long_run(site.project.layout, 60)
    client = Client(site)
    client.get("/enter", params={"key": site.keys.new_link()})
    client.layout = site.project.layout
    return client


def test_what_was_observed_is_shown_not_what_was_claimed(browser):
    page = browser.get(f"/runs/{LONG}").text
    assert "Claimed PASS, observed FAIL: AC1 AC2" in page
    assert page.count('class="bar refuted"') == 60
    assert 'class="bar stopped"' in page
    steps = browser.get(f"/runs/{LONG}/steps").text
    assert 'class="outcome refuted"' in steps
    assert "Claimed PASS, observed FAIL: AC1 AC2" in browser.get(f"/runs/{LONG}/steps/3").text
    told = browser.get(f"/runs/{LONG}.json").json()
    assert [it["outcome"] for it in told["steps"][:4]] == ["ok", "stopped", "refuted", "ok"]
    assert [it["outcome"] for it in told["criteria"][:3]] == ["refuted", "refuted", "holds"]


def test_why_comes_first_with_the_end_of_the_log(browser):
    page = browser.get(f"/runs/{LONG}").text
    why = page[page.index('id="why"') : page.index('id="criteria"')]
    assert "line 25\nline 26" in why
    assert "line 24\n" not in why
    assert "steps/239-check/checks/AC1.txt" in why
    assert f"/runs/{LONG}/steps/239" in why
    assert f"treadle run --resume {LONG}" in why
    assert page.index('class="tabs"') < page.index('id="why"') < page.index('id="picture"')


def test_why_tells_what_the_check_agent_says_where_no_command_decides(browser):
    check = browser.layout.run(world.RUN).step(3, "check")
    said = {"verdict": "FAIL", "criteria": [{"id": "AC1", "pass": False}]}
    (check / "verdict.json").write_text(json.dumps(said))
    (check / "scorecard.md").write_text("# FAIL\n\nThe colours clash.\n")
    why = (
        browser.get(f"/runs/{world.RUN}")
        .text.partition('id="why"')[2]
        .partition('id="criteria"')[0]
    )
    assert all(it in why for it in ("Add a login", "The colours clash.", "3-check/scorecard.md"))
    assert f'/runs/{world.RUN}/steps/3"' in why
    said["criteria"][0]["evidence"] = "red on green"
    (check / "verdict.json").write_text(json.dumps(said))
    assert "<p>red on green</p>" in browser.get(f"/runs/{world.RUN}").text


def test_the_matrix_leads_from_every_cell_to_its_evidence(browser):
    page = browser.get(f"/runs/{LONG}").text
    assert page.count('class="cell refuted"') == 2 * 50
    assert "AC1 in iteration 60: claimed holds, observed fails: refuted" in page
    assert "steps/239-check/checks/AC30.txt" in page
    earlier = browser.get(f"/runs/{LONG}", params={"until": "10"}).text
    assert earlier.count('class="cell refuted"') == 2 * 10


def test_no_page_of_a_long_run_is_large(browser):
    for path in ("", "/steps", "/events"):
        page = browser.get(f"/runs/{LONG}{path}").content
        assert len(gzip.compress(page)) < 100_000, path


def test_a_large_patch_comes_in_pages(browser, monkeypatch):
    lines = "".join(f"+    value_{n} = compute({n}, 'text')\n" for n in range(6_000))
    patch = f"diff --git a/x.py b/x.py\n--- /dev/null\n+++ b/x.py\n@@ -0,0 +1,6000 @@\n{lines}"
    patch += "diff --git a/y.py b/y.py\n--- a/y.py\n+++ b/y.py\n@@ -1 +1 @@\n-a\n+b\n"
    found = RunChanges("a" * 40, "b" * 40, patch.encode(), {"y.py": "risky: steers tools"})
    monkeypatch.setattr(changes, "run_changes", lambda *_: found)
    page = browser.get(f"/runs/{LONG}/changes")
    assert len(gzip.compress(page.content)) < 150_000
    assert "value_999" in page.text
    assert "value_1000" not in page.text
    assert "?from=6000&amp;view=auto#file-2" in page.text
    assert "⚑ risky" in page.text
    last = browser.get(f"/runs/{LONG}/changes", params={"from": "6000"}).text
    assert 'id="file-2"' in last
    assert 'id="file-1"' not in last


def test_a_second_press_joins_the_first_and_the_end_is_told_late():
    pressed, go = Pressed(), threading.Event()
    ended = Captured(1, b'{"error": {"message": "no", "fix": ["treadle why last"]}}', b"")

    def run(stop):
        wait_for(lambda: go.is_set() or stop())
        return Captured(130, b'{"error": {"message": "interrupted"}}', b"") if stop() else ended

    first = pressed.start(["land", "x"], run)
    assert pressed.start(["land", "x"], run) is first
    assert pressed.start(["land", "y"], lambda stop: ended) is not first
    assert actions.said(pressed.find(first.id)).going == first.id
    go.set()
    assert first.wait(60)
    assert actions.said(first)[1:5] == (False, "no", ("treadle why last",), None)
    go.clear()
    again = pressed.start(["land", "x"], run)
    assert again is not first
    assert again in pressed.at_work()
    assert actions.cancel(again).text == "cancelled"
    assert again not in pressed.at_work()


@pytest.mark.parametrize("name", ["results", "messages"])  # of `answer`, of `process`
def test_a_press_says_what_the_last_command_it_set_off_came_to(name):
    end = {"run_id": "R", "status": "stopped", "reason": "spent", "next": "treadle why R"}
    told = json.dumps({name: [{"status": "done", "reason": None}, end]}).encode()
    command = Pressed().start([name], lambda stop: Captured(4, told, b""))
    assert command.wait(60)
    assert actions.said(command)[1:4] == (False, "stopped: spent", ("treadle why R",))
    assert actions.said(command).run == "R"


def test_a_log_is_read_by_ranges_and_searched(browser):
    file = "steps/239-check/checks/AC1.txt"
    page = browser.get(f"/runs/{LONG}/log", params={"file": file, "from": "20", "q": "LINE 3"}).text
    assert '<tr id="L20">' in page
    assert '<tr id="L19">' not in page
    assert '11 lines with <q class="as-typed">LINE 3</q>' in page
    assert "lines 20 to 40 of 40" in page
    told = browser.get(f"/runs/{LONG}/log.json", params={"file": file}).json()
    assert (told["total"], told["lines"][-1], told["step"]) == (40, "line 39", 239)
    assert browser.get(f"/runs/{LONG}/log", params={"file": "../../secret"}).status_code == 404
    assert browser.get(f"/runs/{LONG}/log", params={"step": "1"}).status_code == 200


def test_stdout_and_stderr_are_read_as_one_by_time(browser):
    logs = browser.layout.run(LONG).step(2, "do") / "logs"
    logs.mkdir()
    (logs / "stdout.txt").write_text("o1\no2\no3 goes on\nhalf")
    (logs / "stderr.txt").write_text("e1\ne2\nhalf, too")
    noted = [("stdout.txt", 8), ("stderr.txt", 3), ("stdout.txt", 17), ("stderr.txt", 6)]
    rows = [[stream, end, 1769083200.0 + n] for n, (stream, end) in enumerate(noted)]
    (logs / "growth.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + "[tor")
    both = "steps/002-do/logs/"
    told = browser.get(f"/runs/{LONG}/log.json?step=2").json()
    names = ["", "stderr.txt", "stdout.txt"]
    assert [it["name"] for it in told["files"]] == [both + name for name in names]
    assert (told["file"], told["size"]) == (both, told["files"][0]["size"] + 2)
    expected = ["o1", "o2", "e1", "o3 goes on", "e2", "half", "half, too"]
    assert told["lines"] == expected
    printed = [(stream[3:6], at and at[17:19]) for stream, at in told["printed"]]
    assert printed[:4] == [("out", "00"), ("out", "00"), ("err", "01"), ("out", "02")]
    assert printed[4:] == [("err", "03"), ("out", None), ("err", None)]
    page = browser.get(f"/runs/{LONG}/log", params={"file": both, "from": "2", "q": "HALF"}).text
    assert '2 lines with <q class="as-typed">HALF</q>' in page
    assert "lines 2 to 7 of 7" in page
    assert re.search(r'<td class="err">.*12:00:01 UTC.*<b>err</b> e1</td>', page)
    raw = browser.get(f"/runs/{LONG}/log.json", params={"file": f"{both}stdout.txt"}).json()
    assert raw["lines"] == [*expected[:2], expected[3], "half"]
    assert browser.get(f"/runs/{LONG}/log", params={"file": "steps/003-check/"}).status_code == 404


def test_earlier_attempts_of_a_step_are_among_its_logs(browser):
    step = browser.layout.run(LONG).step(6, "do")
    for name, text in (("logs/stdout.txt", "the last"), ("attempts/1/stdout.txt", "the first")):
        (step / name).parent.mkdir(parents=True, exist_ok=True)
        (step / name).write_text(f"{text}\n")
    page = browser.get(f"/runs/{LONG}/log?step=6").text
    earlier = "steps/006-do/attempts/1/stdout.txt"
    assert "the last" in page
    assert f"file={earlier}" in page.replace("%2F", "/")
    assert "the first" in browser.get(f"/runs/{LONG}/log", params={"file": earlier}).text


def test_a_secret_of_several_lines_is_masked_although_the_other_stream_cuts_it(tmp_path):
    key = "-----BEGIN PRIVATE KEY-----\n" + f"{'QUJD' * 16}\n" * 4 + "-----END PRIVATE KEY-----\n"
    (tmp_path / "stdout.txt").write_text(f"a\n{key}b\n")
    (tmp_path / "stderr.txt").write_text("e1\ne2\n")
    chunks = [
        Chunk("stdout.txt", 60, 1.0),
        Chunk("stderr.txt", 3, 2.0),
        Chunk("stdout.txt", 200, 3.0),
    ]
    with (tmp_path / "stdout.txt").open("rb") as out, (tmp_path / "stderr.txt").open("rb") as err:
        woven = lines.weave({"stdout.txt": out, "stderr.txt": err}, chunks, is_live=False)
        for first in (1, 4):
            found = lines.read_range(woven, first, 500, 1 << 16)
            shown = log._shown_of_both(found, woven, Mask({}))["lines"]
            assert "QUJD" not in "".join(shown)
            assert len(shown) == found.total - first + 1
            assert shown[-1] == "e2"


def test_events_and_long_json_are_for_people_with_the_raw_folded():
    event = json.dumps({"ts": "2026-01-22T12:00:01Z", "kind": "tool", "message": "ran <ls>"})
    line = log._line(3, event, is_event=True)
    assert (line.time, line.kind, line.text) == ("2026-01-22T12:00:01Z", "tool", "ran &lt;ls&gt;")
    assert '"kind": "tool"' in line.raw
    assert log._line(1, event[:20], is_event=True).raw is None
    nested = json.dumps({"type": "assistant", "message": {"content": ["x" * 200]}})
    assert log._line(1, nested, is_event=False).text.startswith("{&#34;type&#34;")


@pytest.mark.real
def test_no_page_is_over_150_kb_after_years(tmp_path):
    """2,000 runs, one of 399 steps with a log of 52 MB; 200 tasks, questions, letters, messages."""
    goals = [f"Let the shop's page {n} show what is in stock, and say so" for n in range(200)]
    site = world.site(tmp_path, goals)
    layout = site.project.layout
    long_run(layout, 100)
    with Store.open(layout) as store:
        for number in range(1_799):
            id_, goal = f"20250101-100000-{number:06x}", goals[number % 200]
            row = RunRow(id_, utc(world.NOW), goal, "running", 1, 0, None, f".treadle/runs/{id_}")
            store.insert_run(row, [], {})
            store.advance(id_, History(), Cursor("passed", 1, 0, "PASS"), 0)
        assert sum(store.run_counts().values()) == 2_000
    logs = layout.run(LONG).step(398, "do") / "logs"
    logs.mkdir()
    noise = b64encode(random.Random(1).randbytes(39_000_000))  # nothing can be pressed less
    said = b"\n".join(noise[at : at + 900] for at in range(0, len(noise), 900))
    (logs / "stdout.txt").write_bytes(said)
    assert len(said) > 52_000_000
    (logs / "stderr.txt").write_bytes(said[:100_000])
    noted = [["stdout.txt", 50_000_000, 1.0], ["stderr.txt", 9_000, 2.0]]
    (logs / "growth.jsonl").write_text("".join(json.dumps(it) + "\n" for it in noted))
    client = Client(site)
    client.get("/enter", params={"key": site.keys.new_link()})
    letter = client.get("/mail.json").json()["letters"][0]["file"].rpartition("/")[2]
    named = {"run": LONG, "step": "399", "task": "T-1", "slug": "auth", "item": "Q-1"}
    paths = [page.path.format_map(named | {"letter": letter}) for page in PAGES]
    log = f"/runs/{LONG}/log?file=steps/398-do/logs/"
    paths += [log, f"{log}stdout.txt&from=20000&q=a", "/runs?limit=500", "/runs?sort=cost"]
    paths += [f"/runs/{LONG}?until=10", f"/runs/{LONG}/steps/1", "/runs?limit=50&q=stock"]
    paths += [f"/runs/{world.RUN}", f"/runs/{world.RUN}/steps/1", "/cost?days=3660"]
    paths.remove(f"/runs/{LONG}/compare")  # it was no try among others
    pages = {path: client.get(path) for path in paths}
    assert {path: it.status_code for path, it in pages.items() if it.status_code != 200} == {}
    sizes = {path: len(gzip.compress(it.content)) for path, it in pages.items()}
    assert {path: size for path, size in sizes.items() if size > 150_000} == {}
