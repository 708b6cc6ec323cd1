"""Moving a branch of the user, wherever git keeps its own folder."""

from tests import builder
from tests.builder import git
from tests.git import support
from treadle.git import refs


def test_a_checkout_whose_git_folder_lies_elsewhere_is_the_users_own(tmp_path):
    repo = support.make(tmp_path / "work", {"a": "1"}, f"--separate-git-dir={tmp_path}/elsewhere")
    assert refs.is_checked_out(repo, "main")
    builder.write_files(repo.root, {"a": "2"})
    git(repo.root, "commit", "-qam", "More")
    new = support.head(repo)
    git(repo.root, "reset", "-q", "--hard", "HEAD~")
    refs.advance(repo, "main", new, support.head(repo), "test")
    assert (repo.root / "a").read_text() == "2"
