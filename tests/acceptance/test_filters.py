"""Filters of the user among an agent's files, through whole runs of the real command."""

import signal
import subprocess
import time

import pytest

from tests.acceptance.site import Site
from tests.builder import git, wait_for
from treadle.sandbox import jails

TIERS = [tier for tier in ("A", "B") if jails.probe(tier).tier == tier]
FILTERS = {
    "sh": "sh -c 'exec ./evil'",
    "make": "make -s filtered",
    "perl": "perl -e 'exec \"./evil\"'",
    "tool": "{tool}",
    "python": "python3 -m evil",
    "node": "sh tools/evil.sh",
}


def use(site, name, command):
    """Set up a filter as users do, for themselves: no agent brings it."""
    git(site.root, "config", "--global", f"filter.{name}.clean", command)
    attributes = site.root / ".git" / "info" / "attributes"
    attributes.parent.mkdir(exist_ok=True)
    with attributes.open("a") as handle:
        handle.write(f"*.{name} filter={name}\n")


@pytest.mark.parametrize("tier", [*TIERS, "0"])
def test_an_agents_files_run_in_filters_but_leave_no_trace(project, tmp_path, tier):
    site, canary = Site(project), tmp_path / "canary"
    files = {
        "tool": "#!/bin/sh\n[ -x ./evil ] && exec ./evil\nexec cat\n",
        "evil": f"#!/bin/sh\ntouch '{canary}'\nsed s/mine/filtered/\n",
        "evil.mk": "filtered:\n\t@./evil\n",
        "evil.py": f"open({str(canary)!r}, 'w')\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    for name, command in FILTERS.items():
        use(site, name, command.format(tool=tmp_path / "tool"))
    names = " ".join(f"x.{name}" for name in FILTERS)
    work = (
        f"cp '{tmp_path}/evil' .; cp '{tmp_path}/evil.mk' Makefile; cp '{tmp_path}/evil.py' .;"
        f" mkdir tools; cp evil tools/evil.sh; for f in {names}; do echo mine > $f; done;"
        " echo > done.txt"
    )
    mode = '[sandbox]\nmode = "off"\n' if tier == "0" else f'[sandbox]\ntier = "{tier}"\n'
    run_id = site.passed(work, extra=f"{mode}[budgets]\nmax_risky_files = 20\n")
    assert git(site.root, "show", f"treadle/{run_id}:x.make") == "filtered\n"  # it did run
    assert canary.exists() == (tier == "0")


@pytest.mark.real
@pytest.mark.parametrize("tier", TIERS)
def test_a_filter_that_hangs_ends_when_treadle_is_asked_to_stop(project, tier):
    site, seconds = Site(project), f"360{ord(tier)}"
    use(site, "slow", f"sh -c 'sleep {seconds}; cat'")
    work = '[agents.do]\ntype = "builtin"\nrun = ["sh", "-c", "echo x > x.slow"]\n'
    project.settings(f'{work}[sandbox]\ntier = "{tier}"\n')
    child = project.start("run", "--goal", "g", "--ac", "x", "--verify", "AC1=true", "--anyway")
    wait_for(lambda: _sleeping(seconds) or child.poll() is not None)
    asked = time.monotonic()
    child.send_signal(signal.SIGTERM)
    said = child.communicate(timeout=100)
    assert child.returncode == 143, said
    assert time.monotonic() - asked < 60
    assert _sleeping(seconds) == []


def _sleeping(seconds):
    listing = subprocess.run(["ps", "ax", "-o", "args="], capture_output=True, text=True).stdout
    return [line for line in listing.splitlines() if line == f"sleep {seconds}"]
