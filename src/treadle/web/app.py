"""Put pages, their JSON twins, actions and the stream behind the gate."""

import asyncio
import gc
import json
import logging
import secrets
import socket
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import msgspec
import uvicorn
from jinja2 import Environment
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from treadle.engine.show import figures
from treadle.errors import BlockedError, NotFoundError, StoreError, TreadleError
from treadle.files import beneath
from treadle.layout import serve_doors
from treadle.sandbox.mask import Mask
from treadle.web import access, actions, connections, render
from treadle.web.actions import ACTIONS, PAGES, Said
from treadle.web.live import Feed
from treadle.web.pressed import Pressed
from treadle.web.site import Document, Page, PageAction, Readers, Recent, Site, WebRequest

STATIC = "/static/"
OPEN = ("/enter", STATIC)
METRICS = "/metrics"
_METRICS_TOKEN = "TREADLE_METRICS_TOKEN"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_NO_COOKIE = "this page needs the link that `treadle serve` printed; get another with:\n\n"
_NO_COOKIE += "  treadle serve --link\n"


class PageGate:
    """The first thing every request meets, and the last that touches an answer."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app = app
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a good request on with our headers on its answer; refuse any other."""
        if scope["type"] != "http":
            return
        refusal = refuse_request(self._site, scope)
        await (refusal or self._app)(scope, receive, _guarded(send, scope["path"]))


def cookie_name(site: Site) -> str:
    """Return the cookie's name; cookies know no ports, so it carries ours."""
    return f"treadle-{site.port}"


def refuse_request(site: Site, scope: Scope) -> Response | None:
    """Return the answer to a request that may not come in, or None."""
    headers = Headers(scope=scope)
    hosts = {f"127.0.0.1:{site.port}", f"localhost:{site.port}"}
    if headers.get("host") not in hosts:
        return _no(421, "this page is not served under that name")
    if not _is_ours(headers, hosts, scope["method"]):
        return _no(403, "requests from other sites are refused")
    if scope["path"].startswith(OPEN) and scope["method"] in ("GET", "HEAD"):
        return None
    if scope["path"] == METRICS and scope["method"] in ("GET", "HEAD"):
        return _refuse_scraper(site, headers)
    if not site.keys.opens(_cookie(headers, cookie_name(site))):
        return _no(401, _NO_COOKIE)
    if site.read_only and scope["method"] not in ("GET", "HEAD"):
        return _no(403, "this page is served with --read-only")
    return None


def _refuse_scraper(site: Site, headers: Headers) -> Response | None:
    """Let programs on this machine read figures; where there is a token, those that have it."""
    token = site.project.env.get(_METRICS_TOKEN, "")
    said = headers.get("authorization", "").partition(" ")[2].strip()
    if token and not secrets.compare_digest(said.encode(), token.encode()):
        return _no(401, f"this needs the header Authorization: Bearer and {_METRICS_TOKEN}")
    return None


def _is_ours(headers: Headers, hosts: set[str], method: str) -> bool:
    """A browser names where a request comes from; one that changes something must say so."""
    origin = headers.get("origin")
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return method in ("GET", "HEAD") and headers.get("sec-fetch-mode") == "navigate"
    if origin is None:
        return method in ("GET", "HEAD")
    return origin in {f"http://{host}" for host in hosts} and origin == f"http://{headers['host']}"


def _cookie(headers: Headers, name: str) -> str:
    pairs = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
    return next((value for key, _, value in pairs if key == name), "")


def _no(status: int, text: str) -> Response:
    return PlainTextResponse(f"{text}\n", status_code=status)


def _guarded(send: Send, path: str) -> Send:
    kept = b"no-cache" if path.startswith(STATIC) else b"no-store"
    ours = [*_HEADERS, (b"cache-control", kept)]

    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *ours]
        await send(message)

    return guarded


_HOME = "/desk"
_MAX_FORM = 1 << 20
_BODY = 30  # seconds for a form to come
_MAX_FILE = 32 << 20


