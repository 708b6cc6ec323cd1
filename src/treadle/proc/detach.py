"""Start a command that outlives whoever asked for it."""

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Thread

from treadle.proc.helper import Captured


def run(argv: Sequence[str], cwd: Path, env: Mapping[str, str], patience: float) -> Captured | None:
    """Return what a command said, or None if it still works after `patience` seconds."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            code = process.wait(patience)
        except subprocess.TimeoutExpired:
            # Somebody must take note of its end, or it would stay in the process table.
            Thread(target=process.wait, daemon=True).start()
            return None
        out.seek(0)
        err.seek(0)
        return Captured(code, out.read(), err.read())
