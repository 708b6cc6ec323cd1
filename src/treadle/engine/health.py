"""Look at everything treadle needs and at who works here; show and try how an agent is asked."""

import contextlib
import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from treadle.agents import answer, settings, table, versions
from treadle.agents import login as agents_login
from treadle.agents.backend import AgentResult, AgentSpec
from treadle.config import agents
from treadle.config.load import load
from treadle.config.schema import AgentConfig, Config, PolicyConfig
from treadle.contract import ROLES, Role
from treadle.contract import messages as requests
from treadle.contract.messages import AgentRequest, Asked, Paths, RequestContext, Step
from treadle.engine import lock
from treadle.engine.checks import policy
from treadle.engine.run import confinement
from treadle.errors import FormatError, NotFoundError, ProjectError, TreadleError
from treadle.files import beneath, walk
from treadle.git import trees
from treadle.ids import hint, local
from treadle.layout import INPUT_JSON, STDERR, STDOUT
from treadle.proc import environment
from treadle.proc.keeper import Keeper, Limits
from treadle.project import doctor, find_layout
from treadle.project.context import Context, open_context
from treadle.project.doctor import Check
from treadle.sandbox import jails
from treadle.sandbox.jails import Sandbox
from treadle.sandbox.mask import Mask
from treadle.text import name_some

_MOST_KEPT = 64 << 20
_SAID = 64 << 10
_TRY = (
    "This is a test of the connection. Read nothing, run nothing, change nothing."
    ' Put "I am here" into the summary.\n\n'
)


class Preview(NamedTuple):
    """What an agent would run, and what is known about it."""

    name: str
    type: str
    role: Role
    program: str | None
    version: str | None
    tested: str | None
    settings: tuple[str, ...]
    unready: str | None
    login: str | None
    log_in: str | None
    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    tier: str


def find_agent(config: Config, name: str) -> tuple[str, AgentConfig]:
    """Return the agent of this name or role."""
    known = [*config.agents, agents.BUILTIN]
    if name not in known and name not in ROLES:
        message = f"no agent is called {name!r}{hint(name, known, or_all=True)}"
        raise NotFoundError(message, fix=["treadle config show"])
    found = config.agents.get(name, AgentConfig())
    return (found.use, config.agents[found.use]) if found.use in config.agents else (name, found)


def preview(project: Context, config: Config, name: str, role: Role) -> Preview:
    """Return the exact command line; a run makes the folders STEP, WORKSPACE and STATE."""
    called, agent = find_agent(config, name)
    spec = spec_of(project, config, called, agent, Path("/STEP"), Path("/WORKSPACE"), Keeper())
    spec = replace(spec, stdout=Path(f"/LIVE/{STDOUT}"))
    tool = table.tool(agent)
    argv, cwd, env = agents.argv(project.layout.root, agent), spec.workspace, {}
    if launch := table.launch(spec, role, Path("/STEP")):
        argv, cwd, env = launch.argv, launch.cwd, dict(launch.env)
    mask = Mask(project.secrets)  # of a provider that is told in a variable, or by an argument
    argv, env = tuple(map(mask.text, argv)), {key: mask.text(env[key]) for key in env}
    known = tool if tool and tool.log_in else None  # not a server of the user's own
    program = shutil.which(argv[0], path=project.env.get("PATH")) if argv else None
    asks = known and program
    version = versions.installed(program or "", spec) if asks else None
    return Preview(
        name=called,
        type=agent.type,
        role=role,
        program=program,
        version=version,
        tested=versions.tested(known, agent) if known else None,
        settings=tuple(settings.told(known, agent, spec.environment)) if known else (),
        unready=table.unready(project.layout.root, agent, project.env) if known else None,
        login=agents_login.seen(known, agent, spec.environment) if known else None,
        log_in=known.log_in if known else None,
        argv=argv,
        cwd=str(cwd),
        env=env,
        tier=spec.tier,
    )


