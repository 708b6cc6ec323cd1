"""`treadle adopt`: everything of other systems comes in or is named, and stays as it was."""

import contextlib
import hashlib
import json
import sqlite3
import subprocess
import tomllib
from collections import Counter

import pytest
import yaml

from tests.acceptance import foreign
from tests.builder import git, write_files


def digests(root, names):
    return {name: hashlib.sha256((root / name).read_bytes()).hexdigest() for name in names}


def adopt(project, *more):
    done = project.treadle("adopt", "--json", *more, env={"NORMA_MODEL": "gpt-5-codex"})
    return done.json | {"code": done.code}


@pytest.mark.real
def test_everything_comes_in_once_is_counted_and_the_original_stays(project):
    names = foreign.write_all(project.root)
    before = digests(project.root, names - {"specs/processed-spec.md"})
    planned = adopt(project, "--dry-run")
    assert not (project.root / ".treadle" / "adopted").exists()
    done = adopt(project)
    assert planned["pieces"] == done["pieces"]  # also the names that two of them want
    assert (done["code"], done["unaccounted"]) == (0, [])
    assert list(done["systems"]) == [
        *("decree", "norma", "spec-kitty", "circe"),
        *("spec-kit", "backlog", "openspec", "task-master"),
    ]
    # Counted by files: every one of them is spoken for, and nothing else is.
    assert {it["source"].partition("#")[0] for it in done["pieces"]} == names
    assert digests(project.root, before) == before
    check_decree(project)
    check_norma(project, done)
    check_tasks(project)
    again = adopt(project)
    assert "brought" not in Counter(it["result"] for it in again["pieces"])
    more = {it["source"] for it in again["pieces"]} - {it["source"] for it in done["pieces"]}
    # What was a migration is a spec now, and a task stands where it was moved to.
    assert more == {"specs/07-add-cache.spec.md", "kitty-specs/001-login/tasks/WP02-old.md"}


def check_decree(project):
    home = project.root / ".treadle"
    routines = project.treadle("routine", "list", "--json").json["routines"]
    assert {"develop", "deploy/site"} <= {it["name"] for it in routines}
    routine = (home / "routines" / "develop.sh").read_text()
    assert "# pre-check: DECREE_PRE_CHECK=true bash .treadle/routines/develop.sh\n" in routine
    project.treadle("trust")
    checked = project.treadle("routine", "check", "develop", "--json")
    assert checked.code == 0, checked.out
    assert (home / "inbox" / "2025022514320000-1.md").read_text().endswith("Fix it.\n")
    dead = [home / "inbox" / "dead" / f"2025022514320000-0{it}.md" for it in ("", "-decree")]
    assert [it.read_text() for it in dead] == ["This one died.\n", "So did this one.\n"]
    assert (home / "cron" / "nightly.md").is_file()
    listed = {
        it["name"]: it["state"] for it in project.treadle("spec", "list", "--json").json["specs"]
    }
    assert {"02-add-database.spec.md", "07-add-cache.spec.md"} <= set(listed)
    lines = (project.root / "specs" / "processed-spec.md").read_text().split()
    assert lines == ["01-add-auth.spec.md", "06-add-login.spec.md"]
    config = tomllib.loads((home / "config.toml").read_text())
    assert (config["max_retries"], config["default_routine"]) == (4, "deploy/site")
    assert config["hooks"]["beforeAll"] == ["bash", ".treadle/routines/develop.sh"]
    assert config["agents"]["plan"] == {"type": "exec", "cmd": ["./bin/plan"]}
    assert config["agents"]["act"]["model"] == "gpt-5-codex"
    assert "do" not in config["agents"]


