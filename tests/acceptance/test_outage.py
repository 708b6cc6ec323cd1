"""A night outlives an outage: tools whose service or login is broken are waited for, and hold."""

import json
import signal
import sqlite3
import time

import pytest

from tests.acceptance.messages import drop, routine, spec
from tests.agents import fake
from tests.builder import wait_for

ANSWER = {"version": 1, "status": "ok", "summary": "done"}
OVERLOADED = "529 overloaded_error: Overloaded"
HANGS = "hangs"
EXPIRED = "401 Unauthorized: the token has expired, please log in again"


@pytest.fixture
def site(project):
    """A project whose do agent is a codex that makes a file, as soon as its service works."""
    site = Site(project)
    site.configure()
    return site


class Site:
    def __init__(self, project):
        self.project, self.calls = project, project.folder / "calls"
        self.broken = project.folder / "broken"
        item = {"type": "agent_message", "text": json.dumps(ANSWER)}
        said = [
            {"type": "thread.started"},
            {"type": "item.completed", "item": item},
            {"type": "turn.completed", "usage": {"input_tokens": 10, "output_tokens": 5}},
        ]
        answer = project.folder / "answer.jsonl"
        answer.write_text("".join(json.dumps(it) + "\n" for it in said))
        # A file `broken` has what the service says; each line of it breaks one call.
        script = f"""cat > /dev/null
echo call >> {self.calls}
if [ -s {self.broken} ]; then
  if [ "$(head -n 1 {self.broken})" = {HANGS} ]; then sed -i 1d {self.broken}; exec sleep 60; fi
  head -n 1 {self.broken} >&2
  if [ -e {self.broken}.heals ]; then sed -i 1d {self.broken}; fi
  exit 1
fi
echo line >> done.txt
touch made-$(wc -l < {self.calls})
cat {answer}
"""
        project.env["PATH"] = fake.program(project.folder, "codex", script)

    def configure(self, **settings):
        words = {"retry_wait": 0.05, "patience": 60} | settings
        lines = [f"{key} = {value}" for key, value in words.items()]
        self.project.config["do"] = "\n".join(['type = "codex"', *lines])
        self.project.settings('sandbox = "off"\n')

    def breaks(self, *words, heals=False):
        self.broken.write_text("".join(f"{word}\n" for word in words))
        if heals:
            self.broken.with_name("broken.heals").touch()

    def mend(self):
        self.broken.unlink()

    def task(self, count):
        check = f"AC1=test $(cat done.txt 2>/dev/null | wc -l) -ge {count}"
        self.project.treadle("task", "add", f"Make line {count}", "--verify", check)

    def desk(self):
        return self.project.treadle("desk", "--json").json["items"]

    def down(self):
        with sqlite3.connect(self.project.root / ".treadle" / "treadle.db") as store:
            return store.execute("SELECT service, error, failures, next_at FROM outages").fetchall()

    def begun(self):
        return len(self.calls.read_text().split()) if self.calls.exists() else 0


def test_an_outage_is_waited_for_and_passes_by(site):
    site.breaks(*[OVERLOADED] * 3, heals=True)
    site.task(1)
    done = site.project.treadle("run")
    assert (done.code, site.begun()) == (0, 4), done.out + done.err
    assert "note: T-1  waiting for codex (server_error), next try at " in done.err, done.err
    assert "note: T-1  uncommitted files are not part of this run" in done.err
    run_id = site.project.only_run()["run_id"]
    assert site.project.event_types(run_id).count("attempt_failed") == 3
    (waited,) = [it for it in site.project.show(run_id)["steps"] if it["role"] == "do"]
    assert waited["status"] == "ok"
    assert (site.desk(), site.down()) == ([], [])


@pytest.mark.real
def test_a_service_that_lets_a_tool_wait_until_its_limit_is_an_outage(site):
    site.configure(timeout=0.5)
    site.breaks(*[HANGS] * 3)
    site.task(1)
    done = site.project.treadle("run")
    assert done.code == 0, done.out + done.err
    assert "waiting for codex (timeout), next try at " in done.err
    run_id = site.project.only_run()["run_id"]
    assert site.project.event_types(run_id).count("attempt_failed") >= 3
    assert (site.desk(), site.down()) == ([], [])


