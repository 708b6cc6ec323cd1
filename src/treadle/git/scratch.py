"""Give git an index and an object store of its own, so that a refused change leaves no trace."""

from dataclasses import dataclass
from pathlib import Path

from treadle.files import remove
from treadle.git import call, checkout, objects
from treadle.git import vouch as vouch_for
from treadle.git.call import Reach, Runner
from treadle.git.checkout import Workspace
from treadle.git.repo import Repo

NO_SYNC = "core.fsync=none"  # `keep` makes what is kept durable, all of it at once


@dataclass(frozen=True, kw_only=True)
class Scratch:
    """A folder in which a tree is built before anybody has judged it."""

    repo: Repo
    folder: Path
    runner: Runner = call.unconfined

    @property
    def index(self) -> Path:
        """Return the scratch index."""
        return self.folder / "index"

    @property
    def listing(self) -> Path:
        """Return the list of what has changed, where a tree was built without an index."""
        return self.folder / "index.changes"

    @property
    def store(self) -> Path:
        """Return the scratch object store."""
        return self.folder / "objects"

    @property
    def stores(self) -> tuple[Path, ...]:
        """Return where objects of the built tree may lie, the scratch store first."""
        return self.store, self.repo.objects

    @property
    def place(self) -> dict[str, str]:
        """Return the variables that point git here."""
        return self.repo.place | {
            "GIT_INDEX_FILE": str(self.index),
            "GIT_OBJECT_DIRECTORY": str(self.store),
        }

    def reach(self, memory: int = checkout.MEMORY) -> Reach:
        """Say what git may write when it works here."""
        return Reach(self.runner, (self.folder,), memory)


def make(repo: Repo, folder: Path, runner: Runner = call.unconfined) -> Scratch:
    """Make an empty scratch place, whatever an earlier one left there."""
    remove.remove_tree(folder)
    scratch = Scratch(repo=repo, folder=folder, runner=runner)
    objects.write_alternates(scratch.store, objects.alternates(repo.objects))
    return scratch


def out(scratch: Scratch, *args: str, stdin: bytes | None = None) -> bytes:
    """Run git in the scratch place and return what it printed; GitError if it failed."""
    reach = scratch.reach()
    return call.out(args, scratch.place, stdin=stdin, config=(NO_SYNC,), reach=reach)


def vouch(scratch: Scratch) -> None:
    """Make sure that git alone has worked here, before anybody believes what lies here.

    A content filter may have run an agent's code, which could write here too: a link for treadle
    to write through, another store to borrow from, an object that is not what its name says.
    """
    vouch_for.plain(scratch.folder)
    packs = objects.tidy(scratch.store, objects.alternates(scratch.repo.objects))
    for pack in packs:  # git packs what is very large
        out(scratch, "verify-pack", "--", str(pack))
    wrong = objects.wrong(scratch.store, scratch.repo.object_format)
    if wrong:
        raise vouch_for.refusal(f"{wrong.parent.name}{wrong.name}, which is not that object,")


def keep(scratch: Scratch) -> None:
    """Move the built objects into the repository, durably."""
    objects.settle_lfs(scratch.folder / "lfs", scratch.repo.common_dir / "lfs")
    objects.settle(scratch.store, scratch.repo.objects)


def drop(scratch: Scratch) -> None:
    """Remove the scratch place."""
    remove.remove_tree(scratch.folder)


def seed(scratch: Scratch, base: str, ws: Workspace | None) -> None:
    """Fill the scratch index with `base`, from the workspace's own index where that holds it."""
    if ws and checkout.holds(ws, base):
        checkout.copy_index(ws.index, scratch.index)
    else:
        out(scratch, "read-tree", base)
