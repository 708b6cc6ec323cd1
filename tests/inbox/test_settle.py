"""What a pass moved is made durable where it went before it is gone where it was."""

from treadle.files import atomic
from treadle.inbox import box
from treadle.layout import Layout


def test_the_inbox_comes_last_and_the_dead_letters_are_not_forgotten(tmp_path, monkeypatch):
    layout, synced = Layout(tmp_path), []
    monkeypatch.setattr(atomic, "sync", synced.append)
    for folder in (layout.inbox, layout.inbox_done, layout.inbox_dead):
        folder.mkdir(parents=True)
    box.settle(layout)
    assert synced == [layout.inbox_done, layout.inbox_dead, layout.inbox]
