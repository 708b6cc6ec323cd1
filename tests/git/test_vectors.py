"""Nothing that an agent plants in a workspace or a repository runs when treadle calls git."""

import shutil
from datetime import UTC, datetime

import pytest

from tests.builder import git, write_files
from tests.git.corpus import new
from tests.git.support import head, make, open_workspace
from treadle.git import build, judge, refs, repo, workspace

NAME = "treadle/20260101-000000-abcdef"
ATTRIBUTES = "* filter=evil diff=evil merge=evil\n"


@pytest.fixture
def place(tmp_path):
    sub = make(tmp_path / "sub", {"s": "1\n"})
    place = make(tmp_path / "p", {"a.txt": "a\n", "d/f.txt": "f\n", "tools/filter.sh": "cat\n"})
    args = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(sub.root), "mod"]
    git(place.root, *args)
    git(place.root, "commit", "-q", "-m", "sub")
    return place


@pytest.fixture
def ws(place, tmp_path):
    return open_workspace(place, tmp_path)


@pytest.fixture
def evil(tmp_path):
    """Return a program that leaves a trace when it runs."""
    program = tmp_path / "evil.sh"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> "{tmp_path}/ran"\ncat 2>/dev/null\n')
    program.chmod(0o755)
    return program


def exercise(ws, tmp_path) -> None:
    """Do everything treadle does with a workspace."""
    base, tree = head(ws.repo), repo.tree_of(ws.repo, head(ws.repo))
    write_files(ws.path, {"a.txt": "agent\n", "new.txt": "n\n"})
    (ws.path / "d" / "f.txt").unlink()
    workspace.survey(ws)
    build.write_patch(ws, base, tmp_path / "x.diff")
    built = build.from_edits(ws, base, tmp_path / "s")
    judge.judge(built.scratch, tree, built.tree)
    edited = build.commit(built, base, "do", datetime.now(UTC), build.FALLBACK_AUTHOR)
    refs.create(ws.repo, NAME, base)
    refs.move(ws.repo, NAME, edited, base)
    workspace.adopt(ws, built.scratch.index, edited)
    patched = build.from_patch(ws.repo, edited, new("p.txt"), tmp_path / "t", ws=ws)
    judge.judge(patched.scratch, built.tree, patched.tree)
    after = build.commit(patched, edited, "act", datetime.now(UTC), build.FALLBACK_AUTHOR)
    workspace.follow(ws, after)
    write_files(ws.path, {"a.txt": "again\n", "x.txt": "x\n"})
    workspace.restore(ws, after)
    workspace.create(ws, base)
    refs.delete(ws.repo, NAME, edited)


SETTINGS = {
    "fsmonitor": {"core.fsmonitor": "{evil}"},
    "hooks-path": {"core.hooksPath": "{hooks}"},
    "filter-clean": {"filter.evil.clean": "{evil}", "filter.evil.required": "true"},
    "filter-smudge": {"filter.evil.smudge": "{evil}"},
    "filter-process": {"filter.evil.process": "{evil}"},
    "textconv": {"diff.evil.textconv": "{evil}"},
    "diff-command": {"diff.evil.command": "{evil}"},
    "diff-external": {"diff.external": "{evil}"},
    "merge-driver": {"merge.evil.driver": "{evil}"},
    "pager": {"core.pager": "{evil}", "pager.status": "true", "pager.diff": "true"},
    "editor": {"core.editor": "{evil}"},
    "alias": {"alias.status": "!{evil}", "alias.read-tree": "!{evil}"},
    "ssh": {"core.sshCommand": "{evil}"},
    "askpass": {"core.askPass": "{evil}"},
    "credential": {"credential.helper": "!{evil}"},
    "signing": {"gpg.program": "{evil}", "commit.gpgSign": "true"},
    "alternate-refs": {"core.alternateRefsCommand": "{evil}"},
    "recursing": {"submodule.recurse": "true", "submodule.mod.update": "!{evil}"},
    "maintenance": {"gc.auto": "1", "maintenance.auto": "true", "gc.recentObjectsHook": "{evil}"},
}
HOOKS = (
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "pre-auto-gc",
    "pre-commit",
    "reference-transaction",
)


def plant(git_dir, evil, settings) -> None:
    for key, value in settings.items():
        text = value.format(evil=evil, hooks=evil.parent / "hooks")
        git(git_dir, "config", "--file", str(git_dir / "config"), key, text)


def plant_hooks(folder, evil) -> None:
    folder.mkdir(exist_ok=True)
    for name in HOOKS:
        shutil.copy(evil, folder / name)


