"""A change over a limit waits as it is: it is approved, or another one is asked for."""

import json
import re
import shlex
import sqlite3

import pytest

from tests.acceptance import messages
from tests.web.conftest import Worked, uncoloured

WORKFLOW = ".github/workflows/ci.yml"
CHECK = f"AC1=test -f {WORKFLOW}"
# What an agent writes that has been asked before is not what it wrote the first time.
TURNS = (
    "turn = request['step']['index']\n"
    f"path = repo / '{WORKFLOW}'; path.parent.mkdir(parents=True)\n"
    "path.write_text(f'turn: {turn}\\n')\n"
    "(repo / 'work.txt').write_text(request['context']['notes']); ok()"
)


def holding(project, code=TURNS, *words):
    """Run an agent that writes a workflow; return the run, which waits."""
    project.agent("do", code, edits=True)
    found = project.run_json("--verify", CHECK, *words)
    assert (found["code"], found["reason_code"]) == (4, "budget_exceeded"), found
    return found


def resume(project, run_id, *words, **options):
    return project.treadle("run", "--resume", run_id, "--json", *words, **options)


def desk(project):
    return project.treadle("desk", "--json").json["items"]


def commands(item):
    return {action["action"]: action["command"] for action in item["actions"]}


def literal(project, command):
    """Carry a printed command out as it stands."""
    program, *words = shlex.split(command)
    assert program == "treadle"
    return project.treadle(*words)


def asked(project, run_id):
    """Return who took each step: role and agent."""
    with sqlite3.connect(project.root / ".treadle" / "treadle.db") as store:
        query = "SELECT role, agent, status FROM steps WHERE run_id = ? ORDER BY step_index"
        return store.execute(query, (run_id,)).fetchall()


def on_branch(project, run, name=WORKFLOW):
    return project.git("show", f"{run['branch']}:{name}", check=False)


def test_a_held_change_is_kept_whole_and_shown(project):
    run = holding(project)
    run_id = run["run_id"]
    assert project.git("rev-parse", run["branch"]).strip() == run["base_commit"]
    kept = project.git("rev-parse", f"refs/treadle/held/{run_id}").strip()
    assert project.git("show", f"{kept}:{WORKFLOW}") == "turn: 2\n"
    diff = project.step_dir(run_id, "002-do") / "files" / "held.diff"
    assert "+turn: 2" in diff.read_text()
    (item,) = desk(project)
    assert (item["kind"], item["run_id"]) == ("approval", run_id)
    assert f"{WORKFLOW} (config)" in item["summary"]
    look = next(line for line in item["fix"] if line.startswith("git diff"))
    assert "+turn: 2" in project.git(*shlex.split(look)[1:])
    assert "--budget" not in str(item)
    shown = project.treadle("desk", "show", item["item_id"])
    assert shown.out.count("+turn: 2") == 1
    assert "+turn: 2" in project.treadle("desk", "show", item["item_id"], "--json").out


def test_answering_is_the_whole_thing(project):
    run = holding(project)
    (item,) = desk(project)
    done = project.treadle("answer", item["item_id"], "approve")
    assert done.code == 0, done.err
    assert project.show(run["run_id"])["status"] == "passed"
    assert on_branch(project, run) == "turn: 2\n"
    assert project.treadle("answer", item["item_id"], "approve").code == 1


def test_an_answer_in_words_rejects_with_them(project):
    run = holding(project)
    (item,) = desk(project)
    words = ("reject", "--text", "use the shared workflow")
    assert project.treadle("answer", item["item_id"], *words).code == 4
    kept = f"refs/treadle/held/{run['run_id']}"
    assert "use the shared workflow" in project.git("show", f"{kept}:work.txt")


def test_approving_takes_that_tree_and_asks_nobody_again(project):
    run = holding(project)
    kept = project.git("rev-parse", f"refs/treadle/held/{run['run_id']}").strip()
    (item,) = desk(project)
    done = literal(project, commands(item)["approve"])
    assert done.code == 0, done.err
    found = project.show(run["run_id"])
    assert found["status"] == "passed"
    assert project.git("rev-parse", run["branch"]).strip() == kept
    assert on_branch(project, run) == "turn: 2\n"
    assert asked(project, run["run_id"]) == [
        ("plan", "builtin", "skipped"),
        ("do", "do", "fail"),
        ("do", "human", "ok"),
        ("check", "builtin", "ok"),
    ]
    assert "change_approved" in project.event_types(run["run_id"])
    assert desk(project) == []
    subject = project.git("log", "-1", "--format=%s%n%b", run["branch"])
    assert subject.startswith("do 1: Make done.txt")
    assert run["run_id"] in subject


