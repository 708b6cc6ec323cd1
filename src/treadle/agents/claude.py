"""Drive Anthropic's Claude Code: `claude -p` with a stream of JSON events."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from treadle.agents.backend import (
    Ask,
    Event,
    Launch,
    Remark,
    Usage,
    at,
    counted,
    done,
    failed,
    items_at,
    known_tool,
    money_at,
    number_at,
    parse_event,
    started,
    text_at,
)
from treadle.agents.records import Record
from treadle.files import walk

_SERVERS = "mcp.json"

_LETTERS = 4  # of a token, about


def tell(event: Event) -> Iterator[Remark]:
    """Say what one event means."""
    match (event.get("type"), event.get("subtype")):
        case ("system", "init"):
            yield Remark("session", text_at(event, "session_id"))
        case ("system", "api_retry"):
            yield Remark("retry", text_at(event, "error"))
        case (("assistant" | "user") as who, _):
            if who == "assistant" and text_at(event, "message", "id"):
                yield Remark("usage", "", call=_call(event))
            for block in items_at(event, "message", "content"):
                yield from _tell_block(block)
        case ("result", _):
            yield _result(event)


def _counted(used: object) -> Usage:
    names = ("input_tokens", "cache_read_input_tokens", "output_tokens")
    found, made = counted(used, *names), number_at(used, "cache_creation_input_tokens")
    return replace(found, input_tokens=found.input_tokens + found.cached_tokens + made)


def _call(event: Event) -> tuple[str, Usage]:
    """Return what a call has used so far; an event may not know yet what it has put out."""
    used = _counted(at(event, "message", "usage"))
    said = sum(len(json.dumps(block)) for block in items_at(event, "message", "content"))
    made = max(used.output_tokens, said // _LETTERS)
    model = text_at(event, "message", "model") or None
    return text_at(event, "message", "id"), replace(used, model=model, output_tokens=made)


def _result(event: Event) -> Remark:
    """Read the last event; an API error says success in its subtype."""
    models = event.get("modelUsage")
    used = replace(
        _counted(event.get("usage")),
        model=next(iter(models), None) if isinstance(models, dict) else None,
        cost_usd=money_at(event, "total_cost_usd"),
    )
    ended = text_at(event, "terminal_reason") or "completed"
    if event.get("subtype") == "error_max_budget_usd":
        return failed("error_max_budget_usd", 0)._replace(usage=used)
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


def adjust(ask: Ask, launch: Launch) -> Launch:
    """Name the user's own MCP servers, which lie beside the settings, if those are wished for."""
    if ask.spec.config.settings != "user":
        return launch
    servers = {"mcpServers": _servers(ask.spec.environment)[1]}
    argv = (*launch.argv, "--mcp-config", str(ask.state / _SERVERS))
    return replace(launch, argv=argv, files={**launch.files, _SERVERS: json.dumps(servers)})


def beside(env: Mapping[str, str]) -> Iterator[Path]:
    """Yield the file with the user's own MCP servers, if it has any: it always has much else."""
    path, servers = _servers(env)
    if servers:
        yield path


def _servers(env: Mapping[str, str]) -> tuple[Path, object]:
    own = env.get("CLAUDE_CONFIG_DIR", "")
    path = Path(own if own.startswith("/") else env.get("HOME") or "/") / ".claude.json"
    found = parse_event(walk.tail(path.resolve(), 32 << 20).encode())
    return path, at(found, "mcpServers") or {}


def _recorded(event: Event) -> tuple[str, Usage] | None:
    """Read from its record what a call has used; its events know only how that began."""
    return _call(event) if event.get("type") == "assistant" else None


_RECORD = Record("projects/**/*.jsonl", _recorded)
TOOL = known_tool("claude", tell, adjust=adjust, beside=beside, counting=_RECORD.counting)
