"""A change is counted and judged by its tree, whatever its patch looked like."""

import pytest

from tests.builder import git, write_files
from tests.git.corpus import APP_EDIT, BASE, BINARY, TWO_FILES, new, rename
from tests.git.support import head, make
from treadle.git import build, judge, repo


@pytest.fixture
def place(tmp_path):
    return make(tmp_path / "p", BASE)


def judged(place, folder, patch, **options):
    built = build.from_patch(place, head(place), patch, folder)
    tree = repo.tree_of(place, head(place))
    return judge.judge(built.scratch, tree, built.tree, **options)


def test_nothing_changed(place):
    tree = repo.tree_of(place, head(place))
    found = judge.judge(place, tree, tree)
    assert found == judge.Judged((), (), (), 0, b"")


def test_files_carry_both_modes(place, tmp_path):
    found = judged(place, tmp_path / "s", TWO_FILES)
    modes = [(path, old and old.mode, new and new.mode) for path, old, new in found.files]
    assert modes == [("src/app.py", "100644", "100644"), ("src/new.py", None, "100644")]


def test_rename_counts_as_two_paths_and_few_bytes(place, tmp_path):
    found = judged(place, tmp_path / "s", rename("logo.bin", "assets/logo.bin"))
    assert (len(found.files), found.patch_kb) == (2, 1)
    assert [change.path for change in found.files] == ["assets/logo.bin", "logo.bin"]


def test_same_change_in_every_style_counts_the_same(place, tmp_path):
    git(place.root, "mv", "logo.bin", "moved.bin")
    write_files(place.root, {"src/app.py": "def main():\n    return 2\n", "big": "x\n" * 3000})
    git(place.root, "add", "-A")
    counts = set()
    for style in ("-M", "--no-renames", "-U20", "--no-prefix", "--patience", "-D --full-index"):
        args = ["diff", "--cached", "--binary", *style.split()]
        patch = git(place.root, *args).encode()
        found = judged(place, tmp_path / style, patch)
        counts.add((len(found.files), found.patch_kb))
    assert counts == {(4, 10)}


def test_lock_files_cost_nothing(place, tmp_path):
    write_files(place.root, {"package-lock.json": "x\n" * 50_000, "web/yarn.lock": "x\n" * 50_000})
    git(place.root, "add", "-A")
    patch = git(place.root, "diff", "--cached").encode()
    found = judged(place, tmp_path / "s", patch)
    assert (len(found.files), found.patch_kb) == (2, 0)


def test_binary_content_counts(place, tmp_path):
    write_files(place.root, {"noise.bin": bytes(i * i * 7 % 251 for i in range(90_000)) + b"\0"})
    git(place.root, "add", "-A")
    patch = git(place.root, "diff", "--cached", "--binary").encode()
    assert judged(place, tmp_path / "s", patch).patch_kb > 0
    assert judged(place, tmp_path / "t", BINARY).patch_kb == 1


WORK = ("specs/a.spec.md", "specs/processed-spec.md", "Specs/b.md", "missions/x/tasks/WP01.md")
WORK += ("missions/x/spec.md", "kitty-specs/001/plan.md", "KITTY-SPECS/1/tasks.md")
OWN = (".treadle/cron/a.md", ".treadle/routines/x.sh", ".treadle/config.json")
OWN += (".treadle/roles/do.md",)


@pytest.mark.parametrize(
    ("name", "reason"),
    [*((name, "work") for name in WORK), *((name, "treadle_config") for name in OWN)],
)
def test_what_would_be_carried_out_is_risky(place, tmp_path, name, reason):
    assert judged(place, tmp_path / "s", new(name)).risky == ((name, reason),)


@pytest.mark.parametrize("name", ["src/specs/a.spec.md", "specs", "docs/missions/x.md"])
def test_other_folders_of_that_name_are_not(place, tmp_path, name):
    assert judged(place, tmp_path / "s", new(name)).risky == ()


def test_protected_files_are_risky(place, tmp_path):
    found = judged(place, tmp_path / "s", APP_EDIT, protected={"src/app.py"})
    assert found.risky == (("src/app.py", "protected"),)


@pytest.mark.parametrize(("inside", "rules"), [("src", []), ("docs/", ["outside_path"])])
def test_agent_of_a_folder_stays_inside(place, tmp_path, inside, rules):
    found = judged(place, tmp_path / "s", APP_EDIT, inside=inside)
    assert [refusal.rule for refusal in found.refusals] == rules


def test_refusal_shows_hidden_characters(place, tmp_path):
    found = judged(place, tmp_path / "s", new("a\x1b[31mb\u202e"))
    message = "a\\x1b[31mb\\u202e: its name holds control characters"
    assert found.refusals == (("name_control", "a\x1b[31mb\u202e", message),)


def test_refusal_names_the_twin(place, tmp_path):
    found = judged(place, tmp_path / "s", new("SRC/x"))
    assert "'src'" in found.refusals[0].message


def test_old_collisions_are_not_blamed_on_a_change(tmp_path):
    place = make(tmp_path / "p", {"Readme": "1\n", "readme": "2\n"})
    assert judged(place, tmp_path / "s", new("other")).refusals == ()


def test_diff_is_complete_and_independent_of_settings(place, tmp_path):
    for key in ("diff.noprefix", "diff.mnemonicPrefix", "color.ui"):
        git(place.root, "config", key, "always" if key == "color.ui" else "true")
    git(place.root, "config", "diff.external", "false")
    found = judged(place, tmp_path / "s", TWO_FILES)
    again = judged(place, tmp_path / "t", found.diff)
    assert (again.files, again.diff) == (found.files, found.diff)


def test_packed_trees_are_read_too(place, tmp_path):
    write_files(place.root, {"a/b/Name": "1\n"})
    git(place.root, "add", "-A")
    git(place.root, "commit", "-q", "-m", "first")
    base = repo.tree_of(place, head(place))
    write_files(place.root, {"a/b/name": "2\n", "c/d": "3\n"})
    git(place.root, "add", "-A")
    git(place.root, "commit", "-q", "-m", "second")
    git(place.root, "gc", "-q")
    found = judge.judge(place, base, repo.tree_of(place, head(place)))
    assert [(refusal.rule, refusal.path) for refusal in found.refusals] == [
        ("collision", "a/b/name")
    ]


def test_sha256_repository(tmp_path):
    place = make(tmp_path / "p", BASE, "--object-format=sha256")
    assert [r.rule for r in judged(place, tmp_path / "s", new("SRC/x")).refusals] == ["collision"]


def test_submodule_links_are_seen_even_if_told_to_ignore_them(tmp_path):
    modules = '[submodule "mod"]\n\tpath = mod\n\turl = ./mod\n\tignore = all\n'
    place = make(tmp_path / "p", {".gitmodules": modules, "a": "1\n"})
    trees = []
    for digit in "12":
        git(place.root, "update-index", "--add", "--cacheinfo", f"160000,{digit * 40},mod")
        trees.append(git(place.root, "write-tree").strip())
    found = judge.judge(place, *trees)
    assert [refusal.rule for refusal in found.refusals] == ["gitlink"]
