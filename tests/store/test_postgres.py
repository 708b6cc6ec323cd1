"""PostgreSQL is another machine: it goes away, comes back, is too old, too new or says no."""

import threading
import time
from contextlib import closing
from datetime import UTC, datetime

import psycopg
import pytest

from tests.store.rows import RUN, T, commit, cursor, event, run_row
from tests.store.test_task_changes import TASK
from treadle.contract import Criterion
from treadle.errors import StoreError
from treadle.layout import Layout
from treadle.mail import claim as mail_claim
from treadle.store import address, fleet, letters, postgres
from treadle.store.letters import LetterRow
from treadle.store.postgres import Postgres
from treadle.store.runs import History
from treadle.store.store import Reader, Store
from treadle.store.tasks import TaskRow
from treadle.tasks import claim
from treadle.tasks.task import add

pytestmark = pytest.mark.real

NOW = datetime.fromisoformat(T)


@pytest.fixture
def database(pg_server, pg_store):
    return Postgres(pg_server, pg_store)


@pytest.fixture
def shared(database):
    """Return an open store with one run."""
    with Store.at(database) as store:
        store.insert_run(run_row(), (event(1),), {})
        yield store


def letter(number):
    place = (None, "new", None, "NEW_MESSAGES", f"{number:02d}.md")
    return LetterRow(
        *place, "a", "b", "inform", None, "new", f"{T}{number:02d}", *[None] * 3, "Hello"
    )


def take(store, agent="b", now=NOW):
    return store.write(lambda tx: mail_claim.take_row(tx, store.mail, agent, now), alone=False)


def cut_all_lines(server):
    """End every connection of treadle, and wait for their end."""
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
            " WHERE application_name = 'treadle'"
        )


def test_a_store_goes_on_after_the_server_came_back(shared, pg_server):
    cut_all_lines(pg_server)
    assert shared.last_seq(RUN) == 1
    commit(shared)
    assert shared.last_seq(RUN) == 2


def test_a_line_cut_within_a_transaction_saves_nothing(shared, pg_server):
    def change(tx):
        tx.connection.execute("UPDATE runs SET goal = 'half done'")
        cut_all_lines(pg_server)
        tx.connection.execute("UPDATE runs SET goal = 'done'")

    with pytest.raises(StoreError, match="cannot be reached") as caught:
        shared.write(change)
    assert caught.value.code == "store_unreachable"
    assert shared.run(RUN).goal == "goal"


@pytest.mark.parametrize("batch", [False, True], ids=["statement", "batch"])
def test_who_stands_still_in_a_transaction_is_cut_off_by_the_server(database, shared, batch):
    # The last thing it says makes it short of time: nobody is slow before that.
    hurry = "SELECT set_config('idle_in_transaction_session_timeout', ?, true)"
    writer = database.open_writer()
    writer.begin(alone=True)
    writer.connection.execute(hurry, ("60s" if batch else "100ms",))
    if batch:
        writer.connection.executemany(hurry, [("60s",), ("100ms",)])
    shared.leave(RUN, "x", {})  # waits for the lock that the other one holds
    with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
        writer.connection.execute("SELECT 1")
    writer.close()


def test_what_a_worker_has_open_is_ended_with_its_locks(database, shared, pg_server):
    sign = "&" if "?" in pg_server else "?"
    worker = Postgres(f"{pg_server}{sign}application_name=host-1234", database.schema)
    writer = worker.open_writer()
    writer.begin(alone=True)
    writer.connection.execute("SELECT 1")
    fleet.cut_off(shared, "host-1234")
    shared.leave(RUN, "x", {})
    with pytest.raises(psycopg.OperationalError):
        writer.connection.execute("SELECT 1")
    writer.close()


def test_a_line_cut_while_saving_says_that_nobody_knows(shared, pg_server):
    def change(tx):
        tx.connection.execute("UPDATE runs SET goal = 'done'")
        cut_all_lines(pg_server)

    with pytest.raises(StoreError, match="lost while a change was being saved"):
        shared.write(change)
    commit(shared)


@pytest.mark.parametrize(
    "url",
    ["postgresql://ada:geheim@127.0.0.1:1/x", "postgresql://ada:geheim@/x?host=/nowhere"],
)
def test_a_server_that_is_not_there_is_named_without_the_password(url):
    for kind in (Reader, Store):
        with pytest.raises(StoreError, match="cannot be reached") as caught:
            kind.at(Postgres(url, "shop"))
        assert "geheim" not in str(caught.value)


