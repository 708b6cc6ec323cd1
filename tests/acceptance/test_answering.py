"""An answer is the whole thing: it does what it says, once, and its words reach who works."""

import json
import shlex
import sys

import pytest

from tests.acceptance import messages
from tests.acceptance.mission import Mission
from tests.builder import wait_for
from tests.web.conftest import PORT, URL, Client
from treadle.project.context import open_context
from treadle.web.access import Keys
from treadle.web.site import Site

TASK = ("task", "add", "Make done.txt", "--id", "A-1", "--ac", "done.txt is there")
CHEAT = 'pathlib.Path(repo / "check.sh").write_text("true\\n"); ok()'


def items(project):
    return project.treadle("desk", "--json").json["items"]


def the_item(project):
    (item,) = items(project)
    return item


def answer(project, *words, **options):
    return project.treadle("answer", the_item(project)["item_id"], *words, **options)


def notes(project, run_id, after=0):
    """Return what each step of a run was told, by its role."""
    paths = sorted(project.run_dir(run_id).glob("steps/*/input.json"))
    found = [(path.parent.name, json.loads(path.read_text())) for path in paths]
    return {name[4:]: it["context"]["notes"] for name, it in found if int(name[:3]) > after}


def over_budget(project):
    project.good_agents()
    return project.run_json("--budget", "max_iterations=1")["run_id"]


def failed(project):
    project.good_agents()
    good = (project.folder / "plan.py").read_text()
    project.agent("plan", "sys.exit(1)")
    run_id = project.run_json()["run_id"]
    (project.folder / "plan.py").write_text(good)
    return run_id


def failed_task(project):
    project.treadle(*TASK)
    project.good_agents()
    good = (project.folder / "plan.py").read_text()
    project.agent("plan", "sys.exit(1)")
    run_id = project.treadle("run", "A-1", "--json").json["run_id"]
    (project.folder / "plan.py").write_text(good)
    return run_id


def stopped_by_git(project):
    """A run that passed and could not land, because the user changed the same file."""
    project.good_agents()
    project.settings('[land]\nrun = "auto"\n')
    (project.root / "done.txt").write_text("mine\n")
    return project.run_json()["run_id"]


def protected(project):
    (project.root / "check.sh").write_text("test -f never\n")
    project.git("add", ".")
    project.git("commit", "-q", "-m", "Check")
    project.agent("do", CHEAT, edits=True)
    return project.run_json("--verify", "AC1=sh check.sh")["run_id"]


def dead_letter(project):
    messages.routine(project, "log", "#!/bin/sh\n# Fails\nexit 1\n")
    project.settings('default_routine = "log"\nmax_retries = 1\n')
    project.treadle("send", "Do it")
    project.treadle("process")
    messages.routine(project, "log", messages.LOG)


def logging(project):
    messages.routine(project, "log", messages.LOG)
    project.settings('default_routine = "log"\nmax_retries = 1\n')


def held_spec(project):
    """A spec that waited for one that is not there; by now it waits for none."""
    logging(project)
    messages.spec(project, "01-a.spec.md", "---\ndepends_on: [gone]\n---\n# Do it\n")
    project.treadle("process")
    messages.spec(project, "01-a.spec.md")


def undone_spec(project):
    logging(project)
    messages.spec(project, "01-a.spec.md")
    run_id = project.treadle("process", "--json").json["messages"][0]["run_id"]
    assert project.treadle("undo", run_id).code == 0


def blocked_step(project):
    mission = Mission(project).create().with_tasks("")
    mission.next()
    mission.next("--result", "blocked", "--note", "no password")


def wish(project):
    """An agent's message that waits for approval."""
    code = 'write("outbox/next.md", "---\\nroutine: log\\n---\\nGo on\\n"); '
    project.agent("do", f'{code}(repo / "done.txt").write_text("1"); ok()', edits=True)
    messages.routine(project, "log", messages.LOG)
    project.settings('default_routine = "develop"\nmax_retries = 1\n')
    project.treadle("send", MADE)
    project.treadle("process")


