"""Tools say in their own words why they failed; each kind needs another reaction."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.agents import fake
from treadle.agents import trouble
from treadle.agents.backend import AgentResult, Heard
from treadle.agents.table import TOOLS
from treadle.contract.events import StepError
from treadle.proc.keeper import Keeper

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MINUTE = (
    "Rate limit reached for gpt-5.5 in organization org-a on tokens per min (TPM): Limit 30000,"
)
MINUTE += " Used 29000, Requested 4000. Please try again in 6s. Visit https://platform.openai.com/"
QUOTA = "You exceeded your current quota, please check your plan and billing details. For more"
QUOTA += " information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits."

# What the tested versions really said: to a scripted service, without a key, with an odd option.
SAID = {
    "codex": [
        ("exceeded retry limit, last status: 429 Too Many Requests", None, "rate_limit"),
        ("Quota exceeded. Check your plan and billing details.", None, "usage_limit"),
        ("You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit …"
         " or try again at Nov 18th, 2026 11:06 AM.", None, "usage_limit"),
        ('{"error": {"message": "Your input exceeds the context window of this model. Please adjust'
         ' your input and try again.", "code": "context_length_exceeded"}}', None,
         "context_too_long"),
        ("The model `gpt-9` does not exist or you do not have access to it.", None,
         "model_unknown"),
        ("The 'gpt-9' model is not supported when using Codex with a ChatGPT account.", None,
         "model_unknown"),
        ("Invalid prompt: your prompt was flagged as potentially violating our usage policy.", None,
         "safety_block"),
        ("stream disconnected before completion: Incomplete response returned, reason:"
         " content_filter", None, "safety_block"),
        ('{"error": {"message": "The response was filtered due to the prompt triggering Azure'
         " OpenAI's content management policy. Please modify your prompt and retry.\"}}", None,
         "safety_block"),
        ("unexpected status 401 Unauthorized: Incorrect API key provided: sk-test-****mnop. You can"
         " find …, url: http://127.0.0.1:1/v1/responses", None, "auth_failed"),
        ("Missing environment variable: `CODEX_API_KEY`.", None, "auth_failed"),
        ("unexpected status 403 Forbidden: Country, region, or territory not supported", None,
         "request_refused"),
        ('{"error": {"message": "Unsupported parameter: \'reasoning.effort\' is not supported with'
         ' this model.", "type": "invalid_request_error"}}', None, "request_refused"),
        ("We’re currently experiencing high demand, which may cause temporary errors.", None,
         "server_error"),
        ("unexpected status 503 Service Unavailable: The engine is currently overloaded", None,
         "server_error"),
        ("Connection failed: error sending request", None, "network"),
        ("stream disconnected before completion: error sending request", None, "network"),
        ("error: unexpected argument '--output-schema' found\n\nUsage: codex exec", None,
         "tool_mismatch"),
    ],
    "claude": [
        ("API Error: Request rejected (429) · This request would exceed your organization's rate"
         " limit of 30,000 input tokens per minute (org: x, model: claude-sonnet-4-5).", 429,
         "rate_limit"),
        ("Claude AI usage limit reached|1772370000", 429, "usage_limit"),
        ("You've hit your session limit · resets 3pm (UTC)", 429, "usage_limit"),
        ("5-hour limit reached ∙ resets 3pm", 429, "usage_limit"),
        ("Credit balance is too low", 400, "usage_limit"),
        ("API Error: 400 You have reached your specified API usage limits. You will regain access"
         " on 2026-12-01 at 00:00 UTC.", 400, "usage_limit"),
        ("Prompt is too long · the request is ~210000 tokens (limit 200000) but this conversation"
         " is only ~2490 tokens", 400, "context_too_long"),
        ("Request too large (max 32MB). Accumulated images and attachments …", 413,
         "context_too_long"),
        ("There's an issue with the selected model (x). It may not exist or you may not have"
         " access to it. Run --model to pick a different model.", 404, "model_unknown"),
        ("API Error: scripted's safeguards flagged this message (https://www.anthropic.com/legal/aup)."
         " Claude Code can't respond to this message with scripted.", None, "safety_block"),
        ("API Error: 400 Output blocked by content filtering policy", 400, "safety_block"),
        ("Invalid API key · Fix external API key", 401, "auth_failed"),
        ("Not logged in · Please run /login", None, "auth_failed"),
        ("Failed to authenticate. API Error: 401 OAuth token has expired. Please obtain a new"
         " token or refresh your existing token.", 401, "auth_failed"),
        ("API Error: 529 Overloaded. This is a server-side issue, usually temporary — try again in"
         " a moment.", 529, "server_error"),
        ("API Error: 500 Internal server error.", 500, "server_error"),
        ("API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)",
         None, "network"),
        ("API Error: 400 scripted failure", 400, "request_refused"),
        ("error: unknown option '--json-schema'", None, "tool_mismatch"),
    ],
    "gemini": [
        (f"[API Error: {QUOTA}\n* Quota exceeded for metric: …_requests, limit: 10\nPlease retry in"
         " 36.134s.\nSuggested retry after 36s.]\nPlease wait and try again later. To increase your"
         " limits, request a quota increase through AI Studio", None, "rate_limit"),
        ("[API Error: Resource has been exhausted (e.g. check quota).]\nPlease wait and try again"
         " later. To increase your limits, …", None, "rate_limit"),
        ("[API Error: You have exhausted your daily quota on this model.]\nPlease wait and try"
         " again later. To increase your limits, …", None, "usage_limit"),
        ("You have exhausted your capacity on this model. Your quota will reset after 13h20m10s.",
         None, "usage_limit"),
        ('[API Error: {"error":{"code":400,"message":"The input token count (1200000) exceeds the'
         ' maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]', None,
         "context_too_long"),
        ("[API Error: models/gemini-9 is not found for API version v1beta, or is not supported for"
         " generateContent. Call ListModels to see the list of available models]", None,
         "model_unknown"),
        ("The model response was blocked due to safety settings.", None, "safety_block"),
        ('[API Error: {"error":{"code":400,"message":"API key not valid. Please pass a valid API'
         ' key.","status":"INVALID_ARGUMENT"}}]', None, "auth_failed"),
        ('[API Error: {"error":{"code":403,"message":"Permission denied on resource project x.",'
         '"status":"PERMISSION_DENIED"}}]', None, "auth_failed"),
        ("Manual authorization is required but the current session is non-interactive. Please run"
         " the Gemini CLI in an interactive terminal to log in, provide a GEMINI_API_KEY", None,
         "auth_failed"),
        ("Invalid auth method selected.", None, "auth_failed"),
        ('[API Error: {"error":{"code":400,"message":"User location is not supported for the API'
         ' use.","status":"FAILED_PRECONDITION"}}]', None, "request_refused"),
        ("[API Error: The model is overloaded. Please try again later.]", None, "server_error"),
        ("[API Error: exception TypeError: fetch failed sending request]", None, "network"),
        ("Unknown arguments: approval-mode, approvalMode\nUsage: gemini [options]", None,
         "tool_mismatch"),
    ],
    "opencode": [
        (MINUTE, 429, "rate_limit"),
        ("The usage limit has been reached", 429, "usage_limit"),
        (f"{QUOTA}", 429, "usage_limit"),
        ("This model's maximum context length is 128000 tokens. However, your messages resulted in"
         " 200000 tokens. Please reduce the length of the messages.", None, "context_too_long"),
        ("Model not found: t/gpt-9. Did you mean: gpt-5?", None, "model_unknown"),
        ("The response was blocked by the provider's content filter", None, "safety_block"),
        ("Incorrect API key provided: sk-test-****mnop.", 401, "auth_failed"),
        ("Unsupported parameter: 'reasoning.effort' is not supported with this model.", 400,
         "request_refused"),
        ("The server had an error while processing your request. Sorry about that!", 500,
         "server_error"),
        ("opencode run [message..]\n\nrun opencode with a message\n\nPositionals:", None,
         "tool_mismatch"),
    ],
    "copilot": [
        ("Failed to get response from the AI model; retried 5 times (total retry wait time: 5.00"
         f" seconds) Last error: 429 {MINUTE}", 429, "rate_limit"),
        ("Sorry, you've hit a rate limit that restricts the number of Copilot model requests you"
         " can make. Please try again in 2 hours.", None, "rate_limit"),
        ("Failed to get response from the AI model; retried 5 times (total retry wait time: 5.00"
         " seconds) Last error: 429 The usage limit has been reached", 429, "usage_limit"),
        ("You have exhausted your premium request quota for this month.", 402, "usage_limit"),
        ("The provider rejected the prompt as too long, but automatic recovery could not reduce"
         " it. Reduce context before retrying.", None, "context_too_long"),
        ("Model 'x' not found on provider at http://127.0.0.1:1/v1 (HTTP 404).\n  Check that the"
         " model is available on your provider.", 404, "model_unknown"),
        ("400 Your request was flagged as potentially violating our usage policy.", 400,
         "safety_block"),
        ("Authentication failed with provider at http://127.0.0.1:1/v1 (HTTP 401).\n  Check your"
         " COPILOT_PROVIDER_API_KEY", 401, "auth_failed"),
        ("Error: No authentication information found.\n\nCopilot can be authenticated with GitHub",
         None, "auth_failed"),
        ("Failed to get response from the AI model; retried 5 times (total retry wait time: 16.29"
         " seconds) Last error: 503 The engine is currently overloaded", 503, "server_error"),
        ("Could not connect to local model provider at http://127.0.0.1:9/v1.\n  Check that the"
         " service is running and the port is correct.", None, "network"),
        ("error: unexpected argument '--usage-output-file' found\n\nUsage: copilot", None,
         "tool_mismatch"),
    ],
    "other": [
        ("violat" * 50_000, None, "agent_exit"),
        ("connect ECONNREFUSED 127.0.0.1:9", None, "network"),
        ("the request was blocked by our usage policies", None, "safety_block"),
        ("Blocked by us", None, "request_refused"),
        ("", None, "agent_exit"),
        ("Segmentation fault", None, "agent_exit"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("tool", "text", "status", "error"),
    [
        pytest.param(tool, *row, id=f"{tool} {row[0][:40]}")
        for tool, rows in SAID.items()
        for row in rows
    ],
)
def test_words_and_status_tell_the_kind(tool, text, status, error):
    assert trouble.classify(text, status, NOW).error == StepError(error)


def test_every_tool_has_a_sentence_for_every_kind_it_can_meet():
    common = {"rate_limit", "usage_limit", "context_too_long", "model_unknown", "safety_block"}
    common |= {"auth_failed", "server_error", "tool_mismatch"}
    for tool in TOOLS:
        assert common <= {row[2] for row in SAID[tool]}, tool


def test_an_option_is_unknown_only_to_a_tool_that_has_not_begun():
    words = "sh: unknown option '--x'"
    assert trouble.classify(words, None, NOW, is_start=False).error == StepError.AGENT_EXIT


@pytest.mark.parametrize(
    ("text", "then"),
    [
        ("usage limit reached|1772370000", datetime.fromtimestamp(1772370000, UTC)),
        ('"usage_limit_reached", "resets_in_seconds": 90', NOW + timedelta(seconds=90)),
        ("usage limit; try again in 3 days 4 hours 5 minutes.", NOW + timedelta(3, 0, 0, 0, 5, 4)),
        ("Your quota will reset after 13h20m10s.", NOW + timedelta(seconds=48010)),
        ("limit reached ∙ resets 3pm (UTC)", NOW.replace(hour=15)),
        ("limit reached, resets 11:30am (UTC)", NOW.replace(hour=11, minute=30) + timedelta(1)),
        ("limit reached, resets 3pm (Europe/Berlin)", NOW.replace(hour=14)),
        ("limit reached, resets 11:59am (UTC)", NOW + timedelta(minutes=1)),
        ("weekly limit reached ∙ resets Mar 5, 9am (UTC)", NOW.replace(day=5, hour=9)),
        ("hit your weekly limit · resets Jan 31 at 9:30am (UTC)",
         datetime(2027, 1, 31, 9, 30, tzinfo=UTC)),
        ("API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
         datetime(2026, 12, 1, tzinfo=UTC)),
        (MINUTE, NOW + timedelta(seconds=6)),
        ("Rate limit reached … Please try again in 1m30.5s.", NOW + timedelta(seconds=90.5)),
        ("Rate limit reached … Please try again in 898ms.", NOW + timedelta(milliseconds=898)),
        ("rate limit; Retry after 20s", NOW + timedelta(seconds=20)),
        ("rate limit; retry-after: 20", NOW + timedelta(seconds=20)),
        ("rate limit, Suggested retry after 36s.]", NOW + timedelta(seconds=36)),
        ("Too many requests. Please try again in 2 hours.", NOW + timedelta(hours=2)),
        ("usage limit reached", None),
        ("usage limit, resets_in_seconds: 99999999999999999999", None),
        ("usage limit; try again in 99999999999 days", None),
        ("weekly limit reached, resets Feb 31, 9am (UTC)", None),
    ],
)  # fmt: skip
def test_the_end_of_a_limit_is_read(text, then):
    assert trouble.classify(text, None, NOW).resume_at == then


def test_a_date_is_read_in_local_time():
    found = trouble.reset_time("or try again at Mar 5th, 2026 3:04 PM.", NOW)
    local = found.astimezone(NOW.astimezone().tzinfo)
    assert (local.day, local.hour, local.minute) == (5, 15, 4)


def test_only_what_may_pass_is_tried_again():
    assert {str(error) for error, kind in trouble.kinds().items() if kind.get("passing")} == {
        *("rate_limit", "network", "server_error", "agent_exit")
    }


@pytest.fixture(scope="module")
def keeper():
    with Keeper() as found:
        yield found


def named(tmp_path, keeper, tool, heard, stderr="", code=1):
    path = fake.program(tmp_path, tool, "echo 9.9.9")
    spec = fake.spec(tmp_path, keeper, tool, path)
    spec.stderr.write_text(stderr)
    error = StepError.AGENT_EXIT if code else None
    return trouble.named(TOOLS[tool], spec, heard, AgentResult(message="ended", error=error))


def test_the_end_of_a_limit_is_told_in_local_time_with_its_zone(tmp_path, keeper):
    result = named(tmp_path, keeper, "codex", Heard(error="usage limit; resets_in_seconds: 90"))
    local = result.resume_at.astimezone()
    assert f"until {local:%Y-%m-%d %H:%M:%S %Z}" in result.message


def test_the_end_of_a_rate_limit_stands_beside_what_ends(tmp_path, keeper):
    said = "Rate limit reached for gpt-5. Please try again in 6s"
    result = named(tmp_path, keeper, "codex", Heard(error=said))
    assert "the service asks for fewer requests, until 20" in result.message


def test_an_unknown_option_names_both_versions_and_the_line_that_tells(tmp_path, keeper):
    noise = "Usage: gemini [options]\n" + "  -x  an option\n" * 500
    stderr = f"a warning\nUnknown arguments: approval-mode\n{noise}"
    result = named(tmp_path, keeper, "gemini", Heard(), stderr)
    assert (result.error, result.may_retry) == (StepError.TOOL_MISMATCH, False)
    assert "(gemini): Unknown arguments: approval-mode; the installed version may" in result.message
    assert "9.9.9 is installed, 0.61.0 was tested" in result.message


def test_the_words_of_a_tool_that_exits_with_0_are_kept(tmp_path, keeper):
    words = "Model stream ended without a finish reason."
    result = named(tmp_path, keeper, "gemini", Heard(error=words), code=0)
    assert (result.error, result.may_retry) == (StepError.AGENT_EXIT, True)
    assert words in result.message


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't assist with that request.",
        "I cannot help with that.",
        "I’m unable to comply with this request.",
    ],
)
def test_a_refusal_of_the_model_is_named_as_one(tmp_path, keeper, text):
    spec = fake.spec(tmp_path, keeper, "codex", "/bin")
    broken = AgentResult(message="no JSON", error=StepError.PROTOCOL_ERROR)
    result = trouble.refused(spec, text, broken)
    assert (result.error, result.may_retry) == (StepError.REQUEST_REFUSED, False)
    assert f'the model refused: "{text}"' in result.message


@pytest.mark.parametrize(
    "text",
    ["", "All done, boss!", "Sorry, the tests still fail.", "I cannot help it. " + "word " * 200],
)
def test_other_words_are_no_refusal(tmp_path, keeper, text):
    spec = fake.spec(tmp_path, keeper, "codex", "/bin")
    broken = AgentResult(message="no JSON", error=StepError.PROTOCOL_ERROR)
    assert trouble.refused(spec, text, broken) == broken
