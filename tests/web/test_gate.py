"""Nobody gets in but the person with the link, from this machine, through this page."""

import asyncio

import pytest

from tests.web.conftest import URL, Client
from treadle.web import app

STOP = "/runs/20260101-000000-000000/stop"
OURS = {"origin": URL}


def test_without_the_cookie_there_is_nothing(stranger):
    for path in ("/", "/runs", "/runs.json", "/stream", "/nowhere"):
        found = stranger.get(path)
        assert (found.status_code, "treadle serve --link" in found.text) == (401, True)
    assert stranger.post(STOP, headers=OURS).status_code == 401


def test_a_link_works_once_and_sets_a_strict_cookie(site, stranger):
    key = site.keys.new_link()
    first = stranger.get("/enter", params={"key": key})
    said = first.headers["set-cookie"].lower()
    assert first.status_code == 200
    assert "httponly" in said
    assert "samesite=strict" in said
    assert stranger.get("/runs").status_code == 200
    assert stranger.get("/enter", params={"key": key}).status_code == 401


def test_a_look_at_a_link_does_not_use_it_up(site, stranger):
    key = site.keys.new_link()
    assert stranger.request("HEAD", "/enter", params={"key": key}).status_code == 200
    assert not stranger.cookies
    assert stranger.get("/enter", params={"key": key}).status_code == 200


def test_a_form_that_never_ends_is_given_up(browser, monkeypatch):
    monkeypatch.setattr(app, "_BODY", 0.05)

    async def trickle():
        yield b"text=a"
        await asyncio.sleep(5)

    found = browser.post(STOP, headers=OURS, content=trickle())
    assert (found.status_code, "the form took over" in found.text) == (409, True)


@pytest.mark.parametrize("key", ["", "x", "é", "x" * 10_000])
def test_a_wrong_key_opens_nothing(site, stranger, key):
    site.keys.new_link()
    assert stranger.get("/enter", params={"key": key}).status_code == 401
    assert not stranger.cookies


@pytest.mark.parametrize(
    "host", ["evil.example:7717", "127.0.0.1:80", "127.0.0.1", "", "[::1]:7717"]
)
def test_another_host_name_is_refused(browser, host):
    assert browser.get("/runs", headers={"host": host}).status_code == 421
    assert browser.get("/static/htmx.js", headers={"host": host}).status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "null"},
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "http://localhost:7717"},
        {"origin": "https://127.0.0.1:7717"},
        {"origin": URL, "sec-fetch-site": "cross-site"},
        {"origin": URL, "sec-fetch-site": "same-site"},
    ],
    ids=str,
)
def test_an_action_from_elsewhere_is_refused(browser, headers):
    assert browser.post(STOP, headers=headers).status_code == 403


def test_a_read_from_another_origin_is_refused(browser):
    assert browser.get("/runs.json", headers={"origin": "http://evil.example"}).status_code == 403
    assert browser.get("/stream", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert "access-control-allow-origin" not in browser.get("/runs.json").headers


@pytest.mark.parametrize("path", ["/runs", "/runs.json", "/static/treadle.js", "/nowhere"])
def test_every_answer_has_the_policy(browser, path):
    headers = browser.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"  # or forms would not say where they are


def test_a_read_only_page_refuses_every_post(site, browser):
    only = Client(site._replace(read_only=True), browser.cookies)
    assert only.get("/runs").status_code == 200
    assert only.post(STOP, headers=OURS).status_code == 403
    assert only.request("DELETE", "/runs", headers=OURS).status_code == 403


@pytest.mark.parametrize(
    "cookie", ["", "treadle-7717=", "treadle-7717=x", 'treadle-7717="', "\x00;;=é"]
)
def test_a_broken_cookie_is_no_cookie(stranger, cookie):
    headers = {"cookie": cookie.encode("latin-1")}
    assert stranger.get("/runs", headers=headers).status_code == 401


def test_the_cookie_of_another_port_is_another(site):
    assert app.cookie_name(site) != app.cookie_name(site._replace(port=1))
