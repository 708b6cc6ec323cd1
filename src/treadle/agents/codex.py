"""Drive OpenAI's Codex CLI: `codex exec --json`."""

from collections.abc import Iterator

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
    items_at,
    known_tool,
    overlay,
    parse_event,
    text_at,
)
from treadle.agents.records import Record
from treadle.files import walk

_ADAPTER = "CODEX_CONFIG"
_FILES = "sessions/*/*/*/rollout-*.jsonl"
_TAIL = 256 << 10
_NAMES = ("input_tokens", "cached_input_tokens", "output_tokens")


def adjust(ask: Ask, launch: Launch) -> Launch:
    """Without treadle's sandbox, let it stand where it may write: not in the workspace."""
    return launch if ask.edits or ask.is_held else replace(launch, cwd=ask.apart)


def tell(event: Event) -> Iterator[Remark]:
    """Say what one event means."""
    kind, item = event.get("type"), event.get("item")
    match (kind, at(item, "type")):
        case ("thread.started", _):
            yield Remark("session", text_at(event, "thread_id"))
        case ("item.started", "command_execution"):
            yield Remark("tool_start", text_at(item, "command"))
        case ("item.completed", "command_execution"):
            code = at(item, "exit_code")
            yield Remark("tool_end", f"exit {code}: {text_at(item, 'command')}")
        case ("item.completed", "file_change"):
            paths = [text_at(change, "path") for change in items_at(item, "changes")]
            yield Remark("tool_end", f"changed {', '.join(paths)}")
        case ("item.completed", "agent_message" | "reasoning"):
            yield Remark("text", text_at(item, "text"))
        case ("item.completed", "error"):
            yield Remark("warning", text_at(item, "message"))
        case ("error", _):
            yield Remark("retry", text_at(event, "message"))
        case ("turn.failed", _):
            yield Remark("error", text_at(event, "error", "message") or "the turn failed")
        case ("turn.completed", _):
            yield done(counted(event.get("usage"), *_NAMES))


def counting(ask: Ask) -> Usage | None:
    """Read what the conversation has used from its own record, which it writes while it works."""
    return _RECORD.counting(ask) or _total(ask)


def _recorded(event: Event) -> tuple[str, Usage] | None:
    if event.get("type") != "token_usage_record":
        return None
    said = event.get("payload")
    return text_at(said, "response_id"), counted(at(said, "usage"), *_NAMES)


def _total(ask: Ask) -> Usage | None:
    """Read what an older version writes when a call's commands have ended."""
    records = sorted(ask.state.glob(_FILES))
    lines = walk.tail(records[-1], _TAIL).splitlines() if records else []
    for line in reversed(lines):
        found = parse_event(line.encode()) if '"token_count"' in line else None
        if used := at(found, "payload", "info", "total_token_usage"):
            return counted(used, *_NAMES)
    return None


def adapter(ask: Ask) -> dict[str, str]:
    """Return what the adapter of the Agent Client Protocol wants: settings, and how free it is."""
    settings = {"project_root_markers": [], "project_doc_max_bytes": 0}
    return {
        _ADAPTER: overlay(ask.spec.environment.get(_ADAPTER), settings),
        "INITIAL_AGENT_MODE": "agent-full-access" if ask.is_held else "agent",
        "NO_BROWSER": "1",
    }


_MODEL = r'"turn_context".*?"model":"([^"]+)"'
_RECORD = Record(_FILES, _recorded, whole=True, model=_MODEL)
TOOL = known_tool("codex", tell, adjust=adjust, adapter=adapter, counting=counting)
