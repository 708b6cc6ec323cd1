"""What guards every call of git: switches that disarm settings, and a cleaned environment."""

import os
from collections.abc import Sequence

from treadle.errors import ProjectError

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


# How the state of a checkout is asked for; which submodules count differs.
STATUS = ("--no-optional-locks", "status", "--porcelain", "-z", "-uall", "--no-renames")


def missing() -> ProjectError:
    """Say that there is no git."""
    return ProjectError(
        "git is not installed; treadle needs git 2.38 or newer",
        code="git_missing",
        fix=["treadle doctor"],
    )


def command(args: Sequence[str], config: Sequence[str] = ()) -> list[str]:
    """Return the whole command line for git, `config` after the guards."""
    return ["git", *(word for pair in (*_GUARDS.split(), *config) for word in ("-c", pair)), *args]


def environment() -> dict[str, str]:
    """Return this process's variables without those that steer git, such as GIT_DIR."""
    kept = tuple(_KEPT_VARIABLES.split())
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith(kept)
    }
    return env | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
