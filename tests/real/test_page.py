"""The page in a real browser."""

import json
import os
import re
import resource
import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.builder import wait_for
from tests.real import browser
from tests.real.browser import PATIENCE, Screen, chrome
from tests.web import world
from treadle.layout import serve_socket
from treadle.web.live import MAX_STREAMS

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("browser"), pytest.mark.timeout(600)]

__all__ = ["chrome"]

PATCH = """diff --git a/cart.py b/cart.py
--- a/cart.py
+++ b/cart.py
@@ -1,3 +1,2 @@
 def total(items):
-    result = 0
-    return result
+    return sum(items)
diff --git a/done.txt b/done.txt
new file mode 100644
--- /dev/null
+++ b/done.txt
@@ -0,0 +1 @@
+done
"""
SLOW = """
for n in range(100_000):
    sys.stderr.write(f"line {n}\\n"); sys.stderr.flush()
    if (pathlib.Path(%r)).exists(): break
    time.sleep(.03)
ok("waited")
"""

# What an agent might try: the socket that gives out links, its folder, the page itself.
STEAL = """
import socket, urllib.request, urllib.error
loot = {}
try:
    client = socket.socket(socket.AF_UNIX); client.connect(%r); loot["socket"] = "open"
except OSError:
    loot["socket"] = "refused"
try:
    loot["folder"] = os.listdir(os.path.dirname(%r)) or "refused"
except OSError:
    loot["folder"] = "refused"
try:
    loot["page"] = urllib.request.urlopen(%r + "/runs").status
except urllib.error.HTTPError as error:
    loot["page"] = error.code
write("files/loot", json.dumps(loot)); ok(files=["files/loot"])
"""


@pytest.fixture
def shop(project, tmp_path):
    """A project with a passed, a stopped and a failed run; `release` lets a slow one go on."""
    (project.root / "cart.py").write_text("def total(items):\n    result = 0\n    return result\n")
    project.git("add", ".")
    project.git("commit", "-q", "-m", "Add a cart")
    project.good_agents()
    project.agent(
        "plan", r'sys.stderr.write("\x1b[31mred\x1b[0m\n"); write("plan.md", "# P"); ok()'
    )
    project.agent("act", f'write("patch.diff", {PATCH!r}); ok("sum", files=["patch.diff"])')
    return project


def runs(project):
    return project.treadle("runs", "list", "--json").json["runs"]


def test_every_page_stands_at_both_widths_and_asks_nobody_else(shop, chrome):
    done = shop.run_json("--verify", "AC1=test -f done.txt")["run_id"]
    shop.treadle("task", "add", "Write the docs", "--verify", "AC1=test -f docs.md")
    stuck = ("--verify", "AC1=test -f never", "--budget", "max_iterations=2")
    stopped = shop.run_json(*stuck)["run_id"]
    pages = {
        "runs": "/runs",
        "run": f"/runs/{done}",
        "stopped": f"/runs/{stopped}",
        "step": f"/runs/{done}/steps/4",
        "check": f"/runs/{done}/steps/3",
        "plan": f"/runs/{done}/steps/1",
        "events": f"/runs/{done}/events",
        "health": "/health",
    }
    with browser.shown(chrome, shop.root) as screen:
        for name, path in pages.items():
            screen.go(path)
            assert screen.shoot(name) == [], name
        walk_by_keys(
            screen.go("/runs"), done, lambda: shop.run_json("--verify", "AC1=true", "--anyway")
        )
        screen.check()


def walk_by_keys(page, older, add):
    """Filter, go down, up and down again, and open the second row, which a new one moves down."""
    page.keyboard.press("/")
    page.keyboard.type("Make")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs?q=Make*")
    for key in ("j", "j", "k", "j"):
        page.keyboard.press(key)
    add()
    page.wait_for_selector("#runs tr:nth-child(3) .state.passed")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{older}")


