"""Put pages, their JSON twins, actions and the stream behind the gate."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from urllib.parse import parse_qsl

import msgspec
from jinja2 import Environment
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from treadle.errors import BlockedError, NotFoundError, TreadleError
from treadle.files import beneath
from treadle.layout import serve_doors
from treadle.sandbox.mask import Mask
from treadle.web import act, gate, link, markdown, render
from treadle.web.live import Feed
from treadle.web.readers import Readers
from treadle.web.site import Action, Asked, Document, Page, Site
from treadle.web.table import ACTIONS, PAGES

_HOME = "/desk"
_MAX_FORM = 1 << 20
_MAX_FILE = 32 << 20


def build(site: Site) -> ASGIApp:
    """Return the whole application."""
    site = site._replace(readers=Readers(site.project.layout), mask=Mask(site.project.env))
    templates = render.environment({"markdown": markdown.render})
    templates.globals |= {
        "nav": [page for page in PAGES if page.label],
        "read_only": site.read_only,
        "project": site.project.layout.root.name,
        "action": _shown,
    }
    feed = Feed(site.project.layout)
    routes = [
        Route("/", _home),
        Route("/enter", partial(_enter, site, templates)),
        Route("/stream", partial(_stream, feed)),
        Route("/runs/{run}/files/{path:path}", partial(_file, site)),
        *(Route(f"{page.path}.json", partial(_json, site, page)) for page in PAGES),
        *(Route(page.path, partial(_page, site, templates, page)) for page in PAGES),
        *(
            Route(action.path, partial(_act, site, templates, action), methods=["POST"])
            for action in ACTIONS
        ),
        Mount("/static", StaticFiles(directory=render.STATIC)),
    ]
    handlers = {TreadleError: partial(_failed, templates)}
    app = Starlette(routes=routes, exception_handlers=handlers)
    return gate.Gate(app, site)


async def _home(request: Request) -> Response:
    return RedirectResponse(_HOME)


async def _enter(site: Site, templates: Environment, request: Request) -> Response:
    """Turn a link's key into the cookie; the page then goes on by itself.

    A redirect would lose the cookie if the link was followed from another site.
    """
    token = site.keys.redeem(request.query_params.get("key", ""))
    if token is None:
        used = Document(message="This link was used already, or is not ours.")
        fix = {"fix": ["treadle serve --link"]}
        return HTMLResponse(templates.get_template("error.html").render(used | fix), 401)
    link.remove_doors(serve_doors(site.project.env, site.project.layout.root))
    response = HTMLResponse(templates.get_template("enter.html").render(home=_HOME))
    response.set_cookie(gate.cookie_name(site), token, httponly=True, samesite="strict", path="/")
    return response


async def _json(site: Site, page: Page, request: Request) -> Response:
    asked = _asked(request)
    if page.is_quick:
        found = page.document(site, asked)
    else:
        found = await run_in_threadpool(page.document, site, asked)
    return Response(_encoded(found), media_type="application/json")


def _encoded(found: Document) -> bytes:
    try:
        return msgspec.json.encode(found)
    except UnicodeEncodeError:  # a name on disk need not be text
        return json.dumps(found, default=str).encode()


async def _page(site: Site, templates: Environment, page: Page, request: Request) -> Response:
    asked = _asked(request)
    text = await run_in_threadpool(_rendered, site, templates, page, asked, str(request.url.path))
    return HTMLResponse(text.encode(errors="backslashreplace"))


def _rendered(site: Site, templates: Environment, page: Page, asked: Asked, path: str) -> str:
    found = page.document(site, asked)
    extra = page.view(site, asked, found) if page.view else {}
    context: Document = {"asked": asked.fields, "here": path, "now": site.now(), "said": None}
    return templates.get_template(page.template).render(context | {"doc": found} | extra)


async def _act(site: Site, templates: Environment, action: Action, request: Request) -> Response:
    asked = Asked(request.path_params, await _form(request))
    said = await run_in_threadpool(act.act, site, action, asked)
    name = "said.html" if request.headers.get("hx-request") else "acted.html"
    return HTMLResponse(templates.get_template(name).render(said=said))


async def _form(request: Request) -> dict[str, str]:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_FORM:
            raise BlockedError(f"a form may have {_MAX_FORM >> 20} MiB", code="form_too_large")
    return dict(parse_qsl(body.decode(errors="replace"), keep_blank_values=True))


async def _file(site: Site, request: Request) -> Response:
    """Give a file of a run as plain text: whatever it is, it is not ours to run."""
    asked = _asked(request)
    folder = site.project.layout.run(asked.run).folder
    data = await run_in_threadpool(_read, folder, asked.names["path"], site.mask)
    return Response(data, media_type="text/plain", headers={"content-disposition": "inline"})


def _read(folder: Path, name: str, mask: Mask) -> bytes:
    with beneath.opened(folder, name) as handle:
        text = handle.read(_MAX_FILE).decode(errors="surrogateescape")
    return mask.text(text).encode(errors="surrogateescape")


class Stream(StreamingResponse):
    """What changes, as it changes, as long as there is a seat."""

    def __init__(self, feed: Feed, request: Request) -> None:
        last_id = request.headers.get("last-event-id", "")
        super().__init__(feed.stream(last_id), media_type="text/event-stream")
        self._feed = feed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Keep the seat until the browser leaves, however it does."""
        with self._feed.seat() as is_free:
            full = Response("too many pages are open\n", 503, {"retry-after": "30"})
            await (super().__call__ if is_free else full)(scope, receive, send)


async def _stream(feed: Feed, request: Request) -> Response:
    return Stream(feed, request)


async def _failed(templates: Environment, request: Request, error: Exception) -> Response:
    assert isinstance(error, TreadleError)
    status = 404 if isinstance(error, NotFoundError) else 409
    if request.url.path.endswith(".json"):
        found = {"code": error.code, "message": error.message, "fix": list(error.fix)}
        body = msgspec.json.encode({"error": found})
        return Response(body, status, media_type="application/json")
    context = {"message": error.message, "fix": error.fix}
    return HTMLResponse(templates.get_template("error.html").render(context), status)


def _shown(path: str, names: Mapping[str, str], fields: Mapping[str, str]) -> act.Shown:
    return act.shown(next(item for item in ACTIONS if item.path == path), names, fields)


def _asked(request: Request) -> Asked:
    return Asked(request.path_params, dict(request.query_params))
