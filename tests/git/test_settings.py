"""Settings are read once; filters that appear later or lie in the tree are switched off."""

import pytest

from tests.builder import git, write_files
from tests.git.support import make
from treadle.errors import GitError
from treadle.git import call, repo


@pytest.fixture
def place(tmp_path):
    return make(tmp_path / "p", {"a": "1\n", "tools/clean.py": "", "clean.sh": "", "clean": ""})


def test_last_value_is_in_force_and_scopes_are_known(place):
    git(place.root, "config", "user.name", "Local\nName")
    git(place.root, "config", "--add", "core.flag", "x")
    found = repo.read_settings(place)
    assert found.get("user.name") == "Local\nName"
    assert found.get("no.such") is None
    scopes = [entry.scope for entry in found.entries if entry.key == "user.name"]
    assert scopes == ["global", "local"]


def test_key_without_value_is_true(place):
    with (place.git_dir / "config").open("a") as handle:
        handle.write("[thing]\n\tflag\n")
    assert repo.read_settings(place).get("thing.flag") == "true"


def test_known_filters_stay_on(place):
    git(place.root, "config", "filter.lfs.clean", "git-lfs clean -- %f")
    git(place.root, "config", "filter.abs.process", "/usr/bin/thing.sh a/b")
    git(place.root, "config", "filter.jq.clean", f"jq '{'.cells[] | ' * 40}.'")
    trusted = repo.read_settings(place)
    assert repo.disabled_filters(place, trusted) == ()
    assert set(trusted.filters()) == {"lfs", "abs", "jq"}


@pytest.mark.parametrize(
    "command", ["./tools/clean.py", "python3 tools/clean.py %f", "sh clean.sh", "tools/clean.py 'x"]
)
def test_filter_whose_program_lies_in_the_tree_is_off(place, command):
    git(place.root, "config", "filter.own.clean", command)
    assert repo.disabled_filters(place, repo.read_settings(place)) == ("own",)


def test_filter_that_appears_later_is_off(place):
    trusted = repo.read_settings(place)
    git(place.root, "config", "filter.new.smudge", "evil")
    git(place.root, "config", "branch.main.remote", "origin")
    assert repo.disabled_filters(place, trusted) == ("new",)


def test_filter_that_changes_later_is_off(place, private_home):
    git(place.root, "config", "--global", "filter.x.clean", "cat")
    trusted = repo.read_settings(place)
    git(place.root, "config", "--global", "filter.x.clean", "evil")
    assert repo.disabled_filters(place, trusted) == ("x",)


def test_filter_from_an_included_file_is_seen(place, tmp_path):
    git(place.root, "config", "include.path", str(tmp_path / "more"))
    write_files(tmp_path, {"more": "[core]\n\tx = 1\n"})
    trusted = repo.read_settings(place)
    write_files(tmp_path, {"more": "[filter.x]\n\tclean = evil\n"})
    assert repo.disabled_filters(place, trusted) == ("x",)


def test_switches_turn_a_filter_off(place):
    git(place.root, "config", "filter.x.y.clean", "false")
    git(place.root, "config", "filter.x.y.required", "true")
    write_files(place.root, {".gitattributes": "a filter=x.y\n"})
    args = ["hash-object", "--path=a", str(place.root / "a")]
    assert call.run(args, place.place, cwd=place.root).returncode
    off = repo.filters_off(("x.y",))
    assert call.run(args, place.place, cwd=place.root, config=off).returncode == 0


def test_filter_with_a_name_that_cannot_be_switched_is_refused():
    with pytest.raises(GitError) as error:
        repo.filters_off(("a=b",))
    assert error.value.code == "filter_refused"
