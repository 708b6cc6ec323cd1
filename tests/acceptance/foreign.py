"""Repositories as other systems leave them, laid out after their own contracts."""

import contextlib
import json
import sqlite3
from pathlib import Path

from tests.builder import write_files

ROUTINE = """#!/bin/bash
# Develop a feature
#
# It asks an agent.
if [ "${DECREE_PRE_CHECK:-}" = "true" ]; then
    command -v sh >/dev/null || exit 1
    exit 0
fi
echo "$message_file"
"""
DECREE = {
    ".decree/config.yml": "commands:\n  router: cat\n  planning: cat\nmax_retries: 4\n"
    "default_routine: deploy/site\nhooks:\n  beforeAll: develop\nmax_depth: 10\n",
    ".decree/routines/develop.sh": ROUTINE,
    ".decree/routines/deploy/site.sh": "#!/bin/sh\n# Deploy the site\n:\n",
    ".decree/migrations/07-add-cache.md": "# Add a cache\n",
    ".decree/processed.md": "# Done\n- 06-add-login.md\n",
    ".decree/inbox/2025022514320000-1.md": "---\nchain: 2025022514320000\nseq: 1\n---\nFix it.\n",
    ".decree/inbox/dead/2025022514320000-0.md": "This one died.\n",
    ".decree/inbox/dead/again/2025022514320000-0.md": "So did this one.\n",
    ".decree/cron/nightly.md": '---\ncron: "0 3 * * *"\nroutine: develop\n---\nTidy up.\n',
    ".decree/runs/2025022514320000-0/routine.log": "it ran\n",
    "specs/01-add-auth.spec.md": "---\nroutine: develop\n---\n# Add auth\n",
    "specs/02-add-database.spec.md": "# Add a database\n",
    "specs/processed-spec.md": "01-add-auth.spec.md\n",
}
RUNS = ("20260123-145501-ab12cd", "20260124-080000-00ff11")
NORMA = {
    ".norma/config.json": json.dumps(
        {
            "agents": {
                "plan": {"type": "exec", "cmd": ["./bin/plan"]},
                "act": {"type": "codex", "model": "${NORMA_MODEL}"},
                "do": {"type": "exec", "cmd": ["./bin/do", "${NOT_SET_ANYWHERE}"]},
            },
            "budgets": {"max_iterations": 5, "max_patch_kb": 200},
        }
    ),
    **{
        f".norma/runs/{run}/norma.md": "# Goal\n\n## Acceptance Criteria\n\n- It: `$ rm -rf /`\n"
        for run in RUNS
    },
    f".norma/runs/{RUNS[0]}/steps/001-plan/output.json": '{"version": 1, "status": "ok"}',
    f".norma/runs/{RUNS[0]}/steps/001-plan/logs/stdout.txt": "planned\n",
    f".norma/runs/{RUNS[1]}/steps/001-plan.tmp-77/input.json": "{}",
    ".norma/locks/run.lock": "",
}
KITTY = {
    "kitty-specs/001-login/meta.json": '{"slug": "001-login"}',
    "kitty-specs/001-login/spec.md": "# Login\n",
    "kitty-specs/001-login/tasks/WP01-form.md": "---\nlane: planned\n---\n# Form\n",
    "kitty-specs/001-login/tasks/doing/WP02-old.md": "---\nlane: doing\n---\n# Old\n",
    ".kittify/config.yaml": "agents: []\n",
}
CIRCE = {
    "circe/NEW_MESSAGES/20251106_140211_coordinator-engineer_implement-feature_FEAT-021.md": """\
# MESSAGE
from: coordinator
to: engineer
intent: implement_feature
task_id: FEAT-021
status: new
created_at: 2025-11-06T14:02:11Z

## Summary
Add an endpoint.
""",
    "circe/TASKS/AUTH-012.md": "# AUTH-012\n",
    "circe/TASKS/AUTH-012.status": "task_id: AUTH-012\nstatus: in_progress\nowner: engineer\n"
    "started_at: 2025-11-06T14:05:00Z\nupdated_at: 2025-11-06T15:30:00Z\n",
    "circe/TASKS/AUTH-012.owner": "owner: engineer\nclaimed_at: 2025-11-06T14:05:00Z\n",
}
LISTS = {
    "specs/003-shop/spec.md": "# Shop\n",
    "specs/003-shop/tasks.md": "# Tasks\n- [x] T001 [P] [US1] Make the model\n"
    "- [ ] T002 Make the page \x1b[31m`$ rm -rf /`\n- [ ] no id here\n"
    "- [x] **T002** The same number\n",
    "backlog/config.yml": "project_name: shop\n",
    "backlog/tasks/task-1 - Pay.md": "---\nid: task-1\ntitle: People can pay\nstatus: To Do\n"
    "dependencies: [task-2]\n---\n## Acceptance Criteria\n- [ ] #1 2 cards work\n",
    "backlog/tasks/task-2 - Basket.md": "---\nid: task-2\ntitle: A basket\nstatus: Done\n---\n",
    "backlog/archive/tasks/task-9 - Old.md": "---\nid: task-9\ntitle: Old\nstatus: To Do\n---\n",
    "backlog/tasks/task-3.md": "---\nid: task-3\n---\n",
    "openspec/changes/add-2fa/proposal.md": "# Add two factors\n\nWhy: safety.\n",
    "openspec/changes/add-sso/proposal.md": "# Add single sign-on\n",
    "openspec/changes/add-2fa/tasks.md": "## 1\n- [x] 1.1 Secret\n- [ ] 1.2 Form\n",
    ".taskmaster/config.json": "{}",
    ".taskmaster/tasks/tasks.json": json.dumps(
        {
            "master": {
                "tasks": [
                    {"id": 1, "title": "Set up", "status": "done", "subtasks": []},
                    {
                        "id": 2,
                        "title": "Ship",
                        "status": "pending",
                        "dependencies": [1],
                        "subtasks": [{"id": 1, "title": "Tag it"}],
                    },
                ]
            }
        }
    ),
}


