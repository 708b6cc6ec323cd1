"""What every backend gets and gives back, and how it runs a program."""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any, NamedTuple, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from treadle.agents.growth import Growth
from treadle.config.schema import AgentConfig
from treadle.contract import Role
from treadle.contract.events import StepError
from treadle.contract.messages import AgentRequest, AgentResponse
from treadle.files import walk
from treadle.layout import EVENTS
from treadle.proc.keeper import Command, Ended, Keeper, Limits
from treadle.sandbox import jails
from treadle.sandbox.policy import READ_ONLY, Policy


class AgentSpec(Struct, frozen=True, kw_only=True):
    """One agent, ready to run: its configuration and everything it may use this time."""

    name: str
    config: AgentConfig
    root: Path
    workspace: Path
    environment: Mapping[str, str]
    stdout: Path
    stderr: Path
    limits: Limits
    keeper: Keeper
    should_stop: Callable[[], str | None]
    on_tick: Callable[[float], None]
    policy: Policy = READ_ONLY
    tier: str = "0"  # what holds it in; with "0" a tool keeps its own sandbox on
    writable: tuple[Path, ...] = ()  # further folders that the backend declares
    # Counts what the turn has used by now, and says why that must end it.
    on_usage: Callable[["Usage"], str | None] = lambda used: None
    budget_usd: float | None = None  # for tools that can be told
    images: tuple[Path, ...] = ()  # of the task; the prompt names them


class Usage(Struct, frozen=True, kw_only=True):
    """What a tool says it spent."""

    model: str | None = None
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


class AgentUsage(NamedTuple):
    """What one agent's try has used, if its tool says so."""

    agent: str
    usage: Usage | None


class Refreshed(NamedTuple):
    """A login with new tokens: the user's file, what it held when it was lent, what it becomes."""

    path: Path
    lent: bytes
    data: bytes
    fields: tuple[str, ...]


class AgentResult(Struct, frozen=True, kw_only=True):
    """How a turn ended: an error with its sentence, a skip, or a response."""

    message: str
    error: StepError | None = None
    skipped: bool = False
    response: AgentResponse | None = None
    document: Mapping[str, object] | None = None
    usage: Usage | None = None
    json_source: str | None = None
    output_bytes: int = 0
    may_retry: bool = False  # another try could help; of a timeout, that the model said nothing
    resume_at: datetime | None = None  # when a usage limit is over
    repaired: str | None = None  # what was wrong with the first answer
    login: Refreshed | None = None  # what the tool has made of the user's login

    @property
    def is_overtaken(self) -> bool:
        """Tell whether its login failed that somebody else has refreshed meanwhile."""
        return self.error is StepError.AUTH_FAILED and self.may_retry


class Backend(Protocol):
    """What drives one kind of agent."""

    def __call__(
        self, spec: AgentSpec, request: AgentRequest, prompt: str, step_dir: Path, /
    ) -> AgentResult:
        """Take one turn; every way it can end is a value, never an exception."""


def run_child(
    spec: AgentSpec, argv: tuple[str, ...], stdin: Path | None
) -> tuple[Ended, AgentResult]:
    """Run `argv` in the workspace; the result carries an error unless it exited with 0."""
    command = Command(
        argv=argv,
        cwd=spec.workspace,
        env=spec.environment,
        stdin=stdin,
        stdout=spec.stdout,
        stderr=spec.stderr,
        limits=spec.limits,
        jail=jails.jail_for(spec.tier, spec.policy.widened(spec.writable)),
    )
    growth = Growth(spec.stderr.parent)

    def tick(elapsed: float) -> None:
        growth.look()
        spec.on_tick(elapsed)

    ended = spec.keeper.run(command, should_stop=spec.should_stop, on_tick=tick)
    growth.close()
    return ended, _how_ended(spec, argv, ended)


