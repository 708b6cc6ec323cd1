"""A repository full of modules with well-known names: treadle's own processes import none."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.acceptance import messages
from tests.acceptance.test_inbox_work import write_notebook
from tests.acceptance.test_serve import enter, get
from tests.builder import wait_for
from tests.web.world import RUN
from treadle.proc import environment
from treadle.project.context import open_context
from treadle.web import actions
from treadle.web.access import Keys
from treadle.web.actions import ACTIONS
from treadle.web.pressed import Pressed
from treadle.web.site import Site, WebRequest

MODULES = (
    *("treadle", "argparse", "msgspec", "json", "sitecustomize", "usercustomize", "uvicorn"),
    *("yaml", "jinja2", "typing", "runpy", "socket", "gc", "cronsim", "nh3"),
    *("nbformat", "nbclient", "asyncio", "tempfile", "dataclasses", "encodings"),
)
PACKAGES = ("starlette", "treadle_hooks", "markdown_it", "email", "logging")
FILES = (*(f"{name}.py" for name in MODULES), *(f"{name}/__init__.py" for name in PACKAGES))
# What pip and editable installations leave, and what the interpreter looks for beside a script.
FILES += ("__main__.py", "treadle.pth", "python._pth", "pyvenv.cfg", "setup.py")
NAMES = {"item": "1", "run": RUN, "step": "1", "task": "T-1", "letter": "a.md"}
NAMES["waiter"] = "wait-0a1b2c"
FIELDS = {
    **{"text": "hello", "task": "T-1", "to": "done", "goal": "Go", "letter": "1.md", "days": "0"},
    **{"criterion": "it is there", "budget": "max_iterations=1", "spec": "01-a"},
}
GO = "# Go\n\n## Acceptance Criteria\n\n- it is there: `$ true`\n"


def plant(root, canary):
    """Put a module of every name there that says so when it is imported."""
    for name in FILES:
        (root / name).parent.mkdir(exist_ok=True)
        text = f"import os; open({str(canary)!r}, 'a').write({name!r} + chr(10))\n"
        (root / name).write_text(text)


@pytest.fixture
def clone(project, tmp_path):
    """A project with shadows in its root, committed as a clone would have them."""
    messages.routine(project, "log", messages.LOG)
    project.settings('default_routine = "log"\n')
    plant(project.root, tmp_path / "canary")
    project.git("add", "-f", *FILES)
    project.git("commit", "-q", "-m", "Shadows")
    yield project
    assert not (tmp_path / "canary").exists(), (tmp_path / "canary").read_text()


@pytest.fixture
def variables(clone, monkeypatch):
    """The user's variables lead into the repository, too."""
    for name in ("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX"):
        monkeypatch.setenv(name, str(clone.root))
    monkeypatch.setenv("PYTHONSTARTUP", str(clone.root / "json.py"))
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    monkeypatch.setenv("PYTHONINSPECT", "1")


