"""Drive GitHub Copilot's CLI: prompt on stdin, a stream of JSON events, usage in a file."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

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
    started,
    text_at,
)
from treadle.contract import strictjson
from treadle.errors import FormatError
from treadle.files import walk


def launch(ask: Ask) -> Launch:
    """Return the command line; what a repository brings stays untrusted."""
    argv = [
        *("copilot", "--output-format", "json", "--no-auto-update", "--no-ask-user"),
        *("--disable-builtin-mcps", "--no-custom-instructions"),
        *("--usage-output-file", str(_usage_file(ask))),
        *((f"--resume={ask.resume}",) if ask.resume else ("--session-id", ask.session)),
        *("--add-dir", str(ask.step_dir), "--allow-all-tools"),
        *(("--allow-all-paths",) if ask.is_held else ()),
        *ask.spec.config.extra_args,
    ]
    env = {
        "COPILOT_HOME": str(ask.state),
        "XDG_CACHE_HOME": str(ask.state / "cache"),
        "COPILOT_ALLOW_ALL": "false",  # "true" would trust the folder, hooks and all
        **({"COPILOT_MODEL": ask.spec.config.model} if ask.spec.config.model else {}),
    }
    return Launch(argv=tuple(argv), cwd=ask.spec.workspace, env=env)


def _usage_file(ask: Ask) -> Path:
    """Return where it leaves its numbers: a file of this call, where it may write."""
    return ask.state / f"usage-{ask.session}{'-again' if ask.resume else ''}.json"


def spent(ask: Ask) -> Usage | None:
    """Read the numbers that this call has left."""
    path = _usage_file(ask)
    try:
        found = strictjson.load_object(walk.read(path, max_bytes=1 << 20), source=path.name)
    except FormatError:
        return None
    path.unlink(missing_ok=True)
    models = found.get("modelMetrics")
    if not isinstance(models, dict) or not models:
        return None
    names = ("inputTokens", "cacheReadTokens", "outputTokens")
    used = [counted(at(model, "usage"), *names) for model in models.values()]
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


TOOL = known_tool("copilot", launch, tell, spent=spent)
