"""Write the whole store."""

from treadle.store.inbox_store import InboxStore
from treadle.store.reader import Reader
from treadle.store.run_store import RunStore
from treadle.store.task_store import TaskStore


class Store(RunStore, TaskStore, InboxStore, Reader):
    """Read and write everything; many threads may share one."""
