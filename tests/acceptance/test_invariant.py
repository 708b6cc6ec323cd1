"""After any command the tree is exactly as clean as before, unless changing it is its job."""

import pytest

from tests.acceptance.mission import Mission
from treadle.cli import main

# The whole list of commands whose job is to change the tree, and why.
CHANGES_THE_TREE = {
    "init": "writes its files",
    "uninstall": "removes them",
    "land": "brings a run's work into the branch",
    "undo": "takes it out again",
    "answer": "does what is answered, such as land",
    "process": "lists finished specs and lands their work",
    "serve": "does what process does, again and again",
    "adopt": "writes the specs, missions and routines that it brings in",
}
# What every other command is called with here; RUN stands for a passed run.
LEAVES_IT_ALONE = {
    "trust": [()],
    "doctor": [(), ("--repair",)],
    "config": [("show",)],
    "describe": [("--json",)],
    "completion": [("bash",)],
    "instructions": [(), ("review",)],
    "import": [(".treadle/issue.md",)],
    "notify": [()],
    "telemetry": [("RUN",)],
    "mcp": [()],
    "pr": [("RUN",), ("status",)],
    "agent": [("show", "check")],
    "task": [
        ("add", "goal"),
        ("add", "another"),
        ("list",),
        ("show", "WP01"),
        ("link", "T-2", "--depends-on", "T-1"),
        ("link", "T-2", "--depends-on", "T-1", "--remove"),
        ("claim", "WP01"),
        ("reserve", "WP01", "README.md"),
        ("release", "WP01"),
        ("move", "WP01", "--to", "claimed"),
        ("done", "T-1"),
        ("edit", "T-2", "--goal", "other"),
        ("remove", "T-2"),
    ],
    "mission": [("status",), ("list",), ("dossier",)],
    "next": [(), ("--query",), ("--result", "failed"), ("--retry",)],
    "run": [("--goal", "g", "--verify", "AC1=true")],
    "rebase": [("RUN",)],
    "status": [()],
    "spec": [("list",)],
    "verify": [()],
    "enter": [("RUN", "--", "touch", "x")],
    "stop": [("RUN",)],
    "comment": [("RUN", "text", "--step", "1")],
    "review": [("RUN", "--text", "shorter")],
    "runs": [("list",), ("show", "RUN"), ("events", "RUN"), ("prune", "--dry-run")],
    "log": [("RUN",)],
    "why": [("RUN",)],
    "report": [("RUN",)],
    "compare": [("RUN",)],
    "replay": [("export", "RUN", ".treadle/recording"), (".treadle/recording",)],
    "demo": [()],
    "mail": [
        ("send", "--to", "all", "--intent", "status_update", "--summary", "s"),
        ("list",),
        ("claim", "--as", "ann"),
        ("archive", "--task", "T-1"),
        ("search", "s"),
        ("reindex",),
    ],
    "desk": [()],
    "send": [("do it",)],
    "route": [("do it", "--explain")],
    "routine": [("list",), ("show", "develop"), ("check",)],
    "dead": [("list",), ("retry", "nothing")],
    "store": [("copy", "--to", "sqlite:.treadle/copy/store.db")],
    "worker": [("--idle-exit", "0")],
    "fleet": [("status",), ("drain", "nobody")],
}


def test_every_command_is_classified_once():
    """A new command fails here until it is known whether it may change the tree."""
    assert not set(CHANGES_THE_TREE) & set(LEAVES_IT_ALONE)
    assert {*CHANGES_THE_TREE, *LEAVES_IT_ALONE} == set(main.top_level())


@pytest.mark.real
@pytest.mark.timeout(600)  # every command of the program, on a busy machine
def test_no_other_command_changes_the_tree(project):
    """One project, one command after the other."""
    mission = Mission(project).create().with_tasks("")
    project.settings('[agents.do]\ntype = "builtin"\nrun = ["touch", "done"]\n')
    project.git("commit", "-q", "-a", "-m", "Settings")
    run = project.treadle("run", "--goal", "g", "--verify", "AC1=test -f done", "--json").json
    assert run["status"] == "passed"
    (project.root / ".treadle/issue.md").write_text("# An issue\n\n- [ ] it is closed\n")
    before = seen(project)
    for name in [name for name in main.top_level() if name in LEAVES_IT_ALONE]:
        for words in LEAVES_IT_ALONE[name]:
            said = project.treadle(name, *(run["run_id"] if w == "RUN" else w for w in words))
            assert said.code not in (2, 70), (name, words, said)
            assert seen(project) == before, (name, words)
    assert mission.spec.is_file()


def seen(project) -> tuple[str, str, str]:
    listing = project.git("status", "--porcelain", "-uall")
    return listing, project.git("rev-parse", "HEAD"), project.git("stash", "list")
