"""Read the whole store."""

from treadle.store.inbox_reader import InboxReader
from treadle.store.run_reader import RunReader
from treadle.store.task_reader import TaskReader


class Reader(RunReader, TaskReader, InboxReader):
    """Answer questions about runs, tasks, the desk and messages."""
