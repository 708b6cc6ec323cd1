"""Say what a file holds in one number; apart from the rest because hashing is slow to load."""

import hashlib
from pathlib import Path

from treadle.files import walk


def sha256(path: Path | str) -> str:
    """Return a file's digest."""
    digest = hashlib.sha256()
    for data in walk.chunks(path):
        digest.update(data)
    return digest.hexdigest()
