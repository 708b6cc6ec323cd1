"""Health: whether everything is there that treadle needs, and what it keeps on this machine."""

import os
from itertools import islice
from pathlib import Path

from treadle.engine import health, lock
from treadle.errors import TreadleError
from treadle.files import walk
from treadle.ids import is_run_id
from treadle.project.context import workspaces
from treadle.store import address
from treadle.store.store import Reader
from treadle.web.site import Document, Site, WebRequest

_MOST = 20_000  # entries of a workspace that are counted


def document(site: Site, asked: WebRequest) -> Document:
    """Return what `treadle doctor --json` does."""
    return health.health_document(health.examine(site.project.layout.root, site.project.env))


def view(site: Site, asked: WebRequest, found: Document) -> Document:
    """Add what takes space, and who holds the lock."""
    layout = site.project.layout
    with site.store() as store:
        kept = [_kept(store, path) for path in _workspaces(site)]
        running = store.running()
    files = [layout.database, *layout.home.glob(f"{layout.database.name}-*")]
    return {
        "kept": kept,
        "total": sum(int(str(item["size"])) for item in kept),
        "running": running,
        "holder": lock.holder(layout.run_lock),
        "store": address.find(layout).name,
        "store_size": sum(map(_length, files)),
    }


def _workspaces(site: Site) -> list[Path]:
    try:
        root = workspaces(site.project)
    except TreadleError:
        return []
    return [root / name for name in sorted(walk.names(root), reverse=True) if is_run_id(name)]


def _kept(store: Reader, path: Path) -> dict[str, object]:
    row = store.run(path.name)
    size, is_more = _size(path)
    status = row.status if row else None
    return {"run_id": path.name, "status": status, "size": size, "is_more": is_more}


def _size(folder: Path) -> tuple[int, bool]:
    """Add up what lies below a folder, as far as one cares to wait."""
    files = (Path(place, name) for place, _, names in os.walk(folder) for name in names)
    sizes = [_length(path) for path in islice(files, _MOST + 1)]
    return sum(sizes[:_MOST]), len(sizes) > _MOST


def _length(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
