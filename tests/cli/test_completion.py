"""completion: a script that the shell itself accepts."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.acceptance.messages import spec
from treadle.cli import complete, main
from treadle.config import schema
from treadle.config.schema import BudgetsConfig, NightConfig


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


@pytest.fixture
def completed(call, project, tmp_path):
    """Return a function that asks a real bash what it would offer after these words."""
    script, program = tmp_path / "script", tmp_path / "bin" / "treadle"
    script.write_text(call("completion", "bash").out)
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m treadle "$@"\n')
    program.chmod(0o755)
    env = project.environment({"PATH": f"{program.parent}:{os.environ['PATH']}"})

    def ask(*words):
        line = " ".join(f"'{word}'" for word in ("treadle", *words))
        code = f"""
            source {script}
            COMP_WORDS=({line}) COMP_CWORD={len(words)}
            _shtab_treadle
            printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        done = subprocess.run(
            ["bash", "-c", code], cwd=project.root, env=env, capture_output=True, text=True
        )
        assert done.stderr == ""
        return done.stdout.split()

    return ask


def test_bash_completes_what_there_is_in_the_project(project, completed):
    project.settings(
        '[agents.fixer]\ntype = "builtin"\n[agents.do]\ntype = "builtin"\nrun = ["true"]\n'
    )
    project.treadle("task", "add", "One", "--id", "AUTH-1", "--verify", "AC1=false")
    project.treadle("run", "AUTH-1", "--budget", "max_iterations=1")
    spec(project, "03-x.spec.md")
    run_id = project.only_run()["run_id"]
    assert completed("why", "") == ["last", run_id[-6:], "AUTH-1", run_id]
    assert completed("land", run_id[:4]) == [run_id]
    assert completed("runs", "show", "la") == ["last"]
    assert completed("run", "--resume", run_id[-6:-2]) == [run_id[-6:]]
    assert completed("run", "AU") == ["AUTH-1"]
    assert completed("task", "show", "") == ["AUTH-1"]
    assert completed("task", "move", "AUTH-1", "--to", "for") == ["for_review"]
    assert completed("agent", "show", "fi") == ["fixer"]
    assert completed("run", "--agent", "act=f") == ["act=fixer"]
    assert completed("run", "--budget", "max_it") == ["max_iterations="]
    assert completed("answer", "") == ["Q-1"]
    assert completed("spec", "show", "") == ["03-x"]
    assert completed("process", "03") == ["03-x"]
    assert completed("why", "nobody") == []


def test_words_that_a_shell_would_take_apart_are_not_offered(project):
    spec(project, "01-a b.spec.md")
    spec(project, "02-$(id).spec.md")
    spec(project, "03-fine.spec.md")
    assert project.treadle("complete", "spec").out == "03-fine\n"


@pytest.mark.parametrize("words", [[], ["nothing"], ["run"]])
def test_a_completion_that_fails_says_nothing(tmp_path, project, words):
    done = project.treadle("complete", *words, cwd=tmp_path)
    assert (done.code, done.out, done.err) == (1, "", "")


@pytest.mark.parametrize("kind", complete.KINDS)
def test_every_kind_is_answered(project, kind):
    (project.root / "missions").mkdir(exist_ok=True)
    done = project.treadle("complete", kind)
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize("shell", ["zsh", "fish", "tcsh"])
def test_other_shells_ask_the_same_command(call, shell):
    script = call("completion", shell).out
    for kind in ("run", "task", "agent", "player", "lane", "budget", "item"):
        assert f"treadle complete {kind}" in script


# A zsh with a terminal of its own: type a line and a tab, and see what the line is then.
ZSH = r"""
zmodload zsh/zpty
zpty -b shell zsh -f -i
zpty -w shell "fpath=($1 \$fpath); autoload -U compinit; compinit -u -d $1/dump"
zpty -w shell 'say() { zle -I; print -r -- "LINE<$BUFFER>" }; zle -N say; bindkey "^Xs" say'
zpty -w shell 'print -r -- REA""DY'
zpty -r -m shell said "*READY*"
zpty -w -n shell "$2"$'\t\C-xs'
zpty -r -m shell said "*LINE<*>*"
print -r -- ${${said##*LINE<}%%>*}
zpty -d shell
"""
FISH = "source $argv[1]/treadle.fish; complete -C $argv[2] | string split -f1 \\t"
TYPED = {"zsh": ["-f", "-c", ZSH, "zsh"], "fish": ["--no-config", "-c", FISH]}


@pytest.mark.real
@pytest.mark.parametrize("shell", TYPED)
def test_other_shells_complete_what_there_is_in_the_project(call, project, tmp_path, shell):
    if not shutil.which(shell):
        pytest.skip(f"NOT TESTED: there is no {shell} here, and its completion was only read")
    project.settings('[agents.do]\ntype = "builtin"\nrun = ["true"]\n')
    project.treadle("run", "--goal", "x", "--verify", "AC1=false", "--budget", "max_iterations=1")
    name = {"zsh": "_treadle", "fish": "treadle.fish"}[shell]
    (tmp_path / name).write_text(call("completion", shell).out)
    env = project.environment({"PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"})
    run_id = project.only_run()["run_id"]
    for typed, word in {
        "uninst": "uninstall",
        "runs sh": "show",
        "why 20": run_id,
        f"run --resume {run_id[-6:-2]}": run_id[-6:],
        "run --budget max_it": "max_iterations=",
        "answer Q": "Q-1",
    }.items():
        words = [shell, *TYPED[shell], str(tmp_path), f"treadle {typed}"]
        done = subprocess.run(
            words, cwd=project.root, env=env, capture_output=True, text=True, timeout=120
        )
        assert done.stdout.split()[-1:] == [word], (typed, done)


def test_budgets_are_those_of_the_schema():
    nightly = {f"night.{name}" for name in schema.field_types(NightConfig)}
    assert set(complete.BUDGETS) == {*schema.field_types(BudgetsConfig), *nightly}
