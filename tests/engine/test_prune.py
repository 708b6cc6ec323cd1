"""Pruning asks about each run once, however many there are."""

import json

from tests.web import world
from treadle.cli.main import main
from treadle.ids import utc
from treadle.store.runs import Cursor, History, RunRow
from treadle.store.store import Store


def test_pruning_compares_no_run_with_every_other(tmp_path, monkeypatch, capsys):
    site, compared = world.site(tmp_path), []
    with Store.open(site.project.layout) as store:
        for number in range(60):
            id_ = f"20250101-100000-{number:06x}"
            row = RunRow(id_, utc(world.NOW), "G", "running", 1, 0, None, f".treadle/runs/{id_}")
            store.insert_run(row, [], {})
            store.advance(id_, History(), Cursor("failed", 1, 0, "FAIL"), 0)
    monkeypatch.chdir(site.project.layout.root)
    monkeypatch.setattr(RunRow, "__eq__", lambda a, b: compared.append(a) or tuple.__eq__(a, b))
    for words in ((), ("--history",)):
        assert main(["runs", "prune", *words, "--older-than=0", "--dry-run", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out.splitlines()[-1])["runs"]) >= 60
    assert len(compared) < 120
