"""What a run remembers is read from rows of any age, and only what changed is written."""

import json

from treadle.engine.run import memory
from treadle.engine.run.memory import EMPTY, CheckSeen, Moved, ProtectedChange, RunMemory, Spent

# As stores have it that were written before there was a record.
STORED = {
    "port_base": 20000,
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


def test_old_rows_load():
    found = memory.decode(STORED)
    assert (found.spent, found.failing) == (Spent(1.5, 7, 0.1, 0.0), ("AC1",))
    assert found.last_check == CheckSeen("t", ("AC1",))
    assert found.protected == ProtectedChange(("a",), (), "s", "t", "d")
    assert (found.stop_requested, found.landed_commit) == ("enough", "1")
    assert [note.files for note in found.weather] == [("a",)]
    assert found.others == {"order": {"goal": "g"}, "comment.2026": {"text": "no"}}


def test_what_is_written_is_read_as_it_was():
    found = memory.decode(STORED)
    assert memory.decode(json.loads(json.dumps(memory.encode(found)))) == found
    assert memory.encode(EMPTY) == {}


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
