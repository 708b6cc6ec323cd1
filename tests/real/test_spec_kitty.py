"""The real spec-kitty beside treadle: missions of one answered, and loaded, by the other."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.mission import REAL_PLAN, REAL_SPEC, Mission
from tests.builder import Project

HOME = Path(__file__).parents[2] / ".cache" / "spec-kitty" / "bin"
pytestmark = [pytest.mark.real, pytest.mark.all, pytest.mark.timeout(900)]
TASK = """---
work_package_id: {id}
title: Make {file}
dependencies: []
requirement_refs: [FR-001]
subtasks: [{subtask}]
owned_files: [{file}]
create_intent: [{file}]
authoritative_surface: {file}
execution_mode: code_change
---
# Make {file}

## Objectives & Success Criteria

- It is there: `$ test -f {file}`
"""
LIST = """# Work Packages

## Work Package WP01: Make a.txt

**Requirements**: FR-001

- [ ] T001 Write a.txt

## Work Package WP02: Make b.txt

**Requirements**: FR-001

- [ ] T002 Write b.txt
"""
# Index a mission as spec-kitty does, compare that with the snapshot that lies there, save its own.
DOSSIER = """
import json, sys
from pathlib import Path
from specify_cli.dossier.indexer import Indexer
from specify_cli.dossier.manifest import ManifestRegistry
from specify_cli.dossier.models import ArtifactRef
from specify_cli.dossier.snapshot import compute_snapshot, load_snapshot, save_snapshot
folder = Path(sys.argv[1])
found = load_snapshot(folder, folder.name)
own = compute_snapshot(Indexer(ManifestRegistry()).index_feature(folder, "software-dev"))
if "save" in sys.argv:
    save_snapshot(own, folder)
for item in found.artifact_summaries if found else []:
    ArtifactRef(**item)
print(json.dumps({
    "loaded": found and found.model_dump(mode="json"),
    "is_equal": found == own,
    "components": own.parity_hash_components,
}))
"""


class Kitty:
    """The real program in a project of its own branch, where it also keeps missions."""

    def __init__(self, project: Project, folder: Path):
        if not (HOME / "spec-kitty").exists():
            pytest.skip("spec-kitty is NOT INSTALLED; run scripts/test --real")
        self.project, self.folder, self.slug = project, folder, ""
        folder.mkdir()
        project.git("switch", "-q", "-c", "work")
        self.say("init", "--ai", "claude", "--non-interactive")
        self.commit("Set up spec-kitty")

    def start(self, *words: str) -> str:
        quiet = {"SPEC_KITTY_NO_UPGRADE_CHECK": "1", "TMPDIR": str(self.folder)}
        done = subprocess.run(
            words,
            cwd=self.project.root,
            env=self.project.environment(quiet),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def say(self, *words: str) -> str:
        return self.start(str(HOME / "spec-kitty"), *words)

    def mission(self, *words: str) -> dict:
        return json.loads(self.say("agent", "mission", *words, "--json"))

    def commit(self, subject: str, root: Path | None = None) -> None:
        at = ("-C", str(root)) if root else ()
        self.project.git(*at, "add", "-A")
        self.project.git(*at, "commit", "-q", "--allow-empty", "-m", subject)

    @property
    def home(self) -> Path:
        return self.project.root / "kitty-specs" / self.slug

    def create(self, topology: str = "single_branch") -> None:
        said = ("--friendly-name", "Log in", "--purpose-tldr", "x", "--purpose-context", "x")
        shape = ("--branch-strategy", "already-confirmed", "--topology", topology)
        self.slug = self.mission("create", "log-in", *said, *shape)["mission_slug"]

    def specify(self) -> None:
        (self.home / "spec.md").write_text(REAL_SPEC)
        self.commit("Specify")

    def plan(self) -> None:
        (self.home / "plan.md").write_text(REAL_PLAN)
        assert self.mission("setup-plan", "--mission", self.slug)["phase_complete"]

    def tasks(self) -> None:
        (self.home / "tasks.md").write_text(LIST)
        for number, file in ((1, "a.txt"), (2, "b.txt")):
            text = TASK.format(id=f"WP0{number}", file=file, subtask=f"T00{number}")
            (self.home / "tasks" / f"WP0{number}-make.md").write_text(text)
        assert self.mission("finalize-tasks", "--mission", self.slug)["wp_count"] == 2

    def analyze(self) -> None:
        report = self.folder / "analysis.md"
        report.write_text("# Analysis\n\nAll is covered.\n")
        self.mission("record-analysis", "--mission", self.slug, "--input-file", str(report))

    def act(self, action: str, task: str, agent: str) -> None:
        self.say("agent", "action", action, task, "--agent", agent, "--mission", self.slug)

    def implement(self, task: str, file: str) -> None:
        """Do a task's work in the worktree that spec-kitty made for it."""
        lane = {"WP01": "lane-a", "WP02": "lane-b"}[task]
        tree = self.project.root / ".worktrees" / f"{self.slug}-{lane}"
        (tree / file).write_text("made\n")
        self.commit(f"feat({task}): make {file}", tree)
        done = ("agent", "tasks", "mark-status", f"T0{task[2:]}", "--status", "done")
        self.say(*done, "--mission", self.slug)

    def move(self, task: str, lane: str, *words: str) -> None:
        self.say(
            *("agent", "tasks", "move-task", task, "--to", lane, "--mission", self.slug),
            *("--note", "fine", "--json", *words),
        )
        self.commit("What spec-kitty left uncommitted")

    def finish(self) -> None:
        verdict = ("--criterion", "FR-001", "--result", "pass", "--evidence", "seen")
        self.mission("acceptance-verdict", "--mission", self.slug, *verdict, "--actor", "me")
        self.say("accept", "--mission", self.slug, "--mode", "local", "--lenient", "--json")
        self.say("merge", "--mission", self.slug, "--yes")

    def dossier(self, *words: str) -> dict:
        return json.loads(
            self.start(str(HOME / "python"), "-c", DOSSIER, str(self.home), *words).splitlines()[-1]
        )


