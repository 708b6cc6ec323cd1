"""What init writes on request: a block in AGENTS.md, and Agent Skills."""

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.builder import git
from tests.project.tree import snapshot
from treadle import frontmatter
from treadle.cli import describe
from treadle.cli.main import main
from treadle.errors import BlockedError, ProjectError
from treadle.project import setup
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


HOMES = (".agents/skills", ".claude/skills")


@pytest.mark.parametrize("home", HOMES)
def test_skills_are_skills_and_one_carries_the_contracts_sentence(repo, home):
    init(repo, os.environ, extras=InitExtras(skills=True))
    paths = sorted((repo / home).glob("*/SKILL.md"))
    assert tuple(path.parent.name for path in paths) == setup.SKILLS
    for path in paths:
        fields = frontmatter.read(path.read_bytes())[0]
        assert (fields["name"], len(fields["description"]) > 40) == (path.parent.name, True)
        assert len(path.read_text().splitlines()) < 40
    assert SENTENCE in (repo / home / "treadle-next" / "SKILL.md").read_text()


def test_instructions_are_the_words_of_the_skills(repo, capsys):
    init(repo, os.environ, extras=BOTH)
    for name in setup.SKILLS:
        assert main(["instructions", name.removeprefix("treadle-")]) == 0
        text = capsys.readouterr().out
        assert (repo / HOMES[0] / name / "SKILL.md").read_text().endswith(f"---\n{text}")
    assert main(["instructions"]) == 0
    assert capsys.readouterr().out in (repo / "AGENTS.md").read_text()


def test_every_command_that_agents_are_told_is_one(repo):
    init(repo, os.environ, extras=BOTH)
    pages = [repo / "AGENTS.md", *(repo / HOMES[0]).glob("*/SKILL.md")]
    told = " ".join(" ".join(page.read_text() for page in pages).split())
    lines = re.findall(r"`treadle ([^`*]+)`", told)
    assert len(lines) > 15
    for line in lines:
        describe.whole_parser().parse_args(shlex.split(line))


@pytest.mark.parametrize("home", HOMES)
def test_a_changed_skill_and_foreign_skills_stay(repo, home):
    init(repo, os.environ, extras=BOTH)
    (repo / home / "treadle-run" / "SKILL.md").write_text("mine")
    (repo / home / "other").mkdir()
    again = init(repo, os.environ, extras=BOTH)
    assert (again.wrote, f"{home}/treadle-run/SKILL.md" in again.kept) == ((), True)
    assert (repo / home / "treadle-run" / "SKILL.md").read_text() == "mine"
    done = uninstall(repo, os.environ)
    assert [item.path for item in done.kept] == [f"{home}/treadle-run/SKILL.md"]
    assert (repo / home / "other").is_dir()
    gone = [name for name in HOMES if name != home]
    assert [(repo / name).exists() for name in gone] == [False]


def test_skills_of_another_treadle_are_renewed_unless_somebody_changed_them(repo, monkeypatch):
    new = {name: (setup.DATA / "skills" / f"{name}.md").read_bytes() for name in setup.SKILLS}
    data = repo.parent / "older"
    shutil.copytree(setup.DATA, data)
    for name in setup.SKILLS:
        (data / "skills" / f"{name}.md").write_text("older")
    with monkeypatch.context() as older:
        older.setattr(setup, "DATA", data)
        init(repo, os.environ, commit=True, extras=BOTH)
    (repo / HOMES[0] / "treadle-run" / "SKILL.md").write_text("mine")
    done = init(repo, os.environ, commit=True, extras=BOTH)
    assert len(done.wrote) == 2 * len(setup.SKILLS) - 1
    found = {path: (repo / path / "SKILL.md").read_bytes() for path in skills()}
    expected = {path: new[Path(path).name] for path in skills()}
    assert found == expected | {f"{HOMES[0]}/treadle-run": b"mine"}
    assert git(repo, "status", "--porcelain") == f" M {HOMES[0]}/treadle-run/SKILL.md\n"
    assert init(repo, os.environ, extras=BOTH).wrote == ()
    kept = uninstall(repo, os.environ).kept
    assert [item.path for item in kept] == [f"{HOMES[0]}/treadle-run/SKILL.md"]


def skills():
    return [f"{home}/{name}" for home in HOMES for name in setup.SKILLS]


def test_one_folder_of_skills_that_leads_to_the_other_is_written_once(repo):
    (repo / ".agents" / "skills").mkdir(parents=True)
    (repo / ".claude").mkdir()
    (repo / ".claude" / "skills").symlink_to("../.agents/skills")
    done = init(repo, os.environ, extras=InitExtras(skills=True))
    assert [name for name in done.wrote if name.startswith(".claude")] == []
    assert (repo / ".claude" / "skills" / "treadle-mail" / "SKILL.md").is_file()
    uninstall(repo, os.environ)
    assert (repo / ".claude" / "skills").is_symlink()


def test_a_folder_of_skills_that_leads_out_is_refused(repo, tmp_path):
    (repo / ".claude").symlink_to(tmp_path)
    with pytest.raises(ProjectError, match=r"\.claude is a link"):
        init(repo, os.environ, extras=InitExtras(skills=True))
    assert list(tmp_path.glob("skills")) == []


def test_commit_leaves_out_what_git_ignores(repo):
    """Beside spec-kitty, which keeps the folders of agents out of git."""
    (repo / ".gitignore").write_text(".claude/\n.agents/skills/\n")
    git(repo, "add", ".gitignore")
    git(repo, "commit", "-q", "-m", "Ignore")
    done = init(repo, os.environ, commit=True, extras=BOTH)
    assert (len(done.ignored), (repo / done.ignored[0]).is_file()) == (10, True)
    assert "AGENTS.md" in git(repo, "show", "--name-only", "--format=", "HEAD")
    assert git(repo, "status", "--porcelain") == ""


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
