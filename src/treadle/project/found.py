"""Look for agent tools on PATH and give them roles in a new configuration."""

import shutil
from collections.abc import Mapping, Sequence

from treadle.config.backends import TOOLS
from treadle.contract.role import ROLES


def tools(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the tools that are installed, the first choice first."""
    return tuple(tool for tool in TOOLS if shutil.which(tool, path=env.get("PATH", "")))


def roles(found: Sequence[str]) -> dict[str, str]:
    """Return who plays which role; who checks is not who worked, if there are two."""
    if not found:
        return {}
    return {role: found[1] if role == "check" and len(found) > 1 else found[0] for role in ROLES}


def config(text: str, found: Sequence[str]) -> str:
    """Return a configuration with these tools in it."""
    if not found:
        return text
    lines = [f"# Found on PATH: {', '.join(found)}. What they would run: treadle agent show NAME"]
    for role, tool in roles(found).items():
        lines += [f"[agents.{role}]", f'use = "{tool}"', ""]
    for tool in found:
        lines += [f"[agents.{tool}]", f'type = "{tool}"', ""]
    return text.rstrip() + "\n\n" + "\n".join(lines).rstrip() + "\n"
