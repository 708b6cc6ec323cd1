"""A real browser on a really served project; it notes every complaint and every step outside."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ARTIFACTS = Path(__file__).parents[2] / ".ci" / "artifacts" / "page"
WIDTHS = (360, 1600)
_FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
_ACTIVE = """() => [...document.querySelectorAll("*")].filter((it) =>
    [...it.attributes].some((a) => a.name.startsWith("on") || a.name.startsWith("hx-on")))
    .map((it) => it.outerHTML.slice(0, 200))"""


class Tab:
    """One tab of the browser, logged in."""

    def __init__(self, page, link: str):
        self.page = page
        self.base = link.partition("/enter")[0]
        self.complaints: list[str] = []
        self.outside: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", self._dialog)
        page.on("request", self._request)
        page.goto(link)
        page.wait_for_url("**/desk")

    def open(self, path: str, width: int = 1600) -> None:
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.goto(self.base + path, wait_until="load")

    def keep(self, name: str) -> None:
        """Save what it looks like."""
        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=ARTIFACTS / f"{name}.png", full_page=True)

    @property
    def overflow(self) -> int:
        """Return by how many pixels the page is wider than the window."""
        return self.page.evaluate("document.documentElement.scrollWidth - innerWidth")

    @property
    def active(self) -> list[str]:
        """Return what a string brought to life."""
        found = self.page.evaluate(_ACTIVE)
        return [*found, *(["__xss"] if self.page.evaluate("'__xss' in window") else [])]

    def _console(self, message) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{self.page.url}: {message.text}")

    def _dialog(self, dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request) -> None:
        if not request.url.startswith(f"{self.base}/"):
            self.outside.append(request.url)


@contextlib.contextmanager
def tab(root: Path, *options: str, scheme: str = "light") -> Iterator[Tab]:
    """Serve a project and open it."""
    # Only the real suite's environment has it; this module is imported without it too.
    playwright = pytest.importorskip("playwright.sync_api")
    with served(root, *options) as link, playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=_FLAGS)
        try:
            yield Tab(browser.new_context(color_scheme=scheme).new_page(), link)
        finally:
            browser.close()


@contextlib.contextmanager
def served(root: Path, *options: str) -> Iterator[str]:
    """Run the real `treadle serve` and return its link."""
    words = [sys.executable, "-m", "treadle", "serve", "--no-work", "--port", "0", "--json"]
    with subprocess.Popen(
        [*words, *options], cwd=root, env=os.environ, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            yield json.loads(server.stdout.readline())["link"]
        finally:
            server.terminate()
            server.wait(20)
