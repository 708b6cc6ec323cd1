"""Hold the commands that a project wants around its messages: hooks, and a router of its own."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from treadle import layout
from treadle.config.schema import Config
from treadle.proc.command import Jail
from treadle.sandbox import denial, jail, probe
from treadle.sandbox import policy as policies
from treadle.sandbox.policy import READ_ONLY, Policy


class Bounds(NamedTuple):
    """What such a command may reach, and what enforces it."""

    tier: str = "0"
    policy: Policy = READ_ONLY

    def widened(self, *folders: Path) -> "Bounds":
        """Return these bounds with more folders to write in."""
        return self._replace(policy=self.policy.widened(folders))

    @property
    def jail(self) -> Jail | None:
        """Return what the starting process needs; None where nothing holds."""
        return jail.build(self.tier, self.policy)

    def denied(self, log: Path, env: Mapping[str, str]) -> str:
        """Say which denial a log speaks of, to be added to a sentence; empty if none."""
        told = denial.explain(log, self.policy, Path(env.get("HOME", "/")))
        return f" ({told})" if told and self.tier != "0" else ""


def around(config: Config, env: Mapping[str, str]) -> Bounds:
    """Return the bounds of a check command without its workspace."""
    asked = config.checks
    found = Policy(
        writable=policies.expand(asked.writable, env),
        hidden=(*policies.expand(config.sandbox.hide, env), layout.state_home(env)),
        network=(asked.network or config.network) == "full",
        unix_sockets=asked.unix_sockets,
    )
    is_off = config.sandbox.mode == "off"
    return Bounds("0" if is_off else probe.probe(config.sandbox.tier).tier, found)
