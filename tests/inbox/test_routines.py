"""What routines are there, and what they say about themselves."""

import json
import os

import pytest

from treadle.config.schema import Config, SandboxConfig
from treadle.errors import NotFoundError
from treadle.inbox import routine as inbox_routine
from treadle.inbox.routine import Host
from treadle.layout import Layout
from treadle.proc.keeper import Keeper
from treadle.project.context import open_repository


@pytest.fixture
def layout(tmp_path):
    found = Layout(tmp_path)
    found.routines.mkdir(parents=True)
    return found


def notebook(layout, name, about="# About\nmore", parameters="depth = 1\nname: str = 'x'\n"):
    cells = [
        {"cell_type": "code", "metadata": {}, "source": "1"},
        {"cell_type": "markdown", "metadata": {}, "source": about.splitlines(keepends=True)},
        {"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": parameters},
    ]
    path = layout.routines / f"{name}.ipynb"
    path.write_text(json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5}))


def test_a_script_says_what_it_does_in_its_first_comments(layout):
    about = "#!/bin/bash\n\n# First line\n#\n#second\n# when: a|b\n"
    text = f'{about}\nset -e\nx=1\ny="${{y:-2}}"\nrun\nz=3\n'
    (layout.routines / "a.sh").write_text(text)
    found = inbox_routine.find(layout, "a", notebooks=False)
    assert found.description == "First line\n\nsecond\nwhen: a|b"
    assert (found.summary, found.when, found.parameters) == ("First line", "a|b", ("x", "y"))


def test_a_notebook_says_it_in_its_first_markdown_cell(layout):
    notebook(layout, "n")
    found = inbox_routine.find(layout, "n", notebooks=True)
    assert (found.description, found.parameters) == ("# About\nmore", ("depth", "name"))


def test_each_name_is_listed_once_and_a_script_comes_first(layout):
    notebook(layout, "both")
    (layout.routines / "both.sh").write_text("# Script\n")
    (layout.routines / "develop.sh").write_text("# Mine\n")
    (layout.routines / "link.sh").symlink_to("both.sh")
    (layout.routines / "bad\nname.sh").write_text("")
    found = inbox_routine.discover(layout, notebooks=True)
    assert {name: (item.kind, item.summary) for name, item in found.items()} == {
        "both": ("sh", "Script"),
        "develop": ("sh", "Mine"),
    }
    assert inbox_routine.find(layout, "both.ipynb", notebooks=True).kind == "ipynb"


def test_the_built_in_routine_is_always_there(layout):
    assert list(inbox_routine.discover(layout, notebooks=True)) == ["develop"]


@pytest.mark.parametrize(
    ("name", "words"), [("n", "notebook_support is false"), ("devlop", "did you mean develop?")]
)
def test_a_routine_that_is_not_there_is_explained(layout, name, words):
    notebook(layout, "n")
    with pytest.raises(NotFoundError, match=words) as caught:
        inbox_routine.find(layout, name, notebooks=False)
    assert caught.value.code == "routine_not_found"


def test_a_message_sets_only_what_is_declared_and_free(layout):
    names = ("color", "PATH", "HOME", "LD_PRELOAD", "GIT_DIR", "TREADLE_RUN", "chain", "http_proxy")
    text = "# X\n" + "".join(f"{name}=1\n" for name in names)
    (layout.routines / "a.sh").write_text(text)
    found = inbox_routine.find(layout, "a", notebooks=False)
    fields = dict.fromkeys((*names, "undeclared"), "evil")
    assert inbox_routine.custom_variables(found, fields) == {"color": "evil"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# Fine\nexit 0\n", None),
        ("exit 0\n", "no description"),
        ("# X\nif\n", "yntax"),
        ("# X\n# when: (\n", "must be words and phrases"),
        ("# X\n# pre-check: echo no pump; false\n", "no pump"),
        ("# X\nPATH=1\n", "PATH cannot be set"),
    ],
)
def test_a_check_says_what_is_wrong(layout, repo, text, words):
    found = problems(layout, repo, text, "/usr/bin:/bin")
    assert found == [] if words is None else any(words in item for item in found)


def test_a_check_of_the_syntax_meets_no_program_of_the_repository(layout, repo):
    (repo / "sh").write_text("#!/bin/sh\ntouch ${0%sh}canary\n")
    (repo / "sh").chmod(0o755)
    assert problems(layout, repo, "# Fine\nexit 0\n", f"{repo}:/usr/bin:/bin") == []
    assert not (repo / "canary").exists()


def problems(layout, repo, text, path):
    (layout.routines / "a.sh").write_text(text)
    routine = inbox_routine.find(layout, "a", notebooks=False)
    with Keeper() as keeper:
        project = open_repository(repo, os.environ)._replace(env={"PATH": path})
        host = Host(project, Config(sandbox=SandboxConfig(mode="off")), keeper)
        return list(inbox_routine.problems(host, routine))


def test_a_broken_notebook_is_shown_as_such(layout):
    (layout.routines / "n.ipynb").write_text("{")
    assert "is not a notebook" in inbox_routine.find(layout, "n", notebooks=True).description


def test_a_notebook_nested_without_end_says_that_it_is_none(layout):
    (layout.routines / "deep.ipynb").write_text("[" * 100_000)
    assert "is not a notebook" in inbox_routine.find(layout, "deep", notebooks=True).description