@pytest.mark.real
def test_pauses_are_no_working_time(site):
    site.configure(retry_wait=3)
    site.breaks(OVERLOADED, heals=True)
    site.task(1)
    began = time.monotonic()
    assert site.project.treadle("run").code == 0
    took = time.monotonic() - began
    assert site.project.show("last")["usage"]["spent"]["minutes"] * 60 < took - 2.9


def test_a_tool_that_stays_broken_holds_the_queue_with_one_item_until_it_is_answered(site):
    site.configure(patience=0, retry_wait=3600)
    site.breaks(OVERLOADED)
    for count in (1, 2, 3):
        site.task(count)
    first = site.project.treadle("run", "--json")
    assert (first.code, site.begun()) == (3, 1), first.out
    assert [it["reason_code"] for it in first.json["runs"]] == ["server_error"]
    (refused,) = first.json["refused"]
    assert (refused["task_id"], refused["code"]) == ("T-2", "agent_down")
    (item,) = site.desk()
    assert (item["kind"], item["subject"]) == ("held", {"kind": "agent", "id": "codex"})
    assert "Overloaded" in item["summary"]
    assert refused["fix"][0] == f"treadle answer {item['item_id']} retry"
    again = site.project.treadle("run")
    assert (again.code, site.begun()) == (3, 1)
    assert "not begun: codex has not worked since" in again.err
    assert "codex has not worked since" in site.project.treadle("status").out
    site.mend()
    answered = site.project.treadle("answer", item["item_id"], "retry")
    assert answered.code == 0, answered.out + answered.err
    assert (site.desk(), site.down()) == ([], [])
    assert site.project.treadle("run").code == 0
    lanes = [it["lane"] for it in site.project.treadle("task", "list", "--json").json["tasks"]]
    assert lanes == ["approved"] * 3


def test_an_answer_ends_the_pause_of_a_run_that_waits(site):
    site.configure(retry_wait=3600)
    site.breaks(EXPIRED)
    site.task(1)
    working = site.project.start("run")
    (item,) = wait_for(site.desk)
    assert "log in with codex login" in item["summary"]
    site.mend()
    assert site.project.treadle("answer", item["item_id"], "retry").code == 0
    out, err = working.communicate(timeout=120)
    assert (working.returncode, site.begun()) == (0, 2), out + err


def test_a_stopped_run_whose_task_has_passed_otherwise_is_not_taken_up(site):
    site.configure(patience=0, retry_wait=0)
    site.breaks(OVERLOADED)
    site.task(1)
    assert site.project.treadle("run").code == 1
    site.mend()
    assert site.project.treadle("run", "T-1").code == 0
    again = site.project.treadle("run")
    assert (again.code, site.begun()) == (0, 2), again.out + again.err
    passed, stopped = [
        it["run_id"] for it in site.project.treadle("runs", "list", "--json").json["runs"]
    ]
    told = site.project.treadle("why", stopped, "--json").json["next"]
    assert told[-1] == f"treadle land {passed}"
    assert site.project.treadle("land", passed).code == 0


@pytest.mark.real
def test_a_stop_ends_a_pause_at_once(site):
    site.configure(retry_wait=3600)
    site.breaks(EXPIRED)
    site.task(1)
    working = site.project.start("run")
    wait_for(site.desk)
    working.send_signal(signal.SIGTERM)
    working.communicate(timeout=60)
    assert working.returncode == 143
    assert site.project.show("last")["reason_code"] == "interrupted"


def test_what_is_known_of_an_outage_survives_a_kill_in_a_pause(site):
    site.configure(retry_wait=3600)
    site.breaks(OVERLOADED)
    for count in (1, 2):
        site.task(count)
    working = site.project.start("run")
    wait_for(site.down)
    working.kill()
    working.communicate()
    hasty = {"TREADLE_AGENTS_DO_PATIENCE": "0"}
    held = site.project.treadle("run", env=hasty)
    assert (held.code, site.begun()) == (3, 1), held.out + held.err
    ((service, error, failures, next_at),) = site.down()
    assert (service, error, failures, bool(next_at)) == ("codex", "server_error", 1, True)
    site.mend()
    assert site.project.treadle("run", "--resume", "T-1").code == 0
    assert site.down() == []
    assert site.project.treadle("run").code == 0


