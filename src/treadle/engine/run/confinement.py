"""What a child process of a run gets to see and to write, and when it must stop."""

import contextlib
import functools
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from treadle import layout
from treadle.agents import table
from treadle.config import agents
from treadle.config.schema import Config, Network, SandboxConfig
from treadle.contract import ROLES, Role
from treadle.engine.run import caches
from treadle.engine.run import memory as run_memory
from treadle.engine.run.order import Order
from treadle.engine.run.run import Run
from treadle.errors import BlockedError
from treadle.files import beneath
from treadle.git import scratch as git_scratch
from treadle.git.confined import Confined
from treadle.proc import environment, sweep
from treadle.proc.command import Jail
from treadle.proc.keeper import Command, Ended, Limits
from treadle.project.context import Context
from treadle.sandbox import home, jails, outside, policy
from treadle.sandbox.jails import Sandbox
from treadle.sandbox.mask import Mask
from treadle.sandbox.policy import Policy

_ASK_EVERY = 0.5
_MAX_LOG = 16 << 20
# Where package managers find their registries, through which proxy and with whose certificates.
_REGISTRIES = r"""(?xi)
    (PIP|UV)_(DEFAULT_INDEX|(EXTRA_)?INDEX(_URL)?|NO_INDEX|FIND_LINKS|CERT|PROXY|OFFLINE
    |TRUSTED_HOST|INSECURE_HOST|NATIVE_TLS|PYTHON_INSTALL_MIRROR) | PIPENV_PYPI_MIRROR
    | PDM_PYPI_URL | NPM_CONFIG_((@.*:)?REGISTRY|(HTTPS?_?)?PROXY|NO_?PROXY|CAFILE|STRICT_SSL)
    | BUN_CONFIG_REGISTRY | YARN_(NPM_)?REGISTRY(_SERVER)? | YARN_HTTPS?_(PROXY|CA_FILE_PATH)
    | CARGO_(HTTP_(PROXY|CAINFO)|NET_.*|REGISTRY_DEFAULT|REGISTRIES_.*_INDEX|SOURCE_.*)
    | RUSTUP_(DIST_SERVER|UPDATE_ROOT) | GO(PROXY|NOPROXY|SUMDB|NOSUMDB|PRIVATE|INSECURE|FLAGS)
    | (MAVEN|GRADLE|SBT)_OPTS | MAVEN_ARGS | COURSIER_REPOSITORIES | BUNDLE_MIRROR__.*
    | DENO_CERT"""
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
        **_git_settings(run),
    }


def _git_settings(run: Run) -> dict[str, str]:
    """Return the user's settings of git but for logins, where these hide the files of the rest."""
    logins = {*_logins(run)}
    if not logins or logins.isdisjoint(_git_files(run)[2:]):
        return {}
    found = (it for it in run.workspace.config.entries if not it.is_local)
    pairs = ((it.key, it.value) for it in found if not it.key.startswith("include"))
    kept = [it for it in pairs if run.tools.mask.text("=".join(it)) == "=".join(it)]
    given = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for at, (key, value) in enumerate(kept):
        given |= {f"GIT_CONFIG_KEY_{at}": key, f"GIT_CONFIG_VALUE_{at}": value}
    return given | {"GIT_CONFIG_COUNT": str(len(kept))}


def _git_files(run: Run) -> tuple[Path, ...]:
    """Return the files that git's settings came from, those of the repository first."""
    repo, stamps = run.tools.repo, run.workspace.config.stamps
    own = (repo.common_dir / "config", repo.git_dir / "config.worktree")
    return tuple(dict.fromkeys((*own, *(stamp[0] for stamp in stamps))))


def tier(run: Run) -> jails.Tier:
    """Return what holds this run's children in."""
    return sandbox_of(run.order.sandbox).tier


def sandbox_of(asked: SandboxConfig) -> Sandbox:
    """Return what there is here for what is asked."""
    return jails.OFF if asked.mode == "off" else jails.probe(asked.tier)


