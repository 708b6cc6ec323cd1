"""Drive Anthropic's Claude Code: `claude -p` with a stream of JSON events."""

import json
from collections.abc import Iterator
from dataclasses import replace

from treadle.agents.backend import (
    Event,
    Remark,
    at,
    counted,
    done,
    failed,
    items_at,
    known_tool,
    money_at,
    number_at,
    started,
    text_at,
)


def tell(event: Event) -> Iterator[Remark]:
    """Say what one event means."""
    match (event.get("type"), event.get("subtype")):
        case ("system", "init"):
            yield Remark("session", text_at(event, "session_id"))
        case ("system", "api_retry"):
            yield Remark("retry", text_at(event, "error"))
        case ("assistant" | "user", _):
            for block in items_at(event, "message", "content"):
                yield from _tell_block(block)
        case ("result", _):
            yield _result(event)


def _result(event: Event) -> Remark:
    """Read the last event; an API error says success in its subtype."""
    names = ("input_tokens", "cache_read_input_tokens", "output_tokens")
    used, models = counted(event.get("usage"), *names), event.get("modelUsage")
    made = number_at(event, "usage", "cache_creation_input_tokens")
    used = replace(
        used,
        model=next(iter(models), None) if isinstance(models, dict) else None,
        input_tokens=used.input_tokens + used.cached_tokens + made,
        cost_usd=money_at(event, "total_cost_usd"),
    )
    ended = text_at(event, "terminal_reason") or "completed"
    if event.get("is_error") is False and ended == "completed":
        return done(used, event.get("structured_output"))
    status = number_at(event, "api_error_status")
    return failed(text_at(event, "result") or ended, status)._replace(usage=used)


def _tell_block(block: object) -> Iterator[Remark]:
    match at(block, "type"):
        case "text":
            yield Remark("text", text_at(block, "text"))
        case "tool_use":
            yield started(text_at(block, "name"), at(block, "input"))
        case "tool_result":
            content = at(block, "content")
            yield Remark("tool_end", content if isinstance(content, str) else json.dumps(content))


TOOL = known_tool("claude", tell)
