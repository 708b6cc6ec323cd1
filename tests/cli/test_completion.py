"""completion: a script that the shell itself accepts."""

import shutil
import subprocess

import pytest

from treadle.cli import main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_script_knows_every_command(call, shell):
    said = call("completion", shell)
    assert said.code == 0
    for name in main.top_level():
        assert name in said.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_is_accepted_by_its_shell(call, tmp_path, shell):
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here")
    script = tmp_path / "script"
    script.write_text(call("completion", shell).out)
    subprocess.run([shell, "-n", str(script)], check=True, stderr=subprocess.PIPE)


def test_bash_completes_a_command(call, tmp_path):
    script = tmp_path / "script"
    script.write_text(call("completion", "bash").out)
    ask = f"""
        source {script}
        COMP_WORDS=(treadle uninst) COMP_CWORD=1
        _shtab_treadle
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "uninstall"


def test_script_as_a_document(call):
    assert set(call("completion", "bash", "--json").document) == {"shell", "script"}
