"""Spread crash experiments over worker processes, each in its own world."""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

_REPOSITORY = Path(__file__).parents[2]
Item = dict[str, Any]
Result = dict[str, Any]


class Crew:
    """Workers for one scenario, to be used as a context.

    With `stops`, a series of experiments ends at the first broken promise.
    """

    def __init__(self, scenario: str, jobs: int | None = None, *, stops: bool = False) -> None:
        self.stops = stops
        self.folder = tempfile.TemporaryDirectory(prefix="crash-")
        self.path = Path(self.folder.name)
        (self.path / "world").mkdir()
        argv = [sys.executable, "-m", "tests.crash.worker", scenario, str(self.path)]
        self.workers = [
            subprocess.Popen(
                [*argv, str(index)],
                cwd=_REPOSITORY,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            for index in range(jobs or os.cpu_count() or 1)
        ]

    def __enter__(self) -> "Crew":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        for worker in self.workers:
            worker.communicate()
        self.folder.cleanup()

    def ask(self, item: Item) -> Result:
        """Have one experiment done."""
        return self.map([item])[0]

    def map(self, items: Iterable[Item], *, stops: bool = False) -> list[Result]:
        """Have experiments done by whoever is free; with `stops` until one breaks a promise."""
        waiting: queue.SimpleQueue[tuple[int, Item]] = queue.SimpleQueue()
        for numbered in enumerate(items):
            waiting.put(numbered)
        done: dict[int, Result] = {}
        enough = threading.Event()

        def serve(worker: subprocess.Popen[str]) -> None:
            while not enough.is_set():
                try:
                    index, item = waiting.get_nowait()
                except queue.Empty:
                    return
                done[index] = {**item, **_exchange(worker, item)}
                broke = (stops or self.stops) and done[index].get("violations")
                if broke or "broken" in done[index]:
                    enough.set()

        threads = [threading.Thread(target=serve, args=(worker,)) for worker in self.workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if broken := [result["broken"] for result in done.values() if "broken" in result]:
            raise RuntimeError(broken[0])
        return [done[index] for index in sorted(done)]


def _exchange(worker: subprocess.Popen[str], item: Item) -> Result:
    if worker.stdin is None or worker.stdout is None:
        raise ValueError("a worker without pipes")
    try:
        worker.stdin.write(json.dumps(item) + "\n")
        worker.stdin.flush()
    except BrokenPipeError:
        return {"broken": f"a worker ended before {item}"}
    reply = worker.stdout.readline()
    return json.loads(reply) if reply else {"broken": f"a worker ended during {item}"}
