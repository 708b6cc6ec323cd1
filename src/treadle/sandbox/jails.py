"""Find out once what can hold children in on this machine, and write it for a policy."""

import functools
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from treadle.errors import TreadleError
from treadle.proc import helper
from treadle.proc.command import Jail
from treadle.sandbox import landlock
from treadle.sandbox.policy import Closed, Policy, layers, real, settled

# Only this one: on some systems the right to make namespaces belongs to the path.
BUBBLEWRAP = "/usr/bin/bwrap"

# To root inside, the kernel's settings would still be its own: hence the last mount.
_BASE = """
    --unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --disable-userns
    --die-with-parent --cap-drop ALL --ro-bind / / --dev /dev --proc /proc
    --ro-bind /proc/sys /proc/sys
"""
_BUBBLEWRAP = (BUBBLEWRAP, *_BASE.split())

_MAX_LINKS = 40  # as many as the kernel follows


def _bubblewrap_jail(policy: Policy) -> Jail:
    """Return bubblewrap and its arguments; it reads the filter from descriptor 3."""
    words = [*_BUBBLEWRAP, "--seccomp", "3"]
    if not policy.network:
        words.append("--unshare-net")
    words += _mounts(policy)
    program = landlock.seccomp_filter(
        network=policy.network, unix_sockets=policy.unix_sockets, alone=True
    )
    # Abstract sockets belong to a network, and here it is the user's.
    scope = landlock.scope() if policy.network and policy.unix_sockets else 0
    return Jail(wrapper=(*words, "--"), filter=program, scope=scope)


def _mounts(policy: Policy) -> Iterator[str]:
    """Yield a mount for every layer, those around before those inside: the later one counts."""
    found = layers(policy)
    for path, kind, _ in found:
        if kind == "hidden":
            yield from ("--tmpfs",) if os.path.isdir(path) else ("--ro-bind", "/dev/null")  # noqa: PTH112  # text paths, on every start
        else:
            yield from ("--bind" if kind == "writable" else "--ro-bind", path)
        yield path
    if policy.home:
        closed, home = Closed(found), str(real(policy.home))
        linked = (Path(it) for it in (*policy.readable, *policy.writable) if real(it) != str(it))
        for link, target in dict(_links(linked)).items():
            if closed.around(str(link.parent)):
                yield from ("--symlink", target, str(link))
        # Only now: the kernel makes no place for a mount in a folder that nothing may change.
        if around := closed.around(home):
            yield from ("--dir", home, "--remount-ro", around)


def _links(paths: Iterable[Path], depth: int = 0) -> Iterator[tuple[Path, str]]:
    """Yield the links on the way to places, with what each says: an empty home has none."""
    for path in paths:
        if depth > _MAX_LINKS or real(path) in ("", str(path)):
            continue
        link = next((up for up in (*reversed(path.parents), path) if up.is_symlink()), None)
        if link:
            target = os.readlink(link)  # noqa: PTH115  # as it was written
            yield link, target
            onward = os.path.normpath(link.parent / target / path.relative_to(link))
            yield from _links([Path(onward)], depth + 1)


# Only this one: a program of that name in PATH could be anybody's.
SEATBELT = "/usr/bin/sandbox-exec"

_START = '(version 1)\n(allow default)\n(deny file-write*)\n(allow file-write* (subpath "/dev"))\n'


def _seatbelt_jail(policy: Policy) -> Jail:
    """Return the program that takes the profile and then becomes the command."""
    return Jail(wrapper=(SEATBELT, "-p", seatbelt_profile(policy)))


def seatbelt_profile(policy: Policy) -> str:
    """Return the profile; in it the last rule that fits decides."""
    lines = [_START]
    for path in settled(policy.writable):
        lines.append(f"(allow file-write* (subpath {_quoted(path)}))")
        # The folder itself stays where it is.
        lines.append(f"(deny file-write-unlink (literal {_quoted(path)}))")
    if policy.home:
        # Not its metadata: without that no path through the home could be followed.
        closed, opened = settled([policy.home]), settled((*policy.readable, *policy.writable))
        lines += [f"(deny file-read-data (subpath {_quoted(path)}))" for path in closed]
        lines += [f"(allow file-read-data (subpath {_quoted(path)}))" for path in opened]
    lines += [
        f"(deny file-read* file-write* (subpath {_quoted(path)}))"
        for path in settled(policy.hidden)
    ]
    if not policy.network:
        lines.append("(deny network* (local ip) (remote ip))")
    if not policy.unix_sockets:
        lines.append("(deny network* (remote unix-socket))")
    return "\n".join(lines) + "\n"


def _quoted(path: str) -> str:
    text = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


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
    if sys.platform != "linux" or not landlock.has_filter():
        return Sandbox("0", f"no sandbox is known for this system: {_BARE}")
    without = _bubblewrap_fails() if best == "A" else 'sandbox.tier is "B"'
    if without is None:
        return Sandbox("A", "bubblewrap: own mounts and processes, filtered system calls")
    return _landlock(without)


def _bubblewrap_fails() -> str | None:
    """Say why there is no tier A."""
    if not Path(BUBBLEWRAP).exists():
        return f"{BUBBLEWRAP} is not installed"
    try:
        argv = [*_BUBBLEWRAP, "--unshare-net", "--", "/bin/sh", "-c", ":"]
        tried = helper.run(argv, {}, timeout=_TRIAL)
    except TreadleError as error:
        return error.message
    if tried.returncode == 0:
        return None
    said = tried.stderr.decode(errors="replace").strip().splitlines()
    return f"{BUBBLEWRAP} does not work here ({said[-1] if said else 'no word why'})"


def _landlock(without: str) -> Sandbox:
    version = landlock.version()
    fix = () if Path(BUBBLEWRAP).exists() else ("sudo apt-get install bubblewrap",)
    if version >= landlock.OLDEST:
        gap = _GAP if version >= landlock.SCOPES else f"{_GAP}; {_UNSCOPED}"
        text = f"Landlock version {version} and filtered system calls; {gap}; no tier A: {without}"
        return Sandbox("B", text, fix)
    found = f"the kernel has Landlock version {version}" if version else "no Landlock"
    return Sandbox("0", f"{without}; {found}, {landlock.OLDEST} is needed: {_BARE}", fix)


def _seatbelt() -> Sandbox:
    if Path(SEATBELT).exists():
        return Sandbox("B", f"{SEATBELT} with a profile of treadle's")
    return Sandbox("0", f"{SEATBELT} is missing: {_BARE}")


def jail_for(tier: str, policy: Policy) -> Jail | None:
    """Return the jail of this tier; None where there is none."""
    if tier == "0":
        return None
    if sys.platform == "darwin":
        return _seatbelt_jail(policy)
    return _bubblewrap_jail(policy) if tier == "A" else landlock.jail(policy)