def require_closed(asked: Config | Order) -> None:
    """Refuse to work where the network should be closed to somebody and nothing can close it."""
    found = sandbox_of(asked.sandbox)
    if found.tier != "0":
        return
    if isinstance(asked, Order):
        used = [(agent.name, agent.config) for agent in asked.agents.values()]
    else:
        used = [agents.resolve(asked, role) for role in ROLES]
    if key := agents.closing_key(asked.network, asked.checks.network, used):
        text = f'{key} = "none", but nothing here keeps the network closed: {found.reason}'
        raise BlockedError(text, code="network_open", fix=[*found.fix, "treadle doctor"])


def for_role(run: Run, role: Role, folder: Path) -> Policy:
    """Return what the agent of this step may reach: its folder, and with `edits` the workspace."""
    if tier(run) == "0":  # nothing would hold it to that
        return policy.READ_ONLY
    config = run.order.agent(role).config
    edits = (run.workspace.path,) if table.may_edit(config, role) else ()
    extra = (*_made(run, policy.expand(config.writable, run.tools.env)), *_for_script(run))
    words = agents.argv(run.tools.layout.root, config)
    own = home.installation(words[0]) if words and words[0].startswith("/") else ()
    found = _policy(run, (folder, *edits, *extra), config.network, (*own, *_read_by_builds(run)))
    sockets = bool(run.order.script and run.order.script.unix_sockets)
    return found._replace(unix_sockets=sockets, hidden=(*found.hidden, *_logins(run)))


def _for_script(run: Run) -> tuple[Path, ...]:
    """Return where a routine may leave follow-ups and results."""
    script, paths = run.order.script, run.tools.layout
    if script is None:
        return ()
    return (paths.inbox, run.folder.message, *([paths.root] if script.in_project else []))


def for_command(run: Run, place: Path | None = None, *, fetches: bool = False) -> Policy:
    """Return what a command of the user's may reach: a check, the setup, a routine.

    One that works in a place of its own sees nothing that an agent left elsewhere. Only the setup
    `fetches`.
    """
    asked = run.order.checks
    own = _caches(run, place) if fetches else ()
    extra = _made(run, (*policy.expand(asked.writable, run.tools.env), *own))
    found = _policy(run, (place or run.workspace.path, *extra), asked.network)
    found = found._replace(
        readable=(*found.readable, *_read_by_builds(run, place)),
        hidden=(*found.hidden, *_logins(run)),
    )
    if place:
        left = (run.workspace.path, scratch(run), run.tools.layout.home)
        writable = (layout.scratch_of(place), place, *extra)
        readable = tuple(path for path in found.readable if path not in (*left, run.folder.folder))
        hidden = (*found.hidden, *left)
        found = found._replace(writable=writable, readable=readable, hidden=hidden)
    return found._replace(unix_sockets=asked.unix_sockets)


def _caches(run: Run, place: Path | None) -> tuple[Path, ...]:
    folder = _own_caches(run, place)
    return (folder,) if folder else caches.shared_caches(run.tools.env)


def _own_caches(run: Run, place: Path | None) -> Path | None:
    """Return where a setup keeps what it fetches; None for the user's own caches.

    A setup runs code of what is checked out. If an agent wrote that and nobody has accepted it,
    nobody else may meet what it leaves there.
    """
    if place or run.memory.stacked_on:
        return layout.own_caches_of(place or run.workspace.path)
    is_shared = run.order.checks.caches == "shared"
    return None if is_shared else layout.caches_of(run.workspace.path)


def fetched(run: Run, place: Path | None = None) -> dict[str, str]:
    """Return variables that lead builds to what the setup of their checkout has fetched."""
    folder = _own_caches(run, place) if run.order.workspace.setup else None
    temporary = layout.scratch_of(place) if place else scratch(run)
    return caches.fetched(folder, temporary) if folder else {}


def _read_by_builds(run: Run, place: Path | None = None) -> tuple[Path, ...]:
    folder = _own_caches(run, place) if run.order.workspace.setup else None
    return (folder,) if folder and folder.is_dir() else ()


def _made(run: Run, folders: tuple[Path, ...]) -> tuple[Path, ...]:
    """Make what may be written in the user's home and is not there yet, so that it can be."""
    own = Path(run.tools.env.get("HOME") or "/")
    for folder in folders:
        if folder.is_relative_to(own):
            with contextlib.suppress(OSError):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folders