def test_a_kill_right_after_the_mark_leaves_the_item_too(site):
    site.breaks(EXPIRED)
    site.task(1)
    killed = site.project.treadle("run", env={"TREADLE_DIE_AT": "after_outage"})
    assert killed.code == -9
    assert [row[0] for row in site.down()] == ["codex"]
    assert [it["subject"]["id"] for it in site.desk()] == ["codex"]


@pytest.mark.real
def test_serve_goes_on_by_itself_with_what_was_held(site):
    site.configure(patience=0, retry_wait=2)
    site.breaks(*[OVERLOADED] * 3, heals=True)
    for name, call in (("01-a", 4), ("02-b", 5)):
        text = f"# {name}\n\n## Acceptance Criteria\n- there: `$ test -f made-{call}`\n"
        spec(site.project, f"{name}.spec.md", text)
    first = site.project.treadle("process", "--json")
    assert [it["status"] for it in first.json["messages"]] == ["stopped", "down"], first.out
    assert first.code == 4
    assert len(site.desk()) == 1
    server = site.project.start("serve", "--no-web")
    listed = site.project.root / "specs" / "processed-spec.md"
    try:
        wait_for(lambda: listed.exists() and "02-b.spec.md" in listed.read_text())
    finally:
        server.terminate()
        server.communicate(timeout=60)
    assert (site.begun(), site.desk(), site.down()) == (5, [], [])


@pytest.mark.real
def test_run_with_only_blocked_tasks_says_so(project):
    project.agent("do", "sys.exit(1)", edits=True)
    project.treadle("task", "add", "Something", "--verify", "AC1=test -f done.txt")
    assert project.treadle("run").code == 1
    again = project.treadle("run")
    assert again.code == 3
    assert "nothing is ready to run:\n  T-1 is blocked\n  next: treadle " in again.out


def test_agents_with_variables_of_their_own_are_services_of_their_own(site):
    site.configure(patience=0, retry_wait=3600)
    own = '[agents.{}.env]\nOPENAI_BASE_URL = "http://{}.invalid/v1"\n'
    site.project.config["other"] = 'type = "codex"\n' + own.format("other", "b")
    site.project.config["do"] += "\n" + own.format("do", "a")
    site.project.settings('sandbox = "off"\n')
    site.breaks(EXPIRED, heals=True)
    site.task(1)
    site.task(1)
    assert site.project.treadle("run", "T-1").code == 1
    assert [row[0] for row in site.down()] == ["codex (agent do)"]
    passed = site.project.treadle("run", "T-2", "--agent", "do=other")
    assert (passed.code, site.begun()) == (0, 2), passed.err
    (item,) = site.desk()
    assert "codex (agent do) has not worked since" in item["summary"]


def test_messages_wait_for_a_tool_that_is_missing_with_one_item(site):
    tool, away = site.project.folder / "bin" / "codex", site.project.folder / "away"
    site.configure(patience=0, fallback='["spare"]')
    site.project.config["spare"] = 'type = "command"\ncmd = ["no-such-tool"]\n'
    site.project.settings('sandbox = "off"\n')
    tool.rename(away)
    for name, call in (("01-a", 1), ("02-b", 2)):
        text = f"# {name}\n\n## Acceptance Criteria\n- there: `$ test -f made-{call}`\n"
        spec(site.project, f"{name}.spec.md", text)
    first = site.project.treadle("process", "--json")
    assert [it["status"] for it in first.json["messages"]] == ["down", "down"], first.out
    assert (first.code, site.begun()) == (3, 0)
    (item,) = site.desk()
    assert item["subject"] == {"kind": "agent", "id": "codex"}
    assert "codex is not installed" in item["summary"], "and whoever stands in"
    assert "agent spare: no-such-tool is not installed" in item["summary"]
    assert not list(site.project.root.glob(".treadle/runs/*"))
    away.rename(tool)
    answered = site.project.treadle("answer", item["item_id"], "retry")
    assert (answered.code, site.begun()) == (0, 2), answered.out + answered.err
    assert (site.desk(), site.down()) == ([], [])