def check_norma(project, done):
    rows = project.root / ".treadle" / "adopted" / "norma" / "rows"
    kept = [json.loads((rows / f"{run}.json").read_bytes()) for run in foreign.RUNS]
    assert [(len(it["steps"]), len(it["events"])) for it in kept] == [(1, 3), (0, 0)]
    notes = {it["source"]: it["note"] for it in done["pieces"]}
    assert notes[".norma/config.json#agents.do"] == "set NOT_SET_ANYWHERE first"
    assert notes[f".norma/norma.db#{foreign.RUNS[0]}"] == "1 step, 3 events"
    assert notes[".norma/norma.db#tasks"] == "treadle has no such table"
    assert ".norma/norma.db#schema_migrations" not in notes
    assert notes[".decree/processed.md## Done"] == "it names no spec"
    (note,) = (note for name, note in notes.items() if name.endswith("WP02-old.md"))
    assert subprocess.run(note.partition(": ")[2], shell=True, cwd=project.root).returncode == 0
    status = project.treadle("mission", "status", "--json").json
    assert status["tasks"] == {"planned": 1, "in_progress": 1}


def check_tasks(project):
    rows = {it["task_id"]: it for it in project.treadle("task", "list", "--json").json["tasks"]}
    lanes = {id_: row["lane"] for id_, row in rows.items()}
    assert lanes == {
        f"norma-{foreign.RUNS[0]}": "done",
        f"norma-{foreign.RUNS[1]}": "planned",
        "SK-003-shop-T001": "done",
        "SK-003-shop-T002": "planned",
        "SK-003-shop-T002-2": "done",
        "BL-task-1": "planned",
        "BL-task-2": "done",
        "BL-task-9": "canceled",
        "OS-add-2fa": "planned",
        "OS-add-sso": "planned",
        "TM-1": "done",
        "TM-2": "planned",
        "AUTH-012": "in_progress",
        **{id_: lane for id_, lane in lanes.items() if id_.startswith(("FEAT", "001-login"))},
    }
    pay = project.treadle("task", "show", "BL-task-1", "--json").json
    assert [it["text"] for it in pay["criteria"]] == ["2 cards work"]
    assert pay["depends_on"] == ["BL-task-2"]
    # Agents are told the goal and not only what stood below it; no word becomes a command.
    kept = project.root / ".treadle" / "mail" / "TASKS"
    told = "# People can pay\n\nPeople can pay\n\n## Acceptance Criteria\n"
    assert (kept / "BL-task-1.md").read_text().startswith(told)
    page = "Make the page \\x1b[31m` rm -rf /`"
    told = f"\n{page}\n\nSee specs/003-shop/\n\n## Acceptance Criteria\n- AC1: {page}\n"
    assert (kept / "SK-003-shop-T002.md").read_text().endswith(told)
    shown = project.treadle("task", "show", f"norma-{foreign.RUNS[1]}", "--json").json
    assert all(it["verify"] is None for it in shown["criteria"])


MASTER = {"id": 1, "title": "Theirs", "dependencies": 5, "subtasks": "none"}


@pytest.mark.real
def test_broken_databases_clashes_and_links_are_named_and_end_nothing(project):
    write_files(
        project.root,
        {
            ".norma/norma.db": b"not a database at all" * 100,
            ".norma/config.json": "[" * 100_000,
            ".decree/config.yml": "max_retries: [",
            ".decree/migrations/06-login.md": "# Theirs\n",
            ".decree/processed.md": "06-login.md\n",
            "specs/06-login.spec.md": "# Mine\n",
            ".decree/routines/develop.sh": "#!/bin/sh\n# Theirs\n",
            ".treadle/routines/develop.sh": "#!/bin/sh\n# Mine\n",
            ".taskmaster/tasks/tasks.json": json.dumps({"tasks": [MASTER, {"title": "No id"}, 7]}),
        },
    )
    (project.root / ".decree" / "inbox").mkdir()
    (project.root / ".decree" / "inbox" / "a.md").symlink_to("/etc/passwd")
    project.treadle("task", "add", "Mine", "--id", "TM-1")
    for result in ("brought", "already"):
        done = adopt(project)
        found = {it["source"]: (it["result"], it["target"]) for it in done["pieces"]}
        notes = {it["source"]: it["note"] for it in done["pieces"]}
        assert (done["code"], done["unaccounted"]) == (0, [])
        assert notes[".norma/config.json"] == "it is not a JSON object"
        assert "expected" in notes[".decree/config.yml"]
        assert found == {
            ".decree/config.yml": ("left", None),
            ".decree/inbox/a.md": ("left", None),
            ".decree/migrations/06-login.md": (
                result,
                found[".decree/migrations/06-login.md"][1],
            ),
            ".decree/processed.md": ("in_place", None),
            ".decree/processed.md#06-login.md": (
                result,
                found[".decree/processed.md#06-login.md"][1],
            ),
            ".decree/routines/develop.sh": (result, found[".decree/routines/develop.sh"][1]),
            **{name: ("in_place", None) for name in found if name.startswith("specs/")},
            ".norma/config.json": ("left", None),
            ".norma/norma.db": ("left", None),
            ".taskmaster/tasks/tasks.json": ("in_place", None),
            ".taskmaster/tasks/tasks.json#master/1": (
                result,
                found[".taskmaster/tasks/tasks.json#master/1"][1],
            ),
            ".taskmaster/tasks/tasks.json#master/None": ("left", None),
            ".taskmaster/tasks/tasks.json#master/7": ("left", None),
        }
    routines = project.root / ".treadle" / "routines"
    assert (routines / "develop.sh").read_text() == "#!/bin/sh\n# Mine\n"
    assert (routines / "develop-decree.sh").read_text() == "#!/bin/sh\n# Theirs\n"
    assert (project.root / "specs/processed-spec.md").read_text() == "06-login-decree.spec.md\n"
    tasks = project.treadle("task", "list", "--json").json["tasks"]
    assert {it["task_id"]: it["goal"] for it in tasks} == {"TM-1": "Mine", "TM-1-2": "Theirs"}


