"""What a child process of a run gets to see and to write, and when it must stop."""

import functools
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from treadle import layout
from treadle.agents import table
from treadle.config import agents
from treadle.config.schema import Network, SandboxConfig
from treadle.contract import Role
from treadle.engine.run import memory as run_memory
from treadle.engine.run.run import Run
from treadle.files import beneath
from treadle.git import scratch as git_scratch
from treadle.git.confined import Confined
from treadle.proc import environment, sweep
from treadle.proc.command import Jail
from treadle.proc.keeper import Command, Ended, Limits
from treadle.project.context import Context
from treadle.sandbox import home, jails, outside, policy
from treadle.sandbox.policy import Policy

_ASK_EVERY = 0.5
_MAX_LOG = 16 << 20
TEMPORARY = ("TMPDIR", "TMP", "TEMP")


def for_agent(run: Run, extra: Iterable[str]) -> dict[str, str]:
    """Return an agent's environment: an allow-list plus the marks of this run."""
    withheld = environment.OF_WORKERS if run.tools.worker else ()
    return environment.allowed(run.tools.env, extra, withheld) | {
        "TREADLE_RUN": run.id,
        sweep.MARKER: sweep.mark(run.folder.folder),
        "TREADLE_PROJECT": str(run.tools.layout.root),
        "TREADLE_PORT_BASE": str(run.memory.port_base or ""),
        **dict.fromkeys(TEMPORARY, str(scratch(run))),
    }


def tier(run: Run) -> jails.Tier:
    """Return what holds this run's children in."""
    asked = run.order.sandbox
    return "0" if asked.mode == "off" else jails.probe(asked.tier).tier


def for_role(run: Run, role: Role, folder: Path) -> Policy:
    """Return what the agent of this step may reach: its folder, and with `edits` the workspace."""
    if tier(run) == "0":  # nothing would hold it to that
        return policy.READ_ONLY
    config = run.order.agent(role).config
    edits = (run.workspace.path,) if table.may_edit(config, role) else ()
    extra = (*policy.expand(config.writable, run.tools.env), *_for_script(run))
    words = agents.argv(run.tools.layout.root, config)
    own = home.installation(words[0]) if words and words[0].startswith("/") else ()
    return _policy(run, (folder, *edits, *extra), config.network, own)


def _for_script(run: Run) -> tuple[Path, ...]:
    """Return where a routine may leave follow-ups and results."""
    script, paths = run.order.script, run.tools.layout
    if script is None:
        return ()
    return (paths.inbox, run.folder.message, *([paths.root] if script.in_project else []))


def for_command(run: Run, place: Path | None = None) -> Policy:
    """Return what a command of the user's may reach: a check, the setup, a routine.

    One that works in a place of its own sees nothing that an agent left elsewhere.
    """
    asked = run.order.checks
    extra = policy.expand(asked.writable, run.tools.env)
    found = _policy(run, (place or run.workspace.path, *extra), asked.network)
    if place:
        left = (run.workspace.path, scratch(run), run.tools.layout.home)
        writable = (layout.scratch_of(place), place, *extra)
        readable = tuple(path for path in found.readable if path not in (*left, run.folder.folder))
        hidden = (*found.hidden, *left)
        found = found._replace(writable=writable, readable=readable, hidden=hidden)
    return found._replace(unix_sockets=asked.unix_sockets)


def for_git(run: Run, writable: tuple[Path, ...]) -> Policy:
    """Return what git may reach when it reads a checkout: filters may run an agent's code."""
    found = _policy(run, writable, "none")
    return found._replace(readable=(*found.readable, layout.clean_of(run.workspace.path)))


def execute(
    run: Run, argv: tuple[str, ...], stdout: Path, stderr: Path, place: Path | None = None
) -> Ended:
    """Run a command of the user's in the workspace or in `place`, inside the sandbox."""
    asked, cwd = run.order.checks, place or run.workspace.path
    env, limits = for_agent(run, asked.env_allow), Limits(wall=asked.timeout, output_bytes=_MAX_LOG)
    open_scratch(run)
    if place:
        temporary = layout.scratch_of(place)
        beneath.remove_tree(temporary)
        temporary.mkdir(mode=0o700, parents=True)
        env |= dict.fromkeys(TEMPORARY, str(temporary))
    command = Command(
        argv=argv,
        cwd=cwd,
        env=env,
        stdin=None,
        stdout=stdout,
        stderr=stderr,
        limits=capped(limits, run.order.sandbox, (cwd,)),
        jail=jails.jail_for(tier(run), for_command(run, place)),
    )
    ended = run.tools.keeper.run(command, should_stop=stopper(run))
    if not ended.vouched:  # what is seen now need not stay so
        text = f"{ended.detail}, so processes of `{argv[-1]}` may still be running"
        return ended._replace(reason="stopped", detail=text)
    for log in {stdout, stderr}:
        run.tools.mask.file(log)
    return ended


