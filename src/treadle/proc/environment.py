"""Choose what children know of the user's environment: agents little, treadle's own no Python."""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY", "NO_PROXY")
# What every program knows, where folders and certificates are, where toolchains live.
_KNOWN = """
    PATH HOME LANG TERM TMPDIR USER LOGNAME SHELL TZ
    XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS GIT_SSL_CAINFO
    ANDROID_HOME ASDF_DATA_DIR ASDF_DIR BUN_INSTALL CARGO_HOME CONDA_PREFIX DENO_DIR DOTNET_ROOT
    GEM_HOME GOMODCACHE GOPATH GOROOT JAVA_HOME NVM_DIR PNPM_HOME PYENV_ROOT RBENV_ROOT RUSTUP_HOME
    SDKMAN_DIR VIRTUAL_ENV VOLTA_HOME
"""
_NAMES = frozenset((*_KNOWN.split(), *_PROXIES, *map(str.lower, _PROXIES)))
_PREFIXES = ("LC_",)
# Where the store, its archives and the fleet's key are: treadle's own business.
_NEVER = ("TREADLE_STORE", "TREADLE_ARTIFACTS", "TREADLE_FLEET_KEY_FILE")
# Beginnings of the names by which a worker reaches its database and its archives.
OF_WORKERS = ("PGPASS", "PGSERVICE", "PGSSLKEY", "AWS_", "GOOGLE_", "AZURE_")
# Those of them that name files.
FILES_OF_WORKERS = (
    *("PGPASSFILE", "PGSERVICEFILE", "PGSSLKEY", "AWS_SHARED_CREDENTIALS_FILE"),
    *("AWS_CONFIG_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "GOOGLE_APPLICATION_CREDENTIALS"),
    *("GOOGLE_SERVICE_ACCOUNT", "AZURE_FEDERATED_TOKEN_FILE", "BOTO_CONFIG"),
)
# Names by which a system, a shell or an interpreter is steered.
_SYSTEM = (
    r"(?i:(LD|DYLD|GIT|TREADLE|LC|XDG|SSH|BASH|PYTHON|PERL|RUBY|NODE|JUPYTER|IPYTHON)_?.*"
    r"|PATH|HOME|SHELL|USER|LOGNAME|TERM|LANG|TZ|IFS|ENV|PS[0-9]|PWD|OLDPWD|TMPDIR|EDITOR|PAGER"
    r"|[A-Z]+_PROXY|UID|EUID|PPID|SHELLOPTS|CDPATH|GLOBIGNORE|OPTARG|OPTIND|RANDOM|HISTFILE)"
)


def is_system(name: str) -> bool:
    """Tell whether a variable is the system's or treadle's own, which nobody else may set."""
    return re.fullmatch(_SYSTEM, name) is not None


def allowed(
    env: Mapping[str, str], extra: Iterable[str] = (), withheld: tuple[str, ...] = ()
) -> dict[str, str]:
    """Return the variables a child may have; in `extra` a trailing `*` stands for any ending.

    What begins like one of `withheld` stays away, whatever else is said.
    """
    extra, withheld = tuple(extra), (*_NEVER, *withheld)
    names = _NAMES.union(name for name in extra if not name.endswith("*"))
    prefixes = (*_PREFIXES, *(name[:-1] for name in extra if name.endswith("*")))
    return {
        name: value
        for name, value in env.items()
        if (name in names or name.startswith(prefixes)) and not name.startswith(withheld)
    }


PYTHON = sys.executable
_PACKAGE = str(Path(__file__).parents[2])
_PATH = "import sys; sys.path[:] = sys.argv.pop(1).split('\\n'); "
# The interpreter is not to see these, but an agent may be allowed to: they come back in time.
_KEPT = "TREADLE_KEPT_"
_COMMAND = (
    "import os, treadle; treadle.here = sys.argv.pop(1); os.chdir('/'); "
    f"kept = [name for name in os.environ if name.startswith('{_KEPT}')]; "
    f"os.environ.update({{name[{len(_KEPT)}:]: os.environ.pop(name) for name in kept}}); "
    "from treadle.cli.main import main; sys.exit(main())"
)


_MAX_WORD = 100 << 10  # bytes; the kernel takes words of a command line up to 128 KiB


def is_word(text: str) -> bool:
    """Tell whether a text can be a word of a command line."""
    data = text.encode(errors="replace")
    return "\0" not in text and len(data) <= _MAX_WORD and data.decode() == text


def treadle_command(
    words: Sequence[str], here: Path, env: Mapping[str, str]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the command line and the variables of `treadle WORDS` for somebody in `here`.

    It stands outside of every repository, so that nothing in one can be taken for a part of it.
    """
    kept = {f"{_KEPT}{name}": value for name, value in env.items() if _is_pythons(name)}
    return python(_COMMAND, str(here), *words), without_python(env) | kept


def python(code: str, *words: str, bare: bool = False) -> tuple[str, ...]:
    """Return the command line for code of ours; a bare interpreter does without site packages."""
    options = [
        *("-I", *(("-S",) if bare else ())),
        *(("-B",) if sys.dont_write_bytecode else ()),
        *(("-X", "utf8") if sys.flags.utf8_mode else ()),
    ]
    return (PYTHON, *options, "-c", _PATH + code, "\n".join(_path()), *words)


def without_python(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without those that speak to the interpreter."""
    return {name: value for name, value in env.items() if not _is_pythons(name)}


def _is_pythons(name: str) -> bool:
    return name.startswith("PYTHON")


def _path() -> list[str]:
    """Return where this process looks for modules; a relative place would be anybody's."""
    found = [place for place in sys.path if place.startswith("/")]
    return found if _PACKAGE in found else [*found, _PACKAGE]
