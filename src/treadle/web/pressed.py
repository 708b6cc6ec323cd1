"""Follow the commands that buttons started to their end, however late it comes."""

import secrets
import signal
import threading
import time
from collections.abc import Callable

from treadle.errors import NotFoundError
from treadle.proc.helper import Captured

# Runs a command to its end; what it is given says when, and how, to end it.
PressedRun = Callable[[Callable[[], int | None]], Captured | None]
_KEPT = 50  # ended commands whose words can still be asked for


class PressedCommand:
    """One command line at work; `ended` is what it said, once it has."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self.id = secrets.token_hex(8)
        self.words = words
        self.begun = time.time()
        self.ended: Captured | None = None
        self.is_cancelled = False
        self._over = threading.Event()

    def follow(self, run: PressedRun) -> None:
        """Run it to its end; one that is cancelled ends as by Ctrl-C."""
        try:
            self.ended = run(lambda: signal.SIGINT if self.is_cancelled else None)
        finally:
            self._over.set()

    @property
    def is_over(self) -> bool:
        """Tell whether it has ended, well or not."""
        return self._over.is_set()

    def wait(self, patience: float) -> bool:
        """Wait for its end for some seconds; False if it still works then."""
        return self._over.wait(patience)


class Pressed:
    """The commands that this page has started; a second press joins the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, PressedCommand] = {}

    def start(self, words: list[str], run: PressedRun) -> PressedCommand:
        """Start a command, unless the very same is at work already."""
        with self._lock:
            found = (it for it in self._known.values() if it.words == (*words,) and not it.is_over)
            if command := next(found, None):
                return command
            command = PressedCommand((*words,))
            self._known[command.id] = command
            for old in [it for it in self._known.values() if it.is_over][:-_KEPT]:
                del self._known[old.id]
        threading.Thread(target=command.follow, args=(run,), daemon=True).start()
        return command

    def at_work(self) -> list[PressedCommand]:
        """Return what waits or works since a button was pressed, oldest first."""
        return [it for it in self._known.values() if not it.is_over]

    def find(self, id_: str) -> PressedCommand:
        """Return a command that was started here."""
        try:
            return self._known[id_]
        except KeyError:
            text = "that command is not known any more; its run's page says what became of it"
            raise NotFoundError(text, fix=["treadle runs list"]) from None
