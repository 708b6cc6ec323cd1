"""Roles with few rights: the SQL of docs/fleet.md, as workers and the people of a project."""

import json
import re
import secrets
from pathlib import Path

import psycopg
import pytest

from tests.fleet.lab import wait_for

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

DOCS = Path(__file__).parents[2] / "docs" / "fleet.md"
BLOCKS = re.findall(r"```sql\n(.*?)```", DOCS.read_text(), re.DOTALL)

# A worker's role may look at a project and no more.
READS = """
REVOKE shop_{own} FROM treadle_{own};
GRANT USAGE ON SCHEMA shop TO treadle_{own};
GRANT SELECT ON ALL TABLES IN SCHEMA shop TO treadle_{own};
"""


def test_workers_and_the_people_of_a_project_have_no_more_rights_than_they_need(shared):
    admin, own = shared.env["TREADLE_STORE"], secrets.token_hex(4)
    first, later = (
        re.sub(r"(TO|ROLE|AUTHORIZATION) (treadle|shop)", rf"\1 \2_{own}", block).replace(
            "GRANT shop", f"GRANT shop_{own}"
        )
        for block in BLOCKS
    )
    others = first[first.index("CREATE ROLE shop") :].replace("shop", "blog")
    say(admin, first, others)
    shared.env["TREADLE_STORE"] = re.sub("//[^@]*@", f"//treadle_{own}@", admin)
    shared.worker(name="third")
    wait_for(lambda: exists(admin, "treadle_fleet.fleet_jobs"))
    wait_for(lambda: granted(admin, later))
    looked = {it["name"]: it["ok"] for it in checks(shared)}
    assert (looked["database"], looked["key"], looked["clock"]) == (True, True, True)
    say(admin, "INSERT INTO treadle_fleet.fleet_projects VALUES ('blog', 'x', 'now')")
    shared.env |= {
        "TREADLE_STORE": re.sub("//[^@]*@", f"//shop_{own}@", admin),
        "TREADLE_STORE_SCHEMA": "shop",
    }
    (run_id,) = shared.queue()
    shared.wait_over(1)
    assert shared.show(run_id)["status"] == "passed"
    (waits,) = shared.queue()
    (called_off,) = shared.json("fleet", "cancel", "--where", "shop")["runs"]
    assert (called_off["run_id"], called_off["problem"]) == (waits, None)
    found = {it["repository"]: it["problem"] for it in shared.status()["repositories"]}
    assert found["shop"] is None
    assert "may not" in found["blog"]
    assert {it["name"] for it in checks(shared) if not it["ok"]} >= {"database", "store of blog"}
    seen = {it["name"]: it["detail"] for it in shared.json("fleet", "check")["checks"]}
    assert seen["store of blog"].startswith("left to others")
    assert "repository of blog" not in seen
    shared.env["TREADLE_STORE"] = re.sub("//[^@]*@", f"//treadle_{own}@", admin)
    assert [it["ok"] for it in checks(shared) if it["name"] == "store of shop"] == [True]
    say(admin, READS.format(own=own))
    (looked,) = [it for it in checks(shared) if it["name"] == "store of shop"]
    assert not looked["ok"]
    assert "permission denied" in looked["detail"]
    shared.env["TREADLE_STORE"] = re.sub("//[^@]*@", f"//shop_{own}@", admin)
    with pytest.raises(AssertionError):
        shared.json("fleet", "cancel", "--where", "blog")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        say(shared.env["TREADLE_STORE"], "CREATE SCHEMA mine")


def checks(lab) -> list[dict]:
    """Look from a worker's place."""
    return json.loads(lab.treadle("fleet", "check", "--json", cwd=lab.folder, check=False))[
        "checks"
    ]


def say(url: str, *texts: str) -> None:
    with psycopg.connect(url, autocommit=True) as line:
        for text in texts:
            line.execute(text.encode())


def granted(url: str, rights: str) -> bool:
    """Grant rights on tables; False while a worker that starts still changes them."""
    try:
        say(url, rights)
    except psycopg.errors.InternalError_:
        return False
    return True


def exists(url: str, table: str) -> bool:
    with psycopg.connect(url) as line:
        return line.execute("SELECT to_regclass(%s)", (table,)).fetchone() != (None,)
