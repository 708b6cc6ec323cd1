"""Run the commands that a project wants around its messages: hooks, pre-checks, a router."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from treadle.config.agents import is_in_project
from treadle.config.schema import Config, SandboxConfig
from treadle.engine.run import confinement
from treadle.engine.run.run import Tools
from treadle.errors import TreadleError
from treadle.proc import environment
from treadle.proc.command import Jail
from treadle.proc.keeper import Command, Ended, Keeper, Limits
from treadle.proc.watch import ShouldStop
from treadle.project.context import Context
from treadle.sandbox import outside, probe
from treadle.sandbox import policy as policies
from treadle.sandbox.policy import READ_ONLY, Policy


class Bounds(NamedTuple):
    """What such a command may reach, and what enforces it."""

    tier: str = "0"
    policy: Policy = READ_ONLY
    asked: SandboxConfig = SandboxConfig()

    def widened(self, *folders: Path) -> "Bounds":
        """Return these bounds with more folders to write in."""
        return self._replace(policy=self.policy.widened(folders))

    @property
    def jail(self) -> Jail | None:
        """Return what the starting process needs; None where nothing holds."""
        return probe.jail_for(self.tier, self.policy)

    def denied(self, log: Path, env: Mapping[str, str]) -> str:
        """Say which denial a log speaks of, to be added to a sentence; empty if none."""
        told = outside.explain_denial(log, self.policy, Path(env.get("HOME", "/")))
        return f" ({told})" if told and self.tier != "0" else ""


class Host(NamedTuple):
    """Where such commands run: at the project's root, in their bounds, until they must stop."""

    root: Path
    env: Mapping[str, str]
    keeper: Keeper
    bounds: Bounds = Bounds()
    should_stop: ShouldStop | None = None

    def run(
        self,
        argv: Sequence[str],
        limits: Limits,
        output: tuple[Path, Path],
        stdin: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Ended:
        """Run a command to its end, with a folder for temporary files that goes with it."""
        program = str(self.root / argv[0]) if is_in_project(argv[0]) else argv[0]
        with tempfile.TemporaryDirectory(prefix="treadle-") as folder:
            command = Command(
                argv=(program, *argv[1:]),
                cwd=self.root,
                env=environment.allowed(self.env) | {"TMPDIR": folder} | dict(env or {}),
                stdin=stdin,
                stdout=output[0],
                stderr=output[1],
                limits=confinement.capped(limits, self.bounds.asked, (self.root,)),
                jail=self.bounds.widened(Path(folder)).jail,
            )
            return self.keeper.run(command, should_stop=self.should_stop)


def bounds_for(config: Config, project: Context) -> Bounds:
    """Return the bounds of a check command without its workspace."""
    asked = config.checks
    found = confinement.reading(project, config.sandbox)._replace(
        writable=policies.expand(asked.writable, project.env),
        network=(asked.network or config.network) == "full",
        unix_sockets=asked.unix_sockets,
    )
    is_off = config.sandbox.mode == "off"
    tier = "0" if is_off else probe.probe(config.sandbox.tier).tier
    return Bounds(tier, found, config.sandbox)


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
    held = bounds_for(config, tools.project).widened(tools.layout.root, tools.repo.common_dir)
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