@pytest.fixture
def kitty(project, tmp_path) -> Kitty:
    return Kitty(project, tmp_path / "kitty")


class Clones:
    """Ask `next` about a mission where nothing is known but what git carries."""

    def __init__(self, kitty: Kitty, folder: Path):
        self.kitty, self.folder, self.count = kitty, folder, 0

    def ask(self) -> tuple[str, str, str | None]:
        self.count += 1
        root = self.folder / f"clone-{self.count}"
        self.kitty.project.git("clone", "-q", str(self.kitty.project.root), str(root))
        return asked(Project(root, self.folder), self.kitty.slug, "ada")


def asked(project: Project, slug: str, agent: str) -> tuple[str, str, str | None]:
    words = ("next", "--json", "--mission", slug, "--agent", agent)
    found = project.treadle(*words).json
    assert "error" not in found, found
    task = found["task_id"] and found["task_id"].rpartition(".")[2]
    return found["kind"], found["phase"], task


def test_a_mission_of_spec_kitty_is_answered_rightly_from_beginning_to_end(kitty, tmp_path):
    """Neither finished work nor work that its agents hold is handed out: not in a clone, and
    what is finished not either where the store had given it to somebody before."""
    clones = Clones(kitty, tmp_path)
    kitty.create()
    assert clones.ask() == ("step", "specify", None)
    kitty.specify()
    assert clones.ask() == ("step", "plan", None)
    kitty.plan()
    assert clones.ask() == ("step", "tasks", None)
    kitty.tasks()
    assert clones.ask() == ("step", "implement", "WP01")
    assert asked(kitty.project, kitty.slug, "ada") == ("step", "implement", "WP01")
    kitty.analyze()
    kitty.act("implement", "WP01", "claude")
    assert clones.ask() == ("step", "implement", "WP02")
    kitty.implement("WP01", "a.txt")
    kitty.move("WP01", "for_review", "--skip-pre-review-gate")
    assert clones.ask() == ("step", "implement", "WP02")
    kitty.act("review", "WP01", "codex")
    kitty.move("WP01", "approved")
    assert clones.ask() == ("step", "implement", "WP02")
    kitty.act("implement", "WP02", "claude")
    kitty.implement("WP02", "b.txt")
    kitty.move("WP02", "for_review", "--skip-pre-review-gate")
    assert clones.ask() == ("step", "review", "WP02")
    kitty.act("review", "WP02", "codex")
    kitty.move("WP02", "approved")
    assert clones.ask() == ("step", "accept", None)
    kitty.finish()
    assert clones.ask() == ("complete", "accept", None)
    for agent in ("ada", "bob"):
        assert asked(kitty.project, kitty.slug, agent) == ("complete", "accept", None)


