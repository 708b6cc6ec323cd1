"""Serve the page on a socket that is already open, until told to stop."""

import asyncio
import gc
import logging
import socket
from collections.abc import Callable

import uvicorn

from treadle.web import app
from treadle.web.site import Site

_PAUSE = 0.2
_GRACE = 2  # seconds that open streams get


def serve(site: Site, server: socket.socket, stop: Callable[[], str | None]) -> None:
    """Answer browsers in this thread."""
    gc.enable()
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = uvicorn.Config(
        app.build(site),
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE,
    )
    asyncio.run(_serve(uvicorn.Server(config), server, stop))


async def _serve(
    page: uvicorn.Server, server: socket.socket, stop: Callable[[], str | None]
) -> None:
    serving = asyncio.create_task(page.serve(sockets=[server]))
    while not stop() and not serving.done():
        await asyncio.sleep(_PAUSE)
    page.should_exit = True
    await serving