def test_a_rejected_change_is_asked_for_again_with_the_reason(project):
    run = holding(project, "if request['step']['index'] > 2:\n"
                  "    (repo / 'notes.txt').write_text(request['context']['notes'])\n"
                  "    ok(); raise SystemExit\n" + TURNS)  # fmt: skip
    words = ("--reject", "we use no workflows here", "--budget", "max_iterations=1")
    said = resume(project, run["run_id"], *words)
    assert said.json["status"] == "stopped"  # without the file its check fails
    roles = [role for role, _, _ in asked(project, run["run_id"])]
    assert roles == ["plan", "do", "do", "check"]
    notes = on_branch(project, run, "notes.txt")
    assert "we use no workflows here" in notes
    assert "Not accepted: the last change" in notes
    assert on_branch(project, run) == ""
    assert "rejected" in project.event_types(run["run_id"])


@pytest.mark.real
def test_the_printed_rejection_works(project):
    run = holding(project)
    (item,) = desk(project)
    done = literal(project, commands(item)["reject"])
    assert done.code == 4, done.err
    assert project.git("rev-parse", run["branch"]).strip() == run["base_commit"]
    kept = project.git("rev-parse", f"refs/treadle/held/{run['run_id']}").strip()
    assert project.git("show", f"{kept}:{WORKFLOW}") == "turn: 3\n", "the new one is held now"
    (item,) = desk(project)
    assert item["run_id"] == run["run_id"]


@pytest.mark.real
def test_a_higher_limit_approves_nothing(project):
    run = holding(project)
    again = resume(project, run["run_id"], "--budget", "max_risky_files=9")
    error = again.json["error"]
    assert (again.code, error["code"]) == (3, "approval_waits")
    assert on_branch(project, run) == ""
    assert len(desk(project)) == 1
    approve = next(line for line in error["fix"] if "--approve" in line)
    assert literal(project, approve).code == 0
    assert on_branch(project, run) == "turn: 2\n"


@pytest.mark.real
def test_a_raised_size_is_for_what_comes(project):
    code = "(repo / 'big.txt').write_text(str(request['step']['index']) * 3000); ok()"
    project.agent("do", code, edits=True)
    words = ("--verify", "AC1=test -f big.txt", "--budget", "max_patch_kb=1")
    run = project.run_json(*words)
    assert (run["code"], run["reason_code"]) == (4, "budget_exceeded")
    done = resume(project, run["run_id"], "--budget", "max_patch_kb=100")
    assert done.json["status"] == "passed"
    assert on_branch(project, run, "big.txt")[0] == "3", "the agent was asked again"


@pytest.mark.real
@pytest.mark.parametrize("limit", ["max_patch_kb=1", "max_changed_files=1"])
def test_a_big_change_is_approved_like_a_risky_one(project, limit):
    code = "[(repo / f'big{n}.txt').write_text('x' * 3000) for n in range(3)]; ok()"
    project.agent("do", code, edits=True)
    run = project.run_json("--verify", "AC1=test -f big2.txt", "--budget", limit)
    assert (run["code"], run["reason_code"]) == (4, "budget_exceeded")
    done = resume(project, run["run_id"], "--approve", "change")
    assert (done.code, done.json["status"]) == (0, "passed")
    assert on_branch(project, run, "big1.txt") == "x" * 3000


@pytest.mark.real
def test_a_patch_of_act_is_held_and_approved_too(project):
    project.good_agents()
    for role in ("act", "check"):
        path = project.folder / f"{role}.py"
        path.write_text(path.read_text().replace("done.txt", WORKFLOW))
    run = project.run_json()
    assert (run["code"], run["reason_code"]) == (4, "budget_exceeded")
    done = resume(project, run["run_id"], "--approve", "change")
    assert done.json["status"] == "passed"
    roles = [(role, agent) for role, agent, _ in asked(project, run["run_id"])]
    assert roles[3:] == [
        ("act", "act"),
        ("act", "human"),
        ("plan", "plan"),
        ("do", "do"),
        ("check", "check"),
    ]


@pytest.mark.real
def test_the_page_shows_what_is_held_and_what_was_approved(project):
    run = holding(project)
    run_id = run["run_id"]
    browser = Worked(project, run_id, {}).browser
    assert "turn: 2" in uncoloured(browser.get(f"/runs/{run_id}/steps/2").text)
    assert f"/runs/{run_id}/changes#approve" in browser.get(f"/runs/{run_id}").text
    (item,) = desk(project)
    offered = {
        "/desk": f"treadle answer {item['item_id']} approve --wait",
        f"/runs/{run_id}/changes": f"--resume={run_id} --approve=change --wait",
    }
    for page, command in offered.items():
        shown = uncoloured(browser.get(page).text)
        assert shown.index("turn: 2") < shown.index(command), "it comes after the diff"
        assert "max_risky_files=" not in shown, page
    resume(project, run_id, "--approve", "change")
    approved = uncoloured(browser.get(f"/runs/{run_id}/steps/3").text)
    assert "turn: 2" in approved
    assert "approved by a person" in approved


