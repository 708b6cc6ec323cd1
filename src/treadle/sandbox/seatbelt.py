"""Write a profile for macOS's own sandbox."""

from pathlib import Path

from treadle.proc.command import Jail
from treadle.sandbox.policy import Policy, settled

# Only this one: a program of that name in PATH could be anybody's.
PROGRAM = "/usr/bin/sandbox-exec"

_START = '(version 1)\n(allow default)\n(deny file-write*)\n(allow file-write* (subpath "/dev"))\n'


def jail(policy: Policy) -> Jail:
    """Return the program that takes the profile and then becomes the command."""
    return Jail(wrapper=(PROGRAM, "-p", profile(policy)))


def profile(policy: Policy) -> str:
    """Return the profile; in it the last rule that fits decides."""
    lines = [_START]
    for path in settled(policy.writable):
        lines.append(f"(allow file-write* (subpath {_quoted(path)}))")
        # The folder itself stays where it is.
        lines.append(f"(deny file-write-unlink (literal {_quoted(path)}))")
    # Not its metadata: without that no path through the home could be followed.
    lines += [f"(deny file-read-data (subpath {_quoted(path)}))" for path in _closed(policy)]
    if policy.home:
        opened = settled((*policy.readable, *policy.writable))
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


def _closed(policy: Policy) -> tuple[Path, ...]:
    return settled([policy.home]) if policy.home else ()


def _quoted(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
