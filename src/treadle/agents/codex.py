"""Drive OpenAI's Codex CLI: `codex exec --json`."""

import json
from collections.abc import Iterator

from treadle.agents import backend
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

_SETTINGS = (
    # Neither hooks, MCP servers nor instructions of the repository; the prompt carries those.
    "project_root_markers=[]",
    "project_doc_max_bytes=0",
    "shell_environment_policy.ignore_default_excludes=false",
    "sandbox_workspace_write.exclude_slash_tmp=true",
    "sandbox_workspace_write.exclude_tmpdir_env_var=true",
)
_SCHEMA = "schema.json"
_ADAPTER = "CODEX_CONFIG"
_OFF = ("plugins", "apps", "unbounded_connection_retries")
# The adapter's own settings come too late for these.
_FEATURES = "\n".join(["[features]", *(f"{name} = false" for name in _OFF), ""])


def launch(ask: Ask) -> Launch:
    """Return the command line; a conversation that goes on takes all settings by -c."""
    settings = [*_SETTINGS, *_sandbox(ask)]
    argv = [
        *("codex", "exec", *(["resume"] if ask.resume else [])),
        *("--json", "--skip-git-repo-check", "--ignore-user-config"),
        *(word for setting in settings for word in ("-c", setting)),
        *(word for feature in _OFF for word in ("--disable", feature)),
        *("--output-schema", str(ask.state / _SCHEMA)),
        *ask.model("-m"),
        *ask.spec.config.extra_args,
        *((ask.resume, "-") if ask.resume else ("-",)),
    ]
    return Launch(
        argv=tuple(argv),
        cwd=ask.spec.workspace if ask.edits or ask.is_held else ask.step_dir,
        env={"CODEX_HOME": str(ask.state)},
        files={_SCHEMA: backend.RESPONSE, "config.toml": _FEATURES},
    )


def _sandbox(ask: Ask) -> Iterator[str]:
    if ask.is_held:
        yield 'sandbox_mode="danger-full-access"'
        return
    yield 'sandbox_mode="workspace-write"'
    yield f"sandbox_workspace_write.writable_roots={json.dumps([*map(str, ask.roots)])}"


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


TOOL = known_tool("codex", launch, tell)
