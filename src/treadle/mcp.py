"""Let a host agent use treadle as tools, through the Model Context Protocol.

Every tool is a command line with --json, run as a process of its own: trust, sandbox, leases and
locks are those of the command line, and nothing can be done here that it cannot do.
"""

import hmac
import json
import logging
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
import mcp_types as types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.types import ASGIApp, Receive, Scope, Send

import treadle
from treadle.errors import TreadleError, UsageError
from treadle.proc import environment, helper
from treadle.proc.helper import Captured
from treadle.project import setup
from treadle.text import line

_LONGEST = 60_000  # characters of one answer: more would drown the conversation
_LISTED = 20  # runs that are named as resources; any other can be read by its id
_GLANCE = 0.2  # seconds between two looks at what a command says meanwhile
_RUNS, _REPORTS = "treadle://runs/", "treadle://reports/"

_Context = ServerRequestContext[Any, Any]
_Arguments = Mapping[str, object]


class HostTool(NamedTuple):
    """A tool: the command it stands for and its arguments.

    A capital letter means a word without a dash; `!` is required, `...` a list, `?` a flag, `=`
    gives the words to choose from.
    """

    name: str
    command: str
    arguments: str
    text: str

    @property
    def fields(self) -> dict[str, dict[str, object]]:
        """Return the schema of each argument."""
        return {_name(it): _schema(it) for it in self.arguments.split()}

    @property
    def required(self) -> list[str]:
        """Return the arguments that every call needs."""
        return [_name(it) for it in self.arguments.split() if "!" in it]

    @property
    def schema(self) -> dict[str, object]:
        """Return what a client must know to call it."""
        return {"type": "object", "properties": self.fields, "required": self.required}


TOOLS = (
    HostTool(
        "next",
        "next",
        "agent! mission",
        "Get your next mission step: do what the file prompt_file says, then call report."
        " agent: a name you choose and keep.",
    ),
    HostTool(
        "report",
        "next",
        "agent! result!=success|failed|blocked note step task no_change? mission",
        "Report how a step went; returns the next one. note: why it failed or is blocked.",
    ),
    HostTool(
        "add_task",
        "task add",
        "Goal! ac... verify... depends_on... id",
        "Add a task. ac: acceptance criteria; verify: AC1=COMMAND that proves one.",
    ),
    HostTool(
        "run",
        "run",
        "Tasks... goal ac... verify... resume note",
        "Let agents work until the checks pass: on tasks, on a goal, or on a run to resume."
        " Takes minutes to hours; cancelling stops it, and it can be resumed.",
    ),
    HostTool("status", "status", "Run", "What is running, waiting, passed and spent; or one run."),
    HostTool("why", "why", "Run!", "Why a run ended as it did. run: its id, a task, or last."),
    HostTool(
        "mail",
        "mail",
        "action!=list|read|claim|reply|ack|send agent! File to intent summary body task",
        "Letters between agents and people. send: to, intent (such as question, inform), summary.",
    ),
    HostTool(
        "answer",
        "answer",
        "Item! Action text",
        "Answer what waits on the desk (see status). The person is asked first where possible.",
    ),
)
_BY_NAME = {tool.name: tool for tool in TOOLS}


def _name(spelled: str) -> str:
    return spelled.partition("=")[0].strip("!?.").lower()


def _schema(spelled: str) -> dict[str, object]:
    head, _, choices = spelled.partition("=")
    if head.endswith("?"):
        return {"type": "boolean"}
    if head.endswith("..."):
        return {"type": "array", "items": {"type": "string"}}
    return {"type": "string"} | ({"enum": choices.split("|")} if choices else {})


def command_words(tool: HostTool, given: _Arguments) -> list[str]:
    """Return the command line of a call; what was given is never taken for an option."""
    _require_valid(tool, given)
    command, given = _command(tool, dict(given))
    plain = {_name(it) for it in tool.arguments.split() if it[0].isupper()}
    options = [word for name in given if name not in plain for word in _option(name, given[name])]
    rest = [word for name in tool.fields if name in plain for word in _many(given.get(name))]
    return ["--json", *command, *options, *(["--", *rest] if rest else [])]


def _command(tool: HostTool, given: dict[str, object]) -> tuple[list[str], dict[str, object]]:
    """Return the words a call begins with, and what it still has to be told."""
    if tool.name == "status" and given.get("run"):
        return ["runs", "show"], given
    if tool.name == "answer":
        return ["answer", "--wait"], given
    if tool.name != "mail":
        return tool.command.split(), given
    action = str(given.pop("action"))
    given["from" if action == "send" else "as"] = given.pop("agent")
    if "body" in given:
        given["body"] = "-"
    return ["mail", action], given


def _option(name: str, value: object) -> Iterator[str]:
    option = "--" + name.replace("_", "-")
    if value is True:
        yield option
    elif value is not False:
        yield from (f"{option}={word}" for word in _many(value))


