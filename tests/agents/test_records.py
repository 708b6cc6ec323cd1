"""What a tool has used is counted from its own record, as far as that has come."""

import json
import os
from datetime import datetime

import pytest

from tests.agents import fake
from treadle.agents.table import TOOLS
from treadle.layout import PROMPT
from treadle.proc.keeper import Keeper

BEGAN = 1_750_000_000
BEFORE, AFTER = "2025-06-15T15:06:39.999Z", "2025-06-15T15:06:41.000Z"


def of_claude(ident, time, used):
    counts = {"input_tokens": used - 4, "cache_read_input_tokens": 4, "output_tokens": 5}
    message = {"id": ident, "model": "m", "usage": counts, "content": []}
    return {"type": "assistant", "timestamp": time, "message": message}


def of_gemini(ident, time, used):
    counts = {"input": used, "cached": 4, "output": 5}
    return {"id": ident, "timestamp": time, "type": "gemini", "tokens": counts, "model": "m"}


def of_codex(ident, time, used):
    counts = {"input_tokens": used, "cached_input_tokens": 4, "output_tokens": 5}
    body = {"response_id": ident, "usage": counts}
    return {"type": "token_usage_record", "timestamp": time, "payload": body}


def of_copilot(ident, time, used):
    counts = {"model": "m", "inputTokens": used, "cacheReadTokens": 4, "outputTokens": 5}
    body = {"usage": counts}
    return {"type": "session.usage_record", "timestamp": time, "id": ident, "data": body}


def of_opencode(ident, time, used):
    counts = {"input": used - 4, "output": 5, "cache": {"read": 4, "write": 0}}
    part = {"id": ident, "type": "step-finish", "cost": 0.1, "tokens": counts}
    then = int(datetime.fromisoformat(time).timestamp() * 1000)
    return {"sessionID": "ses_1", "part": part, "time": then}


RECORDS = {
    "claude": ("projects/x/s.jsonl", of_claude, 2),
    "opencode": ("opencode/opencode.db-wal", of_opencode, 2),
    "gemini": (".gemini/tmp/apart/chats/session-1.jsonl", of_gemini, 2),
    # These two count on from turn to turn of a conversation, and so does what is read here.
    "codex": ("sessions/2025/06/15/rollout-1.jsonl", of_codex, 3),
    "copilot": ("session-state/SESSION/events.jsonl", of_copilot, 3),
}


@pytest.mark.parametrize("tool", RECORDS)
def test_every_call_counts_once(tmp_path, tool):
    name, made, calls = RECORDS[tool]
    with Keeper() as keeper:
        ask = fake.ask(fake.spec(tmp_path, keeper, tool, "/bin"), TOOLS[tool])
    assert TOOLS[tool].counting(ask) is None
    ask.scratch.joinpath(PROMPT).write_text("go on")
    os.utime(ask.scratch / PROMPT, (BEGAN, BEGAN))
    path = ask.state / name.replace("SESSION", ask.session)
    path.parent.mkdir(parents=True)
    events = [
        made("a", BEFORE, 20),
        made("b", AFTER, 9),
        made("b", AFTER, 20),
        made("c", AFTER, 20),
    ]
    lines = [json.dumps(event, separators=(",", ":")) for event in events]
    between = "\0\x81message.part" if tool == "opencode" else "\n"  # a database is one long line
    named = '{"type":"turn_context","payload":{"model":"m"}}'  # as codex tells it
    path.write_text(between.join([named, '{"odd": "tokens"}', *lines, lines[-1][:-9]]))
    found = TOOLS[tool].counting(ask)
    assert (found.input_tokens, found.output_tokens) == (20 * calls, 5 * calls)
    assert found.model == (None if tool == "opencode" else "m"), "which has a price"
