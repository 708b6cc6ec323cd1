"""Find out once, by trying, what can hold children in on this machine."""

import functools
import sys
from pathlib import Path
from typing import Literal, NamedTuple

from treadle.errors import TreadleError
from treadle.proc import helper
from treadle.proc.command import Jail
from treadle.sandbox import bubblewrap, landlock, seatbelt, seccomp
from treadle.sandbox.policy import Policy

Tier = Literal["A", "B", "0"]

_TRIAL = 10.0
_BARE = "children may write wherever you may, and what they change is only looked at afterwards"


# What tier B cannot forbid, and where it is noticed.
_GAP = (
    "it cannot forbid changes of rights, owners, times and attributes of files you own: they are "
    "looked for afterwards in the project, in hooks, info and settings of .git, in hidden folders, "
    "directly in your home and in the step before, and nowhere else; nor locks on files that may "
    "be read"
)
_UNSCOPED = "this kernel also lets children signal your other processes (Linux 6.12 does not)"


class Sandbox(NamedTuple):
    """The tier there is, why it is not a better one, and what would help."""

    tier: Tier
    reason: str
    fix: tuple[str, ...] = ()


OFF = Sandbox("0", f'sandbox is "off": {_BARE}')


@functools.cache
def probe(best: Tier = "A") -> Sandbox:
    """Return the best tier up to `best` that works here."""
    if sys.platform == "darwin":
        return _seatbelt()
    if sys.platform != "linux" or not seccomp.is_known():
        return Sandbox("0", f"no sandbox is known for this system: {_BARE}")
    without = _bubblewrap_fails() if best == "A" else 'sandbox.tier is "B"'
    if without is None:
        return Sandbox("A", "bubblewrap: own mounts and processes, filtered system calls")
    return _landlock(without)


def _bubblewrap_fails() -> str | None:
    """Say why there is no tier A."""
    if not Path(bubblewrap.PROGRAM).exists():
        return f"{bubblewrap.PROGRAM} is not installed"
    try:
        argv = [*bubblewrap.BASE, "--unshare-net", "--", "/bin/sh", "-c", ":"]
        tried = helper.run(argv, {}, timeout=_TRIAL)
    except TreadleError as error:
        return error.message
    if tried.returncode == 0:
        return None
    said = tried.stderr.decode(errors="replace").strip().splitlines()
    return f"{bubblewrap.PROGRAM} does not work here ({said[-1] if said else 'no word why'})"


def _landlock(without: str) -> Sandbox:
    version = landlock.version()
    fix = () if Path(bubblewrap.PROGRAM).exists() else ("sudo apt-get install bubblewrap",)
    if version >= landlock.OLDEST:
        gap = _GAP if version >= landlock.SCOPES else f"{_GAP}; {_UNSCOPED}"
        text = f"Landlock version {version} and filtered system calls; {gap}; no tier A: {without}"
        return Sandbox("B", text, fix)
    found = f"the kernel has Landlock version {version}" if version else "no Landlock"
    return Sandbox("0", f"{without}; {found}, {landlock.OLDEST} is needed: {_BARE}", fix)


def _seatbelt() -> Sandbox:
    if Path(seatbelt.PROGRAM).exists():
        return Sandbox("B", f"{seatbelt.PROGRAM} with a profile of treadle's")
    return Sandbox("0", f"{seatbelt.PROGRAM} is missing: {_BARE}")


def jail_for(tier: str, policy: Policy) -> Jail | None:
    """Return the jail of this tier; None where there is none."""
    if tier == "0":
        return None
    if sys.platform == "darwin":
        return seatbelt.jail(policy)
    return bubblewrap.jail(policy) if tier == "A" else landlock.jail(policy)
