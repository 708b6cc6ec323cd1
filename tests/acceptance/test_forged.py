"""Records that somebody forged: they close what is open today, and never open what is closed."""

import json
import shutil

import pytest

from tests.acceptance.site import Site
from tests.builder import git

OPEN = {"mode": "off", "tier": "B", "hide": []}


@pytest.fixture
def site(project):
    return Site(project)


def forge(site, run_id, change):
    """Rewrite what a run's folder says, and lose the store, which is then made from it."""
    path = site.project.run_dir(run_id) / "run.json"
    document = json.loads(path.read_text())
    change(document["order"])
    path.write_text(json.dumps(document))
    for found in (site.root / ".treadle").glob("treadle.db*"):
        found.unlink()


def opened(order):
    order["sandbox"] = OPEN
    order["network"] = "full"
    order["checks"] |= {"writable": ["/"], "env_allow": ["SECRET"], "unix_sockets": True}


@pytest.mark.parametrize("is_trusted", [True, False])
def test_landing_a_forged_run_checks_it_in_todays_sandbox(
    site, tmp_path, monkeypatch, is_trusted, tier
):
    """The check of a forged run would write outside, and tell a variable."""
    monkeypatch.setenv("SECRET", "geheim")
    outside = tmp_path / "outside"
    run_id = site.passed(extra=tier)
    site.commit("mine.txt", "mine\n")
    command = f"touch {outside}; echo [$SECRET]; test -f done.txt"

    def change(order):
        opened(order)
        order["criteria"][0]["verify"] = command

    forge(site, run_id, change)
    shutil.rmtree(site.root / ".treadle" / "locks")
    if not is_trusted:
        site.project.treadle("trust", "--revoke")
    done = site.project.treadle("land", run_id, "--json")
    assert not outside.exists()
    log = site.project.run_dir(run_id) / "landing" / "AC1.txt"
    if is_trusted:
        assert done.code == 0, done
        assert "[]" in log.read_text()
        assert "geheim" not in log.read_text()
    else:
        assert (done.code, done.json["error"]["code"]) == (3, "untrusted")
        assert not log.exists()


@pytest.fixture(params=["A", "B"])
def tier(request):
    return f'[sandbox]\ntier = "{request.param}"\n'


def stopped(site):
    """Return a run that a budget stopped before it was done."""
    site.project.good_agents()
    return site.project.run_json("--budget", "max_iterations=1")["run_id"]


def test_a_forged_agent_is_not_started(site, tmp_path):
    run_id = stopped(site)

    def change(order):
        order["agents"]["act"]["config"]["cmd"] = ["touch", str(tmp_path / "outside")]
        opened(order)

    forge(site, run_id, change)
    again = ("run", "--resume", run_id, "--budget", "max_iterations=3", "--json")
    done = site.project.treadle(*again)
    assert (done.code, done.json["error"]["code"]) == (3, "agent_unknown"), done
    assert not (tmp_path / "outside").exists()
    assert site.project.treadle(*again, "--agent", "act=act").json["status"] == "passed"


def test_a_forged_routine_is_not_started(site, tmp_path):
    run_id = stopped(site)
    argv = ["sh", str(tmp_path / "evil.sh")]
    (tmp_path / "evil.sh").write_text(f"touch {tmp_path}/outside\n")

    def change(order):
        order["script"] = {"argv": argv, "in_project": True, "env": {}}
        order["agents"]["act"]["config"] = {"type": "builtin", "run": argv}
        opened(order)

    forge(site, run_id, change)
    done = site.project.treadle("run", "--resume", run_id, "--budget", "max_iterations=3")
    assert done.code == 3, done
    assert not (tmp_path / "outside").exists()


def test_a_resumed_run_works_in_todays_sandbox(site, tmp_path, monkeypatch, tier):
    monkeypatch.setenv("SECRET", "geheim")
    site.project.extra = tier
    run_id = stopped(site)
    code = (
        "\nimport contextlib\n"
        "with contextlib.suppress(OSError):\n"
        f"    open({str(tmp_path / 'outside')!r}, 'w')\n"
        "write('files/seen.txt', os.environ.get('SECRET', 'nothing'))\n"
    )
    path = site.project.folder / "act.py"
    path.write_text(path.read_text() + code)

    def change(order):
        opened(order)
        for agent in order["agents"].values():
            agent["config"] |= {"writable": [str(tmp_path)], "env_allow": ["SECRET"]}

    forge(site, run_id, change)
    done = site.project.treadle("run", "--resume", run_id, "--budget", "max_iterations=3", "--json")
    assert done.json["status"] == "passed", done
    assert not (tmp_path / "outside").exists()
    (seen,) = site.project.run_dir(run_id).glob("steps/*-act/files/seen.txt")
    assert seen.read_text() == "nothing"


