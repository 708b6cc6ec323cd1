"""Serve the page on a socket that is already open, until told to stop."""

import asyncio
import contextlib
import gc
import logging
import socket
from collections.abc import Callable

import uvicorn

from treadle.config.load import load
from treadle.errors import ConfigError
from treadle.project.project import place_mail
from treadle.web import app
from treadle.web.site import Site

_PAUSE = 0.2
_GRACE = 2  # seconds that open streams get


def serve(site: Site, server: socket.socket, stop: Callable[[], str | None]) -> None:
    """Answer browsers in this thread."""
    gc.enable()
    with contextlib.suppress(ConfigError):  # the page on health says what is wrong
        place_mail(site.project, load(site.project.layout, site.project.env).config)
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
