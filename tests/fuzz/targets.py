"""Every parser of something a stranger wrote: any bytes are read, or refused in words."""

import contextlib
import functools
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from treadle import config, frontmatter, ids, markdown
from treadle.agents import answer, table, trouble
from treadle.agents.acp import Conversation
from treadle.agents.backend import Ask, hear, parse_event
from treadle.config import load
from treadle.config.schema import AgentConfig
from treadle.contract import load_object, messages
from treadle.errors import TreadleError
from treadle.git import build, judge
from treadle.inbox import message as inbox_message
from treadle.inbox import schedule
from treadle.inbox.message import ChainPlace
from treadle.layout import Layout, MissionLayout
from treadle.mail import letter
from treadle.missions import gates, taskfile
from treadle.missions.mission import Mission
from treadle.sandbox.mask import Mask


class Target(NamedTuple):
    """One parser, and inputs it knows, to begin from."""

    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]


_SCRATCH = Path(tempfile.gettempdir())
_NOW = datetime(2026, 3, 29, 2, 30, tzinfo=UTC)
_MASK = Mask({"MY_TOKEN": "sesame-open-0815", "B_SECRET": 'p@ss w"ord\n99'})


def attempt(target: Target, data: bytes) -> None:
    """Feed a parser; only an error of treadle's own, with a sentence, may come out."""
    try:
        target.read(data)
    except TreadleError as error:
        if not error.message.strip().encode():
            raise ValueError("an error without a sentence") from error


@functools.cache
def _temporary() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(dir=_SCRATCH)


def _folder() -> Path:
    """Return a folder that lasts as long as this process."""
    return Path(_temporary().name)


def _ids(data: bytes) -> None:
    text = data.decode(errors="surrogateescape")
    for accepts in (ids.is_run_id, ids.is_task_id, ids.is_criterion_id):
        if accepts(text):
            assert text.isascii()
            assert not set(text) & set("/\\\0\n ")
            assert text not in (".", "..")
    ids.nearest(text[:40], ["plan", "check"])


def _patch(data: bytes) -> None:
    build.find_oddity(data)
    build.broken_rule(data)
    build.is_relative_to_root(data, "src")
    name = data.decode(errors="surrogateescape")
    if judge.forbidden(name) is None:
        assert ".." not in name.split("/")
    judge.unwelcome(name)


def _config(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".toml", dir=_SCRATCH) as file:
        file.write(data)
        file.flush()
        load.leaves(config._read_file(Path(file.name), "config.toml"), "config.toml")


def _frontmatter(data: bytes) -> None:
    frontmatter.read(data)
    once = frontmatter.set_fields(data, {"chain": "2025022514320000", "seq": "0"})
    assert frontmatter.set_fields(once, {"chain": "2025022514320000", "seq": "0"}) == once


def _mask(data: bytes) -> None:
    text = data.decode(errors="surrogateescape")
    masked = _MASK.text(text)
    assert "sesame-open-0815" not in masked
    masked.encode(errors="surrogateescape")


def _message(data: bytes) -> None:
    for place in (None, ChainPlace("2025022514320000", 3)):
        found = inbox_message.understand(data, place, lambda: "2025022514320100").message
        once = inbox_message.complete(data, found, "develop")
        again = inbox_message.understand(once, None, lambda: "never").message
        assert (again.place, again.type, again.body) == (found.place, found.type, found.body)
        assert inbox_message.complete(once, again, "develop") == once


def _cron(data: bytes) -> None:
    layout = Layout(_folder())
    layout.cron.mkdir(parents=True, exist_ok=True)
    (layout.cron / "job.md").write_bytes(data)
    for job in schedule.jobs(layout):
        if isinstance(job, TreadleError):
            raise job
        schedule.is_due(job, _NOW, None)


def _task_file(data: bytes) -> None:
    mission = Mission("m", _folder(), MissionLayout(_folder() / "missions" / "m"))
    mission.files.tasks.mkdir(parents=True, exist_ok=True)
    (mission.files.tasks / "WP01-x.md").write_bytes(data)
    assert taskfile.read_task(mission, "WP01-x.md").criteria


def _markdown(data: bytes) -> None:
    text = data.decode(errors="replace")
    markdown.title(text)
    found = [item.id for item in markdown.criteria(text)]
    assert len(found) == len(set(found))
    gates.missing(text, "spec")
    gates.missing(text, "plan")


def _name(data: bytes) -> None:
    name = data.decode(errors="surrogateescape")
    if letter.name_headers(name) and data.isascii():
        with contextlib.suppress(TreadleError):
            found = letter.parse("text", name)
            again = letter.parse("text", next(letter.file_names(found)))
            assert (again.to, again.created_at) == (found.to, found.created_at)


def _events(data: bytes) -> None:
    events = [found for line in data.split(b"\n") if (found := parse_event(line))]
    for tool in table.TOOLS.values():
        spec = cast(Any, SimpleNamespace(config=AgentConfig(type=tool.name)))
        ask = Ask(
            spec=spec,
            role="do",
            step_dir=_SCRATCH,
            state=_SCRATCH / "none",
            scratch=_SCRATCH,
            edits=True,
            session="s",
        )
        hear(tool, events, ask)
        for event in events:
            list(tool.tell(event))


def _conversation(data: bytes) -> None:
    talk = Conversation(_folder(), _folder() / "kept", lambda _: None, lambda _: None)
    talk.hang_up()
    try:
        for line in data.split(b"\n"):
            if message := parse_event(line):
                talk._hear(message)
    finally:
        talk.close()


def _answer(data: bytes) -> None:
    answer.find(data.decode(errors="surrogateescape"), _SCRATCH / "none")


def _trouble(data: bytes) -> None:
    text = data.decode(errors="replace")
    trouble.classify(text, None, _NOW)
    trouble.reset_time(text, _NOW)