@pytest.mark.real
def test_serve_goes_on_when_a_missing_tool_is_there(site):
    tool, away = site.project.folder / "bin" / "codex", site.project.folder / "away"
    tool.rename(away)
    spec(site.project, "a.spec.md", "# A\n\n## Acceptance Criteria\n- there: `$ test -f made-1`\n")
    server = site.project.start("serve", "--no-web")
    listed = site.project.root / "specs" / "processed-spec.md"
    try:
        wait_for(site.desk)
        away.rename(tool)
        with sqlite3.connect(site.project.root / ".treadle" / "treadle.db") as store:
            store.execute("UPDATE outages SET next_at = '2026-01-01T00:00:00.000Z'")
        wait_for(lambda: listed.exists() and "a.spec.md" in listed.read_text())
    finally:
        server.terminate()
        server.communicate(timeout=60)
    assert (site.begun(), site.desk(), site.down()) == (1, [], [])


def test_what_waits_for_a_tool_gives_way_to_everything_else(site):
    project, words = site.project, "\n\n## Acceptance Criteria\n- there: `$ test -f {}`\n"
    site.configure(patience=3600, retry_wait=3600)
    project.agent("other", "(repo / 'made-c').touch(); ok()", edits=True)
    project.settings('sandbox = "off"\n')
    site.breaks(OVERLOADED)
    spec(project, "01-a.spec.md", "# A" + words.format("done.txt"))
    at_once = {"TREADLE_AGENTS_DO_PATIENCE": "0", "TREADLE_AGENTS_DO_RETRY_WAIT": "0.01"}
    assert project.treadle("process", env=at_once).code == 4, "the next pass goes on with it"
    routine(project, "note", "#!/bin/sh\n# Take a note\ntouch noted\n")
    drop(project, "1.md", "# By the tool" + words.format("done.txt"))
    drop(project, "2.md", "---\nroutine: note\n---\n# By a script\n")
    spec(project, "02-b.spec.md", "# B" + words.format("done.txt"))
    own = "---\nagents:\n  do: other\n---\n"
    spec(project, "03-c.spec.md", own + "# C" + words.format("made-c"))
    after = own.replace("agents", "depends_on: [01-a]\nagents")
    spec(project, "04-d.spec.md", after + "# D" + words.format("done.txt"))
    working = project.start("process", "--json")
    wait_for(lambda: all((project.root / name).exists() for name in ("noted", "made-c")))
    site.mend()
    with sqlite3.connect(project.root / ".treadle" / "treadle.db") as store:
        store.execute("UPDATE outages SET next_at = '2026-01-01T00:00:00.000Z'")
    out, err = working.communicate(timeout=120)
    told = [(it["routine"], it["name"][:4], it["status"]) for it in json.loads(out)["messages"]]
    assert working.returncode == 0, out + err
    names = [name for _, name, _ in told if name.startswith("0")]
    assert (told[0][0], names) == ("note", ["03-c", "01-a", "04-d", "02-b"]), told
    assert {status for *_, status in told} == {"done"}
    assert (site.begun(), site.down()) == (3, []), "of those that waited nobody asked it in vain"


@pytest.mark.real
def test_what_comes_while_a_run_waits_for_its_tool_is_carried_out(site):
    project, words = site.project, "\n\n## Acceptance Criteria\n- there: `$ test -f done.txt`\n"
    site.configure(patience=3600, retry_wait=3600)
    site.breaks(OVERLOADED)
    for name in ("01-a", "02-b"):
        spec(project, f"{name}.spec.md", "# Make it" + words)
    routine(project, "note", "#!/bin/sh\n# Take a note\ntouch noted-$message_id\n")
    working = project.start("process", "--json")
    wait_for(lambda: site.begun() and site.down())
    query, store = "SELECT 1 FROM messages WHERE spec IS NOT NULL", ".treadle/treadle.db"
    for count in (1, 2):  # while a run waits, and while a message does that has not begun
        with sqlite3.connect(project.root / store) as known:
            wait_for(lambda count=count: len(known.execute(query).fetchall()) == count)
        drop(project, f"{count}.md", "---\nroutine: note\n---\n# By a script\n")
        wait_for(lambda count=count: len(list(project.root.glob("noted-*"))) == count)
    site.mend()
    with sqlite3.connect(project.root / store) as known:
        known.execute("UPDATE outages SET next_at = '2026-01-01T00:00:00.000Z'")
    out, err = working.communicate(timeout=120)
    told = [it["status"] for it in json.loads(out)["messages"]]
    assert (working.returncode, told) == (0, ["done"] * 4), out + err
    assert (site.begun(), site.down()) == (2, [])
