"""What a child process of a run gets to see, and when it must stop."""

import time
from collections.abc import Callable, Iterable

from treadle.engine.run import Run
from treadle.proc import environment, sweep
from treadle.store.run_changes import STOP_REQUESTED

_ASK_EVERY = 0.5


def for_agent(run: Run, extra: Iterable[str]) -> dict[str, str]:
    """Return an agent's environment: an allow-list plus the marks of this run."""
    return environment.allowed(run.tools.env, extra) | {
        "TREADLE_RUN": run.id,
        sweep.MARKER: sweep.mark(run.folder.folder),
        "TREADLE_PROJECT": str(run.tools.layout.root),
        "TREADLE_PORT_BASE": str(run.kv.get("port_base", "")),
    }


def for_checks(run: Run) -> dict[str, str]:
    """Return the environment of check and setup commands."""
    return for_agent(run, run.order.checks.env_allow)


def stopper(run: Run) -> Callable[[], str | None]:
    """Return a function that says why the work must stop now, or None.

    A signal is seen at once; a request from another terminal is read from the store twice a second.
    """
    asked_at = time.monotonic()

    def should_stop() -> str | None:
        nonlocal asked_at
        if reason := run.tools.interrupted():
            return reason
        if time.monotonic() - asked_at < _ASK_EVERY:
            return None
        asked_at = time.monotonic()
        return stop_request(run)

    return should_stop


def stop_request(run: Run) -> str | None:
    """Return the reason another process gave for stopping this run, if one did."""
    found = run.tools.store.kv(run.id).get(STOP_REQUESTED)
    return str(found.get("reason")) if isinstance(found, dict) else None
