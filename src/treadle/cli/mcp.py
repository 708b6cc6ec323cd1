"""What speaks the Model Context Protocol for `treadle mcp`; loaded when a client speaks."""

import os
import socket

from treadle import mcp
from treadle.project import here


def speak(port: socket.socket | None, token: str) -> None:
    """Answer the client until it leaves, or clients on a port until told to stop."""
    if port is None:
        mcp.serve_stdio(here(), os.environ)
    else:
        mcp.serve_http(here(), os.environ, port, token)
