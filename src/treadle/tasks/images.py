"""Images of a task: checked, copied beside the project's records, and handed to its runs."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from treadle.errors import FormatError, UsageError
from treadle.files import atomic, beneath, walk
from treadle.layout import Layout

MAX_IMAGES = 10
MAX_BYTES = 5 << 20  # what the services of the tools take
# What each kind begins with, and the ending that tools know it by.
_KINDS = {
    "png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "jpg": re.compile(rb"\xff\xd8\xff"),
    "gif": re.compile(rb"GIF8[79]a"),
    "webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
}
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")


def load(paths: Sequence[Path]) -> dict[str, bytes]:
    """Return the images by the names that they get here, or say what is wrong with one."""
    if len(paths) > MAX_IMAGES:
        raise UsageError(f"--image: a task takes at most {MAX_IMAGES} images, not {len(paths)}")
    try:
        found = [(path, *_read(path)) for path in paths]
    except FormatError as error:
        raise UsageError(f"--image: {error.message}") from error
    return {
        f"{number}-{_UNFIT.sub('-', path.stem)[:40]}.{kind}": data
        for number, (path, kind, data) in enumerate(found, 1)
    }


def keep(layout: Layout, task_id: str, images: Mapping[str, bytes]) -> None:
    """Give a task that is about to be added these images, and none that a killed try left.

    Nobody looks there before there is a task of this name.
    """
    folder = layout.images / task_id
    beneath.remove_tree(folder)
    if images:
        folder.mkdir(parents=True)
    for name, data in images.items():
        atomic.write(folder / name, data)


def names(layout: Layout, task_id: str) -> list[str]:
    """Return what a task's images are called; a clone may bring a link to other folders."""
    folder = layout.images / task_id
    return sorted(walk.names(folder))[:MAX_IMAGES] if walk.is_folder(folder) else []


def of_task(layout: Layout, task_id: str) -> dict[str, bytes]:
    """Return a task's images by name; what has been put there otherwise is left out."""
    found = {}
    for name in names(layout, task_id):
        try:
            found[name] = _read(layout.images / task_id / name)[1]
        except FormatError:
            continue
    return found


def _read(path: Path) -> tuple[str, bytes]:
    data = walk.read(path, max_bytes=MAX_BYTES)
    kind = next((kind for kind, begins in _KINDS.items() if begins.match(data)), None)
    if kind is None:
        raise FormatError(f"{path.name} is not an image; known are {', '.join(_KINDS)}")
    return kind, data
