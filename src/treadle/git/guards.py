"""What guards every call of git: switches that disarm settings, and a cleaned environment."""

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache

from treadle.errors import GitError, ProjectError

# Nothing a repository or a workspace brings may run a program or weaken a check here; the
# user's own settings stay on for the rest, above all identity and content filters.
_GUARDS = """
    core.hooksPath=/dev/null core.fsmonitor=false core.protectHFS=true core.protectNTFS=true
    core.trustctime=true core.checkStat=default core.safecrlf=false core.fsync=committed,reference
    core.fsyncMethod=fsync core.filesRefLockTimeout=1000 core.untrackedCache=false
    core.splitIndex=false checkout.workers=0 index.sparse=false index.skipHash=false
    diff.ignoreSubmodules=all submodule.recurse=false apply.ignoreWhitespace=no gc.auto=0
    maintenance.auto=false
"""
_KEPT_VARIABLES = """
    GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_NOSYSTEM GIT_CONFIG_COUNT GIT_CONFIG_KEY_
    GIT_CONFIG_VALUE_ GIT_CEILING_DIRECTORIES GIT_DISCOVERY_ACROSS_FILESYSTEM GIT_EXEC_PATH GIT_SSL_
"""
_KEPT = tuple(_KEPT_VARIABLES.split())
# With these, a file of the current folder could slip into whatever a filter starts.
_STEERING = ("PYTHON", "LD_", "DYLD_", "BASH_FUNC_", "PERL5", "RUBY")
_NAMES = """
    BASH_ENV BASHOPTS CDPATH ENV GCONV_PATH IFS JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS MAKEFILES
    MAKEFLAGS NODE_OPTIONS NODE_PATH PERLLIB PROMPT_COMMAND PS4 SHELLOPTS _JAVA_OPTIONS
"""
_STEERING_NAMES = frozenset(_NAMES.split())


# How the state of a checkout is asked for; which submodules count differs.
STATUS = ("--no-optional-locks", "status", "--porcelain", "-z", "-uall", "--no-renames")


def missing() -> ProjectError:
    """Say that there is no git."""
    return ProjectError(
        "git is not installed; treadle needs git 2.38 or newer",
        code="git_missing",
        fix=["treadle doctor"],
    )


def late(args: Sequence[str], seconds: float) -> GitError:
    """Say that git was ended because it took too long."""
    return GitError(
        f"git {verb(args)} did not finish within {seconds:g} s and was ended;"
        " a content filter, a pipe among the files or the disk may hang",
        code="git_timeout",
        fix=["git config --get-regexp ^filter", "find . -type p -o -type s"],
    )


def verb(args: Sequence[str]) -> str:
    """Return the command of git that its arguments name."""
    return next((word for word in args if not word.startswith("-")), "git")


def command(args: Sequence[str], config: Sequence[str] = ()) -> list[str]:
    """Return the whole command line for git, `config` after the guards."""
    return ["git", *(word for pair in (*_GUARDS.split(), *config) for word in ("-c", pair)), *args]


def environment(place: Mapping[str, str]) -> dict[str, str]:
    """Return this process's variables without those that steer git or what git starts.

    Filters find no program in the work tree that `place` names, nor in a folder that depends on
    where they run; Python imports nothing from there.
    """
    env = {name: value for name, value in os.environ.items() if not _steers(name)}
    folders = tuple(path for path in (place.get("GIT_WORK_TREE"), _around(place)) if path)
    env["PATH"] = ":".join(_outside(env.get("PATH", os.defpath), folders)) or os.defpath
    return env | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "PYTHONSAFEPATH": "1"}


def _steers(name: str) -> bool:
    if name.startswith("GIT_"):
        return not name.startswith(_KEPT)
    return name.startswith(_STEERING) or name in _STEERING_NAMES


def _around(place: Mapping[str, str]) -> str:
    return place.get("GIT_DIR", "").rpartition("/")[0]


@lru_cache(maxsize=64)
def _outside(path: str, folders: tuple[str, ...]) -> list[str]:
    """Return the entries of a PATH that are whole and lie in none of the folders."""
    found = [item for item in path.split(":") if item.startswith("/")]
    return [
        item
        for item in found
        if not any(f"{os.path.realpath(item)}/".startswith(f"{folder}/") for folder in folders)
    ]
