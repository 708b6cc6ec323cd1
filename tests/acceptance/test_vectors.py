"""Nothing planted in workspace or repository runs while treadle works, lands, tells or undoes.

What may run in the user's own checkout is what the user set up for it: content filters, and the
program that signs.
"""

import os
import subprocess

import pytest

from tests.acceptance.site import Site
from tests.acceptance.untouched import untouched
from tests.builder import git

LINES = "".join(f"{n}\n" for n in range(40))
# Settings of git that run a program, by what they are for; `{evil}` is the program's path.
SETTINGS = {
    "alias-merge": {"alias.merge": "!{evil}", "alias.merge-tree": "!{evil}"},
    "alias-plumbing": {"alias.update-ref": "!{evil}", "alias.commit-tree": "!{evil}"},
    "alias-status": {"alias.status": "!{evil}", "alias.diff-tree": "!{evil}"},
    "alternate-refs": {"core.alternateRefsCommand": "{evil}"},
    "askpass": {"core.askPass": "{evil}"},
    "browser": {"web.browser": "evil", "browser.evil.cmd": "{evil}"},
    "credential": {"credential.helper": "!{evil}"},
    "diff-command": {"diff.evil.command": "{evil}"},
    "diff-external": {"diff.external": "{evil}"},
    "editor": {"core.editor": "{evil}", "sequence.editor": "{evil}"},
    "fsmonitor": {"core.fsmonitor": "{evil}"},
    "gpg-verify": {"gpg.program": "{evil}", "log.showSignature": "true"},
    "hooks-path": {"core.hooksPath": "{hooks}"},
    "interactive": {"interactive.diffFilter": "{evil}"},
    "maintenance": {"gc.auto": "1", "maintenance.auto": "true", "gc.recentObjectsHook": "{evil}"},
    "merge-default": {"merge.default": "evil"},
    "merge-driver": {"merge.evil.driver": "{evil} %A %O %B", "merge.evil.recursive": "evil"},
    "merge-tool": {"merge.tool": "evil", "mergetool.evil.cmd": "{evil}"},
    "pack-hook": {"uploadpack.packObjectsHook": "{evil}"},
    "pager": {"core.pager": "{evil}", "pager.merge": "true", "pager.diff-tree": "true"},
    "proxy": {"core.gitProxy": "{evil}"},
    "remote": {"remote.origin.url": "ext::{evil}", "remote.origin.vcs": "evil"},
    "ssh": {"core.sshCommand": "{evil}"},
    "ssh-key": {"gpg.ssh.defaultKeyCommand": "{evil}", "gpg.format": "ssh"},
    "submodule-update": {"submodule.mod.update": "!{evil}", "submodule.recurse": "true"},
    "template": {"init.templateDir": "{hooks}"},
    "textconv": {"diff.evil.textconv": "{evil}", "diff.evil.cachetextconv": "true"},
    "trailer": {"trailer.Treadle-Run.cmd": "{evil}", "trailer.Treadle-Run.command": "{evil}"},
    "worktree-config": {"extensions.worktreeConfig": "true"},
}
HOOKS = (
    *("applypatch-msg", "commit-msg", "fsmonitor-watchman", "post-applypatch", "post-checkout"),
    *("post-commit", "post-index-change", "post-merge", "post-rewrite", "pre-applypatch"),
    *("pre-auto-gc", "pre-commit", "pre-merge-commit", "prepare-commit-msg"),
    *("push-to-checkout", "reference-transaction", "update"),
)
ATTRIBUTES = "* diff=evil merge=evil\n"


class Traps:
    """Programs that leave a trace named after how they were reached, if treadle's git did it."""

    def __init__(self, folder):
        self.ran, self.programs = folder / "ran", folder / "evil programs"
        self.ran.mkdir()
        self.programs.mkdir()

    def program(self, name):
        path = self.programs / name
        _write(path, self.ran / name)
        return f"'{path}'"

    def hooks(self, folder, label):
        folder.mkdir(parents=True, exist_ok=True)
        for name in HOOKS:
            _write(folder / name, self.ran / f"{label}-{name}")

    def settings(self, file):
        self.hooks(self.programs / "hooks", "hooks-path")
        for vector, pairs in SETTINGS.items():
            for key, value in pairs.items():
                evil = value.format(evil=self.program(vector), hooks=self.programs / "hooks")
                git(self.ran, "config", "--file", str(file), key, evil)

    def plant(self, git_dir):
        """Plant everything in a .git, some of it by detours."""
        self.hooks(git_dir / "hooks", "hook")
        self.settings(git_dir / "config")
        detour = self.programs / "detour"
        detour.write_text(f"[core]\n\tfsmonitor = {self.program('include-if')}\n")
        for key in ("include.path", "includeIf.gitdir:/**.path"):
            git(self.ran, "config", "--file", str(git_dir / "config"), key, str(detour))
        (git_dir / "config.worktree").write_text(detour.read_text())
        (git_dir / "info").mkdir(exist_ok=True)
        (git_dir / "info" / "attributes").write_text(ATTRIBUTES)

    def found(self):
        return sorted(path.name for path in self.ran.iterdir())


