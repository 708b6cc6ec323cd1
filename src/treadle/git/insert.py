"""Read and put single files of a tree, without a checkout."""

from treadle.git import call, scratch
from treadle.git.repo import Repo
from treadle.git.scratch import Scratch


def read_file(place: Repo | Scratch, tree: str, path: str) -> bytes | None:
    """Return a file's content in a tree, or None if the tree has no such file."""
    done = call.run(["cat-file", "blob", f"{tree}:{path}"], place.place)
    return None if done.returncode else done.stdout


def put_file(place: Scratch, tree: str, path: str, content: bytes) -> str:
    """Return the tree with one plain file in it."""
    blob = scratch.out(place, "hash-object", "-w", "--stdin", stdin=content).decode().strip()
    scratch.out(place, "read-tree", tree)
    entry = f"100644,{blob},{path}"
    scratch.out(place, "update-index", "--add", "--cacheinfo", entry)
    return scratch.out(place, "write-tree").decode().strip()