def _many(value: object) -> list[str]:
    if value is None:
        return []
    return [str(word) for word in value] if isinstance(value, list) else [str(value)]


def _require_valid(tool: HostTool, given: _Arguments) -> None:
    fields = tool.fields
    for name in (it for it in tool.required if it not in given):
        raise UsageError(f"{tool.name} needs the argument {name}")
    for name, value in given.items():
        if name not in fields:
            raise UsageError(f"{tool.name} has no argument {name}; it has {', '.join(fields)}")
        _require_type(f"{tool.name}: {name}", fields[name], value)


def _require_type(what: str, field: Mapping[str, object], value: object) -> None:
    kind = {"boolean": bool, "array": list, "string": str}[str(field["type"])]
    if not isinstance(value, kind):
        raise UsageError(f"{what} must be of type {field['type']}")
    allowed = field.get("enum")
    if isinstance(allowed, list) and value not in allowed:
        raise UsageError(f"{what} must be one of {', '.join(allowed)}")
    for word in _many(value):
        if not environment.is_word(word):
            raise UsageError(f"{what} is too long, or is not plain text")


class Commands:
    """Carries command lines out for somebody in a folder."""

    def __init__(self, here: Path, env: Mapping[str, str]) -> None:
        self._here = here
        self._env = {**env, "TREADLE_PROGRESS": "1"}

    async def carry_out(self, ctx: _Context, words: list[str], stdin: str = "") -> Captured:
        """Run one; tell the client how it goes, and stop it when the client calls it off."""
        gone, said = threading.Event(), list[bytes]()
        follow = partial(
            helper.follow,
            *environment.treadle_command(words, self._here, self._env),
            lambda: signal.SIGINT if gone.is_set() else None,
            said.append,
            stdin.encode(),
        )

        async def tell() -> None:
            told = 0
            try:
                while True:
                    await anyio.sleep(_GLANCE)
                    lines = said[-1].decode(errors="replace").splitlines() if said else []
                    if len(lines) > told:
                        told = len(lines)
                        await ctx.session.report_progress(told, None, line(lines[-1].strip()))
            finally:
                gone.set()

        async with anyio.create_task_group() as group:
            group.start_soon(tell)
            ended = await anyio.to_thread.run_sync(follow)
            group.cancel_scope.cancel()
        return ended

    async def document(self, ctx: _Context, *words: str) -> dict[str, Any]:
        """Return what a command that only reads answers."""
        ended = await self.carry_out(ctx, ["--json", *words])
        try:
            found = json.loads(ended.stdout)
        except ValueError:
            found = {}
        return found if isinstance(found, dict) else {}


def build(here: Path, env: Mapping[str, str]) -> Server[Any]:
    """Return the server for somebody in `here`."""
    commands = Commands(here, env)
    return Server(
        "treadle",
        version=treadle.__version__,
        instructions=setup.instructions("run"),
        on_list_tools=_list_tools,
        on_call_tool=partial(_call_tool, commands),
        on_list_resources=partial(_list_resources, commands),
        on_list_resource_templates=_list_templates,
        on_read_resource=partial(_read_resource, commands),
    )


async def _list_tools(ctx: _Context, params: object) -> types.ListToolsResult:
    return types.ListToolsResult(
        tools=[
            types.Tool(name=tool.name, description=tool.text, input_schema=tool.schema)
            for tool in TOOLS
        ]
    )


async def _call_tool(
    commands: Commands, ctx: _Context, params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    tool, given = _BY_NAME.get(params.name), dict(params.arguments or {})
    if tool is None:
        raise MCPError(code=types.INVALID_PARAMS, message=f"there is no tool {params.name!r}")
    try:
        words = command_words(tool, given)
        if tool.name == "answer" and _can_ask(ctx):
            asked = await _ask_person(commands, ctx, given, params.input_responses or {})
            if not isinstance(asked, dict):
                return asked
            words = command_words(tool, asked)
        ended = await commands.carry_out(ctx, words, str(given.get("body", "")))
    except TreadleError as error:
        return _answer(json.dumps({"error": {"code": error.code, "message": error.message}}), True)
    said = ended.stdout.decode(errors="replace").strip()
    is_error = not said or said.startswith('{"error":')  # a run that failed is an answer
    return _answer(said or ended.stderr.decode(errors="replace").strip(), is_error)


def _answer(text: str, is_error: bool = False) -> types.CallToolResult:
    if len(text) > _LONGEST:
        more = len(text) - _LONGEST
        text = f"{text[:_LONGEST]}\n… {more} more characters: use the command line for all of it"
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error)


def _can_ask(ctx: _Context) -> bool:
    able = ctx.session.client_capabilities
    return able is not None and able.elicitation is not None