def test_a_user_whom_the_server_does_not_know_is_refused(pg_server):
    url = pg_server.replace("postgres:@", "nobody:geheim@", 1)
    with pytest.raises(StoreError, match="nobody") as caught:
        Reader.at(Postgres(url, "shop"))
    assert "geheim" not in str(caught.value)


def test_a_server_that_is_too_old_is_refused(pg_server, monkeypatch):
    monkeypatch.setattr(postgres, "_OLDEST", 99)
    with pytest.raises(StoreError, match="treadle needs 99 or newer") as caught:
        Reader.at(Postgres(pg_server, "shop"))
    assert caught.value.code == "store_too_old"


def test_a_user_without_rights_is_told_so(pg_server, pg_store):
    with psycopg.connect(pg_server, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {pg_store}_r LOGIN")
    url = pg_server.replace("postgres:@", f"{pg_store}_r:@", 1)
    with pytest.raises(StoreError, match="may not do this"):
        Store.at(Postgres(url, pg_store))
    with psycopg.connect(pg_server, autocommit=True) as admin:
        admin.execute(f"DROP ROLE {pg_store}_r")


def test_a_reader_cannot_write(shared, database):
    with closing(database.open_reader()) as reader, pytest.raises(psycopg.Error, match="read-only"):
        reader.execute("DELETE FROM runs")


def test_two_folders_of_one_name_do_not_share_a_schema_by_accident(pg_server, pg_store, tmp_path):
    Store.at(Postgres(pg_server, pg_store, f"host:{tmp_path}/a")).close()
    with pytest.raises(StoreError, match="store_schema") as caught:
        Reader.at(Postgres(pg_server, pg_store, f"host:{tmp_path}/b"))
    assert caught.value.code == "store_taken"
    Reader.at(Postgres(pg_server, pg_store)).close()


def test_projects_in_one_database_do_not_see_each_other(shared, pg_server, pg_store):
    other = f"{pg_store}_b"
    with Store.at(Postgres(pg_server, other)) as store:
        assert store.runs(limit=5) == []
        store.insert_run(run_row(goal="another"), (), {})
    assert shared.run(RUN).goal == "goal"
    with psycopg.connect(pg_server, autocommit=True) as admin:
        admin.execute(f"DROP SCHEMA {other} CASCADE")


def test_the_time_is_the_servers(shared, monkeypatch):
    with closing(psycopg.connect(shared._database._url)) as line:
        server = line.execute("SELECT clock_timestamp()").fetchone()[0]
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert abs((shared.now() - server).total_seconds()) < 60


def test_a_clock_that_drifted_away_from_the_servers_is_set_again(shared, database):
    database._clock = (0.0, time.monotonic() - 61)
    assert abs((database.now() - shared.now()).total_seconds()) < 60


def test_without_the_server_the_clock_goes_on():
    database = Postgres("postgresql://u@/x?host=/nowhere", "x")
    with pytest.raises(StoreError, match="cannot be reached"):
        database.now()
    database._clock = (1000.0, time.monotonic() - 61)
    assert 1061 <= database.now().timestamp() < 1100


def test_nul_is_kept_as_a_mark_because_the_server_has_no_room_for_it(shared):
    shared.advance(RUN, History(events=(event(2)._replace(message="a\0b"),)), cursor(), 1)
    assert shared.events(RUN, after=1)[0].message == "a�b"


def test_text_is_in_the_order_of_its_bytes(shared):
    for task in ("b", "B", "a"):
        shared.restore(run_row(f"20260123-145501-{ord(task):06x}", task_id=task), History())
    found = shared._reading.execute("SELECT task_id FROM runs ORDER BY task_id").fetchall()
    assert [row[0] for row in found] == ["B", "a", "b", None]


def test_a_commit_wakes_whoever_listens(shared, pg_store):
    with closing(address.find(Layout(shared.mail.root)).open_waker()) as waker:
        assert waker.wait(60)
        assert not waker.wait(0)
        later = threading.Timer(0.2, commit, (shared,))
        later.start()
        assert waker.wait(60)
        later.join()


def test_a_listener_whose_line_was_cut_takes_it_that_it_missed_something(shared, pg_server):
    with closing(address.find(Layout(shared.mail.root)).open_waker()) as waker:
        assert waker.wait(60)
        cut_all_lines(pg_server)
        commit(shared)
        assert any(waker.wait(0.1) for _ in range(600))


def test_other_projects_do_not_wake(shared, pg_server, pg_store):
    with closing(Postgres(pg_server, "elsewhere").open_waker()) as waker:
        assert waker.wait(60)
        commit(shared)
        assert not waker.wait(0.2)


def test_many_claim_at_once_and_no_letter_is_claimed_twice(shared, database):
    letters.insert(shared, [letter(number) for number in range(60)])
    taken = []

    def claim_all():
        with Store.at(database) as store:
            while found := take(store):
                taken.append(found[0].name)

    threads = [threading.Thread(target=claim_all) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(taken) == [letter(number).name for number in range(60)]


def test_a_letter_that_another_process_holds_is_passed_over(shared, database):
    letters.insert(shared, [letter(1), letter(2)])
    with closing(psycopg.connect(database._url)) as other:
        other.execute(f"SELECT 1 FROM {database.schema}.mail_index WHERE name = '01.md' FOR UPDATE")
        found = take(shared)
    assert found[0].name == "02.md"


def test_two_that_wait_for_each_other_both_get_through(shared, database):
    shared.write(lambda tx: tx.connection.execute("INSERT INTO counters VALUES ('a', 0), ('b', 0)"))
    both = threading.Barrier(2)

    def count(first, second):
        met = []

        def change(tx):
            for name in (first, second):
                tx.connection.execute(
                    "UPDATE counters SET value = value + 1 WHERE name = :name", {"name": name}
                )
                if not met:
                    met.append(both.wait(120))

        with Store.at(database) as store:
            store.write(change, alone=False)

    threads = [threading.Thread(target=count, args=pair) for pair in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    found = shared._reading.execute(
        "SELECT value FROM counters WHERE name IN ('a', 'b')"
    ).fetchall()
    assert found == [(2,), (2,)]


def test_a_schema_that_was_never_set_up_reads_as_empty_and_stays_so(database):
    with Reader.at(database) as reader:
        assert reader.runs(limit=5) == []
    assert not database.exists()


def test_the_address_leads_to_the_server(pg_server, pg_store, tmp_path):
    found = address.find(Layout(tmp_path))
    assert (type(found), found.schema) == (Postgres, pg_store)


def test_a_letter_does_not_take_a_task_that_somebody_else_took_meanwhile(
    database, shared, monkeypatch
):
    now = datetime.now(UTC)
    add(shared, TaskRow("B-1", "g", criteria=(Criterion("AC1", "g"),)), now)
    letters.insert(shared, [letter(1)._replace(intent="fix_bug", task_id="B-1")])
    taken, seen = claim.taken, []
    with Store.at(database) as other:

        def slowly(tx, task, *rest, **more):
            after = taken(tx, task, *rest, **more)
            if not seen:
                seen.append(after)
                claim.claim(other, "B-1", "ada", now)  # between the look and the change
            return after

        monkeypatch.setattr(claim, "taken", slowly)
        assert take(shared, now=now) is None
    assert shared.task("B-1").owner == "ada"


def test_of_two_letters_about_one_task_one_takes_it_along(shared, database, monkeypatch):
    task = shared.add_task(TASK._replace(lane="planned", owner=None, claim_id=None))
    about = (letter(number)._replace(intent="fix_bug", task_id=task.task_id) for number in (1, 2))
    letters.insert(
        shared, [row._replace(recipient=to) for row, to in zip(about, "bc", strict=True)]
    )
    both, winners, seen, taken = threading.Barrier(2, timeout=60), [], [], claim.taken

    def together(tx, task, agent, *rest):
        after = taken(tx, task, agent, *rest)
        if agent not in seen:
            seen.append(agent)
            both.wait()  # both have read the task while nobody held it
        return after

    monkeypatch.setattr(claim, "taken", together)

    def take_along(agent):
        with Store.at(database) as store:
            if take(store, agent):
                winners.append(agent)

    threads = [threading.Thread(target=take_along, args=(agent,)) for agent in "bc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert [shared.task(task.task_id).owner] == winners