LOOK = [
    ("why", "{run}"),
    ("report", "{run}"),
    ("log", "{run}"),
    ("runs", "show", "{run}"),
    ("runs", "list"),
    ("undo", "{run}"),
    ("land", "{run}"),
    ("run", "--resume", "{run}"),
    ("replay", "export", "{run}", "../recording"),
    ("runs", "prune"),
    ("doctor", "--repair"),
    ("task", "list"),
    ("mail", "list"),
    ("next",),
    ("desk",),
    ("init",),
    ("uninstall",),
    ("trust",),
]


@pytest.mark.real
def test_a_linked_folder_is_no_project(site):
    """A clone brings the whole history of a run behind a link."""
    run_id = site.passed()
    shutil.copytree(site.root / ".treadle", site.root / "docs" / "history", symlinks=True)
    shutil.rmtree(site.root / ".treadle")
    (site.root / ".treadle").symlink_to("docs/history")
    git(site.root, "add", "-Af")
    git(site.root, "commit", "-q", "-m", "A gift")
    before = {path: path.lstat().st_mtime_ns for path in site.root.rglob("docs/**/*")}
    for words in LOOK:
        done = site.project.treadle(*(word.format(run=run_id) for word in words), "--json")
        assert (done.code, done.json["error"]["code"]) == (3, "state_linked"), (words, done)
    told = site.project.treadle("doctor")
    assert told.code == 1
    assert ".treadle is a link" in told.out
    assert {path: path.lstat().st_mtime_ns for path in site.root.rglob("docs/**/*")} == before


@pytest.mark.real
@pytest.mark.parametrize("name", ["runs", "treadle.db", "locks", "inbox", "config.toml", "mail"])
def test_a_linked_part_is_refused_too(site, name):
    path = site.root / ".treadle" / name
    elsewhere = site.root / "elsewhere"
    if path.exists():
        path.rename(elsewhere)
    path.symlink_to("../elsewhere")
    done = site.project.treadle("runs", "list", "--json")
    assert (done.code, done.json["error"]["code"]) == (3, "state_linked")
    assert str(path) in done.json["error"]["message"]
    assert done.json["error"]["fix"][0] == f"rm {path}"


@pytest.mark.real
@pytest.mark.parametrize(
    "name",
    [
        "treadle.db",
        "treadle.db-wal",
        "runs/20260101-000000-000000/run.json",
        "locks/run.lock",
        "prompts/next.md",
        "mail/TASKS/T-1.md",
        "hooks/beforeAll.txt",
        "inbox/done/x.md",
    ],
)
def test_tracked_records_are_refused_by_whatever_takes_the_lock(site, name):
    site.commit(f".treadle/{name}", "")
    site.project.treadle("trust")
    for words in (("run",), ("process",), ("undo", "x"), ("report", "x"), ("trust",), ("init",)):
        done = site.project.treadle(*words, "--json")
        assert (done.code, done.json["error"]["code"]) == (3, "state_tracked"), (words, done)


@pytest.mark.real
def test_a_submodule_is_no_folder_of_treadles_own(site, tmp_path):
    shutil.copytree(site.root / ".treadle", tmp_path / "evil")
    git(tmp_path / "evil", "init", "-q")
    git(tmp_path / "evil", "add", "-Af")
    git(tmp_path / "evil", "commit", "-q", "-m", "Evil")
    git(site.root, "rm", "-rq", "-f", ".treadle")
    shutil.rmtree(site.root / ".treadle", ignore_errors=True)
    file = ("-c", "protocol.file.allow=always")
    git(site.root, *file, "submodule", "add", "-q", str(tmp_path / "evil"), ".treadle")
    git(site.root, "commit", "-q", "-m", "Sub")
    done = site.project.treadle("land", "x", "--json")
    assert (done.code, done.json["error"]["code"]) == (3, "state_tracked"), done
