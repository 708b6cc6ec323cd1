"""`treadle serve`: show the page, and carry out messages and specs as they come."""

import contextlib
import os
import socket
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from threading import Thread

from treadle.cli import main, output
from treadle.engine.signals import Interrupts
from treadle.errors import ExitCode, UsageError
from treadle.layout import serve_socket
from treadle.proc import browse
from treadle.project.project import Project, open_project
from treadle.project.root import find_root, here, refuse_inside_run
from treadle.web import link, listen
from treadle.web.keys import Keys

_PAUSE = 0.25
_GRACE = 0.5


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("--no-web", action="store_true", help="Serve no page")
    parser.add_argument("--no-work", action="store_true", help="Carry nothing out")
    parser.add_argument("--read-only", action="store_true", help="Let the page only show")
    parser.add_argument("--port", type=int, metavar="N", help="Port of the page; 0 for any")
    parser.add_argument("--open", action="store_true", help="Open the page in the browser")
    parser.add_argument("--link", action="store_true", help="Print another link and leave")


def run(args: Namespace) -> int:
    """Work and show until a signal comes."""
    refuse_inside_run(os.environ)
    if args.link:
        return _print_link(args)
    if args.no_web and args.no_work:
        raise UsageError("--no-web and --no-work leave nothing to do")
    project = open_project(here(), os.environ)
    interrupts = Interrupts()
    code: int | None = None
    with interrupts.installed(), contextlib.ExitStack() as stack:
        if not args.no_work:
            main.load("keep").require(project)
        if not args.no_web:
            stack.enter_context(_page(args, project, interrupts))
        if not args.no_work:
            code = main.load("keep").going(project, interrupts, args.json)
        while not interrupts.reason() and code is None:
            time.sleep(_PAUSE)
    if code is not None:
        return code
    is_int = interrupts.name == "SIGINT"
    return ExitCode.INTERRUPTED if is_int else ExitCode.TERMINATED


@contextlib.contextmanager
def _page(args: Namespace, project: Project, interrupts: Interrupts) -> Iterator[None]:
    """Hold the port, hand out links; what answers is loaded when somebody comes."""
    keys = Keys()
    with listen.bind(args.port) as server:
        port = server.getsockname()[1]
        place = serve_socket(os.environ, project.layout.root)
        with link.offered(place, lambda: _url(port, keys)):
            _say(args, port, _url(port, keys))
            waiting = Thread(
                target=_answer, args=(args, project, keys, server, interrupts), daemon=True
            )
            waiting.start()
            try:
                yield
            finally:
                interrupts.name = interrupts.name or "SIGTERM"
                waiting.join(_GRACE)


def _answer(
    args: Namespace, project: Project, keys: Keys, server: socket.socket, interrupts: Interrupts
) -> None:
    if listen.wait(server, interrupts.reason):
        page = main.load("page")
        site = page.Site(project, keys, server.getsockname()[1], args.read_only)
        page.serve(site, server, interrupts.reason)


def _url(port: int, keys: Keys) -> str:
    return f"http://127.0.0.1:{port}/enter?key={keys.new_link()}"


def _say(args: Namespace, port: int, url: str) -> None:
    if args.json:
        output.print_json({"url": f"http://127.0.0.1:{port}/", "link": url})
    else:
        print(f"the page, for whoever opens this first:\n  {url}", flush=True)
    if args.open:
        browse.show(url)


def _print_link(args: Namespace) -> int:
    url = link.get(serve_socket(os.environ, find_root(here(), os.environ)))
    if args.json:
        output.print_json({"link": url})
    else:
        print(url)
    if args.open:
        browse.show(url)
    return ExitCode.DONE
