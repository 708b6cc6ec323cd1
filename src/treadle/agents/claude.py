"""Drive Anthropic's Claude Code: `claude -p` with a stream of JSON events."""

import json
from collections.abc import Iterable, Iterator

from treadle.agents import schema
from treadle.agents.backend import Usage
from treadle.agents.tool import (
    Ask,
    Event,
    Heard,
    Launch,
    Note,
    Tool,
    at,
    items_at,
    money_at,
    number_at,
    text_at,
)

_OWN_RETRIES = "2"  # treadle tries again itself, from a reset workspace


def launch(ask: Ask) -> Launch:
    """Return the command line: no settings, hooks or MCP servers of the repository."""
    argv = [
        *("claude", "-p", "--output-format", "stream-json", "--verbose"),
        *("--setting-sources", "user", "--strict-mcp-config"),
        *("--json-schema", json.dumps(schema.RESPONSE)),
        *(("--resume", ask.resume) if ask.resume else ("--session-id", ask.session)),
        *(("--model", ask.spec.config.model) if ask.spec.config.model else ()),
        *("--add-dir", str(ask.step_dir)),
        *_permissions(ask),
        *ask.spec.config.extra_args,
    ]
    env = {
        "CLAUDE_CONFIG_DIR": str(ask.state),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": _OWN_RETRIES,
    }
    if ask.is_held:
        env["IS_SANDBOX"] = "1"
    return Launch(argv=tuple(argv), cwd=ask.spec.workspace, env=env)


def _permissions(ask: Ask) -> tuple[str, ...]:
    if ask.is_held:
        return ("--permission-mode", "bypassPermissions")
    folders = [ask.step_dir, *([ask.spec.workspace] if ask.edits else [])]
    allowed = ["Read", "Grep", "Glob", "Bash", *(f"Edit(/{folder}/**)" for folder in folders)]
    return ("--permission-mode", "dontAsk", "--allowedTools", *allowed)


def hear(events: Iterable[Event], ask: Ask) -> Heard:
    """Take the result event's word; an API error says success in its subtype."""
    session, found, error = None, None, ""
    for event in events:
        session = text_at(event, "session_id") or session
        if event.get("type") == "result":
            found = event
        elif event.get("subtype") == "api_retry":
            error = text_at(event, "error") or error
    if found is None:
        return Heard(session=session, error=error)
    text = text_at(found, "result")
    status = number_at(found, "api_error_status") or None
    ended = text_at(found, "terminal_reason") or "completed"
    done = found.get("is_error") is False and ended == "completed"
    return Heard(
        is_done=done,
        text=text,
        structured=found.get("structured_output"),
        session=session,
        usage=_usage(found, ask),
        error="" if done else text or ended,
        status=status,
    )


def _usage(event: Event, ask: Ask) -> Usage:
    used = event.get("modelUsage")
    cached = number_at(event, "usage", "cache_read_input_tokens")
    made = number_at(event, "usage", "cache_creation_input_tokens")
    return Usage(
        model=next(iter(used), None) if isinstance(used, dict) else ask.spec.config.model,
        input_tokens=number_at(event, "usage", "input_tokens") + cached + made,
        cached_tokens=cached,
        output_tokens=number_at(event, "usage", "output_tokens"),
        cost_usd=money_at(event, "total_cost_usd"),
    )


def tell(event: Event) -> Iterator[Note]:
    """Say what one event means."""
    match (event.get("type"), event.get("subtype")):
        case ("system", "init"):
            yield Note("session", text_at(event, "session_id"))
        case ("system", "api_retry"):
            yield Note("retry", text_at(event, "error"))
        case ("assistant" | "user", _):
            for block in items_at(event, "message", "content"):
                yield from _tell_block(block)
        case ("result", _):
            yield Note("done" if event.get("is_error") is False else "error", _told(event))


def _tell_block(block: object) -> Iterator[Note]:
    match at(block, "type"):
        case "text":
            yield Note("text", text_at(block, "text"))
        case "tool_use":
            given = json.dumps(at(block, "input"), ensure_ascii=False)
            yield Note("tool_start", f"{text_at(block, 'name')} {given}")
        case "tool_result":
            content = at(block, "content")
            yield Note("tool_end", content if isinstance(content, str) else json.dumps(content))


def _told(event: Event) -> str:
    turns, cost = number_at(event, "num_turns"), money_at(event, "total_cost_usd")
    return f"{turns} turns, ${cost:.4f}: {text_at(event, 'result')}"


TOOL = Tool(
    name="claude",
    home=".claude",
    state_variable="CLAUDE_CONFIG_DIR",
    launch=launch,
    hear=hear,
    tell=tell,
    variables=("CLAUDE_CONFIG_DIR", "ANTHROPIC_*", "CLAUDE_CODE_*"),
    keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    logins=(".credentials.json",),
    cumulative=("cost",),
    log_in="claude /login",
)