def write_all(root: Path) -> set[str]:
    """Lay everything out and return the names of all the files."""
    every = {**DECREE, **NORMA, **KITTY, **CIRCE, **LISTS}
    write_files(root, every)
    write_norma(root / ".norma" / "norma.db")
    return {*every, ".norma/norma.db"}


def write_norma(path: Path) -> None:
    """Write the database of norma's contract: a passed run, and one that was cut off."""
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.executescript(
            """
            CREATE TABLE runs (run_id TEXT PRIMARY KEY, created_at TEXT NOT NULL,
                goal TEXT NOT NULL, status TEXT NOT NULL, iteration INTEGER NOT NULL DEFAULT 0,
                current_step_index INTEGER NOT NULL DEFAULT 0, verdict TEXT, run_dir TEXT NOT NULL);
            CREATE TABLE steps (run_id TEXT, step_index INTEGER, role TEXT, iteration INTEGER,
                status TEXT, step_dir TEXT, started_at TEXT, ended_at TEXT, summary TEXT,
                PRIMARY KEY (run_id, step_index));
            CREATE TABLE tasks (id TEXT PRIMARY KEY);
            CREATE TABLE schema_migrations (version INTEGER PRIMARY KEY);
            CREATE TABLE events (run_id TEXT, seq INTEGER, ts TEXT, type TEXT, message TEXT,
                data_json TEXT, PRIMARY KEY (run_id, seq));
            """
        )
        for run, status in zip(RUNS, ("passed", "running"), strict=True):
            row = (run, "2026-01-23T14:55:01Z", f"Goal of {run}", status, 1, 1, None, "x")
            database.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        step = (RUNS[0], 1, "plan", 1, "ok", "x", "2026-01-23T14:55:01Z", None, "planned")
        database.execute("INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", step)
        for seq in (1, 2, 3):
            event = (RUNS[0], seq, "2026-01-23T14:55:01Z", "step_committed", "plan", None)
            database.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", event)
