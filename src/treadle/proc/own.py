"""Start treadle's own Python processes: whatever a repository brings, they import none of it.

They stand outside of every repository, look for modules only where the running treadle found its
own, and no variable of the user's can tell the interpreter otherwise.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

PYTHON = sys.executable
_PACKAGE = str(Path(__file__).parents[2])
_PATH = "import sys; sys.path[:] = sys.argv.pop(1).split('\\n'); "
# The interpreter is not to see these, but an agent may be allowed to: they come back in time.
_KEPT = "TREADLE_KEPT_"
_COMMAND = (
    "import os, treadle; treadle.here = sys.argv.pop(1); "
    f"kept = [name for name in os.environ if name.startswith('{_KEPT}')]; "
    f"os.environ.update({{name[{len(_KEPT)}:]: os.environ.pop(name) for name in kept}}); "
    "from treadle.cli.main import main; sys.exit(main())"
)


class Own(NamedTuple):
    """How to start a process of ours."""

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]


def command(words: Sequence[str], here: Path, env: Mapping[str, str]) -> Own:
    """Return how to run `treadle WORDS` for somebody who stands in `here`."""
    kept = {f"{_KEPT}{name}": value for name, value in env.items() if _is_pythons(name)}
    return Own(python(_COMMAND, str(here), *words), Path("/"), environment(env) | kept)


def python(code: str, *words: str, bare: bool = False) -> tuple[str, ...]:
    """Return the command line for code of ours; a bare interpreter does without site packages."""
    options = [
        *("-I", *(("-S",) if bare else ())),
        *(("-B",) if sys.dont_write_bytecode else ()),
        *(("-X", "utf8") if sys.flags.utf8_mode else ()),
    ]
    return (PYTHON, *options, "-c", _PATH + code, "\n".join(_path()), *words)


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without those that speak to the interpreter."""
    return {name: value for name, value in env.items() if not _is_pythons(name)}


def _is_pythons(name: str) -> bool:
    return name.startswith("PYTHON")


def _path() -> list[str]:
    """Return where this process looks for modules; a relative place would be anybody's."""
    found = [place for place in sys.path if place.startswith("/")]
    return found if _PACKAGE in found else [*found, _PACKAGE]