def _logins(run: Run) -> Iterator[Path]:
    """Yield what holds logins: git's settings if they do, and `.env` files of the user's checkout.

    A workspace has settings of its own. What works in the project itself needs both.
    """
    if run.order.in_project:
        return
    repo, read = run.tools.repo, policy.expand(run.order.sandbox.read, run.tools.env)
    for path in (it for it in _git_files(run) if it not in read):
        with contextlib.suppress(OSError):
            state = path.stat()
            looks = (state.st_ino, state.st_size, state.st_ctime_ns)
            if _holds_secrets(path, looks, run.tools.mask):
                yield path
    for folder in {repo.root, run.tools.layout.root}:
        found = folder.glob(f"{home.VARIABLES}*")
        yield from (it for it in found if it not in read and it.is_file())  # a folder has packages


@functools.lru_cache(maxsize=16)
def _holds_secrets(path: Path, _: tuple[int, ...], mask: Mask) -> bool:
    text = path.read_text(errors="replace")
    return mask.text(text) != text


def for_git(run: Run, writable: tuple[Path, ...]) -> Policy:
    """Return what git may reach when it reads a checkout: filters may run an agent's code."""
    found = _policy(run, writable, "none")
    readable = (*found.readable, layout.clean_of(run.workspace.path))
    needed = _git_files(run)[:2]
    shut = (it for it in _logins(run) if it not in needed)
    return found._replace(readable=readable, hidden=(*found.hidden, *shut))


def execute(
    run: Run,
    argv: tuple[str, ...],
    stdout: Path,
    stderr: Path,
    place: Path | None = None,
    *,
    fetches: bool = False,
) -> Ended:
    """Run a command of the user's in the workspace or in `place`, inside the sandbox."""
    asked, checkout = run.order.checks, place or run.workspace.path
    limits = Limits(wall=asked.timeout, output_bytes=_MAX_LOG)
    registries = [name for name in run.tools.env if re.fullmatch(_REGISTRIES, name)]
    env = for_agent(run, (*registries, *asked.env_allow))
    open_scratch(run)
    if place:
        temporary = layout.scratch_of(place)
        beneath.remove_tree(temporary)
        temporary.mkdir(mode=0o700, parents=True)
        run.inside(place).mkdir(parents=True, exist_ok=True)
        env |= dict.fromkeys(TEMPORARY, str(temporary))
    if fetches and (folder := _own_caches(run, place)):
        if place:
            beneath.remove_tree(folder)
        env |= caches.private_caches(folder, run.tools.env)
    elif not fetches:
        env |= fetched(run, place)
    command = Command(
        argv=argv,
        cwd=run.inside(checkout),
        env=env,
        stdin=None,
        stdout=stdout,
        stderr=stderr,
        limits=capped(limits, run.order.sandbox, (checkout,)),
        jail=jails.jail_for(tier(run), for_command(run, place, fetches=fetches)),
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
    """Say which denial of the sandbox a failed command met, if one of its logs tells.

    What a run may reach is frozen when it begins; only less counts at once.
    """
    if tier(run) == "0":
        return None
    above = Path(run.tools.env.get("HOME") or "/")
    told = (outside.explain_denial(log, found, above, owner) for log in logs if log.is_file())
    return next((f"{it} from the next run on" for it in told if it), None)


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
    if run.order.in_project:
        return found
    # Of the neighbours all: their files come and go, also between a look and a start.
    return (*found, *run.tools.layout.private(), *(it.home for it in run.tools.neighbours))


def scratch(run: Run) -> Path:
    """Return where temporary files go; what works in the project itself does so one by one."""
    place = run.workspace.path
    return layout.scratch_of(place.with_name("project") if run.order.in_project else place)


def open_scratch(run: Run) -> None:
    """Make the folder for temporary files, before anything starts that may want it.

    A project's folder without files, which git does not keep, is made too.
    """
    scratch(run).mkdir(mode=0o700, parents=True, exist_ok=True)
    if run.tools.repo.prefix:
        with contextlib.suppress(FileExistsError):
            run.place.mkdir(parents=True)


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
    run.workspace = replace(run.workspace, runner=hands, kept=run.memory.setup_left)
    return run


def _git_tier(run: Run) -> jails.Tier:
    """Return what holds git in: without filters it runs nobody's code, and tier B costs least."""
    found = tier(run)
    if found == "A" and not run.workspace.config.filters():
        return "B" if jails.probe("B").tier == "B" else "A"
    return found
