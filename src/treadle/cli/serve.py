"""Wait for work and visitors: `treadle serve`, and `treadle mcp` for host agents."""

import contextlib
import os
import secrets
import select
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

from treadle.cli import main, output
from treadle.cli.relay import Relay
from treadle.engine.interrupts import Interrupts
from treadle.errors import ExitCode, TreadleError, UsageError, stop_code
from treadle.git import call
from treadle.inbox.schedule import Waiting
from treadle.layout import Layout, serve_doors, serve_socket
from treadle.proc import environment, helper
from treadle.project import find_place, here, refuse_inside_run
from treadle.web import access
from treadle.web.access import Keys

_PAUSE = 0.25
_GRACE = 0.5
_AGAIN = 1.0  # seconds to leave a project alone that somebody else works in
_LONGEST = 300.0  # seconds between rounds that fail
_IDLE = 60.0  # seconds without a request, until what speaks MCP is let go
_CANNOT_START = (126, 127)  # what a shell says of a program
_DESKTOP = 3.0  # seconds for the desktop to say that it cannot
_RELAYED = "TREADLE_MCP_RELAYED"  # tells the process that speaks from the one that waits


def serve(args: Namespace) -> int:
    """Work and show until a signal comes."""
    refuse_inside_run(os.environ)
    layout = find_place(here(), os.environ).layout
    if args.link:
        return _print_link(args, layout.shared)
    args.no_work = args.no_work or args.read_only
    if args.no_web and args.no_work:
        raise UsageError("without the page and without work there is nothing to do")
    interrupts, begun = Interrupts(), datetime.now(UTC)
    broken: list[TreadleError] = []
    with interrupts.installed(), contextlib.ExitStack() as stack:
        if not args.no_web:
            stack.enter_context(_page(args, layout, interrupts, broken))
        failed = None
        try:
            failed = None if args.no_work else _work(args, layout, interrupts)
        except TreadleError as refused:
            broken.append(refused)
        while not (interrupts.reason() or broken or failed):
            time.sleep(_PAUSE)
    if not args.no_work:
        main.call("notify.serve_ended", layout, begun)
    for error in broken:
        main.call("notify.serve_failed", layout, error.message)
        raise error
    if failed:
        why = f"serve ended, for its first round failed with exit code {failed}"
        main.call("notify.serve_failed", layout, why)
        return failed
    return stop_code(interrupts.name or "")


def _work(args: Namespace, layout: Layout, interrupts: Interrupts) -> int | None:
    """Start a round whenever one is due; one that fails says why and is tried again later.

    A round is a process of its own: what it loads and keeps goes with it, and waiting costs little.
    Without a page, a first round that fails ends it all: its exit code is returned.
    """
    words = ["serve", "--once", *(["--json"] if args.json else [])]
    round_ = environment.treadle_command(words, layout.root, os.environ)
    waiting = Waiting(layout, interrupts.reason, lambda: datetime.now(UTC))
    is_first, pause = True, _AGAIN
    for _ in waiting.reasons():
        code = helper.attend(*round_, lambda: _signal(interrupts))
        if interrupts.name:
            return None
        if code == ExitCode.DONE:
            waiting.done()
            is_first, pause = False, _AGAIN
        elif code == ExitCode.LOCKED:
            time.sleep(_AGAIN)
        elif is_first and args.no_web:
            return code
        else:
            if pause == _AGAIN:  # the first of several in a row
                main.call("notify.serve_failed", layout, f"a round of serve failed: exit {code}")
            pause = min(pause * 2, _LONGEST)
            output.warn(f"the round failed; the next one comes in {pause:.0f} s")
            _sleep(interrupts, pause)
    return None


