"""Look at everything treadle needs, and at who works here now."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from treadle.agents import table
from treadle.config.load import load
from treadle.engine import lock, rehearse
from treadle.errors import ProjectError, TreadleError
from treadle.layout import Layout
from treadle.project import doctor
from treadle.project.context import open_context
from treadle.project.doctor import Check
from treadle.project.root import find_top
from treadle.sandbox.probe import Sandbox


class Health(NamedTuple):
    """Everything that was looked at."""

    ok: bool
    checks: tuple[Check, ...]
    sandbox: Sandbox


def examine(cwd: Path, env: Mapping[str, str]) -> Health:
    """Look at the machine, the project, the agents and the lock."""
    found = doctor.run(cwd, env)
    return Health(found.ok, (*found.checks, *_tools(cwd, env), *_lock(cwd, env)), found.sandbox)


def document(found: Health, repaired: Sequence[str] = ()) -> dict[str, object]:
    """Return it as `treadle doctor --json` does."""
    return {
        "ok": found.ok,
        "checks": [check._asdict() for check in found.checks],
        "sandbox": found.sandbox._asdict(),
        "repaired": list(repaired),
    }


def _tools(cwd: Path, env: Mapping[str, str]) -> list[Check]:
    """Say of every agent tool in the configuration which version it is and how it would log in."""
    try:
        project = open_context(cwd, env)
        config = load(project.layout, project.env).config
    except TreadleError:
        return []  # said already
    names = [name for name, agent in config.agents.items() if table.is_prompted(agent)]
    shown = [rehearse.preview(project, config, name, "do") for name in names]
    return [
        Check(
            f"agent {item.name} login",
            True,
            f"{item.version or 'no version'}; {rehearse.login_state(item)};"
            f" runs: {rehearse.line(item)}",
        )
        for item in shown
        if item.program and item.log_in
    ]


def _lock(cwd: Path, env: Mapping[str, str]) -> list[Check]:
    try:
        who = lock.holder(Layout(find_top(cwd, env)).run_lock)
    except ProjectError:
        return []
    if who is None:
        return [Check("lock", True, "free")]
    text = f"held by pid {who.get('pid', '?')} on {who.get('host', '?')}"
    return [Check("lock", True, f"{text} since {who.get('since', '?')}")]
