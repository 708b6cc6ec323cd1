"""Write bubblewrap's arguments for a policy."""

from collections.abc import Iterator
from pathlib import Path

from treadle.proc.command import Jail
from treadle.sandbox import seccomp
from treadle.sandbox.policy import Policy, settled

# Only this one: on some systems the right to make namespaces belongs to the path.
PROGRAM = "/usr/bin/bwrap"

BASE = (
    PROGRAM,
    "--unshare-user",
    "--unshare-pid",
    "--disable-userns",
    "--die-with-parent",
    "--cap-drop",
    "ALL",
    "--ro-bind",
    "/",
    "/",
    "--dev",
    "/dev",
    "--proc",
    "/proc",
    "--ro-bind",  # to root inside, the kernel's settings are still its own
    "/proc/sys",
    "/proc/sys",
)


def jail(policy: Policy) -> Jail:
    """Return bubblewrap and its arguments; it reads the filter from descriptor 3."""
    words = [*BASE, "--seccomp", "3"]
    if not policy.network:
        words.append("--unshare-net")
    for path, is_open in _layers(settled(policy.hidden), settled(policy.writable)):
        hide = ["--tmpfs"] if path.is_dir() else ["--ro-bind", "/dev/null"]
        words += [*(["--bind", str(path)] if is_open else hide), str(path)]
    program = seccomp.program(network=policy.network, unix_sockets=policy.unix_sockets)
    return Jail(wrapper=(*words, "--"), filter=program)


def _layers(hidden: tuple[Path, ...], writable: tuple[Path, ...]) -> Iterator[tuple[Path, bool]]:
    """Yield what to hide and what to open, each after what it lies in: the later mount counts."""
    places = dict.fromkeys(hidden, False) | dict.fromkeys(writable, True)
    above = {path: [places[up] for up in path.parents if up in places] for path in places}
    for path in sorted(places, key=lambda path: len(above[path])):
        if above[path][:1] != [places[path]]:
            yield path, places[path]
