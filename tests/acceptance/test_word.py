"""A human's word in a mission: asked for, waited for, taken once, and told to whoever works."""

import shlex

import pytest

from tests.acceptance.test_next import prompt, report_of


def told(text: str, heading: str) -> str:
    """Return what a prompt says under a heading."""
    return text.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def items(mission) -> list[dict]:
    return mission.project.treadle("desk", "--json").json["items"]


def type_in(mission, command: str):
    """Run a command exactly as it is printed."""
    words = shlex.split(command)
    assert words[0] == "treadle", command
    return mission.project.treadle(*words[1:])


def refused(mission, *words: str) -> dict:
    result = mission.project.treadle("next", "--json", *words)
    assert result.code == 3, result
    return result.json["error"]


def test_retry_answers_for_nobody(tasked):
    tasked.next("--agent", "ann")
    halt = tasked.next("--agent", "ann", "--result", "blocked", "--note", "which key?")
    (item,) = items(tasked)
    for words in ((), ("--step", "implement:WP01"), ("--agent", "ann")):
        again = tasked.next("--retry", *words)
        assert (again["kind"], again["reason_code"]) == ("blocked", "reported_blocked"), words
    assert (tasked.lane("WP01"), items(tasked)) == ("blocked", [item])
    answers = [f"treadle answer {item['item_id']} {verb}" for verb in ("retry", "leave")]
    assert halt["unblock"] == [f"treadle desk show {item['item_id']}", *answers]


def test_retry_clears_the_callers_failures_or_those_of_the_step_it_names(mission):
    mission.with_tasks("", "")
    for agent in ("ann", "bob"):
        mission.next("--agent", agent)
        for _ in range(3):
            mission.next("--agent", agent, "--result", "failed", "--note", "no")
    assert len(items(mission)) == 2
    assert mission.next("--agent", "ann", "--retry")["task_id"] == "auth.WP01"
    (left,) = items(mission)
    assert left["task_id"] == "auth.WP02"
    halt = mission.next("--agent", "bob")
    assert (halt["reason_code"], halt["task_id"]) == ("failed_too_often", "auth.WP02")
    assert mission.next("--agent", "cyd", "--retry")["kind"] != "step"
    assert type_in(mission, halt["unblock"][-1]).json["task_id"] == "auth.WP02"
    assert items(mission) == []


def test_an_answer_stands_in_the_prompt_with_all_tries_until_the_task_is_approved(tasked):
    ask = ("--agent", "ann")
    tasked.next(*ask)
    tasked.next(*ask, "--result", "failed", "--note", "the tests hang")
    tasked.next(*ask, "--result", "blocked", "--note", "which key?")
    (item,) = items(tasked)
    assert tasked.project.treadle("answer", item["item_id"], "the second one").code == 0
    for _ in range(2):
        given = tasked.next(*ask)
        text = prompt(given)
        assert given["task_id"] == "auth.WP01"
        assert "> the second one" in told(text, "Answers")
        assert "which key?" in told(text, "Answers")
        tries = told(text, "Earlier tries")
        assert tries.index("> the tests hang") < tries.index("> which key?")
    tasked.work()
    review = tasked.next(*ask, "--result", "success", "--step", "implement:WP01")
    assert (review["phase"], "the second one" in prompt(review)) == ("review", True)
    tasked.next(*ask, "--result", "failed", "--note", "no tests")
    text = prompt(tasked.next(*ask))
    assert "> no tests" in told(text, "Earlier tries")
    assert "> the second one" in told(text, "Answers")


@pytest.mark.parametrize("result", ["blocked", "failed"])
def test_a_phase_waits_for_a_word_and_goes_on_with_it(mission, result):
    mission.next()
    for _ in range(1 if result == "blocked" else 3):
        halt = mission.next("--result", result, "--note", "who logs in?")
    assert halt["kind"] in ("blocked", "decision_required")
    assert mission.next() == halt
    (item,) = items(mission)
    assert mission.project.treadle("answer", item["item_id"], "--text", "everybody").code == 0
    text = prompt(mission.next())
    assert "> everybody" in told(text, "Answers")
    assert "> who logs in?" in told(text, "Earlier tries")
    mission.specified()
    plan = mission.next("--result", "success")
    assert (plan["phase"], "everybody" in prompt(plan)) == ("plan", False)


