"""Every command that works in a project knows where its letters lie."""

import os

import pytest

from treadle.cli.invoke import invoke
from treadle.engine import recording, session
from treadle.layout import Layout
from treadle.project import setup

WAYS_IN = [
    "serve --once",
    "process",
    "land",
    "undo",
    "runs prune",
    "doctor --repair",
    "replay recording",
]


class Reached(Exception):
    """The command has opened the project and is about to work."""


@pytest.mark.parametrize("line", WAYS_IN)
def test_letters_lie_where_the_configuration_puts_them(repo, monkeypatch, line):
    setup.init(repo, os.environ)
    (repo / ".treadle" / "config.toml").write_text('[mail]\nroot = "post"\n')
    seen = []

    def opened(place, *_, **__):
        seen.append(getattr(place, "layout", place).mail.root)
        raise Reached

    monkeypatch.setattr(session, "opened", opened)
    monkeypatch.setattr(recording, "unpack", opened)
    monkeypatch.chdir(repo)
    words = line.split()
    invoke([*words, "20260101-000000-000000"] if words[0] in ("land", "undo") else words)
    assert seen == [repo / "post"]


def test_a_layout_does_not_change(tmp_path):
    layout = Layout(tmp_path, "post")
    assert layout.mail.tasks == tmp_path / "post" / "TASKS"
    for paths, name in ((layout, "mail"), (layout, "runs"), (layout.mail, "root")):
        with pytest.raises(AttributeError):
            setattr(paths, name, tmp_path)
