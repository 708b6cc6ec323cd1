"""The main commands do the same when the store is a PostgreSQL server."""

import json

import psycopg
import pytest

from tests.acceptance import (
    test_inbox,
    test_land,
    test_mail,
    test_next,
    test_resume,
    test_run,
    test_task,
)
from tests.builder import wait_for

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("pg_store")]

AGAIN = (
    test_task.test_add_list_show,
    test_task.test_links_make_tasks_wait_and_circles_are_refused,
    test_task.test_claim_move_release_done,
    test_run.test_run_passes_in_the_second_iteration_after_a_patch,
    test_run.test_ready_tasks_run_in_order_of_their_dependencies,
    test_resume.test_resume_with_a_raised_budget_goes_on,
    test_land.test_a_passed_run_lands_as_one_commit,
    test_inbox.test_specs_are_processed_in_alphabetical_order_one_at_a_time,
    test_mail.test_the_message_flow_example,
    test_mail.test_escalation_reaches_the_desk_and_the_answer_comes_back,
    test_mail.test_searching_reading_and_archiving,
    test_next.test_a_mission_from_its_spec_to_its_end,
)
for _test in AGAIN:
    globals()[_test.__name__] = _test
added, mail, site = test_task.added, test_mail.mail, test_land.site


@pytest.fixture
def rows(pg_server, pg_store):
    """Return a function that asks the server itself."""

    def ask(sql):
        with psycopg.connect(pg_server) as connection:
            return connection.execute(sql.format(schema=pg_store)).fetchall()

    return ask


def test_the_rows_are_in_the_server_and_no_file_is_made(project, rows):
    assert project.treadle("task", "add", "First").code == 0
    assert rows("SELECT task_id FROM {schema}.tasks") == [("T-1",)]
    assert not (project.root / ".treadle" / "treadle.db").exists()
    assert project.treadle("doctor", "--json").json["ok"]


def test_a_project_moves_to_the_server_and_goes_on_there(project, rows, pg_server, monkeypatch):
    monkeypatch.delenv("TREADLE_STORE")
    project.good_agents()
    run_id = project.run_json()["run_id"]
    project.treadle("task", "add", "First")
    before = project.show(run_id)
    moved = project.treadle("store", "copy", "--to", pg_server, "--json").json
    assert moved["rows"]["steps"] == len(before["steps"])
    project.settings("\n".join(moved["config"]) + "\n")
    (project.root / ".treadle" / "treadle.db").unlink()
    assert project.show(run_id) == before
    assert project.treadle("land", run_id, "--json").code == 0
    assert rows("SELECT count(*) FROM {schema}.runs") == [(1,)]


def test_log_follows_until_the_run_ends(project):
    project.good_agents()
    project.agent("do", "time.sleep(1); ok()")
    process = project.start("run", "--goal", "Make done.txt", "--ac", "it is there")
    run_id = wait_for(lambda: project.treadle("runs", "list", "--json").json["runs"])[0]["run_id"]
    followed = project.treadle("log", "-f", run_id, "--json")
    process.communicate(timeout=120)
    types = [json.loads(line)["type"] for line in followed.out.splitlines()]
    assert types == project.event_types(run_id)
    assert (types[0], types[-1]) == ("run_started", "run_passed")


def test_a_server_that_is_gone_is_named_and_the_password_is_not(project):
    gone = {"TREADLE_STORE": "postgresql://ada:geheim@127.0.0.1:1/x"}
    for words in (("runs", "list"), ("task", "add", "x"), ("run", "--goal", "x"), ("doctor",)):
        done = project.treadle(*words, "--json", env=gone)
        assert done.code == 1
        assert "geheim" not in done.out + done.err
        assert "cannot be reached" in done.out
