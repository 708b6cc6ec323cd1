"""Which kinds of agent there are and which keys each of them takes."""

from typing import NamedTuple

# Keys that every kind of agent takes.
COMMON = ("type", "path", "timeout", "idle_timeout", "env_allow", "edits", "network", "writable")


class Takes(NamedTuple):
    """The keys one kind of agent needs and may have, besides the common ones."""

    needs: tuple[str, ...] = ()
    may_have: tuple[str, ...] = ()


_TOOL = Takes(may_have=("model", "extra_args", "prices", "retry_wait"))

# The tools whose program has a fixed name, looked up in PATH.
TOOLS = ("codex", "claude", "gemini", "opencode", "copilot")

BACKENDS: dict[str, Takes] = {
    "exec": Takes(needs=("cmd",)),
    "builtin": Takes(may_have=("run",)),
    "replay": Takes(needs=("recording",)),
    **dict.fromkeys(TOOLS, _TOOL),
    "acp": Takes(may_have=("cmd", "preset", "extra_args", "prices", "retry_wait")),
}


def takes(type_: str) -> tuple[str, ...]:
    """Return every key that an agent of this type may have."""
    kind = BACKENDS[type_]
    return (*COMMON, *kind.needs, *kind.may_have)


def owners(key: str) -> tuple[str, ...]:
    """Return the types of agent that take `key`."""
    return tuple(type_ for type_ in BACKENDS if key in takes(type_))
