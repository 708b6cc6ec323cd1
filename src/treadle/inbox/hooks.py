"""Run the commands that a project wants around its messages."""

from collections.abc import Mapping
from typing import Literal

from treadle.config.schema import Config
from treadle.engine.run import Tools
from treadle.errors import TreadleError
from treadle.inbox import bounds
from treadle.inbox.bounds import Host
from treadle.proc.keeper import Ended, Limits

Hook = Literal["beforeAll", "afterAll", "beforeEach", "afterEach"]
_OUTPUT = 16 << 20


def run(tools: Tools, config: Config, hook: Hook, env: Mapping[str, str]) -> None:
    """Run one hook at the project's root; TreadleError if it is configured and fails."""
    words: tuple[str, ...] | None = getattr(config.hooks, hook)
    if words is None:
        return
    log = tools.layout.hooks / f"{hook}.txt"
    log.parent.mkdir(exist_ok=True)
    log.unlink(missing_ok=True)
    held = bounds.around(config, tools.project).widened(tools.layout.root, tools.repo.common_dir)
    host = Host(tools.layout.root, tools.env, tools.keeper, held, tools.interrupted)
    limits = Limits(wall=config.checks.timeout, idle=None, output_bytes=_OUTPUT)
    ended = host.run(words, limits, (log, log), env={"TREADLE_HOOK": hook, **env})
    tools.mask.file(log)
    if ended.reason != "exit" or ended.exit_code:
        where = tools.layout.relative(log)
        told = held.denied(log, tools.env)
        raise TreadleError(
            f"hooks.{hook} {_how(ended)}{told}; its output is in {where}",
            code="hook_failed",
            fix=[f"cat {where}"],
        )


def _how(ended: Ended) -> str:
    return f"exited with {ended.exit_code}" if ended.reason == "exit" else ended.detail