def _how_ended(spec: AgentSpec, argv: tuple[str, ...], ended: Ended) -> AgentResult:
    if ended.reason == "exit" and ended.exit_code == 0:
        return AgentResult(message=f"{argv[0]} finished", output_bytes=ended.output_bytes)
    is_killed = ended.reason == "signal" and ended.signal in (SIGKILL, SIGTERM)
    reason = "killed" if is_killed else ended.reason
    known = _table("ended.toml").get(reason if ended.vouched else "unvouched", {})
    words = known.get("words", ": {ended.detail}").format(
        ended=ended,
        name=spec.name,
        why=ended.detail or ended.reason,
        said=_last_words(spec),
        limits=spec.limits,
        mib=spec.limits.output_bytes / 2**20,
    )
    return AgentResult(
        error=StepError(known.get("error", "agent_exit")),
        message=f"agent {spec.name} ({argv[0]}){words}",
        output_bytes=ended.output_bytes,
    )


def _last_words(spec: AgentSpec) -> str:
    """Quote what a program said last outside of its events: it may have been a question."""
    lines = (walk.tail(spec.stderr, _SAID) + walk.tail(spec.stdout, _SAID)).splitlines()
    said = [line.strip() for line in lines if line.strip() and line[0] != "{" and line[-1] != "}"]
    return f' after "{" / ".join(said[-2:])[-_SAID:]}"' if said else ""


Event = Mapping[str, object]
_SAID = 200
_COUNTABLE = 10**10  # tokens or dollars: more than any turn can use
_DATA = Path(__file__).parent
_KNOWN = tomllib.loads((_DATA / "tools.toml").read_text())


@cache  # what only some steps need is not parsed at import
def _table(name: str) -> dict[str, Any]:
    return tomllib.loads((_DATA / name).read_text())


# The response as a JSON schema, as strict as the tools that take one want it.
RESPONSE = json.dumps(json.loads((_DATA / "response.schema.json").read_text()))
_MILLION = 1_000_000
_BEGUN = frozenset(("text", "tool_start", "tool_end", "usage", "done"))
MAX_LINE = 8 << 20


class Ask(Struct, frozen=True, kw_only=True):
    """One call of a tool: who asks, in which role, and which conversation goes on."""

    spec: AgentSpec
    role: Role
    step_dir: Path
    state: Path
    scratch: Path
    edits: bool
    session: str
    resume: str | None = None

    @property
    def is_held(self) -> bool:
        """Tell whether treadle's own sandbox holds the tool, so that the tool's can be off."""
        return self.spec.tier in ("A", "B")

    @property
    def apart(self) -> Path:
        """Return an empty folder to stand in, away from the repository's settings and from you."""
        return self.state / "apart"

    @property
    def roots(self) -> tuple[Path, ...]:
        """Return where changes are wanted."""
        return (self.step_dir, self.spec.workspace) if self.edits else (self.step_dir,)

    @property
    def events(self) -> Path:
        """Return where whoever watches reads what the tool does."""
        return self.scratch / EVENTS

    def values(self) -> dict[str, object]:
        """Return what a command line names in braces."""
        return {
            "state": self.state,
            "step": self.step_dir,
            "run": self.step_dir.parent.parent,
            "apart": self.apart,
            "workspace": self.spec.workspace,
            "roots": json.dumps([*map(str, self.roots)]),
            "session": self.session,
            "resume": self.resume,
            "role": self.role,
            "model": self.spec.config.model,
            "response": RESPONSE,
            "budget": f"{self.spec.budget_usd or 0:.6f}",
            **{name: f"{{{name}}}" for name in ("image", "folder")},  # there may be several
        }