def conflict(project):
    """Two specs that were worked on side by side and changed the same file."""
    write = '(repo / "shared.txt").write_text(str(step)); ok()'
    project.agent("do", write, edits=True)
    project.agent("act", write, edits=True)
    for name in ("01-a.spec.md", "02-b.spec.md"):
        messages.spec(
            project,
            name,
            "# Share\n\n## Acceptance Criteria\n\n- it is there: `$ test -f shared.txt`\n",
        )
    project.treadle("process", "--parallel", "2")


MADE = "# Make it\n\n## Acceptance Criteria\n\n- it is there: `$ test -f done.txt`\n"


def escalated(project):
    project.treadle(
        *("mail", "send", "--from", "boss", "--to", "ada", "--intent", "fix_bug"),
        *("--task", "B-1", "--summary", "Mend it"),
    )
    project.treadle("mail", "claim", "--as", "ada")
    body = project.root.parent / "body.md"
    body.write_text("## Summary\nWhich?\n\n## Options\n1. Red\n2. Blue\n")
    project.treadle(
        *("mail", "send", "--from", "ada", "--to", "human", "--intent", "escalate"),
        *("--task", "B-1", "--body", str(body)),
    )


def asked_by_letter(project):
    project.treadle(
        *("mail", "send", "--from", "boss", "--to", "ada", "--intent", "fix_bug"),
        *("--task", "B-1", "--summary", "Mend it"),
    )
    project.treadle(
        *("mail", "send", "--from", "ada", "--to", "human"),
        *("--intent", "approval_request", "--task", "B-1", "--summary", "Merge?"),
    )


WISH = """cat > "$TREADLE_OUTBOX/next.md" <<'EOT'
---
routine: other
---
Go on
EOT
"""


def status(project, run_id):
    return project.show(run_id)["status"]


def test_a_stopped_run_goes_on_and_its_progress_is_shown(project):
    run_id = over_budget(project)
    assert the_item(project)["actions"][0]["answer"] == "treadle answer Q-1 resume"
    found = answer(project, "resume")
    assert found.code == 0
    assert f"Q-1: treadle run --resume {run_id} --budget max_iterations=2" in found.out
    assert f"PASSED {run_id}" in found.out
    assert "act   1/2" in found.err
    assert status(project, run_id) == "passed"
    assert items(project) == []


def test_one_document_tells_the_answer_and_what_it_did(project):
    run_id = over_budget(project)
    found = answer(project, "resume", "--text", "use tabs", "--json").json
    assert (found["action"], found["answer"], found["item_id"]) == ("resume", "use tabs", "Q-1")
    assert found["results"][0]["run_id"] == run_id
    assert found["results"][0]["status"] == "passed"
    assert found["commands"] == [
        f"treadle run --resume {run_id} --budget max_iterations=2 --note 'use tabs'"
    ]


@pytest.mark.parametrize("said", [("resume", "--text", "use tabs"), ("use tabs",)])
def test_words_are_told_to_every_role_that_still_works(project, said):
    run_id = over_budget(project)
    assert answer(project, *said).code == 0
    told = notes(project, run_id, after=3)
    assert set(told) == {"plan", "do", "check", "act"}
    assert all("> use tabs" in words for words in told.values())


@pytest.mark.real
@pytest.mark.parametrize("make", [failed, failed_task])
def test_a_new_run_is_told_the_words_too(project, make):
    first = make(project)
    found = answer(project, "again", "--text", "use tabs", "--json").json["results"][0]
    assert (found["status"], found["run_id"] == first) == ("passed", False)
    assert all("use tabs" in words for words in notes(project, found["run_id"]).values())
    assert items(project) == []


def test_a_note_reaches_a_run_without_a_question(project):
    run_id = over_budget(project)
    words = ("run", "--resume", run_id, "--budget", "max_iterations=2", "--note", "use tabs")
    assert project.treadle(*words).code == 0
    assert "> use tabs" in notes(project, run_id, after=3)["act"]
    assert project.treadle("run", "--resume", run_id, "--note", " ").code == 2