def test_a_run_appears_and_moves_without_reload(shop, chrome, tmp_path):
    shop.agent("do", SLOW % str(tmp_path / "go"))
    with browser.shown(chrome, shop.root) as screen:
        page = screen.go("/runs")
        page.evaluate("window.same = true")
        process = shop.start("run", "--goal", "Make done.txt", "--verify", "AC1=test -f done.txt")
        page.wait_for_selector("tr:has-text('Make done.txt') .state.running")
        tab = Screen(chrome, screen.url, link_of(shop)).go(f"/runs/{runs(shop)[0]['run_id']}")
        tab.wait_for_selector(".timeline .bar.running")
        tab.wait_for_selector("#log pre:has-text('line 3')")
        a_log_only_grows(tab)
        (tmp_path / "go").write_text("")
        page.wait_for_selector("tr:has-text('Make done.txt') .state.passed")
        tab.wait_for_selector("#acts button:has-text('Land')")
        wait_for(lambda: tab.locator(".timeline .bar").count() == 7)
        assert page.evaluate("window.same")
        process.communicate(timeout=120)
        screen.check()


def a_log_only_grows(page):
    """Select words of it and scroll up: both stay as they are while more is written."""
    log = "document.querySelector('#log pre')"
    page.evaluate(f"getSelection().setBaseAndExtent({log}.firstChild, 0, {log}.firstChild, 6)")
    wait_for(lambda: page.evaluate(f"{log}.scrollHeight > {log}.clientHeight + 100"), PATIENCE)
    assert page.evaluate("String(getSelection())") == "line 0"
    page.evaluate(f"{log}.scrollTop = 0")
    page.locator(".jump").wait_for()
    length = page.evaluate(f"{log}.textContent.length")
    wait_for(lambda: page.evaluate(f"{log}.textContent.length > {length}"), PATIENCE)
    assert page.evaluate(f"{log}.scrollTop") == 0
    assert page.evaluate("String(getSelection())") == "line 0"
    page.locator(".jump").click()
    wait_for(lambda: page.evaluate(f"{log}.scrollTop > 50"), PATIENCE)
    page.locator(".jump").wait_for(state="hidden")


def link_of(project):
    return project.treadle("serve", "--link", "--json").json["link"]


def test_a_run_is_started_stopped_resumed_and_landed_from_the_page(shop, chrome, tmp_path):
    judge = 'verdict("PASS" if done else "FAIL", AC1=done, AC2=True); ok()'
    shop.agent("check", f'done = (repo / "done.txt").exists(); {judge}')
    shop.agent("do", SLOW % str(tmp_path / "go"))
    with browser.shown(chrome, shop.root) as screen:
        page = screen.go("/runs")
        page.fill("[name=goal]", "Make done.txt")
        page.fill("[name=command]", "test -f done.txt")
        page.click("#more-criteria summary")
        page.fill("[aria-label='Criterion 2']", "nothing else breaks")
        page.fill("[aria-label='Command 2']", "true")
        page.locator("[name=budget]").first.fill("max_moons=3")
        page.click("button:has-text('Start')")
        page.wait_for_selector(".said.bad:has-text('no such budget')")
        assert page.input_value("[aria-label='Command 2']") == "true"  # what was refused stays
        page.locator("[name=budget]").first.fill("max_iterations=3")
        page.click("button:has-text('Start')")
        page.wait_for_selector(".said.good:has-text('treadle run')")
        page.wait_for_selector(".state.running")
        page.click("td.goal a")
        page.wait_for_selector(".timeline .bar.running")
        page.wait_for_selector("#acts:has-text('of 3'):has-text('criteria 0 of 2')")
        page.click("button:has-text('Stop')")
        page.wait_for_selector("#acts button:has-text('Resume')")
        (tmp_path / "go").write_text("")
        page.click("button:has-text('Resume')")
        page.wait_for_selector("#done .said.good:has-text('passed: every criterion passed')")
        page.click("#acts button:has-text('Land')")
        page.click("#acts button:has-text('Undo')")
        page.wait_for_selector("#summary:has-text('undone by')")
        screen.check()


def test_hostile_words_do_nothing_in_a_browser(chrome, tmp_path):
    site = world.site(tmp_path, (" ".join(world.XSS), *world.XSS[::6]))
    spoil(site.project.layout.run(world.RUN).steps)
    base = f"/runs/{world.RUN}"
    pages = ["/desk", "/runs", "/board", "/missions/auth", "/mail", "/inbox", "/cost", "/health"]
    pages += [base, f"{base}/events", *(f"{base}/steps/{number}" for number in range(1, 5))]
    with browser.shown(chrome, site.project.layout.root, env=site.project.env) as screen:
        for path in pages:
            page = screen.go(path)
            page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
            assert screen.active == []
        screen.check()


