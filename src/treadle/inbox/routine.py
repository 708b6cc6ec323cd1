"""Find routines, choose one for a message, check it; run what a project wants around messages."""

import os
import re
import shlex
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from treadle.config.agents import is_in_project
from treadle.config.schema import Config
from treadle.engine.run import confinement
from treadle.engine.run.run import Tools
from treadle.errors import BlockedError, FormatError, NotFoundError, TreadleError, install_extra
from treadle.files import walk
from treadle.frontmatter import Value
from treadle.git import call
from treadle.ids import hint
from treadle.inbox.message import Message
from treadle.inbox.specs import Spec
from treadle.layout import Layout
from treadle.proc import environment, helper
from treadle.proc.keeper import Command, Keeper, Limits
from treadle.proc.watch import ShouldStop
from treadle.project.context import Context
from treadle.sandbox import jails, outside
from treadle.sandbox import policy as policies
from treadle.sandbox.policy import Policy
from treadle.text import line


class Host(NamedTuple):
    """Where a project's own commands run: at its root, in the bounds of its checks."""

    project: Context
    config: Config
    keeper: Keeper
    should_stop: ShouldStop | None = None
    writable: tuple[Path, ...] = ()

    def run(
        self,
        argv: Sequence[str],
        limits: Limits,
        logs: Sequence[Path],
        stdin: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> str | None:
        """Run a command to its end and say how it failed, if it did.

        Its output goes to one log or two; its folder for temporary files goes with it.
        """
        root, tier, policy = self.project.layout.root, self._tier(), self._policy()
        program = str(root / argv[0]) if is_in_project(argv[0]) else argv[0]
        with tempfile.TemporaryDirectory(prefix="treadle-") as folder:
            command = Command(
                argv=(program, *argv[1:]),
                cwd=root,
                env=environment.allowed(self.project.env) | {"TMPDIR": folder} | dict(env or {}),
                stdin=stdin,
                stdout=logs[0],
                stderr=logs[-1],
                limits=confinement.capped(limits, self.config.sandbox, (root,)),
                jail=jails.jail_for(tier, policy.widened([Path(folder)])),
            )
            ended = self.keeper.run(command, should_stop=self.should_stop)
        if ended.reason != "exit":
            return f"did not end ({ended.detail or ended.reason})"
        if not ended.exit_code:
            return None
        home = Path(self.project.env.get("HOME", "/"))
        denied = outside.explain_denial(logs[-1], policy, home) if tier != "0" else None
        return f"exited with {ended.exit_code}" + (f" ({denied})" if denied else "")

    def _tier(self) -> str:
        confinement.require_closed(self.config)
        return confinement.sandbox_of(self.config.sandbox).tier

    def _policy(self) -> Policy:
        asked = self.config.checks
        return confinement.reading(self.project, self.config.sandbox)._replace(
            writable=(*policies.expand(asked.writable, self.project.env), *self.writable),
            network=(asked.network or self.config.network) == "full",
            unix_sockets=asked.unix_sockets,
        )


Hook = Literal["beforeAll", "afterAll", "beforeEach", "afterEach"]
_HOOK_OUTPUT = 16 << 20


def run_hook(tools: Tools, config: Config, hook: Hook, env: Mapping[str, str]) -> None:
    """Run one hook at the project's root; TreadleError if it is configured and fails."""
    words: tuple[str, ...] | None = getattr(config.hooks, hook)
    if words is None:
        return
    log = tools.layout.hooks / f"{hook}.txt"
    log.parent.mkdir(exist_ok=True)
    log.unlink(missing_ok=True)
    writable = (tools.layout.root, tools.repo.common_dir)
    host = Host(tools.project, config, tools.keeper, tools.interrupted, writable)
    limits = Limits(wall=config.checks.timeout, output_bytes=_HOOK_OUTPUT)
    failure = host.run(words, limits, [log], env={"TREADLE_HOOK": hook, **env})
    tools.mask.file(log)
    if failure:
        where = tools.layout.shown(log)
        raise TreadleError(
            f"hooks.{hook} {tools.mask.text(failure)}; its output is in {where}",
            code="hook_failed",
            fix=[f"cat {where}"],
        )


BUILT_IN = "develop"
Kind = Literal["builtin", "sh", "ipynb"]

_LONGEST = 200
_MAX = 8 << 20
_SHEBANG = 256
_DIRECTIVE = re.compile(r"^\s*(when|workspace|pre-check)\s*:\s*(.+?)\s*$", re.MULTILINE)
_HEAD = re.compile(
    r"(?:#!.*\n)?\n*((?:#.*\n)*)((?:\n|#.*\n|set .*\n|[A-Za-z_][A-Za-z0-9_]*=.*\n)*)"
)
_ASSIGNED = re.compile(r"^([A-Za-z_][A-Za-z0-9_]*)=", re.MULTILINE)
_PARAMETER = re.compile(r"^([A-Za-z_][A-Za-z0-9_]*)\s*(?::[^=\n]+)?=(?!=)", re.MULTILINE)
_ENDINGS = (".sh", ".ipynb")


class Routine(NamedTuple):
    """A way to carry a message out; the built-in one has no file."""

    name: str
    kind: Kind
    path: Path | None
    description: str
    when: str | None = None
    in_project: bool = False
    parameters: tuple[str, ...] = ()
    pre_check: str | None = None
    interpreter: tuple[str, ...] = ("sh",)

    @property
    def summary(self) -> str:
        """Return the first line of the description."""
        return self.description.partition("\n")[0].strip()


_DEVELOP = Routine(
    BUILT_IN, "builtin", None, "Plan, do, check and act until every acceptance criterion holds"
)


def discover(layout: Layout, notebooks: bool) -> dict[str, Routine]:
    """Return every routine by name, each once: a script before a notebook before the built-in."""
    files = reversed(scripts(layout, notebooks))
    found = {BUILT_IN: _DEVELOP} | {name_of(layout, path): _read(layout, path) for path in files}
    return dict(sorted(found.items()))


def find(layout: Layout, name: str, notebooks: bool) -> Routine:
    """Return a routine by its name, or with its extension; NotFoundError names the nearest."""
    files = {f"{path.relative_to(layout.routines)}": path for path in scripts(layout, notebooks)}
    names = (name,) if name.endswith(_ENDINGS) else (f"{name}{end}" for end in _ENDINGS)
    path = next((files[item] for item in names if item in files), None)
    if path:
        return _read(layout, path)
    if name == BUILT_IN:
        return _DEVELOP
    if not notebooks and f"{name.removesuffix('.ipynb')}.ipynb" in {
        f"{path.relative_to(layout.routines)}" for path in scripts(layout)
    }:
        why = "; it is a notebook, and notebook_support is false"
    else:
        why = hint(name, discover(layout, notebooks))
    raise NotFoundError(
        f"there is no routine {name[:80]!r}{why}",
        code="routine_not_found",
        fix=["treadle routine list"],
    )


def scripts(layout: Layout, notebooks: bool = True) -> list[Path]:
    """Return every file that could run as a routine, scripts before notebooks."""
    endings = _ENDINGS if notebooks else _ENDINGS[:1]
    found = [path for path, problem in _files(layout) if problem is None and path.suffix in endings]
    return sorted(found, key=lambda path: (endings.index(path.suffix), path))


def name_of(layout: Layout, path: Path) -> str:
    """Return what a routine's file is called: its path without its ending."""
    return str(path.relative_to(layout.routines).with_suffix(""))


def unusable(layout: Layout, notebooks: bool) -> dict[str, str]:
    """Return the files that look like routines and are none, each with what is wrong with it."""
    found = {
        line(f"{path.relative_to(layout.routines)}"): why for path, why in _files(layout) if why
    }
    if not notebooks:
        books = [path for path in scripts(layout) if path.suffix == _ENDINGS[1]]
        told = "it is a notebook, and notebook_support is false"
        found |= {f"{path.relative_to(layout.routines)}": told for path in books}
    return found


def _files(layout: Layout) -> Iterator[tuple[Path, str | None]]:
    """Yield what has the ending of a routine, in sub-folders too, and why it cannot be one."""
    top = str(layout.routines)
    for path in _candidates(top):
        yield Path(path), _problem(path, path[len(top) + 1 :])


def _candidates(folder: str) -> Iterator[str]:
    for name in walk.names(folder):
        path = f"{folder}/{name}"
        if name.lower().endswith((*_ENDINGS, ".bash")) and not name.startswith("."):
            yield path
        elif walk.is_folder(path):
            yield from _candidates(path)


def _problem(path: str, name: str) -> str | None:
    """Say why a file cannot be a routine."""
    if not name.endswith(_ENDINGS):
        return f"its name must end with {' or '.join(_ENDINGS)}"
    if not stat.S_ISREG(os.lstat(path).st_mode):
        return "it is not a plain file"
    if not name.isprintable() or name != name.strip():
        return "its name is not a single line of text"
    return f"its name is longer than {_LONGEST} characters" if len(name) > _LONGEST else None


def _read(layout: Layout, path: Path) -> Routine:
    name = name_of(layout, path)
    kind: Kind = "sh" if path.suffix == ".sh" else "ipynb"
    try:
        text = walk.read(path, max_bytes=_MAX).decode(errors="replace")
        description, parameters = _script(text) if kind == "sh" else _notebook(path, text)
    except FormatError as error:
        return Routine(name, kind, path, f"({error.message})")
    directives = {key: value for key, value in _DIRECTIVE.findall(description)}
    return Routine(
        name=name,
        kind=kind,
        path=path,
        description=description,
        when=directives.get("when"),
        in_project=directives.get("workspace") == "project",
        parameters=parameters,
        pre_check=directives.get("pre-check"),
        interpreter=_interpreter(text),
    )


def _interpreter(text: str) -> tuple[str, ...]:
    """Return what executes a script, whether or not its mode says that it can be."""
    first = text[:_SHEBANG].partition("\n")[0].strip()
    return tuple(first[2:].split(None, 1)) if first.startswith("#!") else ("sh",)


def _script(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the first block of comments, and the variables that are set right behind it."""
    found = _HEAD.match("".join(f"{line.rstrip()}\n" for line in text.splitlines()))
    about, settings = found.groups() if found else ("", "")
    words = re.sub(r"^# ?", "", about, flags=re.MULTILINE)
    return words.strip("\n"), tuple(_ASSIGNED.findall(settings))


class _Metadata(msgspec.Struct):
    tags: list[str] = []


class _Cell(msgspec.Struct):
    cell_type: str
    source: str | list[str] = ""
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Notebook(msgspec.Struct):
    cells: list[_Cell] = []


def _notebook(path: Path, text: str) -> tuple[str, tuple[str, ...]]:
    """Return the first markdown cell, and what the cell tagged `parameters` sets."""
    try:
        cells = msgspec.json.decode(text, type=_Notebook).cells
    except (msgspec.MsgspecError, RecursionError) as error:
        raise FormatError(f"{path.name} is not a notebook: {error}") from error
    about = next((cell for cell in cells if cell.cell_type == "markdown"), None)
    coded = (cell for cell in cells if cell.cell_type == "code")
    declared = next((cell for cell in coded if "parameters" in cell.metadata.tags), None)
    # Of several lines or one text: joined, both are the same.
    words, code = ("".join(cell.source) if cell else "" for cell in (about, declared))
    return words.strip(), tuple(_PARAMETER.findall(code))


# What treadle itself tells a routine.
_TOLD = re.compile(
    "spec_file|message_file|message_id|message_dir|chain|seq|input_file|id|type|routine",
    re.IGNORECASE,
)


def custom_variables(routine: Routine, fields: Mapping[str, Value]) -> dict[str, str]:
    """Return the message's own fields that the routine declares and that may be set."""
    return {
        name: value
        for name, value in fields.items()
        if isinstance(value, str) and name in routine.parameters and may_be_set(name)
    }


def may_be_set(name: str) -> bool:
    """Tell whether a message may set this variable: none of the system's, none of treadle's."""
    return not (environment.is_system(name) or _TOLD.fullmatch(name))


Source = Literal["message", "router", "spec", "config", "built-in"]

TIMEOUT = 30.0
_ROUTER_OUTPUT = 64 << 10
_ROUTER_SAID = 200
_ROUTED_TEXT = 64 << 10
_PATTERN_WORD = re.compile(r"[\w*]+")
_WHEN = re.compile(r"[\w\s*|,'-]+")

_ROUTER_PROMPT = Path(__file__).with_name("router.md")


class Choice(NamedTuple):
    """The routine, what decided, and why; with a router of the user's own, what was said."""

    routine: Routine
    source: Source
    reason: str
    transcript: str | None = None


class External(NamedTuple):
    """A router of the user's own, where it runs, and how long it may think."""

    command: Sequence[str] | str
    host: Host
    timeout: float = TIMEOUT


def choose(
    task: str,
    known: Mapping[str, Routine],
    external: External | None,
    *,
    spec: str | None = None,
    default: str = BUILT_IN,
) -> Choice:
    """Return the routine for a message that names none: the router's, the spec's, the usual one."""
    name, transcript = None, None
    if len(known) == 1:
        reason = "there is only one routine"
    elif not task.strip():
        reason = "there is nothing to read"
    elif external:
        name, reason, transcript = ask_router(external, task, known)
    else:
        name, reason = embedded(task, known)
    if name:
        return Choice(known[name], "router", reason, transcript)
    if spec and spec in known:
        return Choice(known[spec], "spec", f"{reason}; the spec names it", transcript)
    if default in known:
        reason = f"{reason}; default_routine names it"
        return Choice(known[default], "config", reason, transcript)
    return Choice(known[BUILT_IN], "built-in", f"{reason}; it is always there", transcript)


def router_prompt(task: str, known: Mapping[str, Routine]) -> str:
    """Return the question for a router."""
    lines = [f"- {routine.name}: {routine.summary}" for routine in known.values()]
    template = _ROUTER_PROMPT.read_text("utf-8")
    return template.format(routines="\n".join(lines), task=task.strip("\n"))


def embedded(task: str, known: Mapping[str, Routine]) -> tuple[str | None, str]:
    """Count how often each routine's `when:` pattern is found in the text; the best one wins."""
    text = re.findall(r"\w+", task[:_ROUTED_TEXT].lower())
    hits = {name: _hits(routine.when, text) for name, routine in known.items() if routine.when}
    best = max((len(found) for found in hits.values()), default=0)
    winners = [name for name, found in hits.items() if len(found) == best]
    if not best:
        return None, "no routine's `when:` line is found in the text"
    if len(winners) > 1:
        return None, f"{' and '.join(winners)} are equally close to the text"
    words = ", ".join(sorted(set(hits[winners[0]])))
    often = "once" if best == 1 else f"{best} times"
    return winners[0], f"its `when:` line is found {often} in the text: {words}"


def _hits(when: str, words: Sequence[str]) -> list[str]:
    """Return what a pattern finds; comparing word by word takes no longer for an odd pattern."""
    phrases = [_PATTERN_WORD.findall(part.lower()) for part in re.split(r"[|,]", when)]
    return [
        " ".join(found)
        for phrase in filter(None, phrases)
        for at in range(len(words) - len(phrase) + 1)
        if all(map(fnmatchcase, found := words[at : at + len(phrase)], phrase))
    ]


def ask_router(
    external: External, task: str, known: Mapping[str, Routine]
) -> tuple[str | None, str, str]:
    """Ask the configured program; whatever it does, this ends, and what was said is kept."""
    question, command = router_prompt(task, known), external.command
    words = shlex.split(command) if isinstance(command, str) else list(command)
    is_argument = any("{prompt}" in word for word in words[1:])
    argv = [words[0], *(word.replace("{prompt}", question) for word in words[1:])]
    limits = Limits(wall=external.timeout, output_bytes=_ROUTER_OUTPUT)
    with tempfile.TemporaryDirectory(prefix="treadle-router-") as folder:
        prompt, *logs = (Path(folder, name) for name in ("prompt", "stdout", "stderr"))
        prompt.write_text(question)
        failure = external.host.run(argv, limits, logs, None if is_argument else prompt)
        said, errors = (walk.tail(log, _ROUTER_OUTPUT) for log in logs)
    name = said.strip().strip("\"'`").removesuffix(".").strip("\"'`")
    if failure:
        reason = f"the router {failure}"
    elif name in known:
        reason = f"the router answered {name!r}"
    else:
        shown = said.strip()[:_ROUTER_SAID]
        reason = f"the router answered {shown!r}, which is not a routine"
    transcript = f"{question}\n--- answer ---\n{said}\n--- errors ---\n{errors}\n--- {reason}\n"
    return name if not failure and name in known else None, reason, transcript


def select(
    layout: Layout, config: Config, message: Message, spec: Spec | None, external: External | None
) -> Choice:
    """Return the message's routine; NotFoundError if it names one that is not there."""
    if message.routine:
        found = find(layout, message.routine, config.notebook_support)
        return Choice(found, "message", "the message names it")
    known = discover(layout, config.notebook_support)
    wanted, default = spec.routine if spec else None, config.default_routine
    text = spec.text if spec else message.text
    return choose(text, known, external, spec=wanted, default=default)


_CHECK_TIMEOUT = 60.0
_OUTPUT = 1 << 20
_SHELLS = re.compile(r"\b(?:sh|bash|dash|ksh|zsh)\b")
_SAID = 300


def require_ready(host: Host, routine: Routine) -> None:
    """Refuse a routine that says, or shows, that it cannot work here now."""
    problem = next(blocking(host, routine), None)
    if problem:
        raise BlockedError(
            f"routine {routine.name} cannot work here: {problem}",
            code="pre_check_failed",
            fix=[f"treadle routine check {routine.name}"],
        )


def problems(host: Host, routine: Routine) -> Iterator[str]:
    """Yield everything that is wrong with a routine."""
    yield from blocking(host, routine)
    if routine.kind == "sh":
        yield from _syntax(host.project, routine)
    if routine.kind != "builtin" and not routine.summary:
        yield "it has no description; a router knows nothing of it"
    if routine.when and not _WHEN.fullmatch(routine.when):
        yield f"when: {routine.when!r} must be words and phrases, with | between them"
    for name in routine.parameters:
        if not may_be_set(name):
            yield f"{name} cannot be set by a message: the system or treadle uses that name"


def blocking(host: Host, routine: Routine) -> Iterator[str]:
    """Yield why the routine cannot be run at all."""
    if routine.kind == "ipynb" and find_spec("nbclient") is None:
        yield f"nothing is installed that executes notebooks: {install_extra('notebooks')}"
    if routine.pre_check:
        yield from _pre_check(host, routine.pre_check)


def _pre_check(host: Host, command: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="treadle-check-") as folder:
        log = Path(folder) / "output"
        limits = Limits(wall=_CHECK_TIMEOUT, output_bytes=_OUTPUT)
        failure = host.run(("sh", "-c", command), limits, [log])
        said = walk.tail(log, _SAID).strip()
    if failure:
        yield f"pre-check {command!r} {failure}" + (f": {said}" if said else "")


def _syntax(project: Context, routine: Routine) -> Iterator[str]:
    shell = _SHELLS.search(" ".join(routine.interpreter))
    if shell is None:
        return
    try:
        words = [*helper.FROM_NOWHERE, shell[0], "-n", str(routine.path)]
        env = call.apart(environment.allowed(project.env), str(project.repo.root))
        done = helper.run(words, env, timeout=_CHECK_TIMEOUT)
    except TreadleError as error:
        yield error.message
        return
    if done.returncode:
        yield done.stderr.decode(errors="replace").strip()[:_SAID]