@pytest.mark.real
@pytest.mark.parametrize("word", ["approve", "no", "Retry"])
def test_an_answer_that_the_item_does_not_offer_is_no_note_for_the_agent(project, word):
    run_id = failed(project)
    refused = answer(project, word, "--json")
    ways = [f"treadle answer Q-1 {verb}" for verb in ("resume", "again", "leave")]
    assert (refused.code, refused.json["error"]["fix"]) == (2, ways)
    assert (len(items(project)), status(project, run_id)) == (1, "failed")


@pytest.mark.real
def test_of_two_at_once_one_acts_and_the_other_gets_its_answer(project):
    run_id = over_budget(project)
    both = [project.start("answer", "Q-1", "resume", "--json") for _ in range(2)]
    ended = [(process.communicate()[0], process.returncode) for process in both]
    codes = sorted(code for _, code in ended)
    assert codes == [0, 1]
    lost = json.loads(next(out for out, code in ended if code))
    assert lost["error"]["code"] == "question_answered"
    assert "resume" in lost["error"]["message"]
    assert project.event_types(run_id).count("run_resumed") == 1


@pytest.mark.real
def test_what_cannot_be_done_leaves_the_item_and_its_exit_code(project):
    run_id = stopped_by_git(project)
    refused = answer(project, "land", "--json")
    assert (refused.code, refused.json["error"]["code"] != "bug") == (3, True)
    assert the_item(project)["run_id"] == run_id
    (project.root / "done.txt").unlink()
    landed = answer(project, "land")
    assert (landed.code, "LANDED" in landed.out) == (0, True)
    assert items(project) == []


@pytest.mark.real
def test_leaving_says_what_stays_and_how_to_take_it_up(project):
    run_id = failed(project)
    left = answer(project, "leave")
    assert left.code == 0
    assert "nothing else changes" in left.out
    assert items(project) == []
    assert status(project, run_id) == "failed"
    command = f"treadle run --resume {run_id}"
    assert command in left.out
    assert command in project.treadle("why", run_id).out
    assert project.treadle(*shlex.split(command)[1:]).code == 0


@pytest.mark.real
@pytest.mark.parametrize(("verb", "ends"), [("approve", "passed"), ("reject", "stopped")])
def test_protected_files_are_approved_or_sent_back(project, verb, ends):
    run_id = protected(project)
    shown = project.treadle("desk", "show", the_item(project)["item_id"])
    assert "+true" in shown.out
    answer(project, verb)
    assert status(project, run_id) == ends
    if verb == "reject":
        assert "Not accepted" in notes(project, run_id, after=3)["act"]


@pytest.mark.real
def test_a_dead_letter_is_carried_out_by_its_answer(project):
    dead_letter(project)
    item = the_item(project)
    shown = project.treadle("desk", "show", item["item_id"], "--json").json
    assert "Do it" in "".join(part["text"] for part in shown["details"])
    assert answer(project, "retry").code == 0
    assert items(project) == []
    assert len(messages.log(project)) == 1


@pytest.mark.real
def test_a_letter_is_answered_by_letter(project):
    escalated(project)
    assert "Which?" in project.treadle("desk", "show", the_item(project)["item_id"]).out
    assert answer(project, "--option", "2", "--text", "but light").code == 0
    (letter,) = project.treadle("mail", "list", "--as", "ada", "--box", "new", "--json").json[
        "letters"
    ]
    assert "but light" in project.treadle("mail", "read", letter["file"]).out


@pytest.mark.real
def test_the_desk_lists_answers_that_can_be_typed(project):
    run_id = failed(project)
    text = project.treadle("desk").out
    assert f"Q-1  failed run  0s ago  {run_id}" in text.replace("1s ago", "0s ago")
    for verb in ("resume", "again", "leave"):
        assert f"\n    treadle answer Q-1 {verb}\n" in f"{text}\n"
    assert "…" not in text


