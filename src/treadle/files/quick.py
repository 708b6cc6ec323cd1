"""Put derived files in place: whole or not at all, without waiting for the disk."""

import os
from pathlib import Path


def put(path: Path, data: bytes) -> None:
    """Make sure that `path` holds `data` and counts as just written."""
    try:
        if path.read_bytes() == data:
            os.utime(path)
            return
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    staged.write_bytes(data)
    staged.replace(path)