def login_state(found: Preview) -> str:
    """Say how the tool would log in, or how the user can."""
    return found.login or f"NO LOGIN SEEN: log in with {found.log_in}"


def attempt(project: Context, config: Config, name: str) -> tuple[AgentResult, Path]:
    """Let an agent say that it is there, in an empty folder; return where its logs are kept."""
    called, agent = find_agent(config, name)
    folder = Path(tempfile.mkdtemp(prefix="treadle-try-")).resolve()
    try:
        with Keeper() as keeper:
            result = _ask(project, config, called, agent, folder, keeper)
        return result, _keep_logs(project, called, folder / "live")
    finally:
        beneath.remove_tree(folder)


def _keep_logs(project: Context, name: str, live: Path) -> Path:
    """Keep what the last try of an agent left, without secrets."""
    kept, mask = project.layout.tries / name, Mask(project.secrets)
    beneath.remove_tree(kept)
    kept.mkdir(parents=True, exist_ok=True)
    for path in (it for it in live.rglob("*") if it.is_file() and not it.is_symlink()):
        inside = str(path.relative_to(live))
        with contextlib.suppress(FormatError):  # the agent could write there too
            beneath.write(kept, inside, walk.read(path, max_bytes=_MOST_KEPT))
            mask.file_in(kept, inside)
    return kept


def _ask(
    project: Context, config: Config, name: str, agent: AgentConfig, folder: Path, keeper: Keeper
) -> AgentResult:
    step, workspace, live = (folder / part for part in ("step", "workspace", "live"))
    for place in (step, workspace, live, folder / "tmp"):
        place.mkdir()
    spec = spec_of(project, config, name, agent, step, workspace, keeper)
    asked = _request(step, workspace)
    (step / INPUT_JSON).write_bytes(requests.encode(asked))
    result = table.BACKENDS[agent.type](spec, asked, _TRY + answer.ANSWER, step)
    if result.login:
        agents_login.give_back(result.login, spec.environment)
    if result.error:
        words = walk.tail(spec.stderr, _SAID).strip().splitlines()[-3:]
        return replace(result, message=" / ".join([result.message, *words]))
    return result


def spec_of(
    project: Context,
    config: Config,
    name: str,
    agent: AgentConfig,
    step: Path,
    workspace: Path,
    keeper: Keeper,
) -> AgentSpec:
    """Return an agent outside of any run, with folders beside its step folder."""
    folder, asked = step.parent, config.sandbox
    env = environment.allowed(project.env, table.variables(agent, project.env)) | agent.env
    limit = agent.timeout
    return AgentSpec(
        name=name,
        config=agent,
        root=project.layout.root,
        workspace=workspace,
        environment=env | {"TMPDIR": str(folder / "tmp"), "TREADLE_STEP": f"try-{os.getpid()}"},
        stdout=folder / "live" / STDOUT,
        stderr=folder / "live" / STDERR,
        limits=Limits(wall=limit, idle=table.idle_limit(agent), output_bytes=16 << 20),
        keeper=keeper,
        should_stop=lambda: None,
        on_tick=lambda elapsed: None,
        policy=confinement.reading(project, asked)._replace(writable=(folder,), network=True),
        tier="0" if asked.mode == "off" else jails.probe(asked.tier).tier,
    )


def _request(step: Path, workspace: Path) -> AgentRequest:
    return AgentRequest(
        run_id="try",
        step=Step(index=1, role="plan", iteration=1),
        goal="Say that you are there",
        norma=Asked(acceptance_criteria=(), budgets={"max_iterations": 1}),
        paths=Paths(repo_root=str(workspace), run_dir=str(step.parent), step_dir=str(step)),
        context=RequestContext(previous_step_dirs=(), notes=""),
    )


def command_line(found: Preview) -> str:
    """Return the command as a user would type it."""
    words = [f"{name}={shlex.quote(value)}" for name, value in found.env.items()]
    return " ".join([*words, shlex.join(found.argv)])


