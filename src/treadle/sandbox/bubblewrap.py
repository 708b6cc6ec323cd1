"""Write bubblewrap's arguments for a policy."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from treadle.proc.command import Jail
from treadle.sandbox import landlock, seccomp
from treadle.sandbox.policy import Closed, Policy, layers, real

# Only this one: on some systems the right to make namespaces belongs to the path.
PROGRAM = "/usr/bin/bwrap"

# To root inside, the kernel's settings would still be its own: hence the last mount.
_BASE = """
    --unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --disable-userns
    --die-with-parent --cap-drop ALL --ro-bind / / --dev /dev --proc /proc
    --ro-bind /proc/sys /proc/sys
"""
BASE = (PROGRAM, *_BASE.split())

_MAX_LINKS = 40  # as many as the kernel follows


def jail(policy: Policy) -> Jail:
    """Return bubblewrap and its arguments; it reads the filter from descriptor 3."""
    words = [*BASE, "--seccomp", "3"]
    if not policy.network:
        words.append("--unshare-net")
    words += _mounts(policy)
    program = seccomp.program(network=policy.network, unix_sockets=policy.unix_sockets, alone=True)
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
        closed, home, plain = Closed(found), real(policy.home), {item.path for item in found}
        places = (it for it in (*policy.readable, *policy.writable) if str(it) not in plain)
        for link, target in dict(_links(places)).items():
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