NAMES = {
    ".decree/routines/git/develop.sh": foreign.ROUTINE,
    ".decree/config.yml": "default_routine: git/develop\ncommands:\n  router: decree ai\n"
    "hooks:\n  beforeAll: git/develop\n  afterAll: nowhere\n",
    ".decree/inbox/fix.md": "---\nroutine: git/develop\n---\nFix it.\n",
    ".treadle/routines/git/develop.sh": "#!/bin/sh\n# Mine\nexit 1\n",
}


ROUTED = (
    *(".decree/routines/git/develop.sh", ".decree/inbox/fix.md"),
    *("default_routine", "hooks.beforeAll"),
)


def test_what_names_a_routine_follows_it_to_the_name_that_was_free(project):
    write_files(project.root, NAMES)
    for result in ("brought", "already"):
        found = {it["source"].rpartition("#")[2]: it for it in adopt(project)["pieces"]}
        kept = {name: it["result"] for name, it in found.items() if name in ROUTED}
        assert kept == dict.fromkeys(ROUTED, result)
    home = project.root / ".treadle"
    assert (
        "bash .treadle/routines/git/develop-decree.sh\n"
        in (home / "routines" / "git" / "develop-decree.sh").read_text()
    )
    config = tomllib.loads((home / "config.toml").read_text())
    assert config["default_routine"] == "git/develop-decree"
    assert config["hooks"] == {"beforeAll": ["bash", ".treadle/routines/git/develop-decree.sh"]}
    assert "commands" not in config  # decree's own router is a part of decree
    assert "\nroutine: git/develop-decree\n" in (home / "inbox" / "fix.md").read_text()


WRONG = {
    "agents": {
        "a": {"type": "exec", "cmd": 5},
        "b": {"type": "pool"},
        "c": {"use": "nobody"},
        "do": {"type": "codex", "model": "m", "path": "src", "shell": "zsh"},
    },
    "budgets": {"max_iterations": "many", "max_patch_kb": 7, "max_cats": 9},
}


def test_no_setting_is_brought_that_the_configuration_would_not_take(project):
    write_files(project.root, {".norma.json": json.dumps(WRONG), ".norma/config.json": '{"x": {}}'})
    project.settings("[budgets]  # mine\nmax_minutes = 5\n")
    done = adopt(project)
    notes = {it["source"].rpartition("#")[2]: (it["result"], it["note"]) for it in done["pieces"]}
    assert (done["code"], done["unaccounted"]) == (0, [])
    assert {name for name, (result, _) in notes.items() if result == "brought"} == {
        *("agents.do", "budgets.max_patch_kb")
    }
    assert notes["agents.do"] == ("brought", "without shell")
    assert "agents.a.cmd must be a list" in notes["agents.a"][1]
    assert all(note for result, note in notes.values() if result == "left")
    config = project.treadle("config", "show", "--json").json
    assert config["config"]["budgets"]["max_patch_kb"] == 7, config


