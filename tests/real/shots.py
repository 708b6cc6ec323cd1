"""Write pictures of every page with real data: light and dark, at four widths."""

import os
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from tests.real import browser
from tests.real.shop import CENTS, IMPORT, TAX, Shop

WIDTHS = (360, 768, 1280, 1600)
DOCS = Path(__file__).parents[2] / "docs" / "page"
TELLING = ("run", "changes", "desk-approval", "runs", "board", "cost")


def pages(shop: Shop) -> dict[str, str]:
    """Return where each page is, by the name of its pictures."""
    tax, cents, working = (f"/runs/{shop.runs[goal]}" for goal in (TAX, CENTS, IMPORT))
    both = "&".join(f"run={shop.runs[goal]}" for goal in (TAX, CENTS))
    found = {
        "run": tax,
        "run-working": working,
        "run-passed": cents,
        "changes": f"{cents}/changes",
        "log": f"{tax}/log?step=2&q=total",
        "steps": f"{tax}/steps",
        "step": f"{tax}/steps/3",
        "events": f"{tax}/events",
        "compare": f"/compare?{both}",
        "desk-approval": f"/desk/{shop.item('approval')}",
        "task": "/tasks/T-2",
        "mission": "/missions/auth",
        "letter": f"/mail/{shop.letter('HELD')}",
    }
    names = ("desk", "runs", "board", "conflicts", "missions", "mail", "inbox", "cost", "fleet")
    return found | {name: f"/{name}" for name in (*names, "health")}


def main() -> int:
    """Take all of them; a page that scrolls sideways is named, and counts as a failure."""
    is_docs = sys.argv[1:] == ["--docs"]
    folder = DOCS if is_docs else Path(*sys.argv[1:] or [".ci/artifacts/shots"])
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # Health would speak of it
    with tempfile.TemporaryDirectory() as home, closing(Shop(Path(home))) as shop:
        wide = take(shop.fill().work(), folder, is_docs)
    print("\n".join(wide) or f"the pictures are in {folder}")
    return bool(wide)


def take(shop: Shop, folder: Path, is_docs: bool = False) -> list[str]:
    """Take every page of a shop, or those of the docs; return which are too wide, and where."""
    with (
        browser.launched() as chrome,
        browser.shown(chrome, shop.root, env=shop.env) as screen,
    ):
        found = pages(shop).items()
        if is_docs:
            for name, path in (it for it in found if it[0] in TELLING):
                screen.go(path).set_viewport_size({"width": 1100, "height": 760})
                screen.page.screenshot(path=folder / f"{name}.png")
            return []
        return [line for name, path in found for line in shoot(screen, folder, name, path)]


def shoot(screen: browser.Screen, folder: Path, name: str, path: str) -> list[str]:
    """Take one page; return where it is too wide."""
    page, wide = screen.go(path), []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=True)
        if page.evaluate("document.documentElement.scrollWidth") > width:
            wide.append(f"{path} is too wide at {width}")
    return wide


if __name__ == "__main__":
    sys.exit(main())
