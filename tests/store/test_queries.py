"""Hot queries find their rows by an index, however many there are."""

import pytest

from treadle.store import address
from treadle.store.transaction import QUERIES, sql

WHOLE_TABLE_IS_THE_ANSWER = {
    "step_names": "recovery compares every step with its folder",
    "run_ids": "recovery looks for folders without a row, a person for the end of an id",
    "runs_with_key": "recovery looks for moves of a branch that a kill cut off",
    "tasks": "the list of all tasks",
    "run_counts": "how many there are of each status, from an index",
    "task_counts": "how many there are in each lane, from an index",
    "task_links": "the board shows what every task waits for",
    "chains": "a page of it, by its key",
    "task_ids": "the nearest id for an unknown one",
    "questions": "everything that ever waited for a human",
    "question_ids": "the nearest id for an unknown one",
    "mail_folders": "every folder is compared with how it looked",
    "mission_names": "there are few, and the names of all are compared",
    "looks_of_task_files": "every file is compared with how it looked",
    "lagging_tasks": "every task is compared with its files",
    "agents_seen": "whoever ever wrote, claimed or moved anything",
    "workers": "the list of all workers",
    "cut_off": "a file has no sessions to end",
    "own_lines": "a file has no sessions to count",
    "forget_workers": "every worker's last beat is looked at",
    "leader": "there is one row",
    "outages": "the tools that cannot work now: a handful",
    "fleet_projects": "the list of all projects",
    "runs_by_status": "every run is counted",
}


class Anything(dict):
    """A value for every parameter."""

    def __missing__(self, key):
        return ""


@pytest.fixture(scope="module")
def schema():
    """Return an empty database with every table and index."""
    connection = address.open_empty()
    yield connection
    connection.close()


def plan(schema, query):
    values = ("",) * query.count("?") if "?" in query else Anything()
    return [row[3] for row in schema.execute(f"EXPLAIN QUERY PLAN {query}", values)]


@pytest.mark.parametrize("name", sorted(set(QUERIES) - set(WHOLE_TABLE_IS_THE_ANSWER)))
def test_no_query_scans_a_table(schema, name):
    open_only = (
        "SCAN questions USING INDEX questions_open",
        "SCAN mail_index USING INDEX mail_pending",
        "SCAN runs USING INDEX runs_owned",
        "SCAN kv_run USING INDEX kv_queued",
    )
    scans = [line for line in plan(schema, sql(name)) if "SCAN" in line]
    # Newer versions of SQLite also say where an index has all they need.
    scans = [line.replace("COVERING INDEX", "INDEX") for line in scans]
    assert [line for line in scans if line not in open_only] == []


@pytest.mark.parametrize("name", WHOLE_TABLE_IS_THE_ANSWER)
def test_the_exceptions_are_still_needed(schema, name):
    assert any("SCAN" in line for line in plan(schema, sql(name)))


def test_pages_are_read_in_order_without_sorting(schema):
    pages = ("runs_page", "runs_page_by_status", "runs_page_like", "runs_with_prefix")
    for name in (*pages, "events", "steps"):
        assert not any("TEMP B-TREE" in line for line in plan(schema, sql(name))), name