@pytest.mark.parametrize("vector", SETTINGS)
def test_settings_of_the_agents_git(ws, evil, tmp_path, vector):
    plant(ws.path / ".git", evil, SETTINGS[vector])
    plant_hooks(tmp_path / "hooks", evil)
    write_files(ws.path, {".gitattributes": ATTRIBUTES})
    exercise(ws, tmp_path)
    assert not (tmp_path / "ran").exists()


def test_hooks_of_the_agents_git(ws, evil, tmp_path):
    plant_hooks(ws.path / ".git" / "hooks", evil)
    exercise(ws, tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("vector", SETTINGS)
def test_settings_that_appear_in_the_repository(place, ws, evil, tmp_path, vector):
    """An agent outside a sandbox may write the project's own settings."""
    plant(place.git_dir, evil, SETTINGS[vector])
    plant_hooks(tmp_path / "hooks", evil)
    write_files(ws.path, {".gitattributes": ATTRIBUTES})
    exercise_without_create(ws, tmp_path)
    assert not (tmp_path / "ran").exists()


def exercise_without_create(ws, tmp_path) -> None:
    """Leave out what reads the settings anew and so takes them for the user's."""
    base = head(ws.repo)
    write_files(ws.path, {"a.txt": "agent\n", "new.txt": "n\n"})
    workspace.survey(ws)
    build.write_patch(ws, base, tmp_path / "x.diff")
    built = build.from_edits(ws, base, tmp_path / "s")
    judge.judge(built.scratch, repo.tree_of(ws.repo, base), built.tree)
    after = build.commit(built, base, "do", datetime.now(UTC), build.FALLBACK_AUTHOR)
    refs.create(ws.repo, NAME, base)
    refs.move(ws.repo, NAME, after, base)
    workspace.restore(ws, base)
    workspace.follow(ws, after)


def test_hooks_that_appear_in_the_repository(place, ws, evil, tmp_path):
    plant_hooks(place.git_dir / "hooks", evil)
    exercise(ws, tmp_path)
    assert not (tmp_path / "ran").exists()


def test_git_folders_below_the_root(ws, evil, tmp_path):
    for name in ("nested", "d", "mod", "mod/deep"):
        git(ws.path, "init", "-q", name)
        plant(
            ws.path / name / ".git", evil, {"core.fsmonitor": "{evil}", **SETTINGS["filter-clean"]}
        )
        plant_hooks(ws.path / name / ".git" / "hooks", evil)
        write_files(ws.path, {f"{name}/x.txt": "x\n", f"{name}/.gitattributes": ATTRIBUTES})
    write_files(ws.path, {".gitmodules": '[submodule "mod"]\n\tpath = mod\n\tignore = none\n'})
    exercise(ws, tmp_path)
    assert not (tmp_path / "ran").exists()


def test_agents_git_replaced_by_a_pointer(ws, evil, tmp_path):
    git(tmp_path, "init", "-q", "trap")
    plant(tmp_path / "trap" / ".git", evil, {"core.fsmonitor": "{evil}"})
    shutil.rmtree(ws.path / ".git")
    write_files(ws.path, {".git": f"gitdir: {tmp_path}/trap/.git\n"})
    exercise(ws, tmp_path)
    assert not (tmp_path / "ran").exists()
    assert (tmp_path / "trap" / ".git" / "HEAD").exists()


def test_filter_program_of_the_project_that_the_agent_rewrote(place, evil, tmp_path):
    git(place.root, "config", "filter.own.clean", "sh ./tools/filter.sh")
    git(place.root, "config", "filter.own.smudge", "sh tools/filter.sh")
    ws = open_workspace(place, tmp_path)
    write_files(ws.path, {".gitattributes": "* filter=own\n"})
    shutil.copy(evil, ws.path / "tools" / "filter.sh")
    exercise(ws, tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "name", ["GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_EDITOR", "GIT_SSH_COMMAND", "GIT_ASKPASS"]
)
def test_variables_of_the_caller(ws, evil, tmp_path, monkeypatch, name):
    monkeypatch.setenv(name, str(evil))
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", f"'core.fsmonitor'='{evil}'")
    exercise(ws, tmp_path)
    assert not (tmp_path / "ran").exists()


def test_the_trap_works_where_nobody_guards(ws, evil, tmp_path):
    plant(ws.path / ".git", evil, SETTINGS["fsmonitor"])
    git(ws.path, "status")
    assert (tmp_path / "ran").exists()
