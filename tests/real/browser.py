"""A real browser on a really served page; whatever goes wrong there is written down."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

ARTIFACTS = Path(__file__).parents[2] / ".ci" / "artifacts" / "page"
WIDTHS = (360, 1600)
PATIENCE = 120  # seconds: only what never comes should need so many
QUIET = (
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


# What a string brought to life: handlers in the page, or names in its window.
_ACTIVE = """() => [
    ...[...document.querySelectorAll("*")].filter((it) => [...it.attributes].some(
        (a) => a.name.startsWith("on") || a.name.startsWith("hx-on"))).map((it) => it.outerHTML),
    ...Object.keys(window).filter((name) => name.includes("xss"))]"""


def program():
    """Return the browser that is installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def chrome():
    """Start Chromium, or skip loudly."""
    if program() is None:
        pytest.skip("chromium is NOT INSTALLED: apt-get install chromium")
    with launched() as browser:
        yield browser


@contextmanager
def launched():
    """Start Chromium."""
    # Only the real suite's environment has it; this module is imported without it too.
    with pytest.importorskip("playwright.sync_api").sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program(), args=list(QUIET), timeout=PATIENCE * 1000
        )
        yield browser
        browser.close()


@contextmanager
def shown(chrome, root, *options, env=None):
    """Serve a project and open it in a tab."""
    with served(root, *options, env=env) as (url, link, _):
        yield Screen(chrome, url, link)


@contextmanager
def served(root, *options, env=None, port=0, stderr=None):
    """Serve a project; yields its address, a fresh link and the process."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "treadle",
            "serve",
            "--no-work",
            f"--port={port}",
            "--json",
            *options,
        ],
        cwd=root,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )
    said = json.loads(process.stdout.readline())
    try:
        yield said["url"].rstrip("/"), said["link"], process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
        process.stdout.close()


def free_port():
    """Return a port that nobody gets who asks for any: it is still free when used again."""
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.sample(range(low // 2, low), low // 2):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def scriptless(chrome, link):
    """Open a tab without scripts and come in by a link."""
    page = chrome.new_context(java_script_enabled=False).new_page()
    page.set_default_timeout(PATIENCE * 1000)
    page.goto(link)
    # The link's page goes on by itself, and would go on in the middle of the next visit.
    page.locator("main h1").first.wait_for()
    page.wait_for_load_state()
    return page


class Screen:
    """One tab: goes to pages, keeps what went wrong and whom it asked."""

    def __init__(self, browser, url, link, width=1600):
        self.url = url
        self.wrong = []
        self.asked = set()
        context = browser.new_context(viewport={"width": width, "height": 1000})
        context.set_default_timeout(PATIENCE * 1000)
        self.page = context.new_page()
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", self._dialog)
        self.page.on("request", lambda request: self.asked.add(request.url.split("/")[2]))
        self.page.goto(link)
        # The link's page goes on by itself.
        self.page.wait_for_selector("#live[data-state=live]")

    def go(self, path):
        self.page.goto(self.url + path)
        self.page.wait_for_selector("#live[data-state=live]")
        return self.page

    def shoot(self, name):
        """Keep a picture at every width, light and dark; say where the page is too wide."""
        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        wide = []
        for width, scheme in zip(WIDTHS, ("dark", "light"), strict=True):
            self.page.set_viewport_size({"width": width, "height": 1000})
            self.page.emulate_media(color_scheme=scheme)
            self.page.screenshot(path=ARTIFACTS / f"{name}-{width}.png", full_page=True)
            if self.page.evaluate("document.documentElement.scrollWidth") > width:
                wide.append(width)
        return wide

    def check(self):
        """See that nothing went wrong and nobody else was asked."""
        assert self.wrong == []
        assert self.asked == {self.url.split("/")[2]}

    @property
    def active(self):
        """Return what a string brought to life."""
        return self.page.evaluate(_ACTIVE)

    def _console(self, message):
        if message.type in ("error", "warning"):
            self.wrong.append(f"{message.text} at {message.location.get('url')}")

    def _dialog(self, dialog):
        self.wrong.append(f"a dialog: {dialog.message}")
        dialog.dismiss()
