"""`treadle serve`: show the page, and carry out messages and specs as they come."""

import contextlib
import os
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

from treadle.cli import main, output
from treadle.engine.session import Interrupts
from treadle.errors import ExitCode, TreadleError, UsageError
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


def serve(args: Namespace) -> int:
    """Work and show until a signal comes."""
    refuse_inside_run(os.environ)
    layout = find_place(here(), os.environ).layout
    root = layout.root
    if args.link:
        return _print_link(args, root)
    if args.no_web and args.no_work:
        raise UsageError("--no-web and --no-work leave nothing to do")
    interrupts = Interrupts()
    broken: list[TreadleError] = []
    with interrupts.installed(), contextlib.ExitStack() as stack:
        if not args.no_web:
            stack.enter_context(_page(args, root, interrupts, broken))
        failed = None if args.no_work else _work(args, layout, interrupts)
        while not interrupts.reason() and failed is None:
            time.sleep(_PAUSE)
    for error in broken:
        raise error
    if failed is not None:
        return failed
    is_int = interrupts.name == "SIGINT"
    return ExitCode.INTERRUPTED if is_int else ExitCode.TERMINATED


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
    args: Namespace, root: Path, interrupts: Interrupts, broken: list[TreadleError]
) -> Iterator[None]:
    """Hold the port, hand out links; what answers is loaded when somebody comes.

    A page that cannot answer ends everything, so that no port accepts and stays silent.
    """
    keys = Keys()

    def answer() -> None:
        try:
            if access.wait_for_visitor(server, interrupts.reason):
                main.call("page.serve_page", root, keys, server, args.read_only, interrupts.reason)
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
        helper.show(access.write_door(serve_doors(os.environ, root), url))


def _print_link(args: Namespace, root: Path) -> int:
    url = access.get_link(serve_socket(os.environ, root))
    if args.open:
        helper.show(access.write_door(serve_doors(os.environ, root), url))
    return output.say(args.json, {"link": url}, url)
