"""The seam between treadle and whatever queues runs and hands them to workers."""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, Protocol


class Job(NamedTuple):
    """One delivery of a run; `attempt` is the epoch it waited under, so each wait is one job."""

    project: str
    run_id: str
    attempt: int

    @property
    def id(self) -> str:
        """Return the job's name: submitting it twice is submitting it once."""
        return f"{self.project}/{self.run_id}/{self.attempt}"


def parse(text: str) -> Job:
    """Read a job's name."""
    project, run_id, attempt = text.split("/")
    return Job(project, run_id, int(attempt))


class Health(NamedTuple):
    """How the queue stands: the jobs that wait, and the holder of each other."""

    waiting: Collection[Job]
    held: Mapping[Job, str]


class Dispatcher(Protocol):
    """Queue runs, hand each to one worker at a time, and deliver again what was lost."""

    def submit(self, job: Job, priority: int) -> None:
        """Let a job wait; a smaller priority comes first."""

    def retry(self, *jobs: Job) -> None:
        """Deliver jobs again, because who had them is gone."""

    def work(self, slots: int, drive: Callable[[Job], None]) -> None:
        """Begin to take jobs, at most `slots` at a time, and return."""

    def drain(self) -> None:
        """Take no more jobs, and return when those at work are done."""

    def health(self, *, waiting: bool = True) -> Health:
        """Return who holds what and, if asked, what waits: that may be thousands."""