def test_answers_to_accept_end_with_its_success(mission):
    mission.with_tasks("", "dependencies: [WP01]\n")
    for id_ in ("WP01", "WP02"):
        mission.work()
        mission.next("--step", f"implement:{id_}", "--result", "success")
        accept = mission.next("--step", f"review:{id_}", "--result", "success")
        assert (accept["phase"], "> ship it" in prompt(accept)) == ("accept", False)
        if id_ == "WP01":
            mission.next("--step", "accept", "--result", "blocked", "--note", "now?")
            assert mission.project.treadle("answer", "Q-1", "ship it").code == 0
            assert "> ship it" in told(prompt(mission.next()), "Answers")
            mission.next("--step", "accept", "--result", "success")


def test_leaving_a_question_leaves_the_step_with_a_way_on(tasked):
    tasked.next()
    tasked.next("--result", "blocked", "--note", "which key?")
    assert tasked.project.treadle("answer", "Q-1", "leave").code == 0
    halt = tasked.next()
    assert (halt["kind"], items(tasked)) == ("blocked", [])
    assert halt["unblock"] == ["treadle next --json --mission auth --retry --step implement:WP01"]
    assert type_in(tasked, halt["unblock"][0]).json["kind"] == "step"


def test_a_question_is_answered_once(tasked):
    tasked.next()
    tasked.next("--result", "blocked", "--note", "which key?")
    assert tasked.project.treadle("answer", "Q-1", "the first").code == 0
    late = tasked.project.treadle("answer", "Q-1", "the second", "--json")
    assert (late.code, late.json["error"]["code"]) == (1, "question_answered")
    assert "the first" in late.json["error"]["message"]
    assert "the second" not in prompt(tasked.next())


def test_of_two_answers_at_once_one_counts(tasked):
    tasked.next()
    tasked.next("--result", "blocked", "--note", "which key?")
    both = [tasked.project.start("answer", "Q-1", word) for word in ("red", "blue")]
    codes = [process.wait(60) for process in both]
    for process in both:
        process.communicate()
    assert sorted(codes) == [0, 1]
    said = told(prompt(tasked.next()), "Answers")
    assert [f"> {word}" in said for word in ("red", "blue")] == [code == 0 for code in codes]


@pytest.mark.real
def test_a_new_question_takes_the_place_of_the_old_one(tasked):
    tasked.next()
    for note in ("which key?", "which lock?"):
        tasked.next("--step", "implement:WP01", "--result", "blocked", "--note", note)
    tasked.next("--step", "implement:WP01", "--result", "failed", "--note", "tried all")
    (item,) = items(tasked)
    assert "which lock?" in item["summary"]
    assert tasked.next()["reason"] == item["summary"]
    tasked.project.treadle("answer", item["item_id"], "retry")
    assert "> which key?" in told(prompt(tasked.next()), "Earlier tries")


@pytest.mark.real
@pytest.mark.parametrize("more", [("--text", "it is new"), ()], ids=["words", "choice"])
@pytest.mark.parametrize("is_claimed", [True, False], ids=["claimed", "unclaimed"])
def test_an_escalation_blocks_is_answered_by_letter_and_goes_on(tasked, is_claimed, more):
    treadle = tasked.project.treadle
    if is_claimed:
        tasked.next("--agent", "ann")
    words = ("--from", "ann", "--to", "human", "--intent", "escalate", "--task", "auth.WP01")
    body = tasked.project.root.parent / "body.md"
    body.write_text("## Summary\nWhich key?\n\n## Options\n1. Red\n2. Blue\n")
    assert treadle("mail", "send", *words, "--body", str(body)).code == 0
    assert tasked.lane("WP01") == "blocked"
    assert treadle("mail", "list", "--as", "human", "--json").json["letters"]
    halt = tasked.next("--agent", "ann")
    assert (halt["kind"], halt["reason_code"]) == ("decision_required", "question_open")
    (item,) = items(tasked)
    assert item["options"] == ["Red", "Blue"]
    stays = tasked.next("--agent", "ann", "--retry", "--step", "implement:WP01")
    assert (stays["reason_code"], tasked.lane("WP01")) == ("question_open", "blocked")
    assert halt["unblock"][0] == f"treadle desk show {item['item_id']}"
    assert halt["unblock"][2] == f"treadle answer {item['item_id']} --option 2"
    assert treadle("answer", item["item_id"], "--option", "2", *more).code == 0
    letters = treadle("mail", "list", "--as", "ann", "--json").json["letters"]
    (answer,) = [letter["file"] for letter in letters if letter["intent"] == "answer"]
    given = tasked.next("--agent", "ann")
    assert given["task_id"] == "auth.WP01"
    for text in (treadle("mail", "read", answer).out, told(prompt(given), "Answers")):
        assert "Blue" in text
        assert more[1:] == () or more[1] in text


