"""Any landed run can be undone: the list of finished specs never stands in the way."""

import pytest

from tests.acceptance.messages import routine, spec
from tests.acceptance.site import Site
from tests.builder import git
from tests.crash.landing import landings

# Each spec makes a file of its own name.
MAKE = '#!/bin/sh\n# Make a file\necho made > "$(basename "$spec_file" .spec.md)"\n'
NAMES = ["01-a.spec.md", "02-b.spec.md", "03-c.spec.md"]


@pytest.fixture
def site(project):
    found = Site(project)
    routine(project, "make", MAKE)
    project.settings('default_routine = "make"\n')
    for name in NAMES:
        spec(project, name, f"# {name[3]}\n")
    git(project.root, "add", ".")
    git(project.root, "commit", "-q", "-m", "Specs")
    done = project.treadle("process", "--json")
    assert done.json["processed"] == NAMES, done
    return found


def run_of(site, name):
    rows = site.project.treadle("runs", "list", "--json").json["runs"]
    return next(row["run_id"] for row in rows if row["goal"] == name[3])


def listed(site):
    return (site.root / "specs" / "processed-spec.md").read_text().split()


@pytest.mark.parametrize("name", NAMES)
def test_the_run_of_any_spec_is_undone_and_the_others_stay_listed(site, name):
    result = site.undo(run_of(site, name))
    assert result.code == 0, result
    others = [other for other in NAMES if other != name]
    assert listed(site) == others
    assert git(site.root, "status", "--porcelain") == ""
    assert not (site.root / name[:4]).exists()
    assert all((site.root / other[:4]).exists() for other in others)


@pytest.mark.real
def test_lines_that_somebody_changed_again_go_too_and_the_list_keeps_the_others(site):
    spec(site.project, "04-d.spec.md", "# d\n")  # which nobody commits but its landing
    assert site.project.treadle("process").code == 0
    run_id = run_of(site, "04-d.spec.md")
    site.commit("04-d", "mine\n")
    look, way = site.undo(run_id).json["error"]["fix"]
    assert git(site.root, *look.split()[1:]).split()[1:] == ["More"]
    assert site.project.treadle(*way.split()[1:]).code == 0
    assert not (site.root / "04-d").exists()
    assert (listed(site), (site.root / "specs/04-d.spec.md").exists()) == (NAMES, True)
    assert git(site.root, "status", "--porcelain") == ""
    assert len(site.project.treadle("desk", "--json").json["items"]) == 1


@pytest.mark.real
def test_all_of_them_one_after_the_other_leave_the_tree_as_it_was(site):
    before = site.tree("HEAD~3")
    for name in (NAMES[0], NAMES[2], NAMES[1]):
        assert site.undo(run_of(site, name)).code == 0
    assert site.tree() == before


@pytest.mark.real
def test_landing_again_lists_the_spec_again_whatever_landed_meanwhile(site):
    run_id = run_of(site, NAMES[0])
    site.undo(run_id)
    spec(site.project, "04-d.spec.md", "# d\n")
    git(site.root, "add", ".")
    git(site.root, "commit", "-q", "-m", "Another")
    assert "04-d.spec.md" in site.project.treadle("process", "--json").json["processed"]
    assert site.land(run_id).code == 0
    assert sorted(listed(site)) == [*NAMES, "04-d.spec.md"]


@pytest.mark.real
def test_the_desk_asks_what_becomes_of_the_spec_and_landing_again_answers(site):
    run_id = run_of(site, NAMES[1])
    site.undo(run_id)
    (item,) = site.project.treadle("desk", "--json").json["items"]
    assert item["subject"] == {"kind": "spec", "id": NAMES[1]}
    assert [action["action"] for action in item["actions"]] == ["again", "reject"]
    assert item["actions"][0]["command"] == f"treadle spec retry {NAMES[1]}"
    assert site.land(run_id).code == 0
    assert site.project.treadle("desk", "--json").json["items"] == []


@pytest.mark.real
@pytest.mark.parametrize("again", ["land", "undo"])
def test_an_undoing_that_a_reset_took_back_counts_no_more(site, again):
    run_id = run_of(site, NAMES[1])
    assert site.undo(run_id).code == 0
    git(site.root, "reset", "-q", "--hard", "HEAD~1")
    if again == "land":  # which notices that the work is there
        assert site.land(run_id).code == 0
        assert site.project.treadle("desk", "--json").json["items"] == []
    assert site.undo(run_id).code == 0
    assert not (site.root / NAMES[1][:4]).exists()
    assert listed(site) == [NAMES[0], NAMES[2]]
    assert len(site.project.treadle("desk", "--json").json["items"]) == 1


@pytest.mark.real
def test_an_undone_spec_is_begun_again_only_by_what_the_desk_proposes(site):
    site.undo(run_of(site, NAMES[1]))
    assert site.project.treadle("process", "--json").json["processed"] == []
    (item,) = site.project.treadle("desk", "--json").json["items"]
    assert site.project.treadle(*item["actions"][0]["command"].split()[1:]).code == 0
    site.project.treadle("process", "--json")
    assert sorted(listed(site)) == NAMES
    assert site.project.treadle("desk", "--json").json["items"] == []


@pytest.mark.real
def test_a_list_that_was_edited_and_not_committed_loses_just_its_line(site):
    path = site.root / "specs" / "processed-spec.md"
    path.write_text(f"\n{path.read_text()}mine\n")
    result = site.project.treadle("undo", run_of(site, NAMES[0]), "--json")
    assert result.code == 0, result
    assert path.read_text().split() == [*NAMES[1:], "mine"]


@pytest.mark.real
def test_a_list_with_lines_on_both_sides_merges_by_lines(site):
    """A line that somebody put in by hand, in the place where the landing has its own."""
    run_id = run_of(site, NAMES[2])
    site.undo(run_id)
    site.commit("specs/processed-spec.md", "00-z.spec.md\n" + "\n".join(NAMES[:2]) + "\nx.md\n")
    assert site.land(run_id).code == 0
    assert listed(site) == ["00-z.spec.md", *NAMES[:2], "x.md", NAMES[2]]


@pytest.mark.real
def test_a_branch_that_is_not_checked_out_has_its_own_list(site):
    git(site.root, "switch", "-q", "-c", "other")
    assert site.undo(run_of(site, NAMES[1])).code == 0
    text = git(site.root, "show", "main:specs/processed-spec.md")
    assert text.split() == [NAMES[0], NAMES[2]]
    assert listed(site) == NAMES


@pytest.mark.real
@pytest.mark.parametrize("point", ["after_intent", "after_move", "before_landed", "after_landed"])
def test_a_killed_undoing_is_done_once_with_its_question(site, point):
    run_id = run_of(site, NAMES[1])
    site.project.treadle("undo", run_id, env={"TREADLE_DIE_AT": point})
    assert site.project.treadle("undo", run_id).code in (0, 3)
    assert listed(site) == [NAMES[0], NAMES[2]]
    assert landings(site, run_id) == ["b", "Undo: b"]
    assert len(site.project.treadle("desk", "--json").json["items"]) == 1