def build(site: Site) -> ASGIApp:
    """Return the whole application."""
    readers, mask = Readers(site.project.layout), Mask(site.project.secrets)
    site = site._replace(readers=readers, mask=mask, doctor=Recent(60), fleet=Recent(5))
    site = site._replace(settings=Recent(1))
    templates, pressed = render.environment(), Pressed()
    templates.globals |= {
        "nav": [page for page in PAGES if page.label],
        "read_only": site.read_only,
        "project": site.project.layout.root.name,
        "action": _shown,
        "pressed": lambda: [actions.said(it, site) for it in pressed.at_work()],
    }
    feed = Feed(site.project.layout)
    routes = [
        Route("/", _home),
        Route("/enter", partial(_enter, site, templates)),
        Route("/stream", partial(_stream, feed)),
        Route(METRICS, partial(_metrics, site)),
        Route("/runs/{run}/files/{path:path}", partial(_file, site)),
        *(Route(f"{page.path}.json", partial(_json, site, page)) for page in PAGES),
        *(Route(page.path, partial(_page, site, templates, page)) for page in PAGES),
        *(
            Route(action.path, partial(_act, site, templates, pressed, action), methods=["POST"])
            for action in ACTIONS
        ),
        Route("/pressed/{command}", partial(_follow, site, templates, pressed)),
        Route("/pressed/{command}/cancel", partial(_cancel, templates, pressed), methods=["POST"]),
        Mount("/static", StaticFiles(directory=render.STATIC)),
    ]
    handlers = {TreadleError: partial(_failed, templates)}
    app = Starlette(routes=routes, exception_handlers=handlers)
    return PageGate(app, site)


async def _home(request: Request) -> Response:
    return RedirectResponse(_HOME)


async def _enter(site: Site, templates: Environment, request: Request) -> Response:
    """Turn a link's key into the cookie; the page then goes on by itself.

    A redirect would lose the cookie if the link was followed from another site. Whoever only looks
    at what a link is, such as a preview, does not use it up.
    """
    if request.method == "HEAD":
        return HTMLResponse()
    token = site.keys.redeem(request.query_params.get("key", ""))
    if token is None:
        used = Document(message="This link has been used already, or belongs to another page.")
        fix = {"fix": ["treadle serve --link"]}
        return HTMLResponse(templates.get_template("error.html").render(used | fix), 401)
    access.remove_doors(serve_doors(site.project.env, site.project.layout.shared))
    response = HTMLResponse(templates.get_template("enter.html").render(home=_HOME))
    response.set_cookie(cookie_name(site), token, httponly=True, samesite="strict", path="/")
    return response


async def _json(site: Site, page: Page, request: Request) -> Response:
    asked = _asked(request)
    if page.is_quick:
        found = page.document(site.reread(), asked)
    else:
        found = await run_in_threadpool(page.document, site.reread(), asked)
    return Response(_encoded(found), media_type="application/json")


def _encoded(found: Document) -> bytes:
    try:
        return msgspec.json.encode(found)
    except UnicodeEncodeError:  # a name on disk need not be text
        return json.dumps(found, default=str).encode()


async def _page(site: Site, templates: Environment, page: Page, request: Request) -> Response:
    asked = _asked(request)
    about = {"here": str(request.url.path), "have": request.headers.get("x-have", "")}
    text = await run_in_threadpool(_rendered, site, templates, page, asked, about)
    return HTMLResponse(text.encode(errors="backslashreplace"))


def _rendered(
    site: Site, templates: Environment, page: Page, asked: WebRequest, about: Mapping[str, str]
) -> str:
    site = site.reread()
    found = page.document(site, asked)
    extra = page.view(site, asked, found) if page.view else {}
    context: Document = {**about, "asked": asked.fields, "now": site.now(), "said": None}
    context["counts"] = _counts(site)
    return templates.get_template(page.template).render(context | {"doc": found} | extra)


def _counts(site: Site) -> Document:
    """Return what the navigation counts: what waits on the desk, the newest of it, what runs."""
    try:
        with site.store() as store:
            rows, running = store.desk(), store.running()
    except StoreError:
        return {"desk": 0, "newest": "", "runs": 0}
    newest = rows[-1].summary if rows else ""
    return {"desk": len(rows), "newest": newest, "runs": len(running)}


