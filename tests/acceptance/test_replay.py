"""Record a run in one file and play it again, with no model or with one role swapped."""

import io
import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest

import treadle
from treadle.sandbox import jails


def recorded(project, tmp_path, *extra):
    """Return a run of scripted agents and its recording."""
    project.good_agents()
    project.git("commit", "-q", "-a", "-m", "Agents")
    run = project.run_json(*extra)
    assert run["status"] == "passed"
    path = tmp_path / "run.tar.gz"
    done = project.treadle("replay", "export", run["run_id"], str(path), "--json")
    assert done.json["files"] > 10
    return run, path


def test_a_run_is_replayed_without_its_agents(project, tmp_path):
    run, path = recorded(project, tmp_path)
    for agent in project.folder.glob("*.py"):
        agent.unlink()
    again = project.treadle("replay", str(path), "--json").json
    assert (again["status"], again["steps"]) == ("passed", run["steps"])
    assert again["run_id"] != run["run_id"]
    assert project.git("rev-parse", f"{again['branch']}^{{tree}}") == project.git(
        "rev-parse", f"{run['branch']}^{{tree}}"
    )


def test_edits_are_replayed_too(project, tmp_path):
    project.settings('sandbox = "off"\n')
    project.good_agents()
    project.agent("do", '(repo / "new.txt").write_text("edited"); ok()', edits=True)
    project.agent("check", 'verdict("PASS", AC1=True); ok()')
    project.git("commit", "-q", "-a", "-m", "Agents")
    run = project.run_json()
    path = tmp_path / "run.tar.gz"
    assert project.treadle("replay", "export", run["run_id"], str(path)).code == 0
    linked = tmp_path / "linked"
    project.git("worktree", "add", "-q", str(linked))
    assert project.treadle("trust", cwd=linked).code == 0
    for root in (project.root, linked):
        again = project.treadle("replay", str(path), "--json", cwd=root).json
        assert again["status"] == "passed"
        assert project.git("show", f"{again['branch']}:new.txt") == "edited"


def test_turns_without_anything_to_do_are_replayed_too(project, tmp_path):
    project.config["act"] = 'type = "builtin"\nrun = ["sh", "-c", "echo x > new.txt"]\n'
    project.settings('sandbox = "off"\n')
    asked = ("--goal", "There is a file", "--verify", "AC1=test -s new.txt")
    run = project.treadle("run", *asked, "--json").json
    assert run["status"] == "passed", run
    path = tmp_path / "run.tar.gz"
    assert project.treadle("replay", "export", run["run_id"], str(path)).code == 0
    again = project.treadle("replay", str(path), "--json").json
    assert (again["status"], again["steps"]) == ("passed", run["steps"])


def test_one_role_can_be_swapped(project, tmp_path):
    _, path = recorded(project, tmp_path)
    project.agent("strict", 'verdict("FAIL", AC1=False); ok("strict")')
    done = project.treadle("replay", str(path), "--swap", "check=strict", "--json")
    steps = project.show(done.json["run_id"])["steps"]
    assert done.json["verdict"] == "FAIL"
    assert [step["agent"] for step in steps][:4] == ["replay", "replay", "strict", "replay"]


def test_a_foreign_recording_runs_no_commands_unasked(project, tmp_path):
    canary = tmp_path / "canary"
    asked = {"version": 1, "run_id": "20250101-000000-000000", "text": "g", "base_commit": None}
    asked["criteria"] = [["AC1", "t", f"touch {canary}"]]
    path = tmp_path / "foreign.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        add(archive, "recording.json", json.dumps(asked).encode())
    done = project.treadle("replay", str(path), "--json")
    assert (done.code, done.json["error"]["code"]) == (3, "untrusted")
    assert not canary.exists()


def add(archive, name, data, **changes):
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    for key, value in changes.items():
        setattr(entry, key, value)
    archive.addfile(entry, io.BytesIO(data))


def test_odd_recordings_are_refused(project, tmp_path):
    for number, (name, changes) in enumerate(
        [("../up", {}), ("/abs", {}), ("link", {"type": tarfile.SYMTYPE, "linkname": "/etc"})]
    ):
        path = tmp_path / f"odd{number}.tar"
        with tarfile.open(path, "w") as archive:
            add(archive, name, b"x" if not changes else b"", **changes)
        done = project.treadle("replay", str(path), "--json")
        assert (done.code, done.json["error"]["code"]) == (1, "format_invalid")
    (tmp_path / "endless").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    for name in ("endless", "pipe"):
        done = project.treadle("replay", str(tmp_path / name), "--json", timeout=60)
        assert (done.code, done.json["error"]["code"]) == (1, "format_invalid")
    (tmp_path / "text").write_text("hello")
    text = project.treadle("replay", str(tmp_path / "text"), "--json").json["error"]
    missing = project.treadle("replay", "missing", "--json").json["error"]
    assert (text["code"], missing["code"]) == ("format_invalid", "not_found")
    assert text["fix"] == missing["fix"] == ["treadle runs list", "treadle replay --help"]


@pytest.mark.real
@pytest.mark.parametrize("tier", ["A", "B"])
def test_recorded_edits_are_applied_in_the_sandbox(project, tmp_path, tier):
    """A filter of the user's may run what the recorded agent wrote."""
    if jails.probe(tier).tier != tier:
        pytest.skip(f"TIER {tier} CANNOT RUN HERE")
    canary = tmp_path / "canary"
    project.settings(f'[sandbox]\ntier = "{tier}"\n')
    (project.root / ".gitattributes").write_text("*.txt filter=x\n")
    (project.root / "tidy.sh").write_text("cat\n")
    project.good_agents()
    evil = f"touch {canary}; tr a-z A-Z\n"
    write = f'(repo / "tidy.sh").write_text({evil!r}); (repo / "z.txt").write_text("text\\n"); ok()'
    project.agent("do", write, edits=True)
    project.agent("check", 'verdict("PASS", AC1=True); ok()')
    project.git("add", ".")
    project.git("commit", "-q", "-a", "-m", "Agents")
    run = project.run_json()
    path = tmp_path / "run.tar.gz"
    assert project.treadle("replay", "export", run["run_id"], str(path)).code == 0
    project.git("config", "filter.x.smudge", "sh tidy.sh")
    again = project.treadle("replay", str(path), "--json").json
    assert again["status"] == "passed"
    assert project.git("show", f"{again['branch']}:z.txt") == "TEXT\n"  # so it ran
    assert not canary.exists()


def test_packaged_recordings_may_be_hard_links_as_installers_make_them(project, tmp_path):
    packaged = Path(treadle.__file__).parent / "cli" / "demo_recording"
    linked = tmp_path / "linked"
    shutil.copytree(packaged, linked, copy_function=os.link)
    project.settings(
        "".join(
            f'[agents.{role}]\ntype = "replay"\nrecording = "{linked}"\n'
            for role in ("plan", "do", "check", "act")
        )
    )
    found = project.run_json()
    steps = project.show(found["run_id"])["steps"]
    assert [step["status"] for step in steps][:1] == ["ok"], steps
