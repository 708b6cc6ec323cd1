"""A spec that is listed as done is in the tree, also one that nobody has committed."""

import subprocess

import pytest

from tests.acceptance.messages import routine
from tests.acceptance.site import Site
from tests.builder import git
from tests.crash.landing import landings

NAME, TEXT = "01-a.spec.md", "---\npriority: 1\n---\r\n# a\r\n\n"
PATH = f"specs/{NAME}"
MAKE = '#!/bin/sh\n# Make a file\necho made > "$(basename "$spec_file" .spec.md)"\n'


@pytest.fixture
def site(project):
    found = Site(project)
    routine(project, "make", MAKE)
    project.settings('default_routine = "make"\n')
    git(project.root, "add", ".")
    git(project.root, "commit", "-q", "-m", "Settings")
    (project.root / PATH).write_bytes(TEXT.encode())
    return found


def process(site, *names, **kwargs):
    done = site.project.treadle("process", "--json", **kwargs)
    assert done.json["processed"] == list(names or [NAME]), done
    return site.project.treadle("runs", "list", "--json").json["runs"][0]["run_id"]


def status(site):
    return git(site.root, "status", "--porcelain").splitlines()


def test_the_landing_has_the_spec_byte_for_byte_and_the_file_stays(site):
    before = (site.root / PATH).stat()
    process(site)
    assert git(site.root, "cat-file", "-s", f"HEAD:{PATH}").strip() == str(len(TEXT))
    after = (site.root / PATH).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert (site.root / PATH).read_bytes() == TEXT.encode()
    assert status(site) == []
    assert git(site.root, "log", "-1", "--format=%s").strip() == "a"


def test_a_spec_that_was_changed_meanwhile_lands_as_it_was_and_stays_changed(site):
    site.project.settings('default_routine = "make"\n[land]\nprocess = "manual"\n')
    git(site.root, "commit", "-q", "-am", "By hand")
    run_id = process(site)
    (site.root / PATH).write_text("# new\n")
    assert site.project.treadle("land", run_id).code == 0
    assert git(site.root, "cat-file", "-s", f"HEAD:{PATH}").strip() == str(len(TEXT))
    assert (site.root / PATH).read_text() == "# new\n"
    assert f" M {PATH}" in status(site)


def test_one_that_was_staged_with_other_words_is_the_users(site):
    site.project.settings('default_routine = "make"\n[land]\nprocess = "manual"\n')
    git(site.root, "commit", "-q", "-am", "By hand")
    run_id = process(site)
    (site.root / PATH).write_text("# new\n")
    git(site.root, "add", PATH)
    assert site.project.treadle("land", run_id).code == 0
    assert PATH not in site.files()
    assert f"A  {PATH}" in status(site)


def test_one_that_was_staged_as_it_is_lands(site):
    git(site.root, "add", PATH)
    process(site)
    assert PATH in site.files()
    assert status(site) == []


def test_one_that_git_ignores_is_listed_and_not_committed(site):
    (site.root / ".git" / "info" / "exclude").write_text("/specs/01*\n")
    done = site.project.treadle("process")
    assert done.code == 0, done
    assert f"git ignores {PATH}: it is listed as done, and not committed" in done.out + done.err
    assert PATH not in site.files()
    assert NAME in git(site.root, "show", "HEAD:specs/processed-spec.md")
    assert (site.root / PATH).read_bytes() == TEXT.encode()


def test_one_that_somebody_took_out_of_the_branch_stays_out(site):
    git(site.root, "add", PATH)
    git(site.root, "commit", "-q", "-m", "Spec")
    site.project.settings('default_routine = "make"\n[land]\nprocess = "manual"\n')
    git(site.root, "commit", "-q", "-am", "By hand")
    run_id = process(site)
    git(site.root, "rm", "-q", PATH)
    git(site.root, "commit", "-q", "-m", "Away")
    assert site.project.treadle("land", run_id).code == 0
    assert PATH not in site.files()