@pytest.mark.real
def test_an_approved_step_is_a_step_like_any_other(project):
    run = holding(project)
    resume(project, run["run_id"], "--approve", "change")
    folder = project.step_dir(run["run_id"], "003-do")
    sent = json.loads((folder / "input.json").read_text())
    assert sent["step"] == {"index": 3, "role": "do", "iteration": 1}
    assert json.loads((folder / "output.json").read_text())["status"] == "ok"
    assert "+turn: 2" in (folder / "files" / "workspace.diff").read_text()
    assert project.treadle("doctor", "--json").json["ok"]


@pytest.mark.real
def test_several_risky_files_are_one_item(project):
    files = (WORKFLOW, ".envrc", ".npmrc")
    code = "".join(
        f"p = repo / '{name}'; p.parent.mkdir(exist_ok=True, parents=True); p.write_text('x')\n"
        for name in files
    )
    run = holding(project, code + "ok()")
    (item,) = desk(project)
    assert all(name in item["summary"] for name in files)
    assert resume(project, run["run_id"], "--approve", "change").code == 0
    assert all(on_branch(project, run, name) == "x" for name in files)


@pytest.mark.real
def test_approving_twice_is_told(project):
    run = holding(project)
    assert resume(project, run["run_id"], "--approve", "change").code == 0
    head = project.git("rev-parse", run["branch"])
    again = resume(project, run["run_id"], "--approve", "change")
    assert (again.code, again.json["error"]["code"]) == (1, "nothing_to_approve")
    told = again.json["error"]["message"]
    assert re.search(r"; change_approved at [-\d]+ \d\d:\d\d:\d\d \w+$", told), told
    assert project.git("rev-parse", run["branch"]) == head


@pytest.mark.real
@pytest.mark.parametrize("word", ["plan", "protected"])
def test_approving_what_is_not_held_is_told(project, word):
    run = holding(project)
    again = resume(project, run["run_id"], "--approve", word)
    assert (again.code, again.json["error"]["code"]) == (1, "nothing_to_approve")
    approve = next(line for line in again.json["error"]["fix"] if "--approve" in line)
    assert literal(project, approve).code == 0


@pytest.mark.real
def test_the_base_may_move_before_the_approval(project):
    run = holding(project)
    (project.root / "README.md").write_text("moved\n")
    project.git("commit", "-qam", "Move on")
    done = resume(project, run["run_id"], "--approve", "change")
    assert done.json["status"] == "passed"
    assert project.git("merge-base", run["branch"], "main").strip() == run["base_commit"]
    landed = project.treadle("land", run["run_id"], "--json")
    assert landed.code == 0, landed.out
    assert (project.root / WORKFLOW).read_text() == "turn: 2\n"


@pytest.mark.real
def test_a_run_whose_workspace_was_pruned_is_approved_all_the_same(project):
    run = holding(project)
    assert project.treadle("runs", "prune", "--older-than", "0").code == 0
    assert not (project.run_dir(run["run_id"]) / "workspace").is_symlink()
    project.git("gc", "--prune=now", "-q")
    assert resume(project, run["run_id"], "--approve", "change").json["status"] == "passed"


@pytest.mark.real
def test_a_pruned_run_and_its_change_are_gone(project):
    run = holding(project)
    gone = project.treadle("runs", "prune", "--older-than", "0", "--history")
    assert run["run_id"] in gone.out
    assert project.git("for-each-ref", "refs/treadle") == ""
    again = resume(project, run["run_id"], "--approve", "change")
    assert again.code == 1
    assert run["run_id"] in again.json["error"]["message"]


@pytest.mark.real
def test_a_lost_commit_comes_back_out_of_its_diff(project):
    run = holding(project)
    project.git("update-ref", "-d", f"refs/treadle/held/{run['run_id']}")
    project.git("gc", "--prune=now", "-q")
    assert resume(project, run["run_id"], "--approve", "change").json["status"] == "passed"
    assert on_branch(project, run) == "turn: 2\n"


@pytest.mark.real
def test_the_second_turn_of_a_routine_never_lands_unreviewed(project):
    """What was looked at is what lands: a turn that nobody has seen brings nothing in."""
    messages.routine(
        project,
        "ship",
        "#!/bin/sh\nif grep -q first .envrc 2>/dev/null || [ -e $message_dir/../steps/001-do ]\n"
        f"then mkdir -p .github/workflows; echo evil > {WORKFLOW}\n"
        "else echo first > .envrc; fi\n",
    )
    project.settings('default_routine = "ship"\n')
    project.git("add", ".treadle")
    project.git("commit", "-qm", "Routine")
    project.treadle("send", "ship it")
    project.treadle("process")
    run_id = project.only_run()["run_id"]
    for words in (("--budget", "max_risky_files=1"), ("--reject", "no"), ()):
        resume(project, run_id, *words)
        project.treadle("process")
        assert WORKFLOW not in project.git("ls-tree", "-r", "--name-only", "main"), words
    (item,) = [item for item in desk(project) if item["run_id"] == run_id]
    assert WORKFLOW in item["summary"]


