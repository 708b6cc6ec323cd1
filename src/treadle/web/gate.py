"""Let in only the person who was given the link, from this machine, through this page."""

from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from treadle.web.site import Site

OPEN = ("/enter", "/static/")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
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
        await (refusal or self._app)(scope, receive, _guarded(send))


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
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found else ""


def _no(status: int, text: str) -> Response:
    return PlainTextResponse(f"{text}\n", status_code=status)


def _guarded(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return guarded