@pytest.mark.real
def test_undo_takes_the_line_out_and_leaves_the_spec_even_an_edited_one(site):
    run_id = process(site)
    site.commit(PATH, "# a, better\n")
    result = site.undo(run_id)
    assert result.code == 0, result
    assert (site.root / PATH).read_text() == "# a, better\n"
    assert "specs/processed-spec.md" not in site.files()
    assert status(site) == []


@pytest.mark.real
def test_an_undoing_with_the_spec_left_is_exact_and_landing_again_lists_it(site):
    run_id = process(site)
    assert site.undo(run_id).json["exact"]
    assert PATH in site.files()
    assert not (site.root / "01-a").exists()
    assert site.land(run_id).code == 0
    assert NAME in (site.root / "specs/processed-spec.md").read_text()


@pytest.mark.real
def test_branches_of_their_own_go_on_as_proposed_with_what_they_build_on(site):
    site.project.settings('default_routine = "make"\n[land]\nprocess = "branch"\n')
    git(site.root, "commit", "-q", "-am", "To a branch")
    (site.root / "specs" / "02-b.spec.md").write_text("---\ndepends_on: 01-a\n---\n# b\n")
    (site.root / "specs" / "03-c.spec.md").write_text("# c\n")
    done = site.project.treadle("process")
    assert f"treadle/a has {PATH} too, which is not committed here" in done.out + done.err
    assert git(site.root, "cat-file", "-s", f"treadle/a:{PATH}").strip() == str(len(TEXT))
    assert {PATH, "01-a", "02-b"} <= set(site.files("treadle/b"))
    found = site.project.treadle("spec", "list", "--json").json["specs"]
    ways = {item["name"]: item["next"].split()[1:] for item in found}
    for name in ("03-c.spec.md", "02-b.spec.md"):  # the second one takes the first along
        assert site.project.treadle(*ways[name]).code == 0
    again = site.project.treadle(*ways[NAME], "--json")
    assert again.json["error"]["code"] == "already_landed"
    assert {PATH, "01-a", "02-b", "03-c"} <= set(site.files())
    listed = (site.root / "specs/processed-spec.md").read_text().split()
    assert listed == ["03-c.spec.md", NAME, "02-b.spec.md"]
    assert (site.root / PATH).read_bytes() == TEXT.encode()
    assert status(site) == []


@pytest.mark.real
def test_a_protected_branch_without_a_remote_gets_it_by_the_merge_that_is_proposed(site):
    settings = '[land]\nprocess = "branch"\nprotected = ["main"]\n'
    site.project.settings(f'default_routine = "make"\n{settings}')
    git(site.root, "commit", "-q", "-am", "To a branch")
    done = site.project.treadle("process")
    (found,) = site.project.treadle("spec", "list", "--json").json["specs"]
    refused = site.project.treadle(*found["next"].split()[1:], "--json").json["error"]
    site.commit("meanwhile.txt", "1\n")
    look, clear, merge = refused["fix"]
    assert f"before git merges it: {clear}" in done.out + done.err
    for line in (look, clear, merge):
        git(site.root, *line.split()[1:])
    assert (site.root / PATH).read_bytes() == TEXT.encode()
    assert (status(site), (site.root / "01-a").exists()) == ([], True)
    assert site.project.treadle("spec", "list", "--json").json["specs"][0]["state"] == "done"


@pytest.mark.real
@pytest.mark.parametrize("meanwhile", ["nothing", "a commit", "a commit, the spec staged", "edits"])
def test_what_began_on_no_branch_goes_to_one_of_its_own_and_is_merged_as_proposed(site, meanwhile):
    git(site.root, "switch", "-q", "--detach")
    process(site)
    if "commit" in meanwhile:
        site.commit("other.txt", "mine\n")
    if "staged" in meanwhile:
        git(site.root, "add", PATH)
    if meanwhile == "edits":
        (site.root / PATH).write_text("# Another\n")
    assert site.project.treadle("desk", "--json").json["items"] == []
    (found,) = site.project.treadle("spec", "list", "--json").json["specs"]
    assert found["state"] == "unmerged"
    subprocess.run(["sh", "-c", found["next"]], cwd=site.root, check=True)
    assert (status(site), (site.root / "01-a").exists()) == ([], True)
    assert site.project.treadle("spec", "list", "--json").json["specs"][0]["state"] == "done"


