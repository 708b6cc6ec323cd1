"""Tools say in their own words why they failed; each kind needs another reaction."""

from datetime import UTC, datetime, timedelta

import pytest

from treadle.agents import oneshot
from treadle.contract import StepError

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "status", "error"),
    [
        pytest.param("violat" * 50_000, None, "agent_exit", id="flood"),
        ("You've hit your usage limit. Try again at 3:45 PM.", None, "usage_limit"),
        ("Claude AI usage limit reached|1772370000", 429, "usage_limit"),
        ("You've hit your session limit · resets 3pm (UTC)", 429, "usage_limit"),
        ("You have exhausted your daily quota on this model.", 429, "usage_limit"),
        ("You exceeded your current quota, please check your plan", 429, "usage_limit"),
        ("exceeded retry limit, last status: 429 Too Many Requests", None, "rate_limit"),
        ("API Error: 429 scripted failure", 429, "rate_limit"),
        ("Please wait and try again later. To increase your limits, …", None, "rate_limit"),
        ("unexpected status 401 Unauthorized: Missing bearer", None, "auth_failed"),
        ("Invalid API key · Please run /login", None, "auth_failed"),
        ("Invalid auth method selected.", None, "auth_failed"),
        ("The model `gpt-9` does not exist or you do not have access", None, "model_unknown"),
        ("There's an issue with the selected model (x). It may not exist", 404, "model_unknown"),
        ("Prompt is too long", 400, "context_too_long"),
        ("Your input exceeds the context window of this model", None, "context_too_long"),
        ("stream disconnected before completion: error sending request", None, "network"),
        ("connect ECONNREFUSED 127.0.0.1:9", None, "network"),
        ("API Error: 500 Internal server error", 500, "server_error"),
        ("unexpected status 503 Service Unavailable", None, "server_error"),
        ("Overloaded", 529, "server_error"),
        ("the request was blocked by our usage policies", None, "request_refused"),
        ("API Error: 400 scripted failure", 400, "request_refused"),
        ("", None, "agent_exit"),
        ("Segmentation fault", None, "agent_exit"),
    ],
)
def test_words_and_status_tell_the_kind(text, status, error):
    assert oneshot.classify(text, status, NOW).error == StepError(error)


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
        ("usage limit reached", None),
        ("usage limit, resets_in_seconds: 99999999999999999999", None),
        ("usage limit; try again in 99999999999 days", None),
    ],
)
def test_the_end_of_a_usage_limit_is_read(text, then):
    assert oneshot.classify(text, None, NOW).resume_at == then


def test_a_date_is_read_in_local_time():
    found = oneshot.reset_time("or try again at Mar 5th, 2026 3:04 PM.", NOW)
    local = found.astimezone(NOW.astimezone().tzinfo)
    assert (local.day, local.hour, local.minute) == (5, 15, 4)


def test_only_what_may_pass_is_tried_again():
    assert {str(error) for error, kind in oneshot.KINDS.items() if kind.get("passing")} == {
        *("rate_limit", "network", "server_error", "agent_exit")
    }