@pytest.mark.real
def test_an_item_shows_the_failing_command_and_its_last_lines(project):
    project.agent("do", "ok()", edits=True)
    command = f"{sys.executable} -c 'print(\"so it goes\"); exit(1)'"
    project.run_json("--verify", f"AC1={command}", "--budget", "max_iterations=1")
    shown = project.treadle("desk", "show", "Q-1").out
    assert "so it goes" in shown
    assert "treadle answer Q-1 resume" in shown
    gone = project.treadle("desk", "show", "Q-9", "--json")
    assert (gone.code, gone.json["error"]["code"]) == (1, "not_found")


@pytest.mark.real
def test_a_stopped_run_of_a_spec_can_be_dropped_with_it(project):
    project.good_agents()
    project.agent("act", "ok()")
    project.settings("[budgets]\nmax_iterations = 1\n")
    messages.spec(project, "01-never.spec.md", "# Never\n\n- it is there\n")
    project.treadle("process")
    drop = "treadle spec drop 01-never.spec.md"
    assert drop in the_item(project)["fix"]
    assert drop in answer(project, "leave").out
    assert project.treadle(*shlex.split(drop)[1:]).code == 0


KINDS = {
    "budget": (over_budget, ["resume", "leave"]),
    "failed goal": (failed, ["resume", "again", "leave"]),
    "failed task": (failed_task, ["resume", "again", "leave"]),
    "protected": (protected, ["approve", "reject", "leave"]),
    "dead letter": (dead_letter, ["retry", "leave"]),
    "escalation": (escalated, ["answer", "answer"]),
    "approval by letter": (asked_by_letter, ["approve", "reject"]),
    "wish of an agent": (wish, ["approve", "reject"]),
    "held spec": (held_spec, ["retry", "reject"]),
    "undone spec": (undone_spec, ["again", "reject"]),
    "blocked step": (blocked_step, ["retry", "leave"]),
}


@pytest.mark.real
@pytest.mark.parametrize(
    ("kind", "number"),
    [(kind, number) for kind, (_, verbs) in KINDS.items() for number in range(len(verbs))],
)
def test_every_answer_of_every_kind_works_as_it_is_printed(project, kind, number):
    make, verbs = KINDS[kind]
    make(project)
    item = the_item(project)
    assert [action["action"] for action in item["actions"]] == verbs
    line = item["actions"][number]["answer"]
    assert f"    {line}\n" in project.treadle("desk").out
    found = project.treadle(*shlex.split(line)[1:], "--json")
    assert found.code in (0, 3, 4), found
    assert "error" not in found.json
    assert item["item_id"] not in [it["item_id"] for it in items(project)]
    assert project.treadle("desk", "show", item["item_id"]).code == 0


@pytest.mark.real
@pytest.mark.parametrize(("verb", "code"), [("rebase", 0), ("land", 3), ("leave", 0)])
def test_a_refused_landing_is_rebased_landed_or_left(project, verb, code):
    conflict(project)
    item = the_item(project)
    assert [action["action"] for action in item["actions"]] == ["rebase", "land", "leave"]
    assert answer(project, verb).code == code
    is_open = item["item_id"] in [it["item_id"] for it in items(project)]
    assert is_open == (verb == "land")
    if verb == "rebase":
        assert status(project, item["run_id"]) == "passed"
        specs = project.treadle("spec", "list", "--json").json["specs"]
        assert [it["state"] for it in specs] == ["done", "done"]
        assert project.git("log", "--format=%s", "-2") == "Share\nShare\n"


def inbox_files(project):
    return sorted(path.name for path in (project.root / ".treadle/inbox").glob("*.md"))


