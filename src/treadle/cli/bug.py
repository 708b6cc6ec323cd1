"""Write a report of a bug in treadle itself, ready to paste into an issue."""

import os
import platform
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime

from treadle import __version__, layout
from treadle.cli import output
from treadle.errors import TreadleError
from treadle.sandbox.mask import Mask


def report(error: Exception, words: list[str], env: Mapping[str, str]) -> TreadleError:
    """Write the report and return the error that says where it is."""
    text = _text(error, words, env)
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S") + f"-{os.getpid()}"
    path = layout.bug_log(env, stamp)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, errors="backslashreplace")
    except OSError:
        output.block(text, error=True)
        return TreadleError("this is a bug in treadle; the report stands above", code="bug")
    return TreadleError(
        f"this is a bug in treadle ({type(error).__name__}); the report is in {path}",
        code="bug",
        details={"report": str(path)},
    )


def _text(error: Exception, words: list[str], env: Mapping[str, str]) -> str:
    whole = "\n".join(
        [
            f"treadle {__version__}, Python {platform.python_version()}, {platform.platform()}",
            f"command: {words!r}",
            "",
            "".join(traceback.format_exception(error)),
        ]
    )
    return Mask(env).text(whole)
