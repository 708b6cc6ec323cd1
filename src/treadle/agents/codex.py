"""Drive OpenAI's Codex CLI: `codex exec --json`."""

from collections.abc import Iterator
from dataclasses import replace

from treadle.agents.backend import (
    Ask,
    Event,
    Launch,
    Remark,
    at,
    counted,
    done,
    items_at,
    known_tool,
    overlay,
    text_at,
)

_ADAPTER = "CODEX_CONFIG"


def adjust(ask: Ask, launch: Launch) -> Launch:
    """Without treadle's sandbox, let it work where it may write."""
    return launch if ask.edits or ask.is_held else replace(launch, cwd=ask.step_dir)


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
            names = ("input_tokens", "cached_input_tokens", "output_tokens")
            yield done(counted(event.get("usage"), *names))


def adapter(ask: Ask) -> dict[str, str]:
    """Return what the adapter of the Agent Client Protocol wants: settings, and how free it is."""
    settings = {"project_root_markers": [], "project_doc_max_bytes": 0}
    return {
        _ADAPTER: overlay(ask.spec.environment.get(_ADAPTER), settings),
        "INITIAL_AGENT_MODE": "agent-full-access" if ask.is_held else "agent",
        "NO_BROWSER": "1",
    }


TOOL = known_tool("codex", tell, adjust=adjust, adapter=adapter)