async def _act(
    site: Site, templates: Environment, pressed: Pressed, action: PageAction, request: Request
) -> Response:
    asked = WebRequest(request.path_params, await _form(request))
    said = await run_in_threadpool(actions.perform, site.reread(), pressed, action, asked)
    return _told(templates, request, said)


async def _follow(
    site: Site, templates: Environment, pressed: Pressed, request: Request
) -> Response:
    """Say how a command ended; while it goes on waiting or working there is nothing new to say."""
    said = actions.said(pressed.find(request.path_params["command"]), site)
    is_known = request.query_params.get("waiting") == str(said.is_waiting)
    if said.going and is_known and request.headers.get("hx-request"):
        return Response(status_code=204)
    return _told(templates, request, said)


async def _cancel(templates: Environment, pressed: Pressed, request: Request) -> Response:
    found = pressed.find(request.path_params["command"])
    return _told(templates, request, await run_in_threadpool(actions.cancel, found))


def _told(templates: Environment, request: Request, said: Said, status: int = 200) -> Response:
    name = "said.html" if request.headers.get("hx-request") else "acted.html"
    back = request.query_params.get("back") or _came_from(request)
    return HTMLResponse(templates.get_template(name).render(said=said, back=back), status)


def _came_from(request: Request) -> str:
    """Return the page of ours that a form was on."""
    found = urlsplit(request.headers.get("referer", ""))
    return f"{found.path}?{found.query}".rstrip("?") if found.netloc else _HOME


async def _form(request: Request) -> dict[str, str]:
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY):
            async for chunk in request.stream():
                body += chunk
                if len(body) > _MAX_FORM:
                    limit = f"a form may be at most {_MAX_FORM >> 20} MiB"
                    raise BlockedError(limit, code="form_too_large")
    except TimeoutError as error:
        raise BlockedError(f"the form took over {_BODY} s", code="form_too_slow") from error
    return _fields(parse_qsl(body.decode(errors="replace"), keep_blank_values=True))


def _fields(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return fields by name; one that is there several times has a line for each."""
    found: dict[str, str] = {}
    for name, value in pairs:
        found[name] = f"{found[name]}\n{value}" if name in found else value
    return found


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


class EventStream(StreamingResponse):
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
    return EventStream(feed, request)


async def _metrics(site: Site, request: Request) -> Response:
    def read() -> str:
        with site.store() as store:
            return figures.prometheus(store)

    text = await run_in_threadpool(read)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


async def _failed(templates: Environment, request: Request, error: Exception) -> Response:
    assert isinstance(error, TreadleError)
    status = 404 if isinstance(error, NotFoundError) else 409
    if isinstance(error, StoreError) and request.method != "POST":
        status = 503
    if request.url.path.endswith(".json"):
        found = {"code": error.code, "message": error.message, "fix": list(error.fix)}
        body = msgspec.json.encode({"error": found})
        return Response(body, status, media_type="application/json")
    if request.method == "POST":
        refused = Said(line=None, ok=False, text=error.message, fix=tuple(error.fix))
        return _told(templates, request, refused, status)
    context = {"message": error.message, "fix": error.fix}
    return HTMLResponse(templates.get_template("error.html").render(context), status)


def _shown(path: str, names: Mapping[str, str], fields: Mapping[str, str]) -> actions.Shown:
    return actions.shown_action(next(item for item in ACTIONS if item.path == path), names, fields)


def _asked(request: Request) -> WebRequest:
    return WebRequest(request.path_params, _fields(request.query_params.multi_items()))


_PAUSE = 0.2
_GRACE = 2  # seconds that open streams get


def serve_page(site: Site, server: socket.socket, stop: Callable[[], str | None]) -> None:
    """Answer browsers in this thread."""
    gc.enable()
    site = site.reread()
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = uvicorn.Config(
        build(site),
        http=connections.bounded(),
        backlog=connections.TAKEN,
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
    asyncio.get_running_loop().set_exception_handler(connections.keep_quiet)
    serving = asyncio.create_task(page.serve(sockets=[server]))
    while not page.started and not serving.done():
        await asyncio.sleep(0)
    server.listen(connections.QUEUE)
    while not stop() and not serving.done():
        await asyncio.sleep(_PAUSE)
    page.should_exit = True
    await serving
