"""What belongs to no step is written down once, also when the store fails in between."""

import os

import pytest

from treadle.contract import Criterion
from treadle.contract.events import EventType, NewEvent
from treadle.engine import session
from treadle.engine.run import begin, order, run_files
from treadle.errors import StoreError
from treadle.project.context import open_context


def test_what_the_store_refused_is_not_left_in_the_runs_file(project, monkeypatch):
    project.settings('[agents.do]\ntype = "builtin"\nrun = ["true"]\n')
    context = open_context(project.root, os.environ)
    asked = order.freeze(
        context.settings.config,
        text="x",
        criteria=[Criterion("AC1", "x", "true")],
        swaps={},
        task_id=None,
    )

    def refuse(*_):
        raise StoreError("the disk is full")

    with session.opened(context, watch=lambda _: None) as tools:
        run = begin.begin_run(tools, asked)
        with monkeypatch.context() as broken:
            broken.setattr(tools.store, "advance", refuse)
            with pytest.raises(StoreError):
                run.record(NewEvent(EventType.RUN_RESUMED, "lost"))
        run.end("stopped", "interrupted", "enough")
        kept = run_files.read_run(run.folder.run_json).events
        assert [event.seq for event in kept] == list(range(1, len(kept) + 1))
        assert list(kept) == tools.store.events(run.id)