def _sleep(interrupts: Interrupts, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not interrupts.reason():
        time.sleep(_PAUSE)


def _signal(interrupts: Interrupts) -> int | None:
    return signal.Signals[interrupts.name] if interrupts.name else None


@contextlib.contextmanager
def _page(
    args: Namespace, layout: Layout, interrupts: Interrupts, broken: list[TreadleError]
) -> Iterator[None]:
    """Hold the port, hand out links; what answers is loaded when somebody comes.

    A page that cannot answer ends everything, so that no port accepts and stays silent.
    """
    keys, root = Keys(), layout.shared

    def answer() -> None:
        try:
            if access.wait_for_visitor(server, interrupts.reason):
                known = (layout.root, keys, server, args.read_only, interrupts.reason)
                main.call("page.serve_page", *known)
        except TreadleError as error:
            broken.append(error)
        finally:
            interrupts.name = interrupts.name or "SIGTERM"

    with access.bind_port(args.port) as server:
        port = server.getsockname()[1]
        with access.offer_links(serve_socket(os.environ, root), lambda: _url(port, keys)):
            _say(args, root, port, _url(port, keys))
            waiting = Thread(target=answer, daemon=True)
            waiting.start()
            try:
                yield
            finally:
                access.remove_doors(serve_doors(os.environ, root))
                interrupts.name = interrupts.name or "SIGTERM"
                waiting.join(_GRACE)


def _url(port: int, keys: Keys) -> str:
    return f"http://127.0.0.1:{port}/enter?key={keys.new_link()}"


def _say(args: Namespace, root: Path, port: int, url: str) -> None:
    if args.json:
        output.print_json({"url": f"http://127.0.0.1:{port}/", "link": url})
        sys.stdout.flush()
    else:
        output.line("the page, for whoever opens this first:")
        output.line(f"  {url}", flush=True)
    if args.open:
        _show(root, access.write_door(serve_doors(os.environ, root), url))


def _show(root: Path, path: Path) -> None:
    """Ask the desktop to open a file, in the user's browser most likely."""
    program = "open" if sys.platform == "darwin" else "xdg-open"
    # Outside of every repository, so that nothing in one can be taken for a part of it.
    env = call.apart(os.environ, call.around(root)[0]["GIT_WORK_TREE"])
    done = helper.detach((*helper.FROM_NOWHERE, program, str(path)), env, _DESKTOP)
    if done and done.returncode in _CANNOT_START:
        text = f"{program} is not installed or not in PATH; open the link by hand"
        raise TreadleError(text, code="program_unusable")


def _print_link(args: Namespace, root: Path) -> int:
    url = access.get_link(serve_socket(os.environ, root))
    if args.open:
        _show(root, access.write_door(serve_doors(os.environ, root), url))
    return output.say(args.json, {"link": url}, url)


def serve_tools(args: Namespace) -> int:
    """Wait until a client speaks, then answer it; until then nothing of the protocol is loaded."""
    refuse_inside_run(os.environ)
    if find_spec("mcp") is None:
        raise ModuleNotFoundError(name="mcp")
    token = os.environ.get("TREADLE_MCP_TOKEN") or secrets.token_urlsafe(24)
    try:
        if args.http:
            _serve_http(args, token)
        elif os.environ.get(_RELAYED):
            main.call("mcp.speak", None, "")
        else:
            _serve_stdio()
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    return ExitCode.DONE


def _serve_stdio() -> None:
    if sys.stdin.isatty():
        output.line("this speaks MCP on stdin and stdout, for a host agent to start:", error=True)
        output.line("  claude mcp add treadle -- treadle mcp", error=True)
    argv, env = environment.treadle_command(["mcp"], here(), os.environ)
    try:
        idle = float(os.environ.get("TREADLE_MCP_IDLE") or _IDLE)
    except ValueError as error:
        raise UsageError("TREADLE_MCP_IDLE must be a number of seconds") from error
    Relay(argv, env | {_RELAYED: "1"}, idle).serve()


def _serve_http(args: Namespace, token: str) -> None:
    with access.bind_port(args.port or 0) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/mcp"
        header = f"Authorization: Bearer {token}"
        output.say(args.json, {"url": url, "header": header}, url, header)
        sys.stdout.flush()
        select.select([server], [], [])
        main.call("mcp.speak", server, token)