class Launch(Struct, frozen=True, kw_only=True):
    """How to start the tool; `files` are written to its state folder before."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


class Remark(NamedTuple):
    """One event of a tool in a few words, for whoever watches, and what it adds to the turn."""

    kind: str
    text: str
    usage: Usage | None = None
    structured: object = None
    status: int | None = None
    is_part: bool = False  # of a text that goes on with the next note
    call: tuple[str, Usage] | None = None  # what one call of the model has used so far, by its id


class Tool(Struct, frozen=True, kw_only=True):
    """One tool: its names for things, and the functions that know its ways.

    `home` is where it keeps its state unless `state_variable` says otherwise, `logins` are
    files in there, `tokens` the fields in them that a refresh changes; `variables` reach it,
    `keys` among them make a login needless; `cumulative` names the counters that go on counting
    when a conversation goes on; `start` is its command line, which `adjust` completes; `acp` is its
    server of the Agent Client Protocol, and `adapter` what that wants in its environment; `spent`
    finds the numbers of a tool that does not tell them in its events, and `counting` while it works
    those of one whose events tell them late or roughly; `tells_cost` if it knows what it costs.
    `settings` are the user's own, by where they go in the tool's folder, and `beside` finds further
    files that are read with them; `unread` are never read; `providers` are other services, by their
    switches; `chosen` tells whether the user has chosen a service, of a tool
    that would take one by itself.
    """

    name: str
    home: str
    state_variable: str
    tell: Callable[[Event], Iterator[Remark]]
    start: Mapping[str, Any] = field(default_factory=dict)
    adjust: Callable[[Ask, Launch], Launch] = lambda ask, launch: launch
    acp: Mapping[str, Any] = field(default_factory=dict)
    adapter: Callable[[Ask], Mapping[str, str]] = lambda ask: {}
    spent: Callable[[Ask], Usage | None] | None = None
    chosen: Callable[[AgentConfig, Mapping[str, str]], bool] | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    beside: Callable[[Mapping[str, str]], Iterable[Path]] = lambda env: ()
    unread: tuple[str, ...] = ()
    providers: Mapping[str, Any] = field(default_factory=dict)
    counting: Callable[[Ask], Usage | None] = lambda ask: None
    tells_cost: bool = False
    variables: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    logins: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    cumulative: tuple[str, ...] = ()
    log_in: str = ""
    register: str = ""
    tested: str = ""  # the version that the tests drive

    def server(self, ask: Ask) -> list[str]:
        """Return the command line of its server, if it has one."""
        found: list[str] = _filled(self.acp.get("program", []), ask.values())
        return found

    def launch(self, ask: Ask) -> Launch:
        """Return how to start the tool, from what is written down of it."""
        known = _filled(self.start, ask.values())
        from_whom = ask.spec.config.settings
        parts = ["program", "resume" if ask.resume else "begin", "options", from_whom]
        parts += ["held"] if ask.is_held else ["loose", "edits"][: 1 + ask.edits]
        parts += ["model"] if ask.spec.config.model else []
        parts += ["budget"] if ask.spec.budget_usd else []
        words = [word for part in parts for word in known.get(part, ())]
        images = () if ask.resume else ask.spec.images
        words += [
            word.format(image=it, folder=it.parent)
            for it in images
            for word in known.get("image", ())
        ]
        last = known.get("last_resumed" if ask.resume else "last", ())
        launch = Launch(
            argv=(*words, *ask.spec.config.extra_args, *last),
            cwd=Path(known.get("cwd", ask.spec.workspace)),
            env=known.get("env", {}) | (known.get("env_held", {}) if ask.is_held else {}),
            files={
                name: text
                for name, text in known.get("files", {}).items()
                if from_whom != "user" or name not in self.settings
            },
        )
        return self.adjust(ask, launch)


class Heard(Struct, frozen=True, kw_only=True):
    """What a tool's events amount to; only `is_done` means that it finished its turn."""

    is_done: bool = False
    is_begun: bool = False  # whether the model has said or done anything
    text: str = ""
    structured: object = None
    session: str | None = None
    usage: Usage | None = None
    error: str = ""
    status: int | None = None


def _filled(known: Any, values: Mapping[str, object]) -> Any:
    """Put values in the place of their names in braces."""
    if isinstance(known, str):
        return known.format_map(values)
    if isinstance(known, list):
        return [_filled(item, values) for item in known]
    return {key: _filled(item, values) for key, item in known.items()}


def known_tool(name: str, tell: Callable[[Event], Iterator[Remark]], **own: Any) -> Tool:
    """Return a tool with what is written down of it, and the functions that know its ways."""
    facts: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in _KNOWN[name].items()
    }
    return Tool(name=name, tell=tell, **facts, **own)


def counted(value: object, given: str, cached: str, made: str) -> Usage:
    """Return the tokens that stand under these names."""
    return Usage(
        input_tokens=number_at(value, given),
        cached_tokens=number_at(value, *cached.split(".")),
        output_tokens=number_at(value, made),
    )


