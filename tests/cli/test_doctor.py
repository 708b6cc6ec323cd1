"""doctor: what it prints."""

from treadle.engine import lock
from treadle.layout import Layout


def test_healthy_project_as_a_document(call):
    call("init")
    said = call("doctor", "--json")
    found = said.document
    assert list(found) == ["ok", "checks", "sandbox", "repaired"]
    assert found["sandbox"]["tier"] in ("A", "B", "0")
    assert {"name", "ok", "detail", "fix"} == set(found["checks"][0])
    assert found["ok"] is (said.code == 0)


def test_trouble_is_shown_with_what_helps(call):
    said = call("doctor")
    assert said.code == 1
    assert "NOT  project" in said.out
    assert "try: treadle init\n" in said.out


def test_folder_without_git_is_a_finding_not_an_error(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = call("doctor", "--json").document
    assert found["ok"] is False
    assert found["checks"][-1]["name"] == "repository"


def test_holder_of_the_lock_is_named(call, repo):
    call("init")
    with lock.hold(Layout(repo)):
        detail = call("doctor", "--json").document["checks"][-1]["detail"]
    assert detail.startswith("held by pid ")
    assert not detail.endswith("Z")  # in the reader's own zone
    assert call("doctor", "--json").document["checks"][-1]["detail"] == "free"


def test_repair_rebuilds_a_damaged_store(call, repo):
    call("init")
    Layout(repo).database.write_bytes(b"this is no database" * 100)
    before = {check["name"]: check for check in call("doctor", "--json").document["checks"]}
    assert before["store"]["fix"] == ["treadle doctor --repair"]
    after = call("doctor", "--repair", "--json").document
    assert {check["name"]: check["ok"] for check in after["checks"]}["store"] is True
