"""Let in only the person who was given the link, from this machine, through this page."""

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from treadle.web.site import Site

STATIC = "/static/"
OPEN = ("/enter", STATIC)
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_NO_COOKIE = "this page needs the link that `treadle serve` printed; get another with:\n\n"
_NO_COOKIE += "  treadle serve --link\n"


class Gate:
    """The first thing every request meets, and the last that touches an answer."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app = app
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a good request on with our headers on its answer; refuse any other."""
        if scope["type"] != "http":
            return
        refusal = refuse(self._site, scope)
        await (refusal or self._app)(scope, receive, _guarded(send, scope["path"]))


def cookie_name(site: Site) -> str:
    """Return the cookie's name; cookies know no ports, so it carries ours."""
    return f"treadle-{site.port}"


def refuse(site: Site, scope: Scope) -> Response | None:
    """Return the answer to a request that may not come in, or None."""
    headers = Headers(scope=scope)
    hosts = {f"127.0.0.1:{site.port}", f"localhost:{site.port}"}
    if headers.get("host") not in hosts:
        return _no(421, "this name is not ours")
    if not _is_ours(headers, hosts, scope["method"]):
        return _no(403, "another site asks; only this page may")
    if scope["path"].startswith(OPEN) and scope["method"] in ("GET", "HEAD"):
        return None
    if not site.keys.opens(_cookie(headers, cookie_name(site))):
        return _no(401, _NO_COOKIE)
    if site.read_only and scope["method"] not in ("GET", "HEAD"):
        return _no(403, "this page is served with --read-only")
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
