"""What init writes on request: a block in AGENTS.md, and Agent Skills."""

import os

import pytest

from tests.builder import git
from tests.project.tree import snapshot
from treadle import frontmatter
from treadle.errors import BlockedError, ProjectError
from treadle.project.setup import BLOCK, InitExtras, init, uninstall

BOTH = InitExtras(agents_md=True, skills=True)
SENTENCE = (
    "A `kind=step` envelope with a null or non-resolvable `prompt_file` is illegal. If you see one,"
    " treat it as a runtime bug, not a `kind=blocked` substitute."
)


@pytest.mark.parametrize("text", [None, b"", b"# Mine\n", b"# Mine", b"# Mine\r\n", b"# Mine\r\nx"])
def test_round_trip_leaves_the_tree_as_it_was(repo, text):
    if text is not None:
        (repo / "AGENTS.md").write_bytes(text)
    before = snapshot(repo)
    init(repo, os.environ, extras=BOTH)
    assert (repo / "AGENTS.md").read_bytes().startswith(text or b"")
    again = init(repo, os.environ, extras=BOTH)
    assert again.wrote == ()
    done = uninstall(repo, os.environ)
    assert (snapshot(repo), done.kept) == (before, ())


def test_a_block_is_taken_out_from_between(repo):
    init(repo, os.environ, extras=BOTH)
    path = repo / "AGENTS.md"
    path.write_bytes(b"# Before\n\n" + path.read_bytes() + b"\n# After\n")
    uninstall(repo, os.environ)
    assert path.read_bytes() == b"# Before\n\n# After\n"


def test_without_asking_nothing_of_it_is_written(repo):
    init(repo, os.environ)
    assert not (repo / "AGENTS.md").exists()
    assert not (repo / ".agents").exists()


def test_the_block_has_at_most_twelve_lines():
    assert len(BLOCK.text.splitlines()) <= 12


def test_skills_are_skills_and_one_carries_the_contracts_sentence(repo):
    init(repo, os.environ, extras=InitExtras(skills=True))
    paths = sorted((repo / ".agents" / "skills").glob("*/SKILL.md"))
    assert 1 <= len(paths) <= 3
    for path in paths:
        fields = frontmatter.read(path.read_bytes()).fields
        assert (fields["name"], len(fields["description"]) > 40) == (path.parent.name, True)
    assert SENTENCE in (repo / ".agents" / "skills" / "treadle-next" / "SKILL.md").read_text()


def test_a_changed_skill_and_foreign_skills_stay(repo):
    init(repo, os.environ, extras=BOTH)
    (repo / ".agents" / "skills" / "treadle-run" / "SKILL.md").write_text("mine")
    (repo / ".agents" / "skills" / "other").mkdir()
    done = uninstall(repo, os.environ)
    assert [item.path for item in done.kept] == [".agents/skills/treadle-run/SKILL.md"]
    assert (repo / ".agents" / "skills" / "other").is_dir()


def test_commit_takes_the_block_alone_or_not_at_all(repo):
    (repo / "AGENTS.md").write_text("# Mine\n")
    git(repo, "add", "AGENTS.md")
    git(repo, "commit", "-q", "-m", "Mine")
    (repo / "AGENTS.md").write_text("# Mine, edited\n")
    with pytest.raises(BlockedError, match=r"AGENTS\.md has changes of yours"):
        init(repo, os.environ, commit=True, extras=BOTH)
    git(repo, "checkout", "-q", "AGENTS.md")
    init(repo, os.environ, commit=True, extras=BOTH)
    assert git(repo, "status", "--porcelain") == ""


def test_a_linked_file_is_refused(repo):
    (repo / "AGENTS.md").symlink_to("README.md")
    with pytest.raises(ProjectError, match="is a link"):
        init(repo, os.environ, extras=BOTH)
