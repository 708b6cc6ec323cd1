"""What docs/fleet.md gives to systemd, Kubernetes and Slurm, as these would start it."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.fleet.lab import wait_for

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
SECTIONS = (ROOT / "docs" / "fleet.md").read_text().split("\n## ")


def block(title):
    (section,) = [text for text in SECTIONS if text.startswith(f"{title}\n")]
    return re.search(r"```\w+\n(.*?)```", section, re.DOTALL)[1]


def systemd():
    """Return what it starts, the names of the variables that it sets, and how it ends it."""
    lines = [line.partition("=")[::2] for line in block("systemd").splitlines() if "=" in line]
    settings = dict(lines)
    program, *words = settings["ExecStart"].split()
    assert Path(program).name == "treadle"
    assert settings["KillMode"] == "mixed"  # agents must not get the SIGTERM
    return words, {value.partition("=")[0] for key, value in lines if key == "Environment"}


def kubernetes():
    """The image starts treadle; what is secret comes as variables, the key as a file."""
    deployment, scaler = yaml.safe_load_all(block("Kubernetes"))
    assert scaler["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert 'ENTRYPOINT ["treadle"]' in (ROOT / "Dockerfile").read_text()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (trigger,) = scaler["spec"]["triggers"]
    named = {it["name"] for it in container["env"]}
    return container["args"], named | {trigger["metadata"]["connectionFromEnv"]}


def slurm():
    """The script ends as the worker, so that the worker gets the batch's signal."""
    text = block("Slurm")
    assert "#SBATCH --signal=B:TERM@" in text
    (last,) = re.findall(r"(?m)^exec treadle (.*)$", text)
    return last.split(), {"TREADLE_STORE", "TREADLE_FLEET_KEY_FILE"}


@pytest.mark.parametrize("supervisor", [systemd, kubernetes, slurm])
def test_a_worker_that_is_started_as_the_docs_say_drives_runs_and_leaves_on_sigterm(
    shared, supervisor
):
    words, named = supervisor()
    env = {name: shared.env[name] for name in {"PATH", *named} if name in shared.env}
    assert {"TREADLE_STORE", "TREADLE_FLEET_KEY_FILE"} <= set(env)
    (run_id,) = shared.queue()
    home = shared.folder / "home"
    (home / ".config" / "treadle").mkdir(parents=True)
    (home / ".config" / "treadle" / "config.toml").write_text(shared.floor)
    (home / ".gitconfig").write_text((Path(shared.env["HOME"]) / ".gitconfig").read_text())
    with (home / "log").open("w") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "treadle", *words],
            cwd=home,
            env={**env, "HOME": str(home)},
            stdout=log,
            stderr=log,
        )
    shared.workers.append(worker)
    assert [it["run_id"] for it in shared.wait_over(1)] == [run_id]
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(180) == 0, (home / "log").read_text()
    wait_for(lambda: {it["status"] for it in shared.status()["workers"]} == {"left"})
