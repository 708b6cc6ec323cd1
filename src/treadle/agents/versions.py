"""Compare the version of a tool that is installed with the one that treadle was tested with."""

import re
import shutil
from pathlib import Path

from treadle.agents.backend import AgentSpec, Tool
from treadle.config.schema import AgentConfig
from treadle.errors import TreadleError
from treadle.git import call
from treadle.layout import find_work_tree
from treadle.proc import helper

_TIME = 20.0
_NUMBER = re.compile(r"\d+(?:\.\d+)+(?:-[\w.]*\w)?")


def installed(program: str, spec: AgentSpec) -> str | None:
    """Ask a tool for its version, unless the repository brings it: it would be in no sandbox.

    For the same reason it meets neither the repository's files nor variables that are set there.
    """
    tree = find_work_tree(spec.root.resolve())
    places = (Path(program).absolute(), Path(program).resolve())
    if tree and any(place.is_relative_to(tree.top) for place in places):
        return None
    own = {key: value for key, value in spec.environment.items() if key not in spec.config.env}
    env = call.apart(own, *([str(tree.top)] if tree else []))
    try:
        done = helper.run([*helper.FROM_NOWHERE, program, "--version"], env, timeout=_TIME)
    except TreadleError:
        return None
    words = done.stdout.decode(errors="replace").strip().splitlines()
    return words[0] if words and done.returncode == 0 else None


def tested(tool: Tool, config: AgentConfig) -> str | None:
    """Return the version that the tests drive; a server may be a package of its own."""
    own = tool.acp.get("tested") if config.type == "acp" else None
    return own or tool.tested or None


def compared(found: str | None, known: str | None) -> str:
    """Say which version is installed and which was tested."""
    number = _NUMBER.search(found or "")
    if known and number and number[0] == known:
        return f"{known} is installed, as tested"
    return f"{found or 'an unknown version'} is installed, {known or 'none'} was tested"


def told(tool: Tool, spec: AgentSpec) -> str:
    """Say the same of the tool that an agent is."""
    words = (tool.acp if spec.config.type == "acp" else tool.start).get("program") or ["?"]
    program = shutil.which(words[0], path=spec.environment.get("PATH"))
    found = installed(program, spec) if program else None
    return compared(found, tested(tool, spec.config))
