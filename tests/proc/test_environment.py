"""Children know what tools need, and nothing else of the user's environment."""

import ast
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.sources import PACKAGE, trees
from treadle.proc import environment
from treadle.proc.environment import OF_WORKERS, allowed


@pytest.mark.parametrize(
    "name",
    ["PATH", "HOME", "LC_ALL", "https_proxy", "HTTPS_PROXY", "SSL_CERT_FILE", "CARGO_HOME", "TZ"],
)
def test_what_tools_need_passes(name):
    assert allowed({name: "v"}) == {name: "v"}


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "SSH_AUTH_SOCK",
        "GIT_DIR",
        "PATHS",
        "LD_PRELOAD",
        "path",
    ],
)
def test_everything_else_stays_out(name):
    assert allowed({name: "v"}) == {}


def test_declared_names_and_prefixes_pass():
    env = {"OPENAI_API_KEY": "1", "AWS_REGION": "2", "AWS": "3", "OTHER": "4"}
    found = allowed(env, ["OPENAI_API_KEY", "AWS_*", "ABSENT"])
    assert found == {"OPENAI_API_KEY": "1", "AWS_REGION": "2"}


def test_a_generator_of_names_is_read_once():
    assert allowed({"A": "1", "B_X": "2"}, (name for name in ("A", "B_*"))) == {
        "A": "1",
        "B_X": "2",
    }


@pytest.mark.parametrize("name", ["TREADLE_STORE", "TREADLE_ARTIFACTS", "TREADLE_FLEET_KEY_FILE"])
def test_where_treadles_own_things_are_never_passes(name):
    assert allowed({name: "v"}, [name, "TREADLE_*", "T*"]) == {}


@pytest.mark.parametrize(
    "name",
    [
        *("PGPASSWORD", "PGPASSFILE", "PGSERVICEFILE", "PGSERVICE", "PGSSLKEY"),
        *("AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS", "AZURE_KEY"),
    ],
)
def test_what_a_worker_reaches_its_database_and_archives_by_never_passes(name):
    assert allowed({name: "v"}, [name, f"{name[:2]}*"], OF_WORKERS) == {}
    assert allowed({name: "v"}, [name]) == {name: "v"}


WAYS = ("executable", "_base_executable", "orig_argv")


def spelt(tree):
    """Yield the lines on which something looks like a second way to start Python."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in WAYS:
            yield node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module == "sys":
            yield from (node.lineno for name in node.names if name.name in WAYS)
        elif isinstance(node, ast.Constant) and node.value == "runpy":
            yield node.lineno
        elif isinstance(node, ast.List | ast.Tuple | ast.Call):
            found = node.args if isinstance(node, ast.Call) else node.elts
            words = [item.value for item in found if isinstance(item, ast.Constant)]
            if "-m" in words and any(str(word).startswith("treadle") for word in words):
                yield node.lineno


def test_python_is_started_in_one_way_only():
    found = {
        f"{path.relative_to(PACKAGE)}:{line}"
        for path, tree in trees().items()
        for line in spelt(tree)
        if path.name != "environment.py"
    }
    assert found == set()


@pytest.mark.parametrize(
    "line",
    [
        'run([sys.executable, "-c", code])',
        'run([python, "-m", "treadle", "serve"])',
        "from sys import executable",
        'run(python, "-m", "treadle.inbox.notebook")',
    ],
)
def test_any_other_way_is_noticed(line):
    assert list(spelt(ast.parse(line)))


def started(code, **env):
    argv = environment.python(code)
    done = subprocess.run(argv, cwd="/", env={**os.environ, **env}, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return done.stdout.strip()


def test_it_finds_the_package_that_runs(monkeypatch):
    monkeypatch.setattr(sys, "path", ["", "relative", *sys.path])
    assert started("import treadle; print(treadle.__path__[0])") == str(PACKAGE)
    assert started("print([p for p in sys.path if not p.startswith('/')])") == "[]"
    monkeypatch.setattr(sys, "path", [place for place in sys.path if "treadle" not in place])
    assert started("import treadle; print(treadle.__path__[0])") == str(PACKAGE)


CHILD = (
    "from treadle.proc import environment; import subprocess; "
    "print(subprocess.run(environment.python('import treadle, nh3; print(treadle.__path__[0])'),"
    " cwd='/', env=environment.without_python({}), stdout=-1, text=True).stdout)"
)


@pytest.mark.parametrize("how", ["PYTHONPATH", "user", "editable"])
def test_every_kind_of_installation_is_found(tmp_path, how):
    """A path in a variable, the user's own site packages, a line in a .pth file."""
    venv.create(tmp_path / "venv", symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    places = [place for place in sys.path if place.endswith(("site-packages", "src"))]
    short = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if how == "PYTHONPATH":
        env["PYTHONPATH"] = ":".join(places)
    elif how == "editable":
        folder = tmp_path / "venv" / "lib" / short / "site-packages"
        (folder / "a.pth").write_text("\n".join(places) + "\n")
    else:
        python = Path(sys.base_prefix) / "bin" / short
        folder = tmp_path / ".local" / "lib" / short / "site-packages"
        folder.mkdir(parents=True)
        (folder / "a.pth").write_text("\n".join(places) + "\n")
    done = subprocess.run([python, "-c", CHILD], env=env, cwd="/", capture_output=True, text=True)
    assert done.stdout.strip() == str(PACKAGE), done.stderr