PROFILES = {
    "profile": "fast",
    "agents": {"quick": {"type": "exec", "cmd": ["./bin/quick", "${NORMA_MODEL}"]}},
    "profiles": {"fast": {"pdca": {"plan": "quick", "do": "quick"}}, "slow": {"do": "x"}},
}


@pytest.mark.parametrize(
    ("name", "write"), [(".norma/config.yaml", yaml.safe_dump), (".norma.json", json.dumps)]
)
def test_profiles_of_norma_say_who_plays_the_roles(project, name, write):
    write_files(project.root, {name: write(PROFILES)})
    assert adopt(project)["code"] == 0
    config = tomllib.loads((project.root / ".treadle" / "config.toml").read_text())
    assert config["agents"] == {
        "quick": {"type": "exec", "cmd": ["./bin/quick", "gpt-5-codex"]},
        "plan": {"use": "quick"},
        "do": {"use": "quick"},
    }
    assert project.treadle("config", "show", "--json").json["roles"]["plan"]["agent"] == "quick"


def test_init_beside_another_system_says_that_it_can_move_in(project):
    write_files(project.root, {"backlog/tasks/task-1.md": "---\nid: task-1\ntitle: Pay\n---\n"})
    (project.root / ".treadle" / "config.toml").unlink()
    assert "backlog can be moved in: treadle adopt --dry-run" in project.treadle("init").out


EVIL = 'x]\ntype = "exec"\ncmd = ["true"]\n[sandbox]\nmode = "off"\n[agents.y'


def norma_database(path, *runs, table="CREATE TABLE runs (run_id, goal, status, created_at, b)"):
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as database:
        database.execute(table)
        for run in runs:
            database.execute("INSERT INTO runs VALUES (?, 'g', 'passed', '1', x'00ff')", (run,))
    database.close()


def test_what_strangers_left_leads_nowhere_and_sets_nothing_else(project):
    root, outside = project.root, project.folder / "outside"
    write_files(outside, {"credentials": "hunter2", "tasks/tasks.json": '{"tasks": []}'})
    kept = {"cmd": ["./a", "${MY_TOKEN}"]}, {"cmd": None}, {"cmd": ["${QUOTED}"]}
    agents = dict(zip(("leak", "null", "fine"), kept, strict=True)) | {EVIL: {"cmd": ["true"]}}
    agents = {name: {"type": "exec", **agent} for name, agent in agents.items()}
    write_files(root, {".norma.json": json.dumps({"agents": agents})})
    (root / ".decree").symlink_to(outside)
    (root / ".taskmaster").symlink_to(outside)
    runs = ("../../../../../outside/made/x", "../../../../.git/planted", "good-1")
    norma_database(root / ".norma" / "norma.db", *runs)
    env = {"MY_TOKEN": "tk-hunter2hunter2", "QUOTED": 'say "hi"'}
    done = project.treadle("adopt", "--json", env=env).json
    found = {it["source"]: it["result"] for it in done["pieces"]}
    assert found == {
        ".decree": "left",
        ".norma/norma.db": "in_place",
        **{f".norma/norma.db#{run}": "left" for run in runs[:2]},
        ".norma/norma.db#good-1": "brought",
        ".norma/norma.db#good-1/goal": "brought",
        ".norma.json": "in_place",
        ".norma.json#agents.leak": "left",
        ".norma.json#agents.null": "left",
        ".norma.json#agents.fine": "brought",
        f".norma.json#agents.{EVIL}": "left",
        ".taskmaster": "in_place",
        ".taskmaster/tasks/tasks.json": "left",
    }
    assert not (outside / "made").exists()
    assert not (root / ".git" / "planted.json").exists()
    kept = [path for path in (root / ".treadle").rglob("*") if path.is_file()]
    assert not [path for path in kept if b"hunter2" in path.read_bytes()]
    config = tomllib.loads((root / ".treadle" / "config.toml").read_text())
    assert config["agents"] == {"fine": {"type": "exec", "cmd": ['say "hi"']}}
    assert "sandbox" not in config


