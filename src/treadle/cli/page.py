"""The page of `treadle serve`, loaded when the first browser comes."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

from treadle.errors import ConfigError
from treadle.project.context import open_context, open_repository
from treadle.web import app
from treadle.web.access import Keys
from treadle.web.site import Site


def show(
    root: Path, keys: Keys, server: socket.socket, read_only: bool, stop: Callable[[], str | None]
) -> None:
    """Answer browsers until told to stop."""
    try:
        project = open_context(root, os.environ)
    except ConfigError:  # the page on health says what is wrong
        project = open_repository(root, os.environ)
    site = Site(project, keys, server.getsockname()[1], read_only)
    app.serve_page(site, server, stop)
