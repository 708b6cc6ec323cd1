"""Words of anybody, wherever they stand, are words on a page and nothing else."""

import json
import re
from html.parser import HTMLParser

import pytest

from tests.hostile_text import STORED, found_acting
from tests.web import world
from tests.web.test_project import entered
from treadle.proc import identity

# All of them at once, and some alone where length is limited.
TEXTS = (" ".join(world.XSS), *world.XSS[::12])
PAGES = (
    *("/desk", "/runs", "/board", "/missions", "/missions/auth", "/mail", "/inbox", "/cost"),
    *("/health", f"/runs/{world.RUN}", f"/runs/{world.RUN}/steps/1", f"/runs/{world.RUN}/events"),
    *(f"/runs/{world.RUN}/{tab}" for tab in ("steps", "changes", "log")),
    *("/tasks/T-1", "/conflicts", "/fleet", "/desk/Q-2"),
    f"/runs/{world.RUN}/log?file=steps/001-plan/logs/&q=__xss",
    f"/compare?run={world.RUN}&run={world.RUN[:-1]}b",
)
QUIET = ("/cost", "/health", "/conflicts", "/fleet")  # they show numbers and names of ours
OURS = {f"/static/{it}.js" for it in ("htmx", "sse", "patch", "treadle", "run", "palette")}
LOADS = ("src", "href", "action", "formaction", "data", "srcdoc", "xlink:href")
NEVER = {"iframe", "object", "embed", "base", "style", "math", "video", "audio", "template"}


class Elements(HTMLParser):
    """Collect what a browser could act on and we have not put there."""

    def __init__(self, text):
        super().__init__()
        self.active = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = {name: value or "" for name, value in attrs}
        acts = any(name.startswith(("on", "hx-on", "style")) for name in found)
        strange = any(not _is_ours(tag, found[name]) for name in LOADS if name in found)
        foreign = tag == "script" and found.get("src") not in OURS
        if tag in NEVER or acts or strange or foreign:
            self.active.append((tag, found))


def _is_ours(tag, value):
    if tag == "a" and value.startswith(("http://", "https://")):
        return True  # from markdown; it does nothing until somebody follows it
    return value.startswith(("/", "#")) and not value.startswith("//")


@pytest.fixture(scope="module")
def look(tmp_path_factory):
    return entered(waited_for(world.site(tmp_path_factory.mktemp("hostile"), TEXTS), TEXTS))


def waited_for(site, texts):
    """Let commands of these words wait for the lock, and a step have printed on both streams."""
    layout = site.project.layout
    layout.waiters.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(texts):
        note = {"identity": identity.current().encode(), "line": text, "since": text, "pid": text}
        (layout.waiters / f"wait-{number:06x}.json").write_text(json.dumps(note))
    logs = layout.run(world.RUN).step(1, "plan") / "logs"
    said = " ".join(texts)
    for name in ("stdout.txt", "stderr.txt"):
        (logs / name).write_text(f"{said}\n")
    noted = [["stdout.txt", len(said.encode()) + 1, 1.0], ["stderr.txt", 9, 2.0]]
    (logs / "growth.jsonl").write_text("".join(json.dumps(it) + "\n" for it in noted))
    return site


def test_the_instrument_sees_what_is_active():
    raw = [text for text in world.XSS if text.startswith("<")]
    assert sum(bool(Elements(text).active) for text in raw) > len(raw) * 0.8


@pytest.mark.parametrize("path", PAGES)
def test_no_page_becomes_active(look, path):
    found = look.get(path)
    assert found.status_code == 200
    assert "__xss" in found.text or path in QUIET
    assert Elements(found.text).active == []


def test_no_letter_becomes_active(look):
    for letter in look.get("/mail.json").json()["letters"]:
        found = look.get(f"/mail/{letter['file'].rpartition('/')[2]}")
        assert Elements(found.text).active == []


@pytest.fixture(scope="module")
def turned(tmp_path_factory):
    texts = (" ".join(STORED), *STORED)
    return entered(waited_for(world.site(tmp_path_factory.mktemp("turned"), texts), STORED))


@pytest.mark.parametrize("path", PAGES)
def test_nothing_turns_or_hides_on_a_page(turned, path):
    found = turned.get(path)
    assert found.status_code == 200
    shown = re.sub('<input type="hidden"[^>]*>', "", found.text)  # what an action needs as it is
    assert not found_acting(shown)
    assert "\\u202e" in found.text or path in QUIET


def test_nothing_turns_or_hides_in_a_letter(turned):
    letters = turned.get("/mail.json").json()["letters"]
    assert letters
    for letter in letters:
        assert not found_acting(turned.get(f"/mail/{letter['file'].rpartition('/')[2]}").text)