def _write(path, trace):
    path.write_text(f'#!/bin/sh\nif [ "$ARMED" ]; then echo "$*" >> "{trace}"; fi\n')
    path.chmod(0o755)


def test_there_are_enough_vectors():
    assert len(SETTINGS) + len(HOOKS) >= 25


@pytest.fixture
def traps(tmp_path):
    return Traps(tmp_path)


@pytest.fixture
def site(project, monkeypatch):
    monkeypatch.setenv("TREADLE_SANDBOX", "off")  # agents could really plant all this
    # Git of the tests and of agents does not have this variable, that of treadle does.
    plain = project.treadle
    project.treadle = lambda *args, **kwargs: plain(*args, env={"ARMED": "1"}, **kwargs)
    found = Site(project)
    found.commit("shared.txt", LINES)
    found.commit(".gitmodules", '[submodule "mod"]\n\tpath = mod\n\turl = ./mod\n')
    found.commit(".gitattributes", ATTRIBUTES)
    found.commit(".lfsconfig", "[lfs]\n\turl = ext::false\n")
    return found


def exercise(site, run_id):
    """Land with a merge, tell about it, let another run conflict, undo with a merge."""
    site.commit("shared.txt", site.root.joinpath("shared.txt").read_text().replace("39\n", "my\n"))
    with untouched(site.root):
        landed = site.project.treadle("land", run_id, "--json")
        assert landed.json["merged"], landed
        assert site.project.treadle("report", run_id, "--markdown").code == 0
        assert site.project.treadle("runs", "list").code == 0
    site.commit("shared.txt", site.root.joinpath("shared.txt").read_text().replace("20\n", "I\n"))
    with untouched(site.root):
        assert site.project.treadle("undo", run_id, "--json").json["exact"] is False
    lines = (site.root / "shared.txt").read_text().splitlines()
    assert (lines[0], lines[20], lines[-1]) == ("0", "I", "my")


@pytest.mark.real
def test_planted_in_the_repository_before_everything(site, traps):
    traps.plant(site.root / ".git")
    one = site.passed("sed -i s/^0$/run/ shared.txt; echo > done.txt")
    two = site.passed("sed -i s/^0$/other/ shared.txt; echo > done.txt")
    weather = site.project.treadle("runs", "list", "--json").json["weather"]
    assert weather == [{"runs": [one, two], "files": ["shared.txt"]}]
    exercise(site, one)
    assert traps.found() == []


@pytest.mark.real
def test_planted_in_the_repository_between_run_and_landing(site, traps):
    run_id = site.passed("sed -i s/^0$/run/ shared.txt; echo > done.txt")
    traps.plant(site.root / ".git")
    exercise(site, run_id)
    assert traps.found() == []


def test_planted_by_the_agent_in_its_workspace(site, traps, tmp_path):
    git(tmp_path, "init", "-q", "seed")
    traps.plant(tmp_path / "seed" / ".git")
    work = (
        f"cp -r '{tmp_path}/seed/.git/.' .git/; git init -q nested;"
        f" cp -r '{tmp_path}/seed/.git/.' nested/.git/; echo x > nested/x;"
        " sed -i s/^0$/run/ shared.txt; echo > done.txt"
    )
    run_id = site.passed(work)
    exercise(site, run_id)
    assert traps.found() == []


@pytest.mark.real
def test_attributes_and_modules_that_the_run_itself_brings(site, traps):
    git(site.root, "rm", "-q", ".gitattributes", ".gitmodules")
    git(site.root, "commit", "-q", "-m", "Without")
    traps.plant(site.root / ".git")
    (site.root / ".git" / "info" / "attributes").unlink()
    work = (
        "echo '* diff=evil merge=evil' > .gitattributes; printf"
        " '[submodule \"mod\"]\\n\\tpath = mod\\n' > .gitmodules;"
        " sed -i s/^0$/run/ shared.txt; echo > done.txt"
    )
    run_id = site.passed(work, extra="[budgets]\nmax_risky_files = 2\n")
    exercise(site, run_id)
    assert traps.found() == []


def test_the_traps_work_where_nobody_guards(site, traps):
    run_id = site.passed("sed -i s/^0$/run/ shared.txt; echo > done.txt")
    site.commit("shared.txt", LINES.replace("39\n", "my\n"))
    traps.plant(site.root / ".git")
    for args in (["status"], ["merge", "--no-edit", f"treadle/{run_id}"], ["diff", "HEAD~1"]):
        env = os.environ | {"ARMED": "1", "GIT_PAGER": "cat"}
        subprocess.run(["git", *args], cwd=site.root, env=env, capture_output=True, check=False)
    expected = {"diff-command", "include-if", "hooks-path-reference-transaction", "merge-driver"}
    assert expected <= set(traps.found())
