"""Every hostile patch is stopped by what is meant for it, every honest one comes in."""

import pytest

from tests.builder import git, write_files
from tests.git import corpus, spellings
from tests.git.support import head
from treadle.git import build, judge, repo
from treadle.git.build import Built, PatchFailed
from treadle.git.judge import Judged


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Return the repository all patches are made for; no test changes it."""
    root = tmp_path_factory.mktemp("corpus") / "project"
    root.mkdir()
    git(root, "init", "-q")
    write_files(root, corpus.BASE)
    write_files(root, {corpus.EXECUTABLE: "#!/bin/sh\ntrue\n"})
    (root / corpus.EXECUTABLE).chmod(0o755)
    (root / corpus.LINK).symlink_to(corpus.LINK_TARGET)
    git(root, "add", "-f", ".")
    git(root, "update-index", "--add", "--cacheinfo", f"160000,{'2' * 40},{corpus.GITLINK}")
    git(root, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "base")
    return repo.find(root)


def judged(base, patch, folder) -> Judged | PatchFailed:
    built = build.from_patch(base, head(base), patch, folder)
    if isinstance(built, PatchFailed):
        return built
    tree = repo.tree_of(base, head(base))
    return judge.judge(built.scratch, tree, built.tree, corpus.PROTECTED)


# A tree of 1,500 folders takes half a minute to make and to remove.
LONG = {"very-deep"}
CASES = [
    pytest.param(case, marks=pytest.mark.real if case.name in LONG else (), id=case.name)
    for case in spellings.HOSTILE
]


@pytest.mark.parametrize("case", CASES)
def test_hostile_patch_is_stopped(base, tmp_path, case):
    found = judged(base, case.patch, tmp_path / "scratch")
    if isinstance(found, PatchFailed):
        assert (found.rule or "apply", bool(found.message)) == (case.stopped_by, True)
        return
    rules = {refusal.rule for refusal in found.refusals}
    risks = {f"risky:{risk.reason}" for risk in found.risky}
    assert case.stopped_by in rules | risks
    assert rules or risks


@pytest.mark.parametrize("case", spellings.HONEST, ids=lambda case: case.name)
def test_honest_patch_comes_in(base, tmp_path, case):
    found = judged(base, case.patch, tmp_path / "scratch")
    assert isinstance(found, Judged), found
    assert tuple(change.path for change in found.files) == case.paths
    assert (found.refusals, found.risky) == ((), ())


def test_judging_leaves_nothing_in_the_repository(base, tmp_path):
    before = sorted(path for path in base.common_dir.rglob("*") if path.is_file())
    built = build.from_patch(base, head(base), corpus.TWO_FILES, tmp_path / "scratch")
    assert isinstance(built, Built)
    assert sorted(path for path in base.common_dir.rglob("*") if path.is_file()) == before


def test_names_in_the_corpus_are_unique():
    names = [case.name for case in (*spellings.HOSTILE, *spellings.HONEST)]
    assert len(names) == len(set(names))


def test_the_corpus_is_as_large_as_promised():
    assert len(spellings.HOSTILE) >= 430
    assert len(spellings.HONEST) >= 100
    patches = {case[1] for case in (*spellings.HOSTILE, *spellings.HONEST)}
    assert len(patches) >= 430