@pytest.mark.real
def test_an_approved_change_of_a_routine_lands_with_its_message(project):
    messages.routine(project, "ship", "#!/bin/sh\necho first > .envrc\n")
    project.settings('default_routine = "ship"\n')
    project.git("add", ".treadle")
    project.git("commit", "-qm", "Routine")
    project.treadle("send", "ship it")
    project.treadle("process")
    run_id = project.only_run()["run_id"]
    done = resume(project, run_id, "--approve", "change")
    assert done.json["status"] == "passed", done.out
    project.treadle("process")
    assert project.git("show", "main:.envrc") == "first\n"


@pytest.mark.real
@pytest.mark.parametrize(
    "words",
    [
        ("--approve", "change"),
        ("--reject", "no"),
        ("--resume", "x", "--approve", "change", "--reject", "no"),
        ("--resume", "x", "--approve", "all"),
    ],
)
def test_what_makes_no_sense_is_refused(project, words):
    assert project.treadle("run", *words).code == 2


POINTS = [
    *("before_approval", "before_run_file:1", "after_run_file:1", "before_manifest:1"),
    *("before_sync:1", "before_rename:1", "after_rename:1", "before_branch:1", "after_branch:1"),
    *("after_workspace:1", "before_transaction:1", "after_transaction:1", "after_approval"),
]


QUICK = ("before_approval", "after_rename:1", "after_branch:1", "after_transaction:1")


@pytest.mark.real
@pytest.mark.parametrize(
    "point", [it if it in QUICK else pytest.param(it, marks=pytest.mark.real) for it in POINTS]
)
def test_an_approval_survives_a_kill(project, point):
    run = holding(project)
    run_id, kept = run["run_id"], project.git("rev-parse", f"refs/treadle/held/{run['run_id']}")
    killed = resume(project, run_id, "--approve", "change", env={"TREADLE_DIE_AT": point})
    assert killed.code == -9
    project.treadle("runs", "prune", "--older-than", "9999")  # whatever comes next recovers
    (item,) = desk(project) or [None]
    waits = project.show(run_id)["reason_code"] == "budget_exceeded"
    assert bool(item) == waits, "what waits is on the desk, and nothing else"
    words = ("--approve", "change") if waits else ()
    done = resume(project, run_id, *words)
    assert done.json["status"] == "passed", done.out
    assert project.git("rev-parse", run["branch"]) == kept
    taken = [agent for role, agent, _ in asked(project, run_id) if role == "do"]
    assert taken == ["do", "human"], "once, and no agent for it"
    assert (
        project.git("rev-list", "--count", f"{run['base_commit']}..{run['branch']}").strip() == "1"
    )
    project.git("fsck", "--strict")


@pytest.mark.real
@pytest.mark.parametrize("point", ["before_run_file:1", "after_run_file:1", "after_stage:1"])
def test_a_rejection_survives_a_kill(project, point):
    run = holding(project)
    killed = resume(project, run["run_id"], "--reject", "no way", env={"TREADLE_DIE_AT": point})
    assert killed.code == -9
    done = resume(project, run["run_id"])
    assert (done.code, done.json["reason_code"]) == (4, "budget_exceeded")
    assert on_branch(project, run) == ""
    kept = f"refs/treadle/held/{run['run_id']}"
    assert "no way" in project.git("show", f"{kept}:work.txt")


@pytest.mark.real
@pytest.mark.parametrize("point", ["after_hold", "after_rename:2", "before_transaction:2"])
def test_what_is_held_survives_a_kill(project, point):
    project.agent("do", TURNS, edits=True)
    killed = project.run("--verify", CHECK, env={"TREADLE_DIE_AT": point})
    assert killed.code == -9
    project.treadle("runs", "prune", "--older-than", "9999")  # whatever comes next recovers
    run = project.show(project.only_run()["run_id"])
    if run["reason_code"] != "budget_exceeded":  # the agent's turn itself was lost
        resume(project, run["run_id"])
    (item,) = desk(project)
    assert literal(project, commands(item)["approve"]).code == 0
    kept = project.git("rev-parse", f"refs/treadle/held/{run['run_id']}")
    assert project.git("rev-parse", run["branch"]) == kept
    assert on_branch(project, run) == "turn: 2\n"
