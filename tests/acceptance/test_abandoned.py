"""A step whose agent may still be running is failed without a look at what it left."""

import contextlib
import os
import signal
from pathlib import Path

import pytest

from tests.proc.conftest import eventually
from treadle.sandbox import jails

# A daemon that clears its mark and swaps names for links as long as it lives; then the agent waits
# for its watchers to be killed.
AGENT = """
outside = pathlib.Path(os.environ["HOME"]) / "precious"
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in (0, 1, 2):
            os.close(fd)
        swap = f'''
import os, time
os.chdir({str(step)!r})
open("daemon.tmp", "w").write(str(os.getpid()))
os.rename("daemon.tmp", "daemon")
for name in ("input.json", "output.json", "files", "logs"):
    os.path.lexists(name) and os.rename(name, name + ".old")
    os.symlink({str(outside)!r}, name)
open("ready", "w").close()
time.sleep(600)
'''
        os.execve(sys.executable, [sys.executable, "-S", "-c", swap], {"HOME": "/"})
    os._exit(0)
os.wait()
ok()
sys.stdout.flush()
time.sleep(600)
"""


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def below(root):
    """Return the keeper and its shims."""
    rows = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    found, waiting = [], [root]
    while waiting:
        at = waiting.pop()
        for pid in rows:
            try:
                if parent(pid) == at:
                    found.append(pid)
                    waiting.append(pid)
            except OSError:
                continue
    return found


def kill_watchers(orchestrator):
    """Kill the keeper, which could clean up, and then the shim, which adopts orphans."""
    (keeper,) = [pid for pid in below(orchestrator) if parent(pid) == orchestrator]
    shims = [pid for pid in below(orchestrator) if parent(pid) == keeper]
    for number in (signal.SIGSTOP, signal.SIGKILL):  # none has the time to clean up after another
        for pid in (keeper, *shims):
            os.kill(pid, number)


@pytest.mark.parametrize("tier", ["0", "A", "B"])
def test_nothing_of_the_step_is_read(project, tier):
    if tier != "0" and jails.probe(tier).tier != tier:
        pytest.skip(f"TIER {tier} CANNOT RUN HERE")
    project.settings('sandbox = "off"\n' if tier == "0" else f'[sandbox]\ntier = "{tier}"\n')
    project.good_agents()
    project.agent("plan", AGENT)
    precious = Path(os.environ["HOME"]) / "precious"
    precious.write_text("mine")
    running = project.start("run", "--goal", "x", "--ac", "y")
    steps = project.root / ".treadle" / "runs"
    assert eventually(lambda: list(steps.glob("*/steps/*/ready")))
    daemon = next(steps.glob("*/steps/*/daemon")).read_text()
    kill_watchers(running.pid)
    try:
        _, err = running.communicate(timeout=60)
    finally:
        if tier != "A":  # there it has died with its namespace, and its number is not ours
            os.kill(int(daemon), signal.SIGKILL)
    assert running.returncode == 1, err
    row = project.only_run()
    assert row["status"] == "failed"
    failed = project.event(row["run_id"], "step_failed")
    assert failed["data"]["code"] == "may_still_run"
    assert "may still be running; nothing that it left was read" in failed["message"]
    folder = project.step_dir(row["run_id"], "001-plan")
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    found.discard("logs/growth.jsonl")  # treadle's own, where it saw the output grow
    assert found == {"input.json", "step.json", "logs/stdout.txt", "logs/stderr.txt"}
    assert (folder / "input.json").read_text().startswith("{")
    (aside,) = (project.run_dir(row["run_id"]) / "abandoned").iterdir()
    assert (aside / "files").is_symlink()
    assert precious.read_text() == "mine"


@pytest.mark.skipif(jails.probe("B").tier != "B", reason="TIER B CANNOT RUN HERE")
def test_a_check_that_may_still_run_shows_nothing(project):
    project.settings('[sandbox]\ntier = "B"\n[checks]\nplace = "workspace"\n')
    project.good_agents()
    command = "echo $$ > ready; exec sleep 600"
    running = project.start("run", "--goal", "x", "--ac", "y", "--verify", f"AC1={command}")
    runs = project.root / ".treadle" / "runs"
    assert eventually(lambda: any(path.read_text() for path in runs.glob("*/workspace/ready")))
    left = int(next(runs.glob("*/workspace/ready")).read_text())
    kill_watchers(running.pid)
    try:
        running.communicate(timeout=60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(left, signal.SIGKILL)
    row = project.only_run()
    assert row["status"] == "stopped"
    assert "may still be running" in project.event(row["run_id"], "step_failed")["message"]
    assert "check_observed" not in project.event_types(row["run_id"])
