"""Write bubblewrap's arguments for a policy."""

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
    for path in settled(policy.hidden):
        words += ["--tmpfs", str(path)] if path.is_dir() else ["--ro-bind", "/dev/null", str(path)]
    for path in _outermost(settled(policy.writable)):
        words += ["--bind", str(path), str(path)]
    program = seccomp.program(network=policy.network, unix_sockets=policy.unix_sockets)
    return Jail(wrapper=(*words, "--"), filter=program)


def _outermost(paths: tuple[Path, ...]) -> list[Path]:
    return [path for path in paths if not any(other in path.parents for other in paths)]
