"""Run the commands that a project wants around its messages."""

from collections.abc import Mapping
from typing import Literal

from treadle.config.agents import is_in_project
from treadle.config.schema import Config
from treadle.engine.run import Tools
from treadle.errors import TreadleError
from treadle.proc import environment
from treadle.proc.keeper import Command, Ended, Limits

Hook = Literal["beforeAll", "afterAll", "beforeEach", "afterEach"]
_OUTPUT = 16 << 20


def run(tools: Tools, config: Config, hook: Hook, env: Mapping[str, str]) -> None:
    """Run one hook at the project's root; TreadleError if it is configured and fails."""
    words: tuple[str, ...] | None = getattr(config.hooks, hook)
    if words is None:
        return
    root, folder = tools.layout.root, tools.layout.hooks
    folder.mkdir(exist_ok=True)
    program = str(root / words[0]) if is_in_project(words[0]) else words[0]
    log = folder / f"{hook}.txt"
    log.unlink(missing_ok=True)
    ended = tools.keeper.run(
        Command(
            argv=(program, *words[1:]),
            cwd=root,
            env=environment.allowed(tools.env) | {"TREADLE_HOOK": hook} | dict(env),
            stdin=None,
            stdout=log,
            stderr=log,
            limits=Limits(wall=config.checks.timeout, idle=None, output_bytes=_OUTPUT),
        ),
        should_stop=tools.interrupted,
    )
    if ended.reason != "exit" or ended.exit_code:
        where = tools.layout.relative(log)
        raise TreadleError(
            f"hooks.{hook} {_how(ended)}; its output is in {where}",
            code="hook_failed",
            fix=[f"cat {where}"],
        )


def _how(ended: Ended) -> str:
    return f"exited with {ended.exit_code}" if ended.reason == "exit" else ended.detail
