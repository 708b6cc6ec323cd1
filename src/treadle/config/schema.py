"""Every key of a configuration, with its type, its default and what it expects in words."""

import functools
import json
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from types import UnionType
from typing import Annotated, Literal, NamedTuple, Union, get_args, get_origin

from msgspec import Meta, Struct, structs

from treadle.sandbox.policy import HIDDEN

_MAX = 10**12
_WEEK = 7 * 24 * 3600
_NAME = r"\A[A-Za-z_][A-Za-z0-9_]*\*?\Z"

_Above0 = Annotated[int, Meta(gt=0, le=_MAX)] | Annotated[float, Meta(gt=0, le=_MAX)]
_Time = Annotated[int, Meta(gt=0, le=_WEEK)] | Annotated[float, Meta(gt=0, le=_WEEK)]
_TimeOr0 = Annotated[int, Meta(ge=0, le=_WEEK)] | Annotated[float, Meta(ge=0, le=_WEEK)]
_Price = Annotated[float, Meta(ge=0, le=_MAX)]
_Word = Annotated[str, Meta(min_length=1)]
_Words = Annotated[tuple[str, ...], Meta(min_length=1)]
_Names = tuple[Annotated[str, Meta(pattern=_NAME)], ...]

Flag = Annotated[bool, Meta(description="true or false")]
Text = Annotated[_Word, Meta(description="a text that is not empty")]
Command = Annotated[_Word, Meta(description="a shell command")]
Argv = Annotated[_Words | None, Meta(description="a list of strings: a program and its arguments")]
Variable = Annotated[str, Meta(description="a text")]
SettingsFrom = Literal["isolated", "user"]
Names = Annotated[
    _Names,
    Meta(description="a list of names of environment variables, or beginnings with a final *"),
]
Seconds = Annotated[_Time, Meta(description="a number of seconds above 0, at most a week")]
SecondsOr0 = Annotated[
    _TimeOr0, Meta(description="a number of seconds, 0 for no limit, at most a week")
]
Pause = Annotated[_TimeOr0, Meta(description="a number of seconds, 0 or more, at most a week")]
Rounds = Annotated[int, Meta(gt=0, le=10_000, description="a whole number from 1 to 10000")]
CountOr0 = Annotated[int, Meta(ge=0, le=_MAX, description="a whole number, 0 or more")]
Whole = Annotated[int, Meta(gt=0, le=_MAX, description="a whole number above 0")]
Count = Whole | None
Words = Annotated[tuple[str, ...], Meta(description="a list of strings")]
Prices = Annotated[
    tuple[_Price, _Price, _Price] | None,
    Meta(description="three numbers: USD per million input, cached and output tokens"),
]
Preset = Literal["gemini", "opencode", "copilot", "codex", "claude"]
PromptWay = Literal["stdin", "file", "argument"]
AnswerWay = Literal["text", "file"]
Pattern = Annotated[_Word, Meta(description="a regular expression for one line")]
Amount = Annotated[_Above0 | None, Meta(description="a number above 0")]
Sandbox = Literal["auto", "required", "off"]
Network = Literal["full", "none"]
Tier = Literal["A", "B"]
Places = Annotated[
    tuple[Annotated[str, Meta(pattern=r"\A(/|~/)")], ...],
    Meta(description="a list of absolute paths, or of paths that begin with ~/"),
]
Router = Annotated[
    _Words | _Word | None,
    Meta(description="a list of strings, or one line: a program and its arguments"),
]
Tries = Annotated[int, Meta(gt=0, le=100, description="a whole number from 1 to 100")]
Outside = Literal["refuse", "allow"]
Landing = Literal["manual", "auto", "branch", "pr"]
ForgeKind = Literal["auto", "github", "gitlab", "gitea", "plain"]
SubjectLine = Annotated[
    str,
    Meta(
        pattern=r"\A([^{}\n]|\{(goal|task|spec|run)\})*\{goal\}([^{}\n]|\{(goal|task|spec|run)\})*\Z",
        description="a line with {goal} in it, and maybe {task}, {spec}, {run}",
    ),
]
NoticeKind = Literal["question", "run_ended", "night_ended", "serve_failed"]
NoticeKinds = Annotated[
    tuple[NoticeKind, ...],
    Meta(description='a list of "question", "run_ended", "night_ended" and "serve_failed"'),
]
Address = Annotated[
    str,
    Meta(
        pattern=r"\A(https?://[^\s/].*|\$\{?[A-Za-z_]\w*\}?)\Z",
        description="an http or https address, or $NAME for one in an environment variable",
    ),
]
Caches = Literal["private", "shared"]
CheckPlace = Literal["clean", "workspace"]
Approval = Literal["plan"]
Approvals = Annotated[tuple[Approval, ...], Meta(description='a list of steps: "plan"')]
ProtectMode = Literal["ask", "fail", "warn"]
FlakyMode = Literal["pass", "fail"]
Expect = Annotated[
    tuple[str, ...] | _Word, Meta(description='"junit:PATH", "tests>=N", or a list of them')
]
Globs = Annotated[tuple[_Word, ...], Meta(description="a list of globs")]


class AgentConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One agent: what drives it and its limits; an agent with `use` stands for another one."""

    type: Text = "builtin"
    use: Text | None = None
    cmd: Argv = None
    run: Argv = None
    recording: Text | None = None
    preset: Preset | None = None
    prompt: PromptWay = "stdin"
    answer: AnswerWay = "text"
    usage: Pattern | None = None
    model: Text | None = None
    extra_args: Words = ()
    prices: Prices = None
    retry_wait: Pause = 5
    patience: Pause = 7200
    fallback: Words = ()
    path: Text | None = None
    timeout: Seconds = 1800
    idle_timeout: SecondsOr0 | None = None
    env_allow: Names = ()
    env: dict[str, Variable] = {}
    settings: SettingsFrom = "isolated"
    edits: Flag | None = None
    network: Network | None = None
    writable: Places = ()


class BudgetsConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits that stop a run; None is no limit."""

    max_iterations: Rounds = 5
    max_patch_kb: Amount = None
    max_changed_files: Count = None
    max_risky_files: CountOr0 = 0
    max_minutes: Amount = None
    max_tokens: Count = None
    max_cost_usd: Amount = None
    max_output_mb: Amount = None


class ChecksConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How treadle observes criteria by their commands."""

    before: Flag = True
    timeout: Seconds = 900
    anyway: Flag = False
    repeat: Tries = 2
    flaky: FlakyMode = "pass"
    skip_agent_on_fail: Flag = False
    env_allow: Names = ()
    network: Network | None = None
    writable: Places = ()
    unix_sockets: Flag = False
    caches: Caches = "private"
    place: CheckPlace = "clean"
    expect: Expect = ()
    protect: Globs = ("default",)
    protect_mode: ProtectMode = "ask"


class PolicyRules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files that agents may change, that wait for a person, and that nobody but people change."""

    allow: Globs = ()
    ask: Globs = ()
    deny: Globs = ()


