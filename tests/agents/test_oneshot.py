"""A turn of a tool from prompt to result: answers, repairs, failures, what is left behind."""

import json
import time

import pytest
from msgspec.structs import replace

from tests.agents import fake
from treadle.agents.backend import hear
from treadle.agents.oneshot import Ceiling
from treadle.agents.table import BACKENDS, TOOLS
from treadle.contract import messages as requests
from treadle.contract.events import StepError
from treadle.proc.keeper import Keeper, Limits

GOOD = json.dumps({"version": 1, "status": "ok", "summary": "done"})
START = '{"type": "thread.started", "thread_id": "t-1"}'
DONE = '{"type": "turn.completed", "usage": {"input_tokens": 10, "output_tokens": 5}}'


@pytest.fixture(scope="module")
def keeper():
    with Keeper() as found:
        yield found


def said(text):
    """Return a program line that prints a message of codex."""
    item = {"type": "item.completed", "item": {"type": "agent_message", "text": text}}
    return printed(json.dumps(item))


def printed(line):
    return "printf '%s\\n' '" + line.replace("'", "'\\''") + "'\n"


class Codex:
    """A codex that is a few lines of shell."""

    def __init__(self, folder, keeper):
        self.folder, self.keeper = folder, keeper

    def turn(self, script, role="do", prompt="please", limits=None, **config):
        path = fake.program(self.folder, "codex", script)
        spec = fake.spec(self.folder, self.keeper, "codex", path, **config)
        if limits:
            spec = replace(spec, limits=limits)
        return BACKENDS["codex"](spec, request(role), prompt, self.folder / "step")


def request(role="do"):
    criterion = requests.AskedCriterion(id="AC1", text="t")
    return requests.AgentRequest(
        run_id="r",
        step=requests.Step(index=1, role=role, iteration=1),
        goal="g",
        norma=requests.Asked(acceptance_criteria=(criterion,), budgets={}),
        paths=requests.Paths(repo_root="/r", run_dir="/d", step_dir="/s"),
        context=requests.RequestContext(previous_step_dirs=(), notes=""),
    )


@pytest.fixture
def codex(tmp_path, keeper):
    return Codex(tmp_path, keeper)


def test_the_prompt_arrives_on_stdin_and_stdin_ends(codex, tmp_path):
    script = f"cat > {tmp_path}/got; {printed(START)}{said(GOOD)}{printed(DONE)}"
    result = codex.turn(script, prompt="do it ☃")
    assert (result.error, result.message, result.json_source) == (None, "done", "whole")
    assert (tmp_path / "got").read_text() == "do it ☃"
    assert (result.usage.input_tokens, result.usage.output_tokens) == (10, 5)


def test_exit_code_0_without_the_last_event_is_a_crash_that_names_the_versions(codex):
    renamed = DONE.replace("turn.completed", "turn.finished")
    version = 'case "$*" in --version) echo codex-cli 9.9.9; exit;; esac\n'
    result = codex.turn(version + printed(START) + said(GOOD) + printed(renamed))
    assert (result.error, result.may_retry) == (StepError.AGENT_EXIT, True)
    assert "ended with exit code 0 after 3 events, none of which says that it is" in result.message
    assert "codex-cli 9.9.9 is installed, 0.166.0 was tested" in result.message


def test_events_on_the_wrong_stream_are_no_answer_and_said_to_be_missing(codex):
    result = codex.turn(f"{{ {printed(START)}{said(GOOD)}{printed(DONE)}}} >&2")
    assert result.error == StepError.AGENT_EXIT
    assert "ended with exit code 0 without any event on stdout (" in result.message
    assert "see logs/stderr.txt" in result.message


def test_an_event_that_nobody_knows_is_kept_and_an_exit_code_is_not_believed(codex, tmp_path):
    odd = '{"type": "turn.imagined", "item": {"type": 7}, "usage": "none"}'
    result = codex.turn(printed(odd) + printed(START) + said(GOOD) + printed(DONE) + "exit 3")
    assert (result.error, result.message) == (None, "done")
    assert "turn.imagined" in (tmp_path / "live" / "stdout.txt").read_text()
    assert "exit code 3" in (tmp_path / "live" / "events.jsonl").read_text()


