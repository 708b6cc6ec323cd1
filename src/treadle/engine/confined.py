"""Let git reach a run's workspace through the sandbox alone."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from treadle.engine import surroundings
from treadle.engine.run import Run
from treadle.git.confined import Confined
from treadle.proc import environment
from treadle.proc.command import Jail
from treadle.sandbox import probe


def confine(run: Run) -> Run:
    """Give the run's workspace hands that are bound as those of the run's agents are."""

    def build(writable: tuple[Path, ...]) -> Jail | None:
        return probe.jail_for(_tier(run), surroundings.for_git(run, writable))

    def known(env: Mapping[str, str]) -> dict[str, str]:
        """Return what an agent may know, and what points git at its work."""
        own = surroundings.for_agent(run, ())
        given = environment.allowed(env, ("GIT_*", "PYTHONSAFEPATH"))
        return {**own, **given, **{name: own[name] for name in surroundings.TEMPORARY}}

    hands = Confined(run.tools.keeper, run.folder.git, build, known, run.tools.interrupted)
    run.workspace = replace(run.workspace, runner=hands)
    return run


def _tier(run: Run) -> probe.Tier:
    """Return what holds git in: without filters it runs nobody's code, and tier B costs least."""
    tier = surroundings.tier(run)
    if tier == "A" and not run.workspace.config.filters():
        return "B" if probe.probe("B").tier == "B" else "A"
    return tier