class PolicyConfig(PolicyRules, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which files agents may change; the rules for one role go before those for all."""

    do: PolicyRules = PolicyRules()
    act: PolicyRules = PolicyRules()


class RoutineConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What routines may reach, and for how long they work; one routine's table adds to all's."""

    env_allow: Names = ()
    network: Network | None = None
    writable: Places = ()
    unix_sockets: Flag | None = None
    timeout: Seconds | None = None


class SandboxConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds children in; a plain text in place of this table is its mode."""

    mode: Sandbox = "auto"
    tier: Tier = "A"
    hide: Places = HIDDEN
    read: Places = ()
    memory_mb: Count = None
    processes: Whole = 4096
    disk_mb: Whole = 20_480


class WorkspaceConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a run works, on which branch, and what prepares the place."""

    branch: Text = "treadle/{run_id}"
    setup: Argv = None
    root: Text | None = None
    keep: CountOr0 = 5


class KeepConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which runs stay: the newest, and those of the last days."""

    runs: Whole = 200
    days: Whole = 30


class LandConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether passed runs land by themselves, where, and as what."""

    run: Landing = "manual"
    process: Landing = "auto"
    protected: Globs = ()
    subject: SubjectLine = "{goal}"
    conventional: Flag = False
    hooks: Flag = False

    def is_protected(self, branch: str) -> bool:
        """Tell whether a branch gets no commit of treadle's."""
        return any(fnmatchcase(branch, glob) for glob in self.protected)


class PullConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where pull requests go, and what they say."""

    remote: Text = "origin"
    into: Text | None = None
    forge: ForgeKind = "auto"
    body: Text = "{report}"
    labels: Words = ()
    reviewers: Words = ()
    draft: Flag = False


class NotifyConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the user is told that something ended or waits for them."""

    command: Argv = None
    webhook: Address | None = None
    on: NoticeKinds = ("question", "run_ended", "night_ended", "serve_failed")


class HooksConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What runs around a pass over the inbox and around each message."""

    beforeAll: Argv = None
    afterAll: Argv = None
    beforeEach: Argv = None
    afterEach: Argv = None


class CommandsConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Programs that answer questions of treadle's own."""

    router: Router = None


class MailConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where letters lie, and which intents they may have besides the standard ones."""

    root: Text = ".treadle/mail"
    extra_intents: Words = ()


class TaskConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long a task stays with whoever `next` gave it to."""

    lease: Seconds = 4 * 3600


class FleetConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How workers take runs, and when one of them counts as dead."""

    slots: Tries = 2
    per_repository: Tries = 1
    remote: Text = "origin"
    beat: Seconds = 10
    dead_after: Seconds = 45
    polling: Seconds = 1
    patience: Seconds = 300
    max_epochs: Tries = 5
    needs: Words = ()
    limits: dict[str, Whole] = {}


class NightConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits over all runs of a day; None is no limit."""

    max_cost_usd: Amount = None
    max_runs: Count = None


class ChainConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """After how much a message and all that follows from it asks whether to go on."""

    max_messages: Count = 50
    max_cost_usd: Amount = 10


class ProjectConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a project in a folder of its repository may change."""

    outside: Outside = "refuse"


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole configuration."""

    default_routine: Text = "develop"
    notebook_support: Flag = False
    max_retries: Tries = 3
    retry_wait: Pause = 5
    sandbox: SandboxConfig = SandboxConfig()
    network: Network = "full"
    approve: Approvals = ()
    store: Text | None = None
    store_schema: Text | None = None
    agents: dict[str, AgentConfig] = {}
    budgets: BudgetsConfig = BudgetsConfig()
    verify: dict[str, Command] = {}
    checks: ChecksConfig = ChecksConfig()
    policy: PolicyConfig = PolicyConfig()
    routine: RoutineConfig = RoutineConfig()
    routines: dict[str, RoutineConfig] = {}
    workspace: WorkspaceConfig = WorkspaceConfig()
    keep: KeepConfig = KeepConfig()
    land: LandConfig = LandConfig()
    pr: PullConfig = PullConfig()
    notify: NotifyConfig = NotifyConfig()
    project: ProjectConfig = ProjectConfig()
    hooks: HooksConfig = HooksConfig()
    commands: CommandsConfig = CommandsConfig()
    mail: MailConfig = MailConfig()
    task: TaskConfig = TaskConfig()
    artifacts: Text | None = None
    fleet: FleetConfig = FleetConfig()
    chain: ChainConfig = ChainConfig()
    night: NightConfig = NightConfig()


KeyPath = tuple[str, ...]
ANY_NAME = "NAME"
PREFIX = "TREADLE_"

_BARE = re.compile(r"[A-Za-z0-9_-]+")


class ConfigKey(NamedTuple):
    """A leaf of the schema; `ANY_NAME` in its path stands for a name the user chooses."""

    path: KeyPath
    type: object
    default: object

    @property
    def is_scalar(self) -> bool:
        """Tell whether an environment variable could hold the value."""
        return not any(get_origin(part) is tuple for part in _parts(self.type))


@functools.cache
def leaves() -> tuple[ConfigKey, ...]:
    """Return every key a configuration may have: the page asks at every request."""
    return tuple(_leaves(Config, ()))


def _leaves(struct: type[Struct], prefix: KeyPath) -> Iterator[ConfigKey]:
    for field in structs.fields(struct):
        path = (*prefix, field.name)
        inner = table_of(field.type)
        if inner is not None and not is_struct(inner):
            yield ConfigKey((*path, ANY_NAME), inner, None)
        elif inner is not None:
            yield from _leaves(inner, (*path, ANY_NAME))  # type: ignore[arg-type]  # is_struct
        elif is_struct(field.type):
            yield from _leaves(field.type, path)
        else:
            yield ConfigKey(path, field.type, field.default)


@functools.cache
def field_types(struct: type[Struct]) -> Mapping[str, object]:
    """Return the keys of one table."""
    return {field.name: field.type for field in structs.fields(struct)}


def is_struct(type_: object) -> bool:
    """Tell whether a key holds a table with fixed keys."""
    return isinstance(type_, type) and issubclass(type_, Struct)


def table_of(type_: object) -> object | None:
    """Return what a table with free names holds, or None if `type_` is no such table."""
    return get_args(type_)[1] if get_origin(type_) is dict else None


def expectation(type_: object) -> str:
    """Say in words what a value of this type must be."""
    for part in (type_, *get_args(type_)):  # what may be left out is said like the rest
        for note in getattr(part, "__metadata__", ()):
            if isinstance(note, Meta) and note.description:
                return note.description
    words = [
        word for part in _parts(type_) if get_origin(part) is Literal for word in get_args(part)
    ]
    return f"one of {', '.join(map(json.dumps, words))}" if words else "a table"


@functools.lru_cache(maxsize=1024)
def dotted(path: KeyPath) -> str:
    """Spell a key as TOML would: `agents.check.timeout`, `verify."all tests"`."""
    return ".".join(
        part if _BARE.fullmatch(part) else json.dumps(part, ensure_ascii=False)
        for part in _spelt(path)
    )


def variable(path: KeyPath) -> str:
    """Return the environment variable that sets a key."""
    return PREFIX + re.sub(r"[^A-Z0-9]", "_", "_".join(_spelt(path)).upper())


def _spelt(path: KeyPath) -> KeyPath:
    """Leave out the name of a table's main key."""
    return path[:1] if path == ("sandbox", "mode") else path


def _parts(type_: object) -> Iterator[object]:
    if get_origin(type_) is Annotated:
        yield from _parts(get_args(type_)[0])
    elif get_origin(type_) in (Union, UnionType):
        for part in get_args(type_):
            yield from _parts(part)
    else:
        yield type_


# Keys that every kind of agent takes.
COMMON = (
    *("type", "path", "timeout", "idle_timeout", "env_allow", "env", "edits", "network"),
    "writable",
)


class Takes(NamedTuple):
    """The keys one kind of agent needs and may have, besides the common ones."""

    needs: tuple[str, ...] = ()
    may_have: tuple[str, ...] = ()


# What every agent takes that is asked in words.
_ASKED = ("prices", "retry_wait", "patience", "fallback")
_TOOL = Takes(may_have=("model", "extra_args", *_ASKED, "settings"))

# The tools whose program has a fixed name, looked up in PATH.
TOOLS = ("codex", "claude", "gemini", "opencode", "copilot")

BACKENDS: dict[str, Takes] = {
    "exec": Takes(needs=("cmd",)),
    "builtin": Takes(may_have=("run",)),
    "replay": Takes(needs=("recording",)),
    **dict.fromkeys(TOOLS, _TOOL),
    "command": Takes(needs=("cmd",), may_have=("prompt", "answer", "usage", "model", *_ASKED)),
    "acp": Takes(may_have=("cmd", "preset", "extra_args", *_ASKED, "settings")),
}


def takes(type_: str) -> tuple[str, ...]:
    """Return every key that an agent of this type may have."""
    kind = BACKENDS[type_]
    return (*COMMON, *kind.needs, *kind.may_have)


def owners(key: str) -> tuple[str, ...]:
    """Return the types of agent that take `key`."""
    return tuple(type_ for type_ in BACKENDS if key in takes(type_))