def test_what_spec_kitty_notes_in_a_checkout_of_its_own_counts(kitty):
    """Where it keeps the status on a branch for that, the mission's folder says nothing of it."""
    kitty.create("lanes_with_coord")
    for stage in (kitty.specify, kitty.plan, kitty.tasks):
        stage()
    held = ("--agent", "claude", "--force")
    kitty.move("WP01", "claimed", *held)
    assert asked(kitty.project, kitty.slug, "ada") == ("step", "implement", "WP02")
    kitty.move("WP02", "canceled", *held)
    assert asked(kitty.project, kitty.slug, "ada") == ("blocked", "implement", None)


def test_treadle_reads_the_snapshot_that_spec_kitty_wrote(kitty):
    for stage in (kitty.create, kitty.specify, kitty.plan, kitty.tasks):
        stage()
    assert kitty.dossier("save")["loaded"] is None
    path = kitty.home / ".kittify" / "dossiers" / kitty.slug / "snapshot-latest.json"
    before = path.read_bytes()
    told = kitty.project.treadle("mission", "dossier", "--json").json
    assert (told["written"], path.read_bytes()) == (False, before)
    assert told["snapshot_id"] == json.loads(before)["snapshot_id"]
    path.unlink()
    assert kitty.project.treadle("mission", "dossier", "--json").json["written"]
    assert kitty.dossier()["is_equal"]
    assert "PARITY" in kitty.say("reconcile", "--mission", kitty.slug)


def test_a_mission_finished_by_treadle_is_loaded_by_spec_kitty(kitty):
    """Its meta.json, its tasks and its snapshot are whole for the other program."""
    (kitty.project.root / "kitty-specs").mkdir()
    mission = Mission(kitty.project, "auth", "kitty-specs").create()
    kitty.slug = "auth"
    kitty.commit("Whatever is left")
    mission.with_tasks("requirement_refs: [FR-001]\n", "owned_files: ['a: b', \"ü\"]\n")
    for agent in ("ada", "ada", "bob", "bob", "bob"):
        if mission.next("--agent", agent)["phase"] == "implement":
            work = kitty.project.root / "work.txt"
            work.write_text(f"{agent} {len(work.read_text()) if work.exists() else 0}")
            kitty.commit("Work")
        mission.next("--agent", agent, "--result", "success")
    assert mission.next()["kind"] == "complete"
    saved = kitty.project.treadle("mission", "dossier", "--json").json
    assert saved["completeness_status"] == "complete"
    found = kitty.dossier()
    assert found["is_equal"]
    assert found["loaded"]["required_missing"] == 0
    assert found["loaded"]["snapshot_id"] == saved["snapshot_id"]
    assert found["components"] == saved["parity_hash_components"]
    assert "PARITY" in kitty.say("reconcile", "--mission", "auth")
    status = json.loads(kitty.say("agent", "tasks", "status", "--mission", "auth", "--json"))
    assert [item["id"] for item in status["work_packages"]] == ["WP01", "WP02"]
    asked = json.loads(kitty.say("next", "--agent", "x", "--mission", "auth", "--json"))
    assert (asked["kind"], asked["progress"]["total_wps"]) == ("query", 2)
