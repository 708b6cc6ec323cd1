"""Whose content is trusted: what you made stays, what somebody else's commit brings is asked."""

import json
import os
import shutil

import pytest

from tests.builder import git
from treadle.errors import BlockedError
from treadle.layout import trust_file
from treadle.project import setup, trust
from treadle.project.context import open_context, open_repository

EVIL = '[workspace]\nsetup = ["sh", "scripts/setup.sh"]\n'
# Everything that runs, schedules, prompts or sets policy, with what a stranger would write.
COVERED = {
    ".treadle/config.toml": EVIL,
    ".treadle/routines/own.sh": "#!/bin/sh\ntouch /tmp/x\n",
    ".treadle/roles/do.md": "Obey.\n",
    ".treadle/cron/hourly.md": "---\ncron: '0 * * * *'\n---\nwork\n",
    ".treadle/inbox/hello.md": "work\n",
    ".worktreeinclude": ".env\n",
    "scripts/setup.sh": "touch /tmp/x\n",
    "bin/agent": "#!/bin/sh\ntouch /tmp/x\n",
    "bin/router": "#!/bin/sh\ntouch /tmp/x\n",
    "bin/hook": "#!/bin/sh\ntouch /tmp/x\n",
}
QUICK = (".treadle/config.toml", "scripts/setup.sh", ".treadle/inbox/hello.md")
EACH = [name if name in QUICK else pytest.param(name, marks=pytest.mark.real) for name in COVERED]
NAMING = """
[workspace]
setup = ["sh", "./scripts/setup.sh"]
[hooks]
beforeAll = ["bin/hook"]
[commands]
router = "bin/router --quick"
[agents.do]
type = "exec"
cmd = ["./bin/agent"]
"""


class Clone:
    """A trusted clone, and the place from which a stranger's commits come."""

    def __init__(self, root, stranger):
        self.root, self.stranger = root, stranger

    def require(self):
        trust.require(open_context(self.root, os.environ))

    def push(self, name, text, message="Change"):
        """Let the stranger commit a file."""
        write(self.stranger / name, text)
        git(self.stranger, "add", "-f", name)
        git(self.stranger, "commit", "-q", "-m", message)

    def commit(self, name, text):
        write(self.root / name, text)
        git(self.root, "add", "-f", name)
        git(self.root, "commit", "-q", "-m", "Mine")

    def pull(self, *args):
        git(self.root, "pull", "-q", *(args or ("--ff-only",)))

    def refused(self):
        with pytest.raises(BlockedError) as caught:
            self.require()
        assert (caught.value.code, caught.value.exit_code) == ("trust_changed", 3)
        return caught.value


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def clone(repo, tmp_path):
    """Return a clone of a project that others work on, too; the user trusts it."""
    for name in ("scripts/setup.sh", "bin/agent", "bin/router", "bin/hook"):
        write(repo / name, "#!/bin/sh\n# the first\n")
    setup.init(repo, os.environ)
    write(repo / ".treadle/config.toml", NAMING)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "Set up")
    git(tmp_path, "clone", "-q", str(repo), "mine")
    found = Clone(tmp_path / "mine", repo)
    trust.grant(open_context(found.root, os.environ))
    found.require()
    return found


@pytest.mark.parametrize("name", EACH)
def test_what_a_pull_brings_is_asked_once_with_the_diff(clone, name):
    clone.push(name, COVERED[name])
    clone.pull()
    error = clone.refused()
    (change,) = error.details["changes"]
    assert change["file"] == name
    assert f"+{COVERED[name].splitlines()[-1]}" in change["diff"]
    assert error.fix == ("treadle trust --show", "treadle trust")
    trust.grant(open_context(clone.root, os.environ))
    clone.require()


@pytest.mark.parametrize("name", EACH)
def test_what_you_edit_or_commit_stays_trusted(clone, name):
    write(clone.root / name, COVERED[name])
    clone.require()
    clone.commit(name, COVERED[name] + "# and more\n")
    git(clone.root, "commit", "-q", "--amend", "-m", "Mine, said better")
    clone.require()


def test_what_you_commit_stays_trusted_without_a_command_in_between(clone):
    clone.commit(".treadle/roles/do.md", "one\n")
    clone.commit(".treadle/roles/do.md", "two\n")
    git(clone.root, "checkout", "-q", "-b", "side")
    clone.commit(".treadle/roles/do.md", "three\n")
    git(clone.root, "checkout", "-q", "main")
    clone.require()
    git(clone.root, "checkout", "-q", "side")
    clone.require()


def test_your_commits_stay_yours_when_they_are_rebased_onto_others(clone):
    clone.commit(".treadle/roles/do.md", "mine\n")
    clone.push("README.md", "theirs\n")
    clone.pull("--rebase")
    assert "pull" in git(clone.root, "reflog", "-3")
    clone.require()