def spoil(steps: Path):
    """Fill every step's logs, verdict, patch and names of files with hostile words."""
    lines = "\n".join(world.XSS)
    patch = "".join(f"+{line}\n" for line in world.XSS)
    for folder in steps.iterdir():
        (folder / "logs").mkdir(exist_ok=True)
        for name in ("stderr.txt", "stdout.txt", "prompt.md"):
            (folder / "logs" / name).write_text(lines)
        (folder / "scorecard.md").write_text(lines)
        (folder / "verdict.json").write_text(json.dumps({"criteria": world.XSS}))
        head = f"--- /dev/null\n+++ b/{world.XSS[0]}\n@@ -0,0 +1,{len(world.XSS)} @@\n"
        (folder / "patch.diff").write_text(head + patch)
        for word in world.XSS:
            (folder / re.sub("[/\0]", "_", word)[:80]).write_text(word)


def test_an_agent_gets_no_link(project):
    if project.treadle("doctor", "--json").json["sandbox"]["tier"] == "0":
        pytest.skip("there is NO SANDBOX here")
    place = str(serve_socket(os.environ, project.root))
    project.good_agents()
    with browser.served(project.root) as (url, _, _):
        project.agent("do", STEAL % (place, place, url))
        run = project.run_json("--verify", "AC1=true", "--anyway")["run_id"]
    found = json.loads((project.step_dir(run, "002-do") / "files" / "loot").read_text())
    assert found == {"socket": "refused", "folder": "refused", "page": 401}


def test_five_hundred_streams_cost_little_memory(project):
    with browser.served(project.root) as (url, link, process):
        host, port = url.removeprefix("http://").split(":")
        cookie = re.search("set-cookie: ([^;]+)", ask(host, port, link.split(port)[1])).group(1)
        ask(host, port, "/runs", cookie)
        before = rss(process.pid)
        clients = [stream(host, port, cookie) for _ in range(500)]
        heads = [client.recv(200).decode().split(" ")[1] for client in clients]
        assert heads.count("200") == MAX_STREAMS
        assert heads.count("200") + heads.count("503") == 500
        assert rss(process.pid) - before <= 50_000
        for client in clients:
            client.close()
        wait_for(lambda: "200" in try_stream(host, port, cookie))


def test_idle_strangers_shut_nobody_out(project, tmp_path):
    """With 1,024 files for the server, 1,200 who connect and say nothing, or half of a request."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    said = tmp_path / "stderr"
    try:
        with said.open("wb") as errors, browser.served(project.root, stderr=errors) as known:
            url, link, process = known
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (1024, 1024))
            host, port = url.removeprefix("http://").split(":")
            cookie = re.search("set-cookie: ([^;]+)", ask(host, port, link.split(port)[1])).group(1)
            strangers = [socket.create_connection((host, int(port)), PATIENCE) for _ in range(1200)]
            for stranger in strangers[::2]:
                with suppress(OSError):
                    stranger.sendall(b"GET / HTTP/1.1\r\nHost: x")
            began = time.monotonic()
            assert " 200 " in ask(host, port, "/runs", cookie)[:20]
            took = time.monotonic() - began
            assert link_of(project).startswith(url)
            # Those that were not sent away at once are before long.
            wait_for(lambda: len(os.listdir(f"/proc/{process.pid}/fd")) < 64)
            for stranger in strangers:
                stranger.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert took < 2
    assert said.read_text().count("\n") < 5, said.read_text()[:2000]


def try_stream(host, port, cookie):
    with stream(host, port, cookie) as client:
        return client.recv(200).decode().split("\r\n")[0]


def ask(host, port, path, cookie=""):
    with socket.create_connection((host, int(port)), PATIENCE) as client:
        client.sendall(request(host, port, path, cookie))
        found = b""
        while chunk := client.recv(1 << 16):
            found += chunk
        return found.decode().replace("Set-Cookie", "set-cookie")


def stream(host, port, cookie):
    client = socket.create_connection((host, int(port)), PATIENCE)
    client.sendall(request(host, port, "/stream", cookie, "keep-alive"))
    return client


def request(host, port, path, cookie, connection="close"):
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}:{port}", f"Connection: {connection}"]
    return "\r\n".join([*lines, f"Cookie: {cookie}", "", ""]).encode()


def rss(pid):
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text).group(1))
