"""Open pages hear of every change, and of nothing else."""

import asyncio
from contextlib import ExitStack, aclosing, asynccontextmanager, suppress

import pytest

from treadle.layout import Layout
from treadle.store.runs import History, RunRow
from treadle.store.store import Store
from treadle.web import live
from treadle.web.live import Feed

RUN = RunRow("20260101-000000-000000", "2026-01-01T00:00:00Z", "g", "running", 1, 0, None, "r")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.real)])
def layout(tmp_path, request):
    if request.param == "postgres":
        request.getfixturevalue("pg_store")
    (tmp_path / ".treadle").mkdir()
    return Layout(tmp_path)


def test_changes_of_store_logs_and_folders_are_told_by_topic(layout):
    async def watch():
        feed = Feed(layout)
        heard = []
        async with listening(feed, "") as stream:
            heard += [topic(await anext(stream)) for _ in live.TOPICS]
            with Store.open(layout) as store:
                store.restore(RUN, History())
            heard.append(await another(stream, "files"))
            log = layout.run(RUN.run_id).live
            log.mkdir(parents=True)
            (log / "stderr.txt").write_text("hello")
            heard.append(await another(stream, "store"))
            layout.inbox.mkdir()
            heard.append(await another(stream, "live"))
        return heard

    assert run(watch()) == ["store", "live", "files", "store", "live", "files"]


def test_the_log_of_a_run_that_worked_before_is_followed(layout):
    with Store.open(layout) as store:
        store.restore(RUN, History())
    log = layout.run(RUN.run_id).live
    log.mkdir(parents=True)

    async def watch():
        async with listening(Feed(layout), "") as stream:
            for _ in live.TOPICS:
                await anext(stream)
            (log / "stderr.txt").write_text("hello")
            return topic(await anext(stream))

    assert run(watch()) == "live"


def test_whoever_comes_back_hears_only_what_is_new(layout):
    async def come_back():
        feed = Feed(layout)
        async with listening(feed, "") as stream:
            last = [await anext(stream) for _ in live.TOPICS][-1]
            id_ = last.split("\n")[0].removeprefix("id: ")
            async with listening(feed, id_) as again:
                silent = await quiet(again)
            async with listening(feed, "another.server") as other:
                return silent, topic(await anext(other))

    assert run(come_back()) == (True, "store")


def test_whoever_was_away_hears_what_others_heard_meanwhile(layout):
    async def miss():
        feed = Feed(layout)
        async with listening(feed, "") as stream:
            last = [await anext(stream) for _ in live.TOPICS][-1]
            with Store.open(layout) as store:
                store.restore(RUN, History())
            heard = topic(await anext(stream))
            async with listening(feed, last.split("\n")[0][4:]) as again:
                return heard, topic(await anext(again))

    assert run(miss()) == ("store", "store")


def test_what_happens_while_nobody_looks_is_not_lost(layout):
    async def leave():
        feed = Feed(layout)
        async with listening(feed, "") as stream:
            last = [await anext(stream) for _ in live.TOPICS][-1]
        async with listening(feed, last.split("\n")[0][4:]) as stream:
            return topic(await anext(stream))

    assert run(leave()) == "store"


def test_a_store_that_cannot_be_read_ends_the_stream(tmp_path, monkeypatch):
    monkeypatch.setattr(live, "_ALIVE", 2)
    (tmp_path / ".treadle").mkdir()
    layout = Layout(tmp_path)
    with Store.open(layout) as store:
        store.restore(RUN, History())

    async def damage():
        feed = Feed(layout)
        async with listening(feed, "") as stream:
            for _ in live.TOPICS:
                await anext(stream)
            layout.database.write_bytes(b"no database" * 2000)
            async for _ in stream:
                pass
        async with listening(feed, "") as stream:
            return [text async for text in stream]

    assert run(damage()) == []


def test_only_so_many_streams_have_a_seat(layout):
    feed = Feed(layout)
    with ExitStack() as stack:
        seats = [stack.enter_context(feed.seat()) for _ in range(live.MAX_STREAMS + 1)]
        assert seats == [True] * live.MAX_STREAMS + [False]
    with feed.seat() as is_free:
        assert is_free


@asynccontextmanager
async def listening(feed, last_id):
    with feed.seat():
        async with aclosing(feed.stream(last_id)) as stream:
            yield stream


def run(work):
    return asyncio.run(asyncio.wait_for(work, 120))


def topic(text):
    return text.split("event: ")[1].split("\n")[0]


async def another(stream, last):
    """Return the next topic that is another; a new store is told of in several parts."""
    while (found := topic(await anext(stream))) == last:
        pass
    return found


async def quiet(stream):
    with suppress(TimeoutError):
        await asyncio.wait_for(anext(stream), 3 * live._EVERY)
        return False
    return True
