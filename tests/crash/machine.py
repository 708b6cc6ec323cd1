"""Tell what a machine lacks for the crash instruments."""

import shutil
from pathlib import Path

from tests.crash import calls


def missing() -> str:
    """Say what is missing, or nothing."""
    actions = Path("/proc/sys/kernel/seccomp/actions_avail")
    if not actions.exists() or "user_notif" not in actions.read_text():
        return "the kernel cannot hand system calls over (seccomp user_notif)"
    if not calls.is_known_machine():
        return "the call numbers of this processor are not known"
    return "" if shutil.which("strace") else "strace is missing: apt-get install strace"