@pytest.mark.real
@pytest.mark.parametrize(
    "arrive",
    [
        ("pull", "-q", "--ff-only"),
        ("pull", "-q", "--rebase"),
        ("pull", "-q", "--no-rebase"),
        ("merge", "-q", "origin/main"),
        ("merge", "-q", "--no-ff", "-m", "M", "origin/main"),
        ("reset", "-q", "--hard", "origin/main"),
        ("reset", "-q", "--soft", "origin/main"),
        ("checkout", "-q", "origin/main"),
        ("checkout", "-q", "-B", "main", "origin/main"),
        ("switch", "-q", "--detach", "origin/main"),
        ("rebase", "-q", "origin/main"),
        ("cherry-pick", "origin/main"),
        ("update-ref", "refs/heads/main", "origin/main"),
    ],
    ids=" ".join,
)
def test_every_way_a_strangers_commit_arrives_is_asked(clone, arrive):
    clone.push("scripts/setup.sh", "touch /tmp/x\n")
    git(clone.root, "fetch", "-q")
    git(clone.root, *arrive)
    clone.refused()


def test_patches_from_mails_are_asked(clone):
    clone.push(".treadle/roles/do.md", "Obey.\n")
    patch = git(clone.stranger, "format-patch", "-1", "--stdout")
    write(clone.root.parent / "patch", patch + "\n")
    git(clone.root, "am", "-q", str(clone.root.parent / "patch"))
    clone.refused()


def test_a_commit_of_yours_on_top_does_not_hide_what_came_before(clone):
    clone.push(".treadle/config.toml", NAMING + "# theirs\n")
    clone.pull()
    clone.commit(".treadle/config.toml", NAMING + "# theirs\n# mine\n")
    git(clone.root, "commit", "-q", "--amend", "-m", "Again")
    clone.refused()


def test_an_edit_of_yours_on_top_does_not_hide_what_came_before(clone):
    clone.push(".treadle/roles/do.md", "Obey.\n")
    clone.pull()
    write(clone.root / ".treadle/roles/do.md", "Obey.\nmine\n")
    clone.refused()


def test_a_name_in_the_commit_convinces_nobody(clone):
    name = git(clone.root, "config", "user.email")
    write(clone.stranger / ".treadle/roles/do.md", "Obey.\n")
    git(clone.stranger, "add", "-A")
    git(clone.stranger, "-c", f"user.email={name}", "commit", "-q", "-m", "commit: mine")
    clone.pull()
    clone.refused()


def test_without_logs_of_git_everything_new_is_asked(clone):
    clone.commit(".treadle/roles/do.md", "mine\n")
    shutil.rmtree(clone.root / ".git" / "logs")
    clone.refused()


def test_other_files_may_change_as_they_like(clone):
    clone.push("src/app.py", "print()\n")
    clone.push("specs/new.md", "# More\n")
    clone.pull()
    clone.require()


def test_content_that_was_accepted_may_come_back(clone):
    clone.push("bin/agent", "#!/bin/sh\n# two\n")
    clone.pull()
    trust.grant(open_context(clone.root, os.environ))
    git(clone.root, "reset", "-q", "--hard", "HEAD~1")
    clone.require()
    git(clone.root, "reset", "-q", "--hard", "origin/main")
    clone.require()


def test_a_file_too_big_to_read_is_covered_too(clone, monkeypatch):
    monkeypatch.setattr(trust, "_MAX_FILE", 1000)
    clone.push(".treadle/routines/own.sh", "#" * 2000)
    clone.pull()
    clone.refused()


def test_the_target_of_a_linked_routine_is_covered(clone):
    write(clone.root / "scripts/work.sh", "#!/bin/sh\n")
    (clone.root / ".treadle/routines/work.sh").symlink_to("../../scripts/work.sh")
    git(clone.root, "add", "-A")
    git(clone.root, "commit", "-q", "-m", "Mine")
    git(clone.root, "push", "-q", "origin", "HEAD:refs/heads/next")
    clone.require()
    git(clone.stranger, "checkout", "-q", "next")
    clone.push("scripts/work.sh", "#!/bin/sh\ntouch /tmp/x\n")
    clone.pull("--ff-only", "origin", "next")
    assert clone.refused().details["changes"][0]["file"] == "scripts/work.sh"


def test_what_was_trusted_as_a_whole_is_asked_once_by_content(clone):
    path = trust_file(os.environ)
    book = json.loads(path.read_text())
    for entry in book["repositories"]:
        del entry["files"], entry["head"], entry["trusted"]
    path.write_text(json.dumps(book | {"version": 1}))
    clone.refused()
    trust.grant(open_context(clone.root, os.environ))
    clone.require()


def test_a_repository_of_your_own_is_not_asked_about(repo):
    write(repo / ".treadle/config.toml", EVIL)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "Mine")
    assert setup.init(repo, os.environ).trusted
    own = Clone(repo, repo)
    own.require()


def test_init_does_not_trust_what_a_clone_brings(clone, tmp_path):
    git(tmp_path, "clone", "-q", str(clone.stranger), "fresh")
    done = setup.init(tmp_path / "fresh", os.environ)
    assert not done.trusted
    assert ".treadle/config.toml" in done.foreign
    assert trust.entry(open_repository(tmp_path / "fresh", os.environ)) is None
    assert setup.init(tmp_path / "fresh", os.environ, accept=True).trusted
    Clone(tmp_path / "fresh", clone.stranger).require()


def test_init_trusts_a_clone_that_brings_nothing_of_the_kind(repo, tmp_path):
    git(tmp_path, "clone", "-q", str(repo), "fresh")
    assert setup.init(tmp_path / "fresh", os.environ).trusted


def test_a_second_look_asks_git_only_what_is_tracked(clone, monkeypatch):
    project = open_context(clone.root, os.environ)
    monkeypatch.setenv("PATH", "/nonexistent")
    trust.require(project)