def done(usage: Usage, structured: object = None) -> Remark:
    """Say that the tool has finished its turn, and what that took."""
    words = f"{usage.input_tokens} tokens in, {usage.output_tokens} out"
    return Remark("done", words, usage=usage, structured=structured)


def started(name: str, given: object) -> Remark:
    """Say that the tool begins to use one of its own tools."""
    return Remark("tool_start", f"{name} {json.dumps(given, ensure_ascii=False)}")


def failed(words: str, status: int) -> Remark:
    """Say that the tool's turn has failed; an HTTP status tells why, where there is one."""
    return Remark("error", words, status=status or None)


def overlay(given: str | None, settings: Mapping[str, object]) -> str:
    """Lay settings over the user's own JSON; what is none is left for the tool to refuse."""
    try:
        own = json.loads(given or "{}")
    except ValueError:
        return str(given)
    return json.dumps({**own, **settings}) if isinstance(own, dict) else str(given)


def at(value: object, *path: str | int) -> object:
    """Follow keys into parsed JSON; None where there is nothing."""
    for key in path:
        if isinstance(value, Mapping):
            value = value.get(str(key))
        elif isinstance(value, list) and isinstance(key, int) and -len(value) <= key < len(value):
            value = value[key]
        else:
            return None
    return value


def text_at(value: object, *path: str | int) -> str:
    """Return the text at a path, or an empty one."""
    found = at(value, *path)
    return found if isinstance(found, str) else ""


def number_at(value: object, *path: str | int) -> int:
    """Return the whole number at a path, or 0."""
    return int(money_at(value, *path))


def money_at(value: object, *path: str | int) -> float:
    """Return the amount at a path, or 0; a debt, or what nobody could use, is none."""
    found = at(value, *path)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return 0.0
    return float(found) if 0 <= found < _COUNTABLE else 0.0


def items_at(value: object, *path: str | int) -> list[object]:
    """Return the list at a path, or an empty one."""
    found = at(value, *path)
    return found if isinstance(found, list) else []


def used_by_all(tries: Iterable[AgentUsage]) -> Usage | None:
    """Return what several tries used, whoever made them."""
    return total_usage([item.usage for item in tries], (), None)


def total_usage(
    calls: Sequence[Usage | None],
    cumulative: tuple[str, ...],
    prices: tuple[float, float, float] | None,
) -> Usage | None:
    """Return the sum; of counters that went on counting in a later call, the last value."""
    known = [item for item in calls if item]
    if not known:
        return None
    last = known[-1]
    tokens = [last] if "tokens" in cumulative else known
    found = Usage(
        model=last.model,
        input_tokens=sum(item.input_tokens for item in tokens),
        cached_tokens=sum(item.cached_tokens for item in tokens),
        output_tokens=sum(item.output_tokens for item in tokens),
        cost_usd=last.cost_usd if "cost" in cumulative else sum(i.cost_usd for i in known),
    )
    return replace(found, cost_usd=priced(found, prices)) if prices else found


def turn_usage(
    calls: Sequence[Usage | None], cumulative: tuple[str, ...], config: AgentConfig
) -> Usage | None:
    """Return what the calls of a turn used; without a word on money, by the list of prices."""
    found = total_usage(calls, cumulative, config.prices)
    prices = default_prices(found.model) if found and not found.cost_usd else None
    return replace(found, cost_usd=priced(found, prices)) if found and prices else found


class Meter(Struct):
    """Counts what a call has used, as far as its events tell."""

    told: list[Usage] = field(default_factory=list)
    calls: dict[str, Usage] = field(default_factory=dict)

    def add(self, note: Remark) -> None:
        """Take in what one event says of it."""
        if note.usage:
            self.told.append(note.usage)
        if note.call:
            self.calls[note.call[0]] = note.call[1]

    def usage(self, tool: Tool, ask: Ask) -> Usage | None:
        """Return what was told in the end, or what can be counted until then."""
        told, heard = (total_usage([*it], (), None) for it in (self.told, self.calls.values()))
        both = filter(None, (tool.counting(ask), heard))  # a record may come later than an event
        calls = max(both, key=lambda it: it.input_tokens, default=None)
        found = told or calls
        if told and calls and calls.input_tokens > told.input_tokens:  # its last one was cut off
            found = replace(calls, model=told.model, cost_usd=max(told.cost_usd, calls.cost_usd))
        model = (calls.model if calls else None) or ask.spec.config.model
        return replace(found, model=found.model or model) if found else None