def start(project, *words):
    """Start treadle as its console script does: the script's folder comes first."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "treadle", *words],
        cwd=project.root,
        env=os.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process):
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 143, errors


def safe(project, *words):
    process = start(project, *words, "--json")
    said, errors = process.communicate(timeout=120)
    assert process.returncode == 0, (said, errors)
    return json.loads(said)


def test_serve_its_rounds_and_the_page_import_nothing_of_the_repository(clone):
    process = start(clone, "serve", "--port", "0", "--json")
    said = json.loads(process.stdout.readline())
    safe(clone, "send", "hello")
    cookie = enter(said["link"])

    def passed():
        runs = json.loads(get(said["url"], "/runs.json", cookie=cookie)[1])["runs"]
        return [run for run in runs if run["status"] == "passed"]

    wait_for(passed)
    assert get(said["url"], "/runs", cookie=cookie)[0].status == 200
    end(process)


@pytest.mark.real
@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.path)
def test_a_button_of_the_page_imports_nothing_of_the_repository(clone, monkeypatch, action):
    monkeypatch.chdir(clone.root)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setattr(actions, "_START", 120.0)
    monkeypatch.setattr(actions, "_PATIENCE", 120.0)
    site = Site(open_context(clone.root, os.environ), Keys(), 0)
    said = actions.perform(site, Pressed(), action, WebRequest(NAMES, FIELDS))
    assert not said.text.startswith("ended with exit code"), said


def test_the_users_variables_do_not_reach_the_interpreter(clone, variables):
    argv, env = environment.treadle_command(["runs", "list", "--json"], clone.root, os.environ)
    found = subprocess.run(argv, cwd="/", env=env, capture_output=True, timeout=120)
    assert json.loads(found.stdout) == {"runs": [], "weather": []}, found


def test_a_variable_of_the_interpreter_is_still_the_agents_if_it_may_have_it(project):
    project.settings('[agents.do]\ntype = "builtin"\nenv_allow = ["PYTHON*"]\n')
    project.settings(project.extra + "run = ['sh', '-c', 'echo $PYTHONPATH > seen.txt']\n")
    words = ("run", "--goal", "See", "--ac", "x", "--verify", "AC1=test -f seen.txt", "--json")
    argv, env = environment.treadle_command(
        words, project.root, {**os.environ, "PYTHONPATH": "/nowhere"}
    )
    assert not [name for name in env if name.startswith("PYTHON")]
    found = subprocess.run(argv, cwd="/", env=env, capture_output=True, timeout=120)
    run = json.loads(found.stdout)
    assert project.git("show", f"{run['branch']}:seen.txt") == "/nowhere\n"


def test_an_empty_part_of_the_path_is_not_the_repository(project, tmp_path, monkeypatch):
    names = [name for name in FILES if name in ("argparse.py", "msgspec.py", "yaml.py", "nh3.py")]
    for name in names:
        (project.root / name).write_text(f"open({str(tmp_path / 'canary')!r}, 'w')\n")
    monkeypatch.setenv("PYTHONPATH", f":{tmp_path}")
    safe(project, "config", "show")
    assert project.treadle("config", "show").code == 0  # by `python -m`: the folder comes first
    assert not (tmp_path / "canary").exists()


def test_the_demo_imports_nothing_of_the_folder_it_is_started_in(clone):
    assert safe(clone, "demo")["run"]["landed"]


def test_a_notebook_routine_is_executed_by_treadles_own_modules(project, tmp_path):
    write_notebook(project, "open('out.txt', 'w').write(color)")
    names = [f"{name}.py" for name in ("treadle", "nbformat", "nbclient", "sitecustomize")]
    for name in names:
        (project.root / name).write_text("raise SystemExit('shadowed')\n")
    project.git("add", ".")
    project.git("commit", "-q", "-m", "Shadows")
    safe(project, "send", "Count", "--routine", "nb")
    assert safe(project, "process")["messages"][0]["status"] == "done"


@pytest.mark.real
def test_what_an_agent_lands_does_not_run_in_the_next_round(project, tmp_path):
    plant(tmp_path, tmp_path / "canary")
    names = " ".join(name for name in FILES if "/" not in name)
    copy = f"cd {tmp_path} && cp {names} $OLDPWD; cd $OLDPWD; echo >> count.txt"
    agent = f'[agents.do]\ntype = "builtin"\nrun = ["sh", "-c", {json.dumps(copy)}]\n'
    allowed = '[checks]\nanyway = true\n[policy]\nallow = ["*"]\n'
    project.settings(allowed + agent)
    project.git("commit", "-qam", "Settings")
    process = start(project, "serve", "--no-web", "--json")
    for count in (1, 2, 3):
        safe(project, "send", GO)
        said = json.loads(process.stdout.readline())
        assert said["messages"][0]["status"] == "done", said["messages"]
        assert len((project.root / "count.txt").read_text()) == count
    assert (project.root / "treadle.py").exists()
    end(process)
    assert not (tmp_path / "canary").exists(), (tmp_path / "canary").read_text()
