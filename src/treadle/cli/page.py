"""What draws pages: `treadle report`, and the page of `treadle serve`."""

import os
import socket
from argparse import Namespace
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from treadle.cli import output
from treadle.cli.runs import find_whole
from treadle.engine.show import report
from treadle.errors import ConfigError, UsageError
from treadle.files import atomic
from treadle.project import here
from treadle.project.context import open_context, open_repository
from treadle.store.store import Reader
from treadle.web import app
from treadle.web.access import Keys
from treadle.web.pages import report as page
from treadle.web.site import Site


def serve_page(
    root: Path, keys: Keys, server: socket.socket, read_only: bool, stop: Callable[[], str | None]
) -> None:
    """Answer browsers until told to stop."""
    try:
        project = open_context(root, os.environ)
    except ConfigError:  # the page on health says what is wrong
        project = open_repository(root, os.environ)
    site = Site(project, keys, server.getsockname()[1], read_only)
    app.serve_page(site, server, stop)


def print_report(args: Namespace) -> int:
    path = Path(args.html) if args.html else None
    if path and (path.is_dir() or not path.parent.is_dir()):
        raise UsageError(f"--html {args.html}: give a file in a folder that exists")
    project = open_context(here(), os.environ)
    with Reader.open(project.layout) as store:
        row = find_whole(project.layout, store, args.run)
        if path is None:
            text = report.markdown(project, store, row)
            told = {"run_id": row.run_id, "markdown": text}
            return output.tell(args.json, told, output.block, text)
        text = page.report_html(project, store, row, datetime.now(UTC))
    atomic.write(path, text.encode(errors="backslashreplace"))
    return output.say(args.json, {"run_id": row.run_id, "file": str(path)}, f"wrote {path}")