NOT_NOW = [
    ("plan", "success", "has not begun"),
    ("tasks", "failed", "has not begun"),
    ("accept", "success", "no approved task"),
    ("accept", "blocked", "no approved task"),
]


@pytest.mark.real
@pytest.mark.parametrize(("step", "result", "words"), NOT_NOW)
def test_a_report_on_a_phase_that_has_not_begun_is_refused(mission, step, result, words):
    error = refused(mission, "--step", step, "--result", result)
    assert error["code"] == "step_over"
    assert words in error["message"]
    assert items(mission) == []


@pytest.mark.real
@pytest.mark.parametrize("result", ["success", "failed", "blocked"])
def test_a_report_on_a_step_that_is_over_or_not_begun_is_refused(tasked, result):
    tasked.work()
    tasked.next("--step", "implement:WP01", "--result", "success")
    for step in ("specify", "plan", "tasks", "implement:WP01", "implement:WP02", "review:WP02"):
        error = refused(tasked, "--step", step, "--result", result)
        assert error["code"] == "step_over", step
        assert error["fix"] == ["treadle next --json --mission auth"]
        assert type_in(tasked, error["fix"][0]).json["phase"] == "review"


@pytest.mark.real
def test_unnamed_callers_get_nothing_that_another_one_holds(tasked):
    text = prompt(tasked.next())
    assert "--agent" in text
    assert tasked.next("--agent", "ann")["task_id"] == "auth.WP01"
    halt = tasked.next()
    assert (halt["kind"], halt["reason_code"]) == ("blocked", "waiting")
    assert "--agent" in halt["reason"]
    assert not any("release" in command for command in halt["unblock"])
    for result in ("success", "failed", "blocked"):
        error = refused(tasked, *report_of(text, "success")[2:-1], result)
        assert (error["code"], "--agent" in error["message"]) == ("task_held", True)
        assert error["fix"] == ["treadle task show auth.WP01"]
    foreign = refused(tasked, "--agent", "bob", "--step", "implement:WP01", "--result", "failed")
    assert foreign["code"] == "task_held"
    assert tasked.lane("WP01") == "claimed"


@pytest.mark.real
def test_an_agent_goes_on_with_the_task_it_got_beside_one_that_waits(mission):
    mission.with_tasks("", "", "")
    ask = ("--agent", "ann")
    mission.next(*ask)
    for _ in range(3):
        mission.next(*ask, "--step", "implement:WP01", "--result", "failed", "--note", "no")
    for _ in range(2):
        assert mission.next(*ask)["task_id"] == "auth.WP02"


@pytest.mark.real
def test_a_run_on_the_task_is_told_the_words_too(tasked):
    tasked.next()
    tasked.next("--result", "blocked", "--note", "which key?")
    assert tasked.project.treadle("answer", "Q-1", "the second one").code == 0
    tasked.project.good_agents()
    tasked.project.treadle("trust")
    run = ("run", "WP01", "--mission", "auth", "--json", "--budget", "max_iterations=1")
    run_id = tasked.project.treadle(*run).json["run_id"]
    given = [path.read_text() for path in tasked.project.run_dir(run_id).glob("steps/*/input.json")]
    assert given
    assert all("> the second one" in text for text in given)
