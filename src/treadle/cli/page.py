"""The page of `treadle serve`, loaded when the first browser comes."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

from treadle.project.project import open_project
from treadle.web import app
from treadle.web.access import Keys
from treadle.web.site import Site


def show(
    root: Path, keys: Keys, server: socket.socket, read_only: bool, stop: Callable[[], str | None]
) -> None:
    """Answer browsers until told to stop."""
    site = Site(open_project(root, os.environ), keys, server.getsockname()[1], read_only)
    app.serve_page(site, server, stop)
