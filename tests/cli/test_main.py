"""What needs nothing but the table of commands."""

import os
import subprocess
import sys

import pytest

import treadle
from treadle.cli import main

# Besides what a bare interpreter loads; `warnings` and `importlib` come together.
VERSION_LOADS = {"gc", "treadle", "treadle.cli", "treadle.cli.main"}


def loaded(*code: str) -> set[str]:
    """Return the modules that a fresh interpreter has after running this code."""
    script = "; ".join([*code, "import sys", "print(*sys.modules)"])
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ
    )
    names = done.stdout.split("\n")[-2].split()
    return {name for name in names if not name.startswith("importlib._")}


def test_version_loads_next_to_nothing():
    version = loaded("from treadle.cli.main import main", "main(['--version'])")
    assert version - loaded("pass") <= VERSION_LOADS


def test_overview_loads_next_to_nothing():
    overview = loaded("from treadle.cli.main import main", "main(['--help'])")
    assert overview - loaded("pass") <= VERSION_LOADS


@pytest.mark.parametrize("words", [["--version"], ["-V"]])
def test_version_is_printed(capsys, words):
    assert main.main(words) == 0
    assert capsys.readouterr().out == f"treadle {treadle.__version__}\n"


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_overview_names_every_command_with_a_line(capsys, words):
    assert main.main(words) == 0
    shown = capsys.readouterr().out
    for name in main.top_level():
        assert f"  {name} " in shown
        assert main.COMMANDS[name][1] in shown


@pytest.mark.parametrize("name", main.COMMANDS)
def test_every_command_has_help(capsys, name):
    assert main.main([*name.split(), "--help"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith(f"usage: treadle {name}")
    assert main.COMMANDS[name][1] in " ".join(shown.out.split())
    assert shown.err == ""


def test_console_script_and_module_say_the_same():
    module = subprocess.run(
        [sys.executable, "-m", "treadle", "--version"], capture_output=True, text=True, check=True
    )
    assert module.stdout == f"treadle {treadle.__version__}\n"


def test_garbage_is_collected_for_hours_but_not_among_what_is_loaded(tmp_path):
    script = (
        "import gc, os, sys; from treadle.cli import main\n"
        "passes = []; gc.callbacks.append(lambda phase, told: passes.append(phase))\n"
        "os._exit = lambda code: print(gc.isenabled(), gc.get_threshold()[0] > 0,"
        " gc.get_freeze_count() > 10_000, passes)\n"
        "sys.argv = ['treadle', 'run', 'T-1']; main.main()"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "True True True []"


PROBE = """
import gc, sys
from types import ModuleType
from treadle.cli import main
probe = ModuleType("treadle.cli.probe")
probe.run = lambda args: print(gc.isenabled()) or 0
sys.modules["treadle.cli.probe"] = probe
main.COMMANDS["probe"] = ("probe.run", "Try something", [])
sys.argv = ["treadle", "probe"]
main.main()
"""


def test_a_command_collects_its_garbage_however_long_it_runs():
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