def test_an_option_that_the_tool_no_longer_knows_is_not_tried_again(codex):
    words = "error: unexpected argument '--output-schema' found"
    result = codex.turn(f'echo "{words}" >&2; exit 2')
    assert (result.error, result.may_retry) == (StepError.TOOL_MISMATCH, False)


def test_a_model_that_refuses_is_told_as_such(codex):
    no = "I'm sorry, but I can't assist with that."
    result = codex.turn(printed(START) + said(no) + printed(DONE))
    assert (result.error, no in result.message) == (StepError.REQUEST_REFUSED, True)


def test_an_answer_that_cannot_be_used_is_asked_for_once_more(codex, tmp_path):
    again = f"{printed(START)}{said(GOOD)}{printed(DONE.replace('10', '30'))}"
    prose = f"{printed(START)}{said('All done, boss!')}{printed(DONE)}"
    script = f'cat > {tmp_path}/"$2"-prompt; case "$*" in *resume*t-1*) {again};; *) {prose};; esac'
    result = codex.turn(script.replace("\n;;", ";;"))
    assert (result.error, result.message) == (None, "done")
    assert "the last message" in result.repaired
    assert result.usage.input_tokens == 30
    assert "could not be used" in (tmp_path / "resume-prompt").read_text()
    first = tmp_path / "live" / "attempts" / "1"
    assert "All done, boss!" in (first / "stdout.txt").read_text()
    assert (first / "prompt.md").read_text() == "please"


def test_two_answers_that_cannot_be_used_are_a_protocol_error(codex, tmp_path):
    count = f"echo x >> {tmp_path}/calls;"
    result = codex.turn(f"{count} {printed(START)}{said('no')}{printed(DONE)}")
    assert result.error == StepError.PROTOCOL_ERROR
    assert (tmp_path / "calls").read_text() == "x\nx\n"


def test_an_empty_turn_is_no_success(codex, tmp_path):
    result = codex.turn(f"echo x >> {tmp_path}/calls; {printed(START)}{printed(DONE)}")
    assert result.error == StepError.PROTOCOL_ERROR
    assert (tmp_path / "calls").read_text() == "x\nx\n"


def test_a_missing_verdict_is_asked_for_too(codex, tmp_path):
    step = tmp_path / "step"
    verdict = '{"version": 1, "verdict": "FAIL", "criteria": [{"id": "AC1", "pass": false}]}'
    write = f"echo '{verdict}' > {step}/verdict.json; echo no > {step}/scorecard.md;"
    answer = f"{printed(START)}{said(GOOD)}{printed(DONE)}"
    result = codex.turn(f'case "$*" in *resume*) {write} esac; {answer}', role="check")
    assert result.error is None
    assert "verdict.json" in result.repaired


def test_a_file_that_is_only_named_is_no_reason_to_ask_again(codex):
    named = GOOD[:-1] + f', "files": ["{"x" * 300}"]}}'
    result = codex.turn(f"{printed(START)}{said(named)}{printed(DONE)}")
    assert (result.error, result.repaired) == (None, None)


def test_half_a_character_is_told_like_any_other(codex, tmp_path):
    half = '{"type": "item.completed", "item": {"type": "reasoning", "text": "cut \\ud83d"}}'
    assert codex.turn(printed(START) + printed(half) + said(GOOD) + printed(DONE)).error is None
    assert "cut \ufffd" in (tmp_path / "live" / "events.jsonl").read_text()


def test_a_fail_of_the_agent_is_believed(codex):
    text = GOOD.replace('"ok"', '"fail"')
    result = codex.turn(printed(START) + said(text) + printed(DONE))
    assert result.error == StepError.AGENT_FAILED