def default_prices(model: str | None) -> tuple[float, float, float] | None:
    """Return what a model costs by the list that comes with treadle; a date may follow its name.

    Some tools write a version with a point that others write with a hyphen.
    """
    name = (model or "").rpartition("/")[2].replace(".", "-")
    plain = re.sub(r"[-@](20\d{6}|20\d\d-\d\d-\d\d|latest)\Z", "", name)
    known = _table("prices.toml")["models"]
    found = {it.replace(".", "-"): prices for it, prices in known.items()}.get(plain)
    return (found[0], found[1], found[2]) if found else None


def costs_unknown(tool: Tool | None, name: str, config: AgentConfig) -> str | None:
    """Say why it cannot be known what an agent costs, and the key that helps; None if it can."""
    told = re.compile(config.usage or "").groupindex
    if (tool and tool.tells_cost) or "cost" in told:
        return None
    called = tool.name if tool else (config.cmd or (config.type,))[0]
    if not tool and not told:
        return f"{called} reports no cost; set agents.{name}.usage to a pattern that finds it"
    if config.prices or default_prices(config.model):
        return None
    why = f"{called} reports no cost, and no price is known for"
    listed = f"list of {_table('prices.toml')['as_of']}"
    other = f"a model that it chooses, unless that is on the {listed}; set agents.{name}.model, or"
    which = f"{config.model} ({listed}); set" if config.model else other
    return f"{why} {which} agents.{name}.prices"


def tokens_unknown(tool: Tool | None, name: str, config: AgentConfig) -> str | None:
    """Say the same of its tokens."""
    told = re.compile(config.usage or "").groupindex
    if tool or "input" in told or "output" in told:
        return None
    called = (config.cmd or (config.type,))[0]
    return f"{called} reports no tokens; set agents.{name}.usage to a pattern that finds them"


def priced(usage: Usage, prices: tuple[float, float, float]) -> float:
    """Return what the tokens cost; cached ones are part of the input."""
    fresh = max(usage.input_tokens - usage.cached_tokens, 0)
    parts = zip((fresh, usage.cached_tokens, usage.output_tokens), prices, strict=True)
    return round(sum(count * price for count, price in parts) / _MILLION, 6)


def read_events(path: Path) -> Iterator[dict[str, object]]:
    """Yield every line that is a JSON object; other lines are the tool's chatter."""
    if not path.is_file():
        return
    with path.open("rb") as stream:
        while line := stream.readline(MAX_LINE):
            if found := parse_event(line):
                yield found


def parse_event(line: bytes) -> dict[str, object] | None:
    """Return the object on a line, if it is one."""
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def hear(tool: Tool, events: Iterable[Event], ask: Ask) -> Heard:
    """Take the tool's word that it is done, unless its last word before was an error.

    An event that nobody here knows says nothing, whatever is in it; the logs keep it.
    """
    last: dict[str, Remark] = {}
    text, kind, meter = "", "", Meter()
    for note in (note for event in events for note in tool.tell(event)):
        if note.kind == "text":
            text = text + note.text if note.is_part and kind == "text" else note.text
        if note.kind in ("text", "tool_start"):
            last.pop("error", None)  # the tool went on
        last[note.kind], kind = note, note.kind
        meter.add(note)
    error, done, session = last.get("error"), last.get("done"), last.get("session")
    blamed = error or (None if done else last.get("warning") or last.get("retry"))
    if error and not error.text:  # the tool has said before what it ends with
        blamed = last.get("warning", error)
    spent, model = tool.spent(ask) if tool.spent else None, ask.spec.config.model
    spent = replace(spent, model=spent.model or model) if spent else meter.usage(tool, ask)
    return Heard(
        is_done=done is not None and error is None,
        is_begun=bool(spent) or not _BEGUN.isdisjoint(last),
        text=text,
        structured=done.structured if done else None,
        session=session.text if session else None,
        usage=spent,
        error=blamed.text if blamed else "",
        status=blamed.status if blamed else None,
    )