@pytest.mark.parametrize(
    ("make", "verb"), [(dead_letter, "retry"), (wish, "approve"), (wish, "reject")]
)
def test_an_answer_about_a_message_carries_out_that_message_alone(project, make, verb):
    make(project)
    item = the_item(project)
    project.treadle("send", "Something else", "--routine", "log")
    messages.spec(project, "01-a.spec.md")
    found = answer(project, verb, "--json")
    assert (found.code, items(project)) == (0, []), found
    (message,) = found.json["results"][-1]["messages"]
    assert message["id"] == item["subject"]["id"].removesuffix(".md")
    assert message["status"] == ("dead" if verb == "reject" else "done")
    assert len(inbox_files(project)) == 1
    assert project.treadle("spec", "list", "--json").json["specs"][0]["state"] == "waiting"


def test_a_message_is_named_by_id_file_or_chain(inbox):
    for text in ("First", "Second", "Third", "Fourth"):
        inbox.treadle("send", text)
    one, two, three, _ = inbox_files(inbox)
    chain = three.rpartition("-")[0]
    for name, file in ((one, one), (two.removesuffix(".md"), two), (chain, three)):
        done = inbox.treadle("process", name, "--json").json["processed"]
        assert done == [file.removesuffix(".md")]
    assert len(inbox_files(inbox)) == 1
    again = inbox.treadle("process", one, "--json")
    assert (again.code, again.json["error"]["code"]) == (1, "not_found")
    assert "is done and not in the inbox" in again.json["error"]["message"]
    assert inbox.treadle(*shlex.split(again.json["error"]["fix"][0])[1:]).code == 0
    unknown = inbox.treadle("process", "nothing", "--json")
    assert (unknown.code, unknown.json["error"]["code"]) == (1, "not_found")


def test_an_item_whose_letter_is_gone_is_shown_and_left(project):
    dead_letter(project)
    item = the_item(project)["item_id"]
    for path in (project.root / ".treadle/inbox/dead").iterdir():
        path.unlink()
    shown = project.treadle("desk", "show", item, "--json")
    assert "exited with 1" in "".join(it["text"] for it in shown.json["details"])
    assert answer(project, "leave").code == 0
    assert project.treadle("desk", "show", item).code == 0


def test_a_dead_letter_says_what_carries_it_out(project):
    dead_letter(project)
    again = project.treadle("process", the_item(project)["subject"]["id"], "--json").json["error"]
    back = project.treadle(*shlex.split(again["fix"][0])[1:])
    line = back.out.partition("next: ")[2].strip()
    assert project.treadle(*shlex.split(line)[1:]).code == 0
    assert len(messages.log(project)) == 1


def dead_work(project):
    """A message and then a spec whose agent crashed too often."""
    project.agent("do", '(repo / "done.txt").write_text("1"); ok()', edits=True)
    good = (project.folder / "do.py").read_text()
    project.agent("do", "sys.exit(1)", edits=True)
    project.settings("max_retries = 1\n")
    return good


@pytest.mark.real
@pytest.mark.parametrize("words", [("retry", "--text", "use tabs"), ("use tabs",)])
@pytest.mark.parametrize("is_spec", [False, True])
def test_words_reach_the_next_run_of_a_dead_letter(project, words, is_spec):
    good = dead_work(project)
    if is_spec:
        messages.spec(project, "01-a.spec.md", MADE)
    else:
        project.treadle("send", MADE)
    project.treadle("process")
    (project.folder / "do.py").write_text(good)
    assert answer(project, *words).code == 0
    run_id = project.treadle("runs", "list", "--json").json["runs"][0]["run_id"]
    assert "use tabs" in told(project, run_id, "001-plan")
    assert "use tabs" in told(project, run_id, "002-do")


def told(project, run_id, step):
    return (project.run_dir(run_id) / "steps" / step / "input.json").read_text()


@pytest.mark.real
@pytest.mark.parametrize("words", [("again", "--text", "use tabs"), ("use tabs",)])
def test_words_reach_the_next_run_of_an_undone_spec(project, words):
    undone_spec(project)
    assert answer(project, *words).code == 0
    run_id = project.treadle("runs", "list", "--json").json["runs"][0]["run_id"]
    assert (project.run_dir(run_id) / "message" / "note.md").read_text() == "use tabs\n"
    assert items(project) == []


