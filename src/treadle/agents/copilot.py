"""Drive GitHub Copilot's CLI: prompt on stdin, a stream of JSON events, usage in a file."""

from collections.abc import Iterator

from msgspec.structs import replace

from treadle.agents import backend
from treadle.agents.backend import (
    Ask,
    Event,
    Launch,
    Remark,
    Usage,
    at,
    counted,
    failed,
    known_tool,
    number_at,
    parse_event,
    started,
    text_at,
)
from treadle.agents.records import Record
from treadle.files import walk

_NAMES = ("inputTokens", "cacheReadTokens", "outputTokens")


def adjust(ask: Ask, launch: Launch) -> Launch:
    """Name the model, for which there is no option."""
    model = ask.spec.config.model
    return replace(launch, env={**launch.env, "COPILOT_MODEL": model}) if model else launch


def spent(ask: Ask) -> Usage | None:
    """Read the numbers that this call has left."""
    path = ask.state / "usage.json"
    found = parse_event(walk.tail(path, 1 << 20).encode())
    if found is None:
        return None
    path.unlink(missing_ok=True)
    told = found.get("modelMetrics")
    models = told if isinstance(told, dict) else {}
    used = [counted(at(model, "usage"), *_NAMES) for model in models.values()]
    total = backend.total_usage(used, (), None)
    return replace(total, model=next(iter(models))) if total else None


def tell(event: Event) -> Iterator[Remark]:
    """Say what one event means."""
    data = event.get("data")
    match event.get("type"):
        case "assistant.message" if text_at(data, "content"):
            yield Remark("text", text_at(data, "content"))
        case "tool.execution_start":
            yield started(text_at(data, "toolName"), at(data, "arguments"))
        case "tool.execution_complete":
            word = "ok" if at(data, "success") else "failed"
            yield Remark("tool_end", f"{word} {text_at(data, 'error', 'message')}")
        case "session.error":
            words = text_at(data, "message") or "the session failed"
            yield failed(words, number_at(data, "statusCode"))
        case "result":
            yield Remark("session", text_at(event, "sessionId"))
            code = event.get("exitCode", at(data, "exitCode"))
            yield Remark("done" if code == 0 else "warning", f"exit code {code}")


def _recorded(event: Event) -> tuple[str, Usage] | None:
    """Read from its record what a call has used."""
    used = at(event, "data", "usage")
    if event.get("type") != "session.usage_record":
        return None
    return text_at(event, "id"), replace(counted(used, *_NAMES), model=text_at(used, "model"))


_RECORD = Record("session-state/{session}/events.jsonl", _recorded, whole=True)
TOOL = known_tool("copilot", tell, adjust=adjust, spent=spent, counting=_RECORD.counting)
