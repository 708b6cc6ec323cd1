"""Call the command line in this process."""

import json
from typing import NamedTuple

import pytest

from treadle.cli import main


class Said(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict:
        """Return the one JSON document, and see that nothing else was printed."""
        assert self.out.count("\n") == 1, self
        return json.loads(self.out)


@pytest.fixture
def call(repo, monkeypatch, capsys):
    """Return a function that runs `treadle …` in a repository."""
    monkeypatch.chdir(repo)

    def run(*words: str) -> Said:
        capsys.readouterr()
        code = main.main(list(words))
        shown = capsys.readouterr()
        return Said(code, shown.out, shown.err)

    return run