def browser(project):
    site = Site(open_context(project.root, project.environment()), Keys(), PORT)
    client = Client(site)
    client.get("/enter", params={"key": site.keys.new_link()})
    return client


def test_a_run_that_spent_its_budget_gets_one_of_your_choice_on_its_page(project):
    run_id = over_budget(project)
    text = browser(project).get(f"/runs/{run_id}").text
    assert 'name="budget" value="max_iterations=2"' in text


def press(project, line, **fields):
    """Press the button that shows this line, and return what the page says."""
    client = browser(project)
    before = client.get("/desk").text.partition(f"{line} --wait")[0]
    form = before.rpartition("<form")[2]
    url = form.partition('action="')[2].partition('"')[0]
    hidden = form.partition('type="hidden" name="')[2]
    value = hidden.partition('value="')[2].partition('"')[0]
    sent = {hidden.partition('"')[0]: value} | fields
    return client.post(url, data=sent, headers={"origin": URL, "hx-request": "true"}).text


BUTTONS = {
    "resume": over_budget,
    "again": failed,
    "approve": protected,
    "reject": protected,
    "retry": dead_letter,
    "land": stopped_by_git,
    "leave": failed,
}


@pytest.mark.real
@pytest.mark.parametrize(
    ("make", "verb"), [*((make, verb) for verb, make in BUTTONS.items()), (conflict, "rebase")]
)
def test_every_button_of_the_desk_is_the_command(project, make, verb):
    make(project)
    if make is stopped_by_git:
        (project.root / "done.txt").unlink()
    item = the_item(project)
    line = f"treadle answer {item['item_id']} {verb}"
    assert line in [action["answer"] for action in item["actions"]]
    fields = {"text": "not like this"} if verb == "reject" else {}
    text = press(project, line, **fields)
    assert line in text
    wait_for(lambda: item["item_id"] not in [it["item_id"] for it in items(project)])
    if verb == "reject":
        wait_for(lambda: status(project, item["run_id"]) == "stopped")
        assert "not like this" in notes(project, item["run_id"], after=3)["act"]
    # What goes on holds the project until its end.
    assert project.treadle("process", "--wait").code in (0, 3, 4)


POINTS = ("after_answer_taken", "after_answer_carried_out")


@pytest.mark.real
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_loses_no_answer_and_doubles_none(project, point):
    run_id = over_budget(project)
    line = ("resume", "--text", "use tabs")
    assert answer(project, *line, env={"TREADLE_DIE_AT": point}).code == -9
    if point == POINTS[0]:
        assert the_item(project)["item_id"] == "Q-1"
        assert answer(project, *line).code == 0
    assert status(project, run_id) == "passed"
    assert items(project) == []
    assert project.event_types(run_id).count("run_resumed") == 1
    assert notes(project, run_id, after=3)["act"].count("> use tabs") == 1


@pytest.mark.real
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_lands_once(project, point):
    stopped_by_git(project)
    (project.root / "done.txt").unlink()
    before = project.git("rev-list", "--count", "HEAD")
    assert answer(project, "land", env={"TREADLE_DIE_AT": point}).code == -9
    for _ in items(project):
        assert answer(project, "land").code == 0
    assert items(project) == []
    assert int(project.git("rev-list", "--count", "HEAD")) == int(before) + 1


@pytest.mark.real
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_sends_one_letter(project, point):
    escalated(project)
    assert answer(project, "Blue", env={"TREADLE_DIE_AT": point}).code == -9
    for _ in items(project):
        assert answer(project, "Blue").code == 0
    found = project.treadle("mail", "list", "--as", "ada", "--box", "new", "--json").json["letters"]
    assert [letter["summary"] for letter in found] == ["Blue"]


@pytest.mark.real
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_retries_a_dead_letter_once(project, point):
    dead_letter(project)
    assert answer(project, "retry", env={"TREADLE_DIE_AT": point}).code == -9
    for _ in items(project):
        assert answer(project, "retry").code == 0
    assert project.treadle("process").code == 0
    assert len(messages.log(project)) == 1