async def _ask_person(
    commands: Commands, ctx: _Context, given: _Arguments, told: Mapping[str, object]
) -> dict[str, object] | types.CallToolResult | types.InputRequiredResult:
    """Return the arguments that the person chose, or what to tell the client instead."""
    item = await commands.document(ctx, "desk", "show", "--", str(given["item"]))
    if "error" in item:
        return _answer(json.dumps(item), True)
    question = _question(item, given)
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        said = await ctx.session.elicit_form(
            question.message, question.requested_schema, ctx.request_id
        )
    elif not isinstance(found := told.get("answer"), types.ElicitResult):
        request = types.ElicitRequest(params=question)
        return types.InputRequiredResult(input_requests={"answer": request})
    else:
        said = found
    chosen = {name: word for name, word in (said.content or {}).items() if word}
    if said.action != "accept" or not chosen:
        return _answer("The person did not answer; it still waits on the desk.", True)
    return {"item": given["item"], **chosen}


def _question(item: Mapping[str, Any], given: _Arguments) -> types.ElicitRequestFormParams:
    """Write the form: what is asked, what can be answered, and what the agent would say."""
    verbs = [str(action["action"]) for action in item.get("actions", ())]
    meant = " ".join(str(given[name]) for name in ("action", "text") if given.get(name))
    message = line(str(item.get("summary")))
    message += f"\nThe agent proposes: {line(meant)}" if meant else ""
    fields: dict[str, object] = {"text": {"type": "string", "title": "In words"}}
    if verbs:
        fields = {"action": {"type": "string", "title": "What to do", "enum": verbs}, **fields}
    return types.ElicitRequestFormParams(
        message=message, requested_schema={"type": "object", "properties": fields}
    )


async def _list_resources(
    commands: Commands, ctx: _Context, params: object
) -> types.ListResourcesResult:
    found = await commands.document(ctx, "runs", "list", f"--limit={_LISTED}")
    return types.ListResourcesResult(
        resources=[
            types.Resource(
                uri=f"{place}{row['run_id']}",
                name=f"{row['run_id']} ({row['status']})",
                description=line(str(row.get("goal") or ""))[:100],
                mime_type=kind,
            )
            for row in found.get("runs", ())
            for place, kind in ((_RUNS, "application/json"), (_REPORTS, "text/markdown"))
        ]
    )


async def _list_templates(ctx: _Context, params: object) -> types.ListResourceTemplatesResult:
    return types.ListResourceTemplatesResult(
        resource_templates=[
            types.ResourceTemplate(
                uri_template=f"{place}{{run}}", name=name, mime_type=kind, description=text
            )
            for place, name, kind, text in (
                (_RUNS, "run", "application/json", "A run with steps, criteria and usage"),
                (_REPORTS, "report", "text/markdown", "A run as a report"),
            )
        ]
    )


async def _read_resource(
    commands: Commands, ctx: _Context, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    uri = str(params.uri)
    place = next((it for it in (_RUNS, _REPORTS) if uri.startswith(it)), None)
    run = uri.removeprefix(place or "")
    if place is None or not run or not environment.is_word(run):
        raise MCPError(code=types.INVALID_PARAMS, message=f"there is no resource {uri!r}")
    words = ["runs", "show"] if place == _RUNS else ["report"]
    found = await commands.document(ctx, *words, "--", run)
    if "error" in found or not found:
        message = str(found.get("error", {}).get("message", "it cannot be read"))
        raise MCPError(code=types.INVALID_PARAMS, message=message)
    text = json.dumps(found) if place == _RUNS else str(found["markdown"])
    kind = "application/json" if place == _RUNS else "text/markdown"
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=uri, mime_type=kind, text=text)]
    )


def serve_stdio(here: Path, env: Mapping[str, str]) -> None:
    """Speak on standard input and output until the client leaves."""
    _prepare()
    server = build(here, env)

    async def speak() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(speak)


def serve_http(here: Path, env: Mapping[str, str], port: socket.socket, token: str) -> None:
    """Answer whoever knows the token, on a port of this machine."""
    _prepare()
    app = build(here, env).streamable_http_app(host="127.0.0.1")
    config = uvicorn.Config(
        _guarded(app, token), log_config=None, access_log=False, ws="none", proxy_headers=False
    )
    config.timeout_graceful_shutdown = 5
    anyio.run(partial(uvicorn.Server(config).serve, sockets=[port]))


def _prepare() -> None:
    """Keep quiet on the streams, and end by a signal as by Ctrl-C: commands are stopped."""
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def _guarded(app: ASGIApp, token: str) -> ASGIApp:
    """Let in only who knows the token: other users of this machine reach its ports too."""
    wanted = f"Bearer {token}".encode()

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        if scope["type"] != "http" or hmac.compare_digest(given, wanted):
            await app(scope, receive, send)
            return
        headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body"})

    return answer
