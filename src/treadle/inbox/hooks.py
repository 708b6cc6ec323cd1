"""Run the commands that a project wants around its messages."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from treadle.config.agents import is_in_project
from treadle.config.schema import Config
from treadle.engine.run import Tools
from treadle.errors import TreadleError
from treadle.inbox import bounds
from treadle.inbox.bounds import Bounds
from treadle.proc import environment
from treadle.proc.keeper import Command, Ended, Limits

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
    held = bounds.around(config, tools.env).widened(tools.layout.root, tools.repo.common_dir)
    with tempfile.TemporaryDirectory(prefix="treadle-hook-") as folder:
        own = {"TREADLE_HOOK": hook, "TMPDIR": folder, **env}
        ended = _run(tools, config, words, own, log, held.widened(Path(folder)))
    tools.mask.file(log)
    if ended.reason != "exit" or ended.exit_code:
        where = tools.layout.relative(log)
        told = held.denied(log, tools.env)
        raise TreadleError(
            f"hooks.{hook} {_how(ended)}{told}; its output is in {where}",
            code="hook_failed",
            fix=[f"cat {where}"],
        )


def _run(
    tools: Tools,
    config: Config,
    words: Sequence[str],
    env: Mapping[str, str],
    log: Path,
    held: Bounds,
) -> Ended:
    root = tools.layout.root
    program = str(root / words[0]) if is_in_project(words[0]) else words[0]
    command = Command(
        argv=(program, *words[1:]),
        cwd=root,
        env=environment.allowed(tools.env) | dict(env),
        stdin=None,
        stdout=log,
        stderr=log,
        limits=Limits(wall=config.checks.timeout, idle=None, output_bytes=_OUTPUT),
        jail=held.jail,
    )
    return tools.keeper.run(command, should_stop=tools.interrupted)


def _how(ended: Ended) -> str:
    return f"exited with {ended.exit_code}" if ended.reason == "exit" else ended.detail
