"""Where the real tools are, and how a user would lead them to the scripted model."""

import json
import os
from pathlib import Path

from tests.real.model import KEY

EVERY = ("codex", "claude", "gemini")
# Servers of the Agent Client Protocol, each with its preset; two are adapters around a tool.
PRESETS = {
    "gemini --acp": "gemini",
    "opencode acp": "opencode",
    "copilot --acp": "copilot",
    "codex-acp": "codex",
    "claude-agent-acp": "claude",
}
MORE = ("opencode", "copilot", *PRESETS)
PATIENCE = 900  # seconds for a whole run: only a hang should ever need so many
BINARIES = [Path(__file__).parent / name / "node_modules/.bin" for name in ("clis", "more-clis")]
CACHE = Path(__file__).parents[2] / ".cache"
NEWEST = "newest "  # before a tool's name: the version that the index has today


def settings(tool: str, url: str) -> dict:
    """Return the agent's settings that lead `tool` to the scripted model."""
    found: dict[str, object] = {
        "type": tool,
        "retry_wait": 0.1,
        "patience": 1,
        "timeout": PATIENCE / 2,
    }
    if tool in PRESETS:
        found |= {"type": "acp", "preset": PRESETS[tool]}
        return found | ({"extra_args": ["-m", "scripted"]} if "gemini" in tool else {})
    found["model"] = "scripted"
    if tool == "codex":
        table = codex(url)["model_providers"]["t"]
        words = ", ".join(f"{key}={json.dumps(value)}" for key, value in table.items())
        found["extra_args"] = ["-c", 'model_provider="t"', "-c", f"model_providers.t={{{words}}}"]
        found["model"] = "gpt-5.5"
    if tool == "opencode":
        found["model"] = "t/scripted"
    return found


def environment(tool: str, url: str) -> dict[str, str]:
    """Return what the user would have in the environment."""
    keys = {
        "codex": {"CODEX_API_KEY": KEY},
        "claude": {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": url},
        "gemini": {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": url},
        "opencode": {"OPENCODE_CONFIG_CONTENT": json.dumps(opencode(url))},
        "copilot": {
            "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
            "COPILOT_PROVIDER_API_KEY": KEY,
            "COPILOT_PROVIDER_TYPE": "openai",
            "COPILOT_PROVIDER_WIRE_API": "completions",
            "COPILOT_OFFLINE": "true",
            "COPILOT_MODEL": "scripted",
        },
    }
    keys["codex-acp"] = keys["codex"] | {
        "CODEX_CONFIG": json.dumps(codex(url) | {"model": "gpt-5.5"}),
        "MODEL_PROVIDER": "t",
    }
    found = keys.get(tool) or keys[PRESETS[tool]]
    return found | {"PATH": ":".join([*map(str, BINARIES), os.environ["PATH"]])}


def codex(url: str) -> dict:
    """Return the user's settings of codex."""
    provider = {"name": "t", "base_url": f"{url}/v1", "env_key": "CODEX_API_KEY"}
    provider |= {"wire_api": "responses", "request_max_retries": 0, "stream_max_retries": 0}
    return {"model_provider": "t", "model_providers": {"t": provider}}


def opencode(url: str) -> dict:
    """Return the user's inline configuration of opencode."""
    model = {"name": "scripted", "limit": {"context": 100000, "output": 8000}}
    model["cost"] = {"input": 1, "output": 10}
    model |= {"attachment": True, "modalities": {"input": ["text", "image"], "output": ["text"]}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": KEY},
        "models": {"scripted": model},
    }
    return {"provider": {"t": provider}, "model": "t/scripted"}
