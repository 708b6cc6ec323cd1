"""Notices reach a program or a web address of the user's, or it is said why not."""

import contextlib
import json
import os
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.builder import PATH, Project, write_files
from treadle.project import notify, trust
from treadle.project.context import open_context

HOWTO = Path(__file__).parents[2] / "docs" / "howto.md"
SECRET = "correct-horse-battery"


class Ear:
    """A web server that keeps what it is told and answers as it was told to."""

    def __init__(self):
        self.heard, self.answer, self.goes_on = [], 200, threading.Event()
        self.leads, ear = "/elsewhere", self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                ear.heard.append((self.path, json.loads(body)))
                if ear.answer == "hang":
                    ear.goes_on.wait(60)
                    return
                if ear.answer == "drip":
                    with contextlib.suppress(OSError):  # the other side left
                        while not ear.goes_on.wait(0.02):
                            self.wfile.write(b"H")
                    return
                self.send_response(ear.answer)
                self.send_header("Location", f"http://127.0.0.1:{ear.port}{ear.leads}")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/hook?key=1"

    def close(self):
        self.goes_on.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def site(repo, tmp_path):
    """Return a project whose settings can be written."""
    return Project(repo, tmp_path).set_up()


@pytest.fixture
def ear():
    found = Ear()
    yield found
    found.close()


def opened(site, text, **env):
    site.settings(f"[notify]\n{text}\n")
    return open_context(site.root, {**os.environ, **env})


def sent(context, told=None, patience=5.0):
    whole = notify.complete(context, told or {"kind": "run_ended", "text": "t"}, context.now())
    return notify.deliver(context, whole, patience)


def test_a_webhook_gets_one_document_without_secrets(site, ear):
    context = opened(site, 'webhook = "$HOOK"', HOOK=ear.url, API_TOKEN=SECRET)
    told = {"kind": "question", "text": f"say {SECRET}\x1b[2J", "next": [f"x {SECRET}"]}
    assert sent(context, told) == [notify.Delivery("webhook", 1)]
    ((path, document),) = ear.heard
    assert (path, document["project"], document["version"]) == ("/hook?key=1", "project", 1)
    assert document["text"] == "say [masked]\\x1b[2J"
    assert document["next"] == ["x [masked]"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (500, "answered 500"),
        (302, "a redirect to 127.0.0.1, which is not followed"),
        ("hang", "did not answer within 0.2 s"),
        ("drip", "did not answer within 0.2 s"),
    ],
)
def test_a_webhook_that_fails_is_tried_three_times(site, ear, answer, why):
    ear.answer = answer
    (found,) = sent(opened(site, f'webhook = "{ear.url}"'), patience=0.2)
    assert (found.tries, len(ear.heard)) == (3, 3)
    assert found.error
    assert why in found.error
    assert {path for path, _ in ear.heard} == {"/hook?key=1"}


@pytest.mark.parametrize(
    "address", ["{url}/T0/{secret} ", "http://u:p/{secret}@127.0.0.1/x", "{url}"]
)
def test_what_fails_does_not_tell_the_address(site, ear, address):
    ear.answer, ear.leads = 308, f"/hook/{SECRET}"
    url = address.format(url=f"http://127.0.0.1:{ear.port}/{SECRET}", secret=SECRET)
    (found,) = sent(opened(site, 'webhook = "$HOOK"', HOOK=url))
    assert found.error
    assert SECRET not in found.error


def test_nobody_listens_and_a_variable_holds_nothing(site, ear):
    context = opened(site, 'webhook = "$NOT_SET"')
    assert "NOT_SET holds no http" in sent(context)[0].error
    ear.close()
    assert "refused" in sent(opened(site, f'webhook = "{ear.url}"'))[0].error.lower()


def test_a_program_that_fails_hangs_or_prints_secrets(site, tmp_path):
    leaks = f'command = ["sh", "-c", "pwd >> {tmp_path}/log; echo $API_TOKEN >&2; exit 7"]'
    (found,) = sent(opened(site, leaks, API_TOKEN=SECRET))
    assert (found.tries, found.error) == (3, "exit code 7: [masked]")
    assert (tmp_path / "log").read_text() == "/\n" * 3
    (late,) = sent(opened(site, 'command = ["sleep", "60"]'), patience=0.1)
    assert late.error == "it did not end within 0.1 s"
    (gone,) = sent(opened(site, 'command = ["no-such-program"]'))
    assert "no-such-program" in gone.error


EXAMPLES = re.findall(r"```toml\n(\[notify\]\ncommand = .*?)```", HOWTO.read_text(), re.DOTALL)


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_examples_call_what_they_say(site, tmp_path, text):
    said = tmp_path / "said"
    for name in ("notify-send", "mail", "curl"):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {said}\n[ -t 0 ] || cat >> {said}\n')
        path.chmod(0o755)
    context = opened(site, text.removeprefix("[notify]\n"), PATH=f"{tmp_path}/bin:{PATH}")
    told = {"kind": "run_ended", "text": 'passed: "it" $(touch x) works'}
    assert sent(context, told)[0].error == ""
    assert told["text"] in said.read_text()


def test_there_is_an_example_for_each(site):
    programs = [text for text in EXAMPLES if re.search("notify-send|mail|curl", text)]
    assert len(programs) == 3


def test_a_repository_that_brings_a_notice_says_so_before_it_is_trusted(site):
    context = opened(site, 'command = ["./tell"]\nwebhook = "https://elsewhere.example/x"')
    found = {item.key: item.command for item in trust.commands(context.settings)}
    assert found["notify.command"] == "./tell"
    assert "elsewhere.example" in found["notify.webhook"]


def test_a_program_meets_nothing_of_the_repository(site, tmp_path):
    """Whoever works in it may have its folders in these variables."""
    tools, trap = tmp_path / "tools", f"open({str(tmp_path / 'canary')!r}, 'w')"
    files = {"bin/tell": f"#!/bin/sh\ntouch {tmp_path}/canary\n", "src/json.py": trap}
    write_files(site.root, files)
    write_files(tools, {"tell": f"#!{sys.executable}\nimport json, sys\njson.load(sys.stdin)\n"})
    for path in (site.root / "bin" / "tell", tools / "tell"):
        path.chmod(0o755)
    ways = {"PATH": f"{site.root}/bin:{tools}:{PATH}", "PYTHONPATH": f"{site.root}/src"}
    context = opened(site, 'command = ["tell"]', **ways)
    assert sent(context) == [notify.Delivery("command", 1)]
    assert not (tmp_path / "canary").exists()