TARGETS = {
    "json": Target(
        lambda data: load_object(data, source="it"),
        (b'{"a": [1, 2.5, "x", null, true]}', b"[" * 40, b'{"a": 1, "a": 2}', b"NaN", b'"\\ud800"'),
    ),
    "response": Target(
        lambda data: messages.parse_response(data, source="stdout"),
        (b'{"version": 1, "status": "ok", "summary": "s", "files": ["a/b"]}',),
    ),
    "verdict": Target(
        lambda data: messages.parse_verdict(data, source="verdict.json", asked={"AC1", "AC2"}),
        (b'{"version": 1, "verdict": "PASS", "criteria": [{"id": "AC1", "pass": true}]}',),
    ),
    "patch": Target(
        _patch,
        (
            b"diff --git a/x b/x\nnew mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+x\n",
            b'diff --git "a/\\303\\244" b/.git/config\nrename from ../x\nrename to /etc/passwd\n',
            b'diff --git "a/\\304\\944" b/x\n',
        ),
    ),
    "ids": Target(_ids, (b"20250101-000000-abcdef", b"T-1", b"AUTH-012", b"AC1", b"../x")),
    "config": Target(
        _config,
        (
            b'sandbox = "auto"\n[agents.do]\ntype = "exec"\ncmd = ["x"]\n[verify]\n"a b" = "x"\n',
            b'[sandbox]\nmode = "off"\nhide = ["~/.ssh"]\n[checks]\ntimeout = 1e3\n',
        ),
    ),
    "frontmatter": Target(
        _frontmatter,
        (
            b"---\nchain: 2025022514320000\nseq: 0\ntype: task\n---\nbody\r\n",
            b"\xef\xbb\xbf---\r\na: [x, {b: c}]\r\n---\r\n",
            b"---\n&a x: *a\n---\n",
        ),
    ),
    "letter": Target(
        lambda data: letter.parse(data.decode(errors="replace")),
        (b"from: a\nto: b\nintent: answer\n\n## Summary\n\nText\n",),
    ),
    "mask": Target(
        _mask, (b"x sesame-open-0815 y", b"ghp_" + b"a" * 36, b"c2VzYW1lLW9wZW4tMDgxNQ==")
    ),
    "message": Target(
        _message,
        (
            b"---\nid: 2025022514320000-0\nchain: 2025022514320000\nseq: 0\ntype: task\n---\nx\n",
            b"---\nchain: ../x\nseq: 9999999999\nroutine: [no]\n---\n",
            b"---\r\ninput_file: specs/a.md # c\r\ntype: odd\r\n---\r\nx",
        ),
    ),
    "cron": Target(
        _cron,
        (
            b"---\ncron: 30 2 29 2 0-7/2\ntz: Europe/Berlin\nroutine: develop\n---\nDo it\n",
            b"---\ncron: '*/5 * L * MON#1'\ntz: ../../etc/passwd\nchain: a.b\n---\n",
        ),
    ),
    "taskfile": Target(
        _task_file,
        (
            b"---\nwork_package_id: WP01\ntitle: T\ndependencies: [WP02]\nlane: doing\n---\n# T\n",
            b"---\ndependencies:\n  - WP02\nowned_files: src/**\n---\n## Acceptance Criteria\n- x",
        ),
    ),
    "markdown": Target(
        _markdown,
        (
            b"# T\n## Acceptance Criteria\n- [ ] AC2: it works $ make\n- AC2: x\n<!-- - no -->\n",
            b"## Functional Requirements\n| FR-001 | x |\n- **FR-002**: [NEEDS y] TODO\n```\n",
            b"## Technical Context\n**Language/Version**: Python 3.11\n- Testing: pytest\n",
        ),
    ),
    "name": Target(
        _name,
        (
            b"20250225_143200_a.b-all_fix-bug_T.1~002.md",
            b"02250225_143200_a-b_x.md",
            b"20250230_990000_a-b_x.md",
            b"_-_.md",
        ),
    ),
    "events": Target(
        _events,
        (
            b'{"type": "turn.completed", "usage": {"input_tokens": 1e999}}\n{"type": "error"}',
            b'{"type": "item.completed", "item": {"type": "agent_message", "text": "x"}}',
            b'{"type": "result", "subtype": "success", "total_cost_usd": 0.1, "usage": {}}',
            b'{"type": "assistant", "message": {"content": [{"type": "tool_use", "input": {}}]}}',
            b'{"type": "step_finish", "part": {"cost": 1, "tokens": {"input": 3}}}',
        ),
    ),
    "acp": Target(
        _conversation,
        (
            b'{"method": "session/update", "params": {"update": {"sessionUpdate": "usage_update",'
            b' "cost": {"amount": 0.5}}}}',
            b'{"id": 1, "method": "session/request_permission", "params": {"options": [{"kind":'
            b' "allow_once", "optionId": "o"}], "toolCall": {"title": "t"}}}',
            b'{"method": "session/update", "params": {"update": {"sessionUpdate": "tool_call"}}}',
        ),
    ),
    "answer": Target(
        _answer,
        (
            b'Done.\n```json\n{"version": 1, "status": "ok", "summary": "s"}\n```\n',
            b'{"a": {"version": 1, "status": "ok", "summary": "s"}} and {"',
        ),
    ),
    "trouble": Target(
        _trouble,
        (
            b"usage limit reached|1767225600",
            b"try again in 3 days 4 hours and 5 minutes",
            b"resets 5:30pm (Europe/Berlin)",
            b"resets 5:90pm (Europe)",
            b"try again at Mar 3rd, 2026 5:30 PM",
            b'{"resets_in_seconds": 99999999}',
        ),
    ),
}
