"""Until a browser shows the page of 50 runs, against the same page as a static file."""

import importlib
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.request import Request, urlopen

from bench import store as stores
from bench.harness import Bench, Claim, Command, Sample
from bench.lab import REPOSITORY, Lab
from treadle.project.context import open_context
from treadle.web import access, app, render
from treadle.web.access import Keys
from treadle.web.site import Site

# Milliseconds until the first content is painted, and until the first byte has come.
_SHOWN = """() => new Promise((done) => new PerformanceObserver((list) => {
    for (const it of list.getEntriesByName("first-contentful-paint"))
        done([it.startTime, performance.getEntriesByType("navigation")[0].responseStart]);
}).observe({ type: "paint", buffered: true }))"""
_QUIET = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")


def benches(lab: Lab) -> list[Bench]:
    """Return the page of runs in a real browser, which only the real tests' packages bring."""
    root = stores.make_project(lab, lab.scratch / "first", lab.size(2_000, 200))
    command = Command(
        [sys.executable, "-m", "bench.first", str(root)], REPOSITORY, dict(os.environ)
    )

    def alternating(folder: Path) -> tuple[list[Sample], list[Sample]]:
        env = {**command.env, "ROUNDS": str(lab.size(40, 10))}
        done = subprocess.run(command.argv, cwd=command.cwd, env=env, check=True, stdout=-1)
        mine, base = json.loads(done.stdout)
        return [_sample(*it) for it in mine], [_sample(*it) for it in base]

    def byte(samples: list[Sample]) -> list[Claim]:
        shares = statistics.median(it.told["byte"] / it.wall for it in samples)
        return [Claim("share until the first byte", shares, 0.5)]

    def part(folder: Path) -> Command:
        return command

    what, floor = "50 of 2,000 runs, first content", "the same as a static file"
    return [Bench("first", what, floor, part, part, 1.5, 1.5, True, 1, byte, alternating)]


def _sample(painted: float, byte: float) -> Sample:
    return Sample(painted / 1000, painted / 1000, 0, {"byte": byte / 1000})


def _browse(root: Path) -> None:
    """Serve a project beside its page of runs as a file; let a browser show both in turns."""
    static = root.with_name("static")
    shutil.copytree(render.STATIC, static)
    render.STATIC = static
    keys, server = Keys(), access.bind_port(0)
    port = server.getsockname()[1]
    site = Site(open_context(root, os.environ), keys, port)
    Thread(target=app.serve_page, args=(site, server, lambda: None), daemon=True).start()
    url, token = f"http://127.0.0.1:{port}", keys.redeem(keys.new_link())
    cookie = {"Cookie": f"{app.cookie_name(site)}={token}"}
    (static / "runs.html").write_bytes(urlopen(Request(f"{url}/runs", headers=cookie)).read())
    times: list[list[list[float]]] = [[], []]
    with importlib.import_module("playwright.sync_api").sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=list(_QUIET)
        )
        context = browser.new_context(viewport={"width": 1280, "height": 1000})
        context.add_cookies([{"name": app.cookie_name(site), "value": token, "url": url}])
        for number in range(int(os.environ["ROUNDS"]) + 2):
            for found, path in zip(times, ("/runs", "/static/runs.html"), strict=True):
                took = _shown(context, url + path)
                found.extend([took] if number > 1 else [])  # the first fill the browser's cache
        browser.close()
    print(json.dumps(times))


def _shown(context: Any, url: str) -> list[float]:
    page = context.new_page()
    page.goto(url, wait_until="commit")
    took: list[float] = page.evaluate(_SHOWN)
    page.close()
    return took


if __name__ == "__main__":
    _browse(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)
