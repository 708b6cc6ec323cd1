"""When an agent is out of its limit or login, or missing, the next of its list takes the role."""

import pytest

from tests.agents import fake
from tests.builder import wait_for

LIMIT = "You have hit your usage limit; try again in 3 hours"
EDIT = "(repo / 'done.txt').write_text('done'); ok('edited by ' + os.environ['TREADLE_AGENT'])"
RUN = ("run", "--goal", "Make done", "--verify", "AC1=test -f done.txt", "--json")


@pytest.fixture
def site(project):
    """A project whose codex only says that its limit is reached, and a spare that edits."""
    script = f"cat > /dev/null\necho called >> {project.folder}/calls\necho '{LIMIT}' >&2\nexit 1\n"
    project.env["PATH"] = fake.program(project.folder, "codex", script)
    project.agent("spare", EDIT, edits=True)
    project.config["do"] = 'type = "codex"\npatience = 0\nfallback = ["spare"]\n'
    project.settings('sandbox = "off"\n')
    return project


def calls(project):
    path = project.folder / "calls"
    return len(path.read_text().split()) if path.exists() else 0


def test_a_usage_limit_moves_the_role_to_the_next_agent_for_the_run(site):
    found = site.treadle(*RUN).json
    assert (found["status"], calls(site)) == ("passed", 1)
    told = {"role": "do", "agent": "do", "by": "spare", "code": "usage_limit"}
    assert site.event(found["run_id"], "agent_replaced")["data"] == told
    (step,) = [it for it in site.show(found["run_id"])["steps"] if it["role"] == "do"]
    assert (step["agent"], step["summary"]) == ("spare", "edited by spare")
    assert "spare takes its place" in site.treadle("why", found["run_id"]).out
    seqs = [event["seq"] for event in site.events(found["run_id"])]
    assert seqs == list(range(1, len(seqs) + 1))
    (item,) = site.treadle("desk", "--json").json["items"]
    assert item["subject"] == {"kind": "agent", "id": "codex"}, "a person hears of it"


def test_the_item_about_the_first_agent_can_be_answered_when_the_run_has_passed(site):
    site.treadle(*RUN)
    answered = site.treadle("answer", "Q-1", "retry")
    assert answered.code == 0, answered.out + answered.err
    assert site.treadle("desk", "--json").json["items"] == []
    assert site.treadle(*RUN, "--anyway").json["status"] == "passed"
    assert calls(site) == 2, "it is tried again"


def test_variables_of_the_next_agent_reach_it_and_no_file(site):
    wanted = "assert os.environ['SPARE_TOKEN'] == 'abc-1234567890'; "
    site.agent("spare", wanted + EDIT, edits=True)
    site.config["spare"] += '\n[agents.spare.env]\nSPARE_TOKEN = "abc-1234567890"\n'
    site.settings('sandbox = "off"\n')
    for words in ((), ("--try", "spare")):
        found = site.treadle(*RUN, *words).json
        assert found["status"] == "passed"
        written = site.run_dir(found["run_id"]) / "run.json"
        assert "abc-1234567890" not in written.read_text()


@pytest.mark.real
def test_a_queue_is_not_held_and_nobody_asks_again_before_the_time(site):
    for count in (1, 2):
        site.treadle("task", "add", f"Task {count}", "--verify", "AC1=test -f done.txt")
    assert site.treadle("run").code == 0
    assert calls(site) == 1


@pytest.mark.real
def test_a_missing_program_moves_the_role_too(site):
    (site.folder / "bin" / "codex").unlink()
    found = site.treadle(*RUN).json
    assert found["status"] == "passed"
    assert site.event(found["run_id"], "agent_replaced")["data"]["code"] == "agent_missing"


def test_a_kill_and_a_resume_keep_the_next_agent(site):
    go = site.folder / "go"
    waits = f"open({str(site.folder / 'at')!r}, 'w')\nwhile not os.path.exists({str(go)!r}):"
    site.agent("spare", f"{waits}\n    time.sleep(0.05)\n{EDIT}", edits=True)
    working = site.start(*RUN)
    wait_for((site.folder / "at").exists)
    working.kill()
    working.communicate()
    go.touch()
    found = site.treadle("run", "--resume", "last", "--json").json
    assert (found["status"], calls(site)) == ("passed", 1)
    assert site.event_types(found["run_id"]).count("agent_replaced") == 1


@pytest.mark.real
def test_without_a_next_one_the_run_waits_or_stops(site):
    site.config["do"] = 'type = "codex"\npatience = 0\nfallback = ["second"]\n'
    site.config["second"] = 'type = "codex"\nmodel = "other"\npatience = 0\n'
    site.save()
    found = site.treadle(*RUN).json
    assert (found["status"], found["reason_code"], calls(site)) == ("stopped", "usage_limit", 2)
    assert site.show(found["run_id"])["resume_at"]