def capped(limits: Limits, asked: SandboxConfig, growing: tuple[Path, ...] = ()) -> Limits:
    """Return the limits with what a command may take of the machine besides time and words."""
    memory = asked.memory_mb << 20 if asked.memory_mb else _machine_memory() // 4 * 3
    return limits._replace(
        memory_bytes=memory,
        processes=asked.processes,
        growth_bytes=asked.disk_mb << 20,
        growing=growing,
    )


@functools.cache
def _machine_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def denied(run: Run, logs: Iterable[Path], found: Policy, owner: str = "checks") -> str | None:
    """Say which denial of the sandbox a failed command met, if one of its logs tells."""
    if tier(run) == "0":
        return None
    above = Path(run.tools.env.get("HOME") or "/")
    told = (outside.explain_denial(log, found, above, owner) for log in logs if log.is_file())
    return next(filter(None, told), None)


def reading(project: Context, asked: SandboxConfig, more: tuple[Path, ...] = ()) -> Policy:
    """Return what may be read on behalf of a project; nothing may be written yet."""
    repo, paths, env = project.repo, project.layout, project.env
    # The last ones for a project whose root is the home itself: it is not opened as a whole.
    own = (paths.root, repo.root, repo.common_dir, *git_scratch.alternates(repo.objects))
    places = (*own, paths.home, *more)
    found = home.closed(env, hide=asked.hide, read=asked.read, places=places)
    return found._replace(hidden=(*found.hidden, layout.state_home(env), layout.fleet_key(env)))


def hidden(run: Run) -> tuple[Path, ...]:
    """Return what no child may read."""
    env = run.tools.env
    shut = (layout.state_home(env), layout.fleet_key(env))
    return (*policy.expand(run.order.sandbox.hide, env), *shut, *_private(run))


def _private(run: Run) -> tuple[Path, ...]:
    """Return what holds this run together: its locks and store, a worker's way to its database."""
    names = environment.FILES_OF_WORKERS if run.tools.worker else ()
    found = policy.expand((run.tools.env.get(name, "") for name in names), run.tools.env)
    return found if run.order.in_project else (*found, *run.tools.layout.private())


def scratch(run: Run) -> Path:
    """Return where temporary files go; what works in the project itself does so one by one."""
    place = run.workspace.path
    return layout.scratch_of(place.with_name("project") if run.order.in_project else place)


def open_scratch(run: Run) -> None:
    """Make the folder for temporary files, before anything starts that may want it."""
    scratch(run).mkdir(mode=0o700, parents=True, exist_ok=True)


def abandon_scratch(run: Run) -> None:
    """Leave the folder for temporary files to whoever may still be in it, until it is pruned."""
    if run.order.in_project:  # the next run would get the same
        scratch(run).rename(layout.scratch_of(run.workspace.path))


def clear_scratch(run: Run) -> None:
    """Remove what a step left in its folder for temporary files."""
    if run.order.in_project:
        beneath.empty(scratch(run))
    else:
        beneath.remove_tree(scratch(run))


def _policy(
    run: Run,
    writable: tuple[Path, ...],
    network: Network | None,
    more: tuple[Path, ...] = (),
) -> Policy:
    found = reading(run.tools.project, run.order.sandbox, more)
    return found._replace(
        writable=(scratch(run), *writable),
        hidden=(*found.hidden, *_private(run)),
        readable=(*found.readable, run.workspace.path, run.folder.folder),
        network=(network or run.order.network) == "full",
    )


def stopper(run: Run) -> Callable[[], str | None]:
    """Return a function that says why the work must stop now, or None.

    A signal is seen at once; a request from another terminal is read from the store twice a second.
    """
    asked_at = time.monotonic()

    def should_stop() -> str | None:
        nonlocal asked_at
        if reason := run.tools.interrupted():
            return reason
        if time.monotonic() - asked_at < _ASK_EVERY:
            return None
        asked_at = time.monotonic()
        return stop_request(run)

    return should_stop


def stop_request(run: Run) -> str | None:
    """Return the reason another process gave for stopping this run, if one did."""
    return run_memory.recall(run.tools.store, run.id).stop_requested


def confine(run: Run) -> Run:
    """Give the run's workspace hands that are bound as those of the run's agents are."""

    def build(writable: tuple[Path, ...]) -> Jail | None:
        open_scratch(run)
        return jails.jail_for(_git_tier(run), for_git(run, writable))

    def known(env: Mapping[str, str]) -> dict[str, str]:
        """Return what an agent may know, and what points git at its work."""
        own = for_agent(run, ())
        given = environment.allowed(env, ("GIT_*", "PYTHONSAFEPATH"))
        return {**own, **given, **{name: own[name] for name in TEMPORARY}}

    hands = Confined(run.tools.keeper, run.folder.git, build, known, run.tools.interrupted)
    run.workspace = replace(run.workspace, runner=hands)
    return run


def _git_tier(run: Run) -> jails.Tier:
    """Return what holds git in: without filters it runs nobody's code, and tier B costs least."""
    found = tier(run)
    if found == "A" and not run.workspace.config.filters():
        return "B" if jails.probe("B").tier == "B" else "A"
    return found