@pytest.mark.parametrize(
    ("message", "error", "retry"),
    [
        ("You've hit your usage limit. Try again in 2 hours.", "usage_limit", False),
        ("unexpected status 401 Unauthorized", "auth_failed", False),
        ("unexpected status 503 Service Unavailable", "server_error", True),
        ("stream disconnected before completion", "network", True),
    ],
)
def test_the_tools_words_decide(codex, message, error, retry):
    failed = json.dumps({"type": "turn.failed", "error": {"message": message}})
    result = codex.turn(printed(START) + printed(failed) + "exit 1")
    assert (result.error, result.may_retry) == (StepError(error), retry)
    assert message.split(".")[0] in result.message
    assert (result.resume_at is not None) is (error == "usage_limit")


def test_words_on_stderr_count_where_no_event_tells(codex):
    result = codex.turn("echo 'Error: not logged in' >&2; exit 1")
    assert result.error == StepError.AUTH_FAILED


def test_a_silent_tool_is_ended(codex):
    asks = f"{printed(START)} echo 'Run this command? [y/N]' >&2; exec sleep 30"
    result = codex.turn(asks, limits=Limits(wall=120, idle=1, grace=0.2))
    assert (result.error, result.may_retry) == (StepError.IDLE_TIMEOUT, False)
    assert 'silent for 1 s after "Run this command? [y/N]"; raise' in result.message


def test_a_limit_that_passes_without_a_word_of_the_model_lies_in_its_service(codex):
    waits = printed('{"type": "thread.started"}') + printed('{"type": "error", "message": "again"}')
    result = codex.turn(f"{waits} sleep 30", limits=Limits(wall=0.3, grace=0.2))
    assert (result.error, result.may_retry) == (StepError.TIMEOUT, True)


WORKS = {
    "codex": {"type": "item.started", "item": {"type": "command_execution", "command": "make"}},
    "opencode": {"type": "step_start", "sessionID": "s"},
}


@pytest.mark.parametrize("tool", WORKS)
def test_a_model_that_has_worked_is_no_service_that_hangs(tmp_path, keeper, tool):
    asked = fake.ask(fake.spec(tmp_path, keeper, tool, "/bin"), TOOLS[tool])
    assert hear(TOOLS[tool], [WORKS[tool]], asked).is_begun
    assert not hear(TOOLS[tool], [{"type": "thread.started"}], asked).is_begun


def test_a_tool_that_is_not_there(codex, tmp_path):
    fake.program(tmp_path, "other")
    path = str(tmp_path / "bin")
    spec = fake.spec(tmp_path, codex.keeper, "codex", path)
    result = BACKENDS["codex"](spec, request(), "x", tmp_path / "step")
    assert result.error == StepError.AGENT_MISSING


def test_a_record_that_takes_long_to_count_is_counted_more_seldom(tmp_path, keeper):
    def count():
        end = time.thread_time() + 0.1
        while time.thread_time() < end:
            pass

    ceiling = Ceiling(fake.spec(tmp_path, keeper, "codex", "/bin"), count)
    began = time.monotonic()
    assert ceiling.look() is None
    assert ceiling.counts_at - began >= 1.0


def test_secrets_are_not_told(codex, tmp_path):
    secret = "sk-" + "a1" * 15
    codex.turn(printed(START) + said(f"the key is {secret}") + printed(DONE))
    told = (tmp_path / "live" / "events.jsonl").read_text()
    assert "the key is [masked]" in told
    assert secret not in told


def test_events_are_told_while_the_tool_works(codex, tmp_path):
    events = tmp_path / "live" / "events.jsonl"
    waits = f"until [ -s {events} ]; do sleep 0.02; done;"
    result = codex.turn(f"{printed(START)} {waits} {said(GOOD)}{printed(DONE)}")
    assert result.error is None
    kinds = [json.loads(line)["kind"] for line in events.read_text().splitlines()]
    assert kinds == ["session", "text", "done"]
