"""`treadle mcp` as its clients see it: the official one, and one written by hand."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult

from tests.builder import make_home, wait_for
from tests.real.tools import BINARIES
from treadle import mcp
from treadle.agents.table import TOOLS

pytestmark = pytest.mark.real

VERSION = "2025-06-18"


class Plain:
    """A client that knows nothing of the SDK: lines of JSON-RPC over pipes."""

    def __init__(self, project, **capabilities):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "treadle", "mcp"],
            cwd=project.root,
            env=project.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.notes, self.asked, self._id = [], [], 0
        self.capabilities = capabilities

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.wait(60) == 0
        self.process.stdout.close()

    def greet(self):
        me = {"name": "plain", "version": "1"}
        params = {
            "protocolVersion": VERSION,
            "capabilities": self.capabilities,
            "clientInfo": me,
        }
        said = self.ask("initialize", **params)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return said["result"]

    def send(self, message):
        text = message if isinstance(message, str) else json.dumps(message)
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def begin(self, method, **params):
        self._id += 1
        self.send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        return self._id

    def hear(self, number, reply=None):
        """Return the answer to a request; answer what the server asks meanwhile."""
        for found in self.notes:
            if found.get("id") == number and "method" not in found:
                return found
        while line := self.process.stdout.readline():
            found = json.loads(line)
            if found.get("id") == number and "method" not in found:
                return found
            self.notes.append(found)
            if found.get("method") == "elicitation/create":
                self.asked.append(found["params"])
                self.send({"jsonrpc": "2.0", "id": found["id"], "result": reply})
        raise AssertionError("the server left")

    def ask(self, method, reply=None, **params):
        return self.hear(self.begin(method, **params), reply)

    def call(self, tool, reply=None, **arguments):
        found = self.ask("tools/call", reply, name=tool, arguments=arguments)["result"]
        return found.get("isError", False), json.loads(found["content"][0]["text"])


def test_the_tools_are_few_and_their_schemas_small():
    told = [{"name": it.name, "description": it.text, "inputSchema": it.schema} for it in mcp.TOOLS]
    text = json.dumps(told, separators=(",", ":"))
    # Common tokenizers need about one token for a word or a group of signs.
    tokens = len(re.findall(r"[A-Za-z]{1,8}|\d+|[^\sA-Za-z\d]+", text))
    assert len(told) <= 8
    assert tokens <= 1_000, tokens


GARBAGE = (
    *("this is no JSON", "[" * 100_000, "[1, 2]"),
    '{"jsonrpc": "2.0", "id": null, "method": "tools/list"}',
    '{"jsonrpc": "2.0", "id": {"a": 1}, "method": "tools/list"}',
    '{"jsonrpc": "2.0", "id": 5, "method": 7}',
    '{"id": 5, "method": "tools/list"}',
)


def test_a_client_by_hand_adds_runs_and_reads_and_garbage_ends_nothing(project):
    project.good_agents()
    with Plain(project) as client:
        assert memory(client.process.pid) <= 40_000
        for garbage in GARBAGE:
            client.send(garbage)
        assert memory(client.process.pid) <= 40_000  # nobody was woken by it
        client.send('{"jsonrpc": "2.0"}')
        for nothing in ("null", "[1]"):
            gone = '"method": "notifications/cancelled"'
            client.send(f'{{"jsonrpc": "2.0", {gone}, "params": {nothing}}}')
        assert client.greet()["serverInfo"]["name"] == "treadle"
        refused = [(it["id"], it["error"]["code"]) for it in client.notes]
        assert refused == [(None, -32600)] * len(GARBAGE)
        names = [tool["name"] for tool in client.ask("tools/list")["result"]["tools"]]
        assert names == ["next", "report", "add_task", "run", "status", "why", "mail", "answer"]
        made = client.call("add_task", goal="--help", ac=["done.txt is there"])
        assert made[0] is False
        assert project.treadle("task", "show", "T-1", "--json").json["goal"] == "--help"
        is_error, ran = client.call("run", tasks=["T-1"])
        assert (is_error, ran["status"]) == (False, "passed")
        assert client.call("why", run="last")[1]["run_id"] == ran["run_id"]
        assert client.call("status", run=ran["run_id"])[1]["status"] == "passed"
        wrong = [
            ("why", {}),
            ("why", {"run": 7}),
            ("why", {"run": "x\0y"}),
            ("why", {"run": "no such run"}),
            ("status", {"colour": "red"}),
            ("report", {"agent": "ada", "result": "great"}),
            ("run", {"tasks": "T-1"}),
            ("mail", {"action": "read", "agent": "ada"}),
        ]
        for tool, arguments in wrong:
            is_error, said = client.call(tool, **arguments)
            assert is_error, (tool, arguments)
            assert said["error"]["message"]
        assert "error" in client.ask("tools/call", name="shell", arguments={})
        for uri in ("treadle://runs/none", "file:///etc/passwd", "treadle://runs/--help"):
            assert "error" in client.ask("resources/read", uri=uri)


def memory(pid):
    """Return how much a process holds, once it waits for a client."""
    seen = [0]

    def is_settled():
        text = Path(f"/proc/{pid}/status").read_text()
        seen.append(int(re.search(r"VmRSS:\s+(\d+)", text)[1]))
        return len(seen) > 20 and len(set(seen[-20:])) == 1

    wait_for(is_settled)
    return seen[-1]


def test_what_speaks_is_let_go_when_idle_and_hears_the_greeting_again(project):
    project.env["TREADLE_MCP_IDLE"] = "0.5"
    with Plain(project) as client:
        client.greet()
        for _ in range(2):
            assert client.call("status")[0] is False
            wait_for(lambda: not speakers(client.process.pid))
        assert memory(client.process.pid) <= 40_000
        assert client.call("status")[0] is False
        (speaker,) = speakers(client.process.pid)
        number = client.begin("tools/call", name="status", arguments={})
        os.kill(speaker, signal.SIGKILL)
        answer = client.hear(number)
        assert "result" in answer or "ended before" in answer["error"]["message"]
        assert client.call("status")[0] is False
    assert client.notes == []


def speakers(pid):
    """Return the processes that work for another one."""
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def test_letters_and_two_tools_at_once(project):
    with Plain(project) as client:
        client.greet()
        sent = client.call(
            "mail",
            action="send",
            agent="ada",
            to="bob",
            intent="inform",
            summary="It works",
            body="# Really\n",
        )
        assert sent[0] is False
        first = client.begin("tools/call", name="status", arguments={})
        second = client.begin(
            "tools/call", name="mail", arguments={"action": "list", "agent": "bob"}
        )
        found = {number: client.hear(number) for number in sorted((first, second))}
        assert [it["result"].get("isError", False) for it in found.values()] == [False, False]
        (letter,) = json.loads(found[second]["result"]["content"][0]["text"])["letters"]
        assert letter["summary"] == "It works"


def slow(project):
    """Let the agent that works wait until somebody ends it."""
    project.good_agents()
    project.agent("do", "time.sleep(600)")


@pytest.mark.parametrize("leaves", [False, True])
def test_what_the_client_cancels_or_leaves_is_stopped_and_can_be_resumed(project, leaves):
    slow(project)
    with Plain(project) as client:
        client.greet()
        number = client.begin(
            "tools/call",
            name="run",
            arguments={"goal": "Make done.txt", "ac": ["done.txt is there"]},
            _meta={"progressToken": "p"},
        )
        wait_for(lambda: (runs := listed(project)) and runs[0]["current_step_index"] == 1)
        while not any(it["method"] == "notifications/progress" for it in client.notes):
            client.notes.append(json.loads(client.process.stdout.readline()))
        if not leaves:
            gone = {"requestId": number, "reason": "enough"}
            client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": gone})
            assert client.call("status")[0] is False
            wait_for(lambda: listed(project)[0]["status"] == "stopped")
    assert listed(project)[0]["status"] == "stopped"
    assert client.notes[-1]["params"]["progressToken"] == "p"


def listed(project):
    return project.treadle("runs", "list", "--json").json["runs"]


def ask_a_person(project):
    """Put a question on the desk."""
    project.treadle("task", "add", "Choose a colour")
    project.treadle(
        *("mail", "send", "--from", "ada", "--to", "human", "--intent", "question"),
        *("--task", "T-1", "--summary", "Which colour?"),
    )
    (item,) = project.treadle("desk", "--json").json["items"]
    return item["item_id"]


def test_the_person_answers_where_the_client_can_ask(project):
    item = ask_a_person(project)
    with Plain(project, elicitation={}) as client:
        client.greet()
        declined = client.ask(
            "tools/call", {"action": "decline"}, name="answer", arguments={"item": item}
        )
        assert declined["result"]["isError"]
        reply = {"action": "accept", "content": {"text": "Blue"}}
        is_error, said = client.call("answer", reply, item=item, text="Red\x1b[2J")
        assert (is_error, said["answer"]) == (False, "Blue")
        shown = "ada: Which colour?\nThe agent proposes: Red\\x1b[2J"
        assert client.asked[1]["message"] == shown


def test_without_a_way_to_ask_the_answer_is_the_command_lines(project):
    item = ask_a_person(project)
    with Plain(project) as client:
        client.greet()
        assert client.call("answer", item=item)[0] is True
        assert client.call("answer", item=item, text="Red")[1]["answer"] == "Red"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_runs_with_progress_asks_and_reads_resources(project, mode):
    project.good_agents()
    item = ask_a_person(project)
    steps = []

    async def answer(context, params):
        return ElicitResult(action="accept", content={"text": "Green"})

    async def note(progress, total, message):
        steps.append(message)

    async def talk():
        words = ["-m", "treadle", "mcp"]
        command = StdioServerParameters(
            command=sys.executable, args=words, cwd=project.root, env=project.environment()
        )
        async with Client(command, mode=mode, elicitation_callback=answer) as client:
            goal = {"goal": "Make done.txt", "ac": ["done.txt is there"]}
            ran = await client.call_tool("run", goal, progress_callback=note)
            said = await client.call_tool("answer", {"item": item})
            found = await client.list_resources()
            read = [await client.read_resource(it.uri) for it in found.resources]
            templates = await client.list_resource_templates()
            return ran, said, read, templates

    ran, said, read, templates = anyio.run(talk)
    assert json.loads(ran.content[0].text)["status"] == "passed"
    assert json.loads(said.content[0].text)["answer"] == "Green"
    assert json.loads(read[0].contents[0].text)["status"] == "passed"
    assert "Make done.txt" in read[1].contents[0].text
    assert len(templates.resource_templates) == 2
    assert any("criteria" in step for step in steps), steps  # the newest line at each look


def test_over_http_only_who_knows_the_token_is_let_in(project):
    process = project.start("mcp", "--http", "--json")
    said = json.loads(process.stdout.readline())
    name, _, value = said["header"].partition(": ")

    async def talk():
        async with httpx2.AsyncClient(headers={name: value}, timeout=120) as known:
            transport = streamable_http_client(said["url"], http_client=known)
            async with Client(transport) as client:
                tools = await client.list_tools()
                status = await client.call_tool("status", {})
        async with httpx2.AsyncClient(timeout=120) as stranger:
            refused = await stranger.post(said["url"], json={})
            foreign = {name: value, "Host": "example.org", "Accept": "application/json"}
            rebound = await stranger.post(said["url"], json={}, headers=foreign)
        return tools, status, refused.status_code, rebound.status_code

    try:
        tools, status, refused, rebound = anyio.run(talk)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert len(tools.tools) == 8
    assert not status.is_error
    assert refused == 401
    assert rebound in (400, 403, 421)


def test_an_untrusted_project_and_a_run_are_refused_as_on_the_command_line(project):
    project.treadle("trust", "--revoke")
    with Plain(project) as client:
        client.greet()
        is_error, said = client.call("run", goal="Make done.txt", ac=["done.txt is there"])
        assert is_error
        assert said["error"]["fix"] == project.run("--json").json["error"]["fix"]
    inside = project.treadle("mcp", "--json", env={"TREADLE_RUN": "20260101-000000-000000"})
    assert inside.json["error"]["code"] == "inside_run"


@pytest.fixture
def claude(project, tmp_path):
    """Put a stand-in on the path that writes down what it is asked, beside a new project."""
    tool = tmp_path / "bin" / "claude"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\necho "$PWD" "$@" >> {tmp_path}/asked\n')
    tool.chmod(0o755)
    brought = project.root / "bin" / "claude"  # what a clone brings is not asked
    brought.parent.mkdir()
    brought.write_text(f'#!/bin/sh\necho "brought" "$@" >> {tmp_path}/asked\n')
    brought.chmod(0o755)
    (project.root / ".treadle" / "config.toml").unlink()
    path = f"{project.root}/bin:{tool.parent}:{project.environment()['PATH']}"
    return project.environment() | {"PATH": path}


def test_init_shows_how_a_tool_gets_the_tools(project, claude):
    done = project.treadle("init", env=claude)
    assert f"to use treadle from claude: {TOOLS['claude'].register}" in done.out


ADD = "/ mcp add --scope user treadle -- treadle mcp"


@pytest.mark.parametrize(
    ("answer", "folder", "asked"), [("y", ".", [ADD]), ("", ".", []), ("y", "below", [ADD])]
)
def test_init_registers_the_tools_for_who_says_yes(
    project, claude, tmp_path, answer, folder, asked
):
    ours, theirs = pty.openpty()
    place = project.root / folder
    place.mkdir(exist_ok=True)
    words = [sys.executable, "-m", "treadle", "init", "--here"]
    os.write(ours, f"{answer}\n".encode())
    process = subprocess.Popen(
        words, cwd=place, env=claude, stdin=theirs, stdout=subprocess.DEVNULL, stderr=theirs
    )
    assert process.wait(60) == 0
    said = os.read(ours, 10_000).decode()
    os.close(ours)
    os.close(theirs)
    assert "Run `claude mcp add --scope user treadle -- treadle mcp`" in said
    found = tmp_path / "asked"
    lines = found.read_text().splitlines() if found.exists() else []
    assert [line for line in lines if " mcp add" in line] == asked


@pytest.mark.parametrize("tool", ["claude", "codex", "gemini"])
def test_the_real_tools_take_the_command_that_init_shows(project, tool, tmp_path):
    places = [*map(str, BINARIES), str(Path(sys.executable).parent)]
    path = os.pathsep.join([*places, os.environ["PATH"]])
    if not shutil.which(tool, path=path):
        pytest.skip(f"NOT TESTED: {tool} is not installed")
    env = project.environment(make_home(tmp_path / "user")) | {"PATH": path}

    def say(line):
        done = subprocess.run(
            line.split(), cwd=project.root, env=env, capture_output=True, text=True, timeout=120
        )
        return done.stdout + done.stderr

    say(TOOLS[tool].register)
    listed = next(line for line in say(f"{tool} mcp list").splitlines() if "treadle" in line)
    assert "mcp" in listed
    assert tool != "claude" or "Connected" in listed