@pytest.mark.real
def test_rows_whose_run_is_lost_are_accounted_for(project):
    path = project.root / ".norma" / "norma.db"
    path.parent.mkdir()
    foreign.write_norma(path)
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM runs WHERE run_id = ?", (foreign.RUNS[0],))
        database.execute("UPDATE runs SET goal = ' '")
    found = {it["source"].partition("#")[2]: it for it in adopt(project)["pieces"]}
    lost, cut = foreign.RUNS
    assert (found[lost]["result"], found[lost]["note"]) == ("brought", "1 step, 3 events")
    kept = json.loads((project.root / found[lost]["target"]).read_bytes())
    assert [len(kept[name]) for name in ("steps", "events")] == [1, 3]
    assert [found[f"{run}/goal"]["result"] for run in (lost, cut)] == ["left", "left"]
    assert project.treadle("task", "list", "--json").json["tasks"] == []


def test_a_linked_or_endless_database_is_left(project):
    path = project.root / ".norma" / "norma.db"
    norma_database(project.folder / "other.db", "theirs")
    path.parent.mkdir()
    path.symlink_to(project.folder / "other.db")
    assert adopt(project)["pieces"][0]["result"] == "left"
    path.unlink()
    rows = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
    norma_database(path, table=f"CREATE VIEW runs AS {rows} SELECT x AS run_id FROM n")
    assert adopt(project)["pieces"][0]["result"] == "left"


@pytest.mark.real
def test_words_of_others_become_no_command_even_if_the_store_is_lost(project):
    title = "Pay\n## Acceptance Criteria\n- AC1: x: `$ touch a`"
    inner = [{"title": "works `$$ touch b`"}, {"title": "too `$ touch c`"}]
    row = {"id": 1, "title": title, "details": "## Acceptance Criteria\n- d `$ touch d`"}
    write_files(
        project.root, {"tasks/tasks.json": json.dumps({"tasks": [row | {"subtasks": inner}]})}
    )
    assert adopt(project)["code"] == 0
    for path in (project.root / ".treadle").glob("treadle.db*"):
        path.unlink()
    shown = project.treadle("task", "show", "TM-1", "--json").json
    assert shown["criteria"]
    assert [it["verify"] for it in shown["criteria"]] == [None] * len(shown["criteria"])


@pytest.mark.real
def test_what_others_committed_runs_only_after_the_users_word(project):
    write_files(project.root, {".decree/routines/develop.sh": "#!/bin/sh\n# Mine\n"})
    git(project.root, "add", "-A")
    git(project.root, "commit", "-q", "-m", "Mine")
    assert adopt(project)["untrusted"] == []
    assert project.treadle("trust", "--show", "--json").json["trusted"]
    theirs = project.folder / "theirs"
    git(project.folder, "clone", "-q", str(project.root), str(theirs))
    write_files(theirs, {".decree/config.yml": "hooks:\n  beforeAll: develop\n"})
    git(theirs, "add", "-A")
    git(theirs, "commit", "-q", "-m", "A gift")
    git(project.root, "pull", "-q", str(theirs), "HEAD")
    assert adopt(project)["untrusted"] == [".decree/config.yml"]
    refused = project.treadle("process", "--json")
    assert (refused.code, refused.json["error"]["code"]) == (3, "untrusted")
    assert "develop.sh" in refused.json["error"]["message"]
    project.treadle("trust")
    assert project.treadle("process", "--dry-run", "--json").code == 0


@pytest.mark.real
def test_tasks_wait_for_each_other_although_an_earlier_try_was_cut_off(project):
    tasks = {name: text for name, text in foreign.LISTS.items() if name.startswith("backlog/")}
    write_files(project.root, tasks)
    for id_, goal in (("BL-task-1", "People can pay"), ("BL-task-2", "A basket")):
        project.treadle("task", "add", goal, "--id", id_)
    assert adopt(project)["code"] == 0
    assert project.treadle("task", "show", "BL-task-1", "--json").json["depends_on"] == [
        "BL-task-2"
    ]
