"""Show a file in the user's browser."""

import os
import sys
from pathlib import Path

from treadle.errors import TreadleError
from treadle.proc import detach

_PATIENCE = 3.0


def show(path: Path) -> None:
    """Ask the desktop to open it."""
    program = "open" if sys.platform == "darwin" else "xdg-open"
    try:
        detach.run([program, str(path)], Path("/"), os.environ, _PATIENCE)
    except OSError as error:
        raise TreadleError(
            f"{program} cannot be started ({error.strerror}); open the link by hand",
            code="program_unusable",
        ) from error