def answer_document(result: AgentResult) -> dict[str, object]:
    """Return a try's outcome for programs."""
    usage = result.usage
    return {
        "ok": result.error is None,
        "error_code": result.error and str(result.error),
        "message": result.message,
        "json_source": result.json_source,
        "response": json.loads(json.dumps(dict(result.document or {}), default=str)),
        "usage": {
            "input_tokens": usage.input_tokens if usage else 0,
            "output_tokens": usage.output_tokens if usage else 0,
            "cost_usd": usage.cost_usd if usage else 0.0,
        },
    }


class Health(NamedTuple):
    """Everything that was looked at."""

    ok: bool
    checks: tuple[Check, ...]
    sandbox: Sandbox


def examine(cwd: Path, env: Mapping[str, str]) -> Health:
    """Look at the machine, the project, the agents and the lock."""
    checks = (
        *doctor.run(cwd, env),
        *_tool_checks(cwd, env),
        *_policy_check(cwd, env),
        *_lock_check(cwd, env),
    )
    return Health(all(check.ok for check in checks), checks, jails.probe())


def health_document(found: Health, repaired: Sequence[str] = ()) -> dict[str, object]:
    """Return it as `treadle doctor --json` does."""
    return {
        "ok": found.ok,
        "checks": [check._asdict() for check in found.checks],
        "sandbox": found.sandbox._asdict(),
        "repaired": list(repaired),
    }


def _tool_checks(cwd: Path, env: Mapping[str, str]) -> list[Check]:
    """Say of every agent tool in the configuration which version it is and how it would log in."""
    try:
        project = open_context(cwd, env)
        config = load(project.layout, project.env).config
    except TreadleError:
        return []  # said already
    names = [name for name, agent in config.agents.items() if table.is_prompted(agent)]
    shown = [preview(project, config, name, "do") for name in names]
    return [_tool_check(item) for item in shown if item.program and item.log_in]


def _tool_check(item: Preview) -> Check:
    words = [versions.compared(item.version, item.tested), login_state(item), *item.settings]
    words += [item.unready] if item.unready else []
    detail = "; ".join([*words, f"runs: {command_line(item)}"])
    is_ok = item.login is not None and item.unready is None
    fix = () if is_ok else (str(item.log_in), f"treadle agent try {item.name}")
    return Check(f"agent {item.name} login", is_ok, detail, fix)


class FoundTool(NamedTuple):
    """A tool on PATH, how it would log in, and what of the user's settings it would not read."""

    name: str
    login: str | None
    log_in: str
    settings: tuple[str, ...]
    register: str  # the command that lets it use treadle as tools; empty if it has none


def find_tools(env: Mapping[str, str]) -> list[FoundTool]:
    """Return the tools that are installed, as a new project would use them."""
    found = []
    for name, tool in table.TOOLS.items():
        config = AgentConfig(type=name)
        if shutil.which(name, path=env.get("PATH", "")):
            told = tuple(settings.told(tool, config, env))
            seen = agents_login.seen(tool, config, env)
            found.append(FoundTool(name, seen, tool.log_in, told, tool.register))
    return found


def _policy_check(cwd: Path, env: Mapping[str, str]) -> list[Check]:
    """Name the globs of the policy that fit no file; one may be for files that come later."""
    try:
        project = open_context(cwd, env)
        rules = project.settings.config.policy
        names = trees.files(project.repo, "HEAD") if rules != PolicyConfig() else {}
    except TreadleError:
        return []
    prefix = project.repo.prefix
    inside = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
    idle = tuple(policy.idle_globs(rules, inside))
    return [Check("policy", True, f"no file fits {name_some(idle)}")] if idle else []


def _lock_check(cwd: Path, env: Mapping[str, str]) -> list[Check]:
    try:
        who = lock.holder(find_layout(cwd, env).run_lock)
    except ProjectError:
        return []
    if who is None:
        return [Check("lock", True, "free")]
    text = f"held by pid {who.get('pid', '?')} on {who.get('host', '?')}"
    return [Check("lock", True, f"{text} since {local(str(who.get('since', '?')))}")]