@pytest.mark.real
def test_a_conflict_on_the_way_from_a_branch_of_its_own_is_rebased(site):
    site.project.agent("do", '(repo / "x.txt").write_text("run\\n"); ok()', edits=True)
    site.project.agent("act", '(repo / "x.txt").write_text("both\\n"); ok()', edits=True)
    site.project.settings('[land]\nprocess = "branch"\n')
    text = "# x\n\n## Acceptance Criteria\n- x `$ test -f x.txt && ! grep mine x.txt`\n"
    site.commit(PATH, text)
    assert site.project.treadle("process").code == 0
    site.commit("x.txt", "mine\n")
    (found,) = site.project.treadle("spec", "list", "--json").json["specs"]
    (fix,) = site.refused(found["run_id"], "merge_conflict")["fix"]
    for words in (fix.split(), found["next"].split()):
        assert site.project.treadle(*words[1:]).code == 0, words
    assert (site.root / "x.txt").read_text() == "both\n"
    assert NAME in (site.root / "specs/processed-spec.md").read_text()


@pytest.mark.real
@pytest.mark.parametrize("point", ["after_intent", "after_spec", "after_move", "before_landed"])
@pytest.mark.parametrize("is_changed", [False, True])
def test_a_killed_landing_brings_the_spec_once_and_keeps_the_file(site, point, is_changed):
    """What the user left of it may even look like a file that git began to write."""
    site.project.settings('default_routine = "make"\n[land]\nprocess = "manual"\n')
    git(site.root, "commit", "-q", "-am", "By hand")
    run_id = process(site)
    git(site.root, "clean", "-fq", "--", "specs/processed-spec.md")
    text = TEXT.encode()[:10] if is_changed else TEXT.encode()
    (site.root / PATH).write_bytes(text)
    killed = site.project.treadle("land", run_id, env={"TREADLE_DIE_AT": point})
    assert killed.code == -9, killed
    assert site.project.treadle("land", run_id).code in (0, 3)
    assert (site.root / PATH).read_bytes() == text
    assert git(site.root, "cat-file", "-s", f"HEAD:{PATH}").strip() == str(len(TEXT))
    assert status(site) == ([f" M {PATH}"] if is_changed else [])
    assert landings(site, run_id) == ["a"]


@pytest.mark.real
def test_a_landing_that_git_refuses_leaves_nothing_staged(site):
    site.project.settings('default_routine = "make"\n[land]\nprocess = "manual"\n')
    git(site.root, "commit", "-q", "-am", "By hand")
    run_id = process(site)
    (site.root / ".git" / "info" / "attributes").write_text("01-a filter=bad\n")
    git(site.root, "config", "filter.bad.required", "true")
    git(site.root, "config", "filter.bad.smudge", "false")
    tip = site.tip()
    assert site.project.treadle("land", run_id).code == 3
    assert (site.tip(), git(site.root, "diff", "--cached", "--name-only")) == (tip, "")
    assert (site.root / PATH).read_bytes() == TEXT.encode()


@pytest.mark.real
def test_landing_by_hand_lists_a_spec_also_where_the_list_is_not_committed(site):
    other = site.root / "specs" / "02-b.spec.md"
    (site.root / PATH).write_text("---\nland: manual\n---\n# a\n")
    other.write_text("---\ndepends_on: 01-a\n---\n# b\n")
    done = site.project.treadle("process", "--json")
    assert (done.code, done.json["processed"]) == (3, [NAME]), done
    refused = done.json["messages"][-1]
    assert (refused["name"], refused["status"]) == (other.name, "refused")
    assert site.project.treadle("land", refused["run_id"]).code == 0
    assert (site.root / "specs" / "processed-spec.md").read_text().split() == [NAME, other.name]
    views = site.project.treadle("spec", "list", "--json").json["specs"]
    assert {(it["state"], it["next"]) for it in views} == {("done", None)}
    assert site.project.treadle("process", "--json").json["processed"] == [other.name]  # put away
    assert (site.root / "specs" / "processed-spec.md").read_text().split() == [NAME, other.name]
