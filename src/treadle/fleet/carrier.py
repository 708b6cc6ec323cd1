"""Bring a step to where other machines find it: its folder as an archive, its commit by git."""

from pathlib import Path

from treadle.contract.event import EventType
from treadle.engine import archive
from treadle.engine.archive import Shelf
from treadle.engine.manifest import Manifest
from treadle.engine.run import Archive, Run
from treadle.errors import GitError
from treadle.git import remote
from treadle.project import key


class Carrier:
    """The carrier of one run: archive first, then the row, then the branch.

    The branch follows the row because only the row is fenced: a worker that lost its run
    cannot write it, and so never pushes. Until then the archive holds the commit.
    """

    def __init__(self, shelf: Shelf, url: str) -> None:
        self._shelf = shelf
        self._url = url

    def save(self, run: Run, folder: Path, found: Manifest) -> Archive:
        """Upload a step's folder with the objects of its commit."""
        before, after = found.before.commit, found.after.commit
        pack = remote.pack(run.tools.repo, before, after) if before != after else None
        row = found.row
        step = archive.of_step(run.id, row.step_index, row.role)
        name = archive.name_of(step, run.row.claim_epoch)
        return archive.save(self._shelf, name, folder, pack, key.read(run.tools.env))

    def publish(self, run: Run, before: str, after: str) -> None:
        """Move the run's branch; a refusal stops the run, or is noted if it is over."""
        if before == after or run.row.branch is None:
            return
        try:
            remote.push(run.tools.repo, self._url, after, run.row.branch, before)
        except GitError as error:
            run.timeline.add(EventType.PUSH_REFUSED, error.message, code=error.code)
            if run.row.status == "running":
                run.end("stopped", error.code, error.message)
            else:
                run.record(run.cursor(), {"push_refused": error.message})
