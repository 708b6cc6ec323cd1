"""What a run remembers is read from rows of any age, and only what changed is written."""

import json
import re
from pathlib import Path

import pytest

import treadle
from treadle.engine.run import memory
from treadle.engine.run.memory import EMPTY, CheckSeen, Moved, ProtectedChange, RunMemory, Spent
from treadle.layout import Layout
from treadle.store.runs import RunRow
from treadle.store.store import Store
from treadle.tasks import tries
from treadle.tasks.tries import Contender, Trial

# As stores have it that were written before there was a record.
STORED = {
    "port_base": 20000,
    "stacked_on": "r0",
    "set_up": True,
    "spent": {"minutes": 1.5, "tokens": 7, "cost_usd": 0.1, "output_mb": 0.0},
    "failing": ["AC1"],
    "refuted": [],
    "last_check": {"tree": "t", "failing": ["AC1"]},
    "protected": {
        "files": ["a"],
        "failing": [],
        "sentence": "s",
        "tree": "t",
        "diff": "d",
        "refused": False,
    },
    "letters_given": {"plan": 3},
    "stop_requested": {"reason": "enough", "at": "now"},
    "landed": {"branch": "main", "old": "0", "commit": "1", "at": "now"},
    "weather": [{"run_id": "r", "head": "1", "other_head": "2", "files": ["a"]}],
    "order": {"goal": "g"},
    "comment.2026": {"text": "no"},
}


@pytest.fixture
def store(tmp_path):
    with Store.open(Layout(tmp_path)) as found:
        yield found


def test_old_rows_load():
    found = memory.decode(STORED)
    assert (found.spent, found.failing) == (Spent(1.5, 7, 0.1, 0.0), ("AC1",))
    assert found.last_check == CheckSeen("t", ("AC1",))
    assert found.protected == ProtectedChange(("a",), (), "s", "t", "d")
    assert (found.stop_requested, found.landed_commit) == ("enough", "1")
    assert found.stacked_on == ("r0",)
    assert [note.files for note in found.weather] == [("a",)]
    assert found.others == {"order": {"goal": "g"}, "comment.2026": {"text": "no"}}


def test_what_is_written_is_read_as_it_was():
    found = memory.decode(STORED)
    assert memory.decode(json.loads(json.dumps(memory.encode(found)))) == found
    assert memory.encode(EMPTY) == {}


def test_tasks_read_of_it_what_it_says(store):
    trial, spent = Trial("s", "a", 3), Spent(1.5, 7, 0.1)
    known = {"trial": trial, "spent": spent, "failing": ("AC1",), "reason_code": memory.QUEUED}
    kept = RunMemory(
        **known, protected=memory.decode(STORED).protected, landed=Moved("m", "0", "1")
    )
    row = RunRow("20260101-000000-000000", "now", "g", "stopped", 1, 0, "FAIL", "d")
    store.insert_run(row, (), memory.encode(kept))
    assert tries.is_queued(store, row)
    assert memory.is_queued(row, kept)
    assert tries.is_landed(store, row)
    assert tries.ranked(store, row) == [Contender(row, trial, ("AC1",), ("a",), 0.1, 7)]
    store.leave(
        row.run_id, "undone", memory.encode(RunMemory(undone=Moved("m", "1", "2")))["undone"]
    )
    assert not tries.is_landed(store, row)


def test_others_do_not_read_it_by_its_keys():
    """But for what a topic keeps with it under a key of its own."""
    root = Path(treadle.__file__).parent
    fields = "|".join(RunMemory._fields[:-1])
    raw = re.compile(rf"""\.kv\(|kv_value\([^)]*["'](?:{fields})["']""")
    found = {str(it.relative_to(root)) for it in root.rglob("*.py") if raw.search(it.read_text())}
    assert found == {
        "engine/run/memory.py",  # the codec
        "engine/elsewhere/fleet_run.py",  # writes run.json as the store has it
        "engine/recovery/repair.py",  # the same
        "tasks/tries.py",
    }


def test_only_what_changed_is_written():
    before = RunMemory(reason="r", lands=True, others={"tries": [1, 2], "order": {}})
    moved = Moved("main", "0", "1")
    after = before._replace(reason=None, landed=moved, others={"order": {}})
    assert memory.changes(before, after) == {
        "reason": None,
        "landed": moved._asdict(),
        "tries": None,
    }
    assert memory.apply(before, memory.changes(before, after)) == after


def test_values_that_are_not_what_they_should_be_are_forgotten():
    odd = {"spent": 5, "landed": {}, "weather": 1, "last_check": None, "stop_requested": "s"}
    assert memory.decode(odd) == RunMemory(stop_requested="s")
