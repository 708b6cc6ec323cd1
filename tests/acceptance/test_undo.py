"""`treadle undo` through the real command: one commit, the exact inverse."""

import pytest

from tests.acceptance.site import Site
from tests.builder import git

LINES = "".join(f"{n}\n" for n in range(30))


@pytest.fixture
def site(project):
    return Site(project)


@pytest.fixture
def landed(site):
    """Return a run that changed a line of shared.txt, made a file and removed one, and landed."""
    site.commit("shared.txt", LINES)
    site.commit("gone.txt", "gone\n")
    run_id = site.passed("sed -i s/^0$/run/ shared.txt; echo > done.txt; rm gone.txt")
    assert site.land(run_id).code == 0
    return run_id


def test_undo_is_one_commit_with_the_tree_from_before(site, landed):
    commit, before = site.tip(), site.tree("HEAD~1")
    result = site.undo(landed)
    assert result.json == {
        "run_id": landed,
        "undone": site.tip(),
        "branch": "main",
        "exact": True,
        "above": [],
    }
    assert (site.tip("HEAD~1"), site.tree()) == (commit, before)
    assert git(site.root, "status", "--porcelain") == ""
    subject, _, body = git(site.root, "log", "-1", "--format=%B").partition("\n\n")
    assert subject == "Undo: Make done"
    assert commit in body
    shown = site.project.show(landed)
    assert (shown["landed"], shown["undone"]) == (commit, site.tip())
    assert site.project.event_types(landed)[-1] == "undone"


def test_what_came_later_stays(site, landed):
    site.commit("later.txt", "later\n")
    site.commit("shared.txt", (site.root / "shared.txt").read_text().replace("29\n", "mine\n"))
    result = site.undo(landed)
    assert (result.code, result.json["exact"]) == (0, False)
    lines = (site.root / "shared.txt").read_text().splitlines()
    assert (lines[0], lines[-1]) == ("0", "mine")
    assert {"later.txt", "gone.txt"} <= set(site.files())
    assert "done.txt" not in site.files()


def test_a_later_change_of_the_same_lines_is_refused(site, landed):
    site.commit("shared.txt", (site.root / "shared.txt").read_text().replace("run\n", "mine\n"))
    before = site.state()
    result = site.undo(landed)
    assert (result.code, result.json["error"]["code"]) == (3, "merge_conflict")
    assert result.json["error"]["files"] == ["shared.txt"]
    look, over = ways = result.json["error"]["fix"]
    assert look == f"git log --oneline {site.tip('HEAD~1')[:12]}..main -- shared.txt"
    assert git(site.root, *look.split()[1:]).count("\n") == 1
    assert over == f"treadle undo {landed} --with-later"
    assert site.state() == before
    assert site.project.event(landed, "land_refused")["data"]["what"] == "undo"
    assert site.project.treadle("why", landed, "--json").json["next"] == ways
    # Leaves the conflict to its user.
    git(site.root, "revert", "--no-edit", "HEAD~1", check=False)
    site.write("shared.txt", LINES.replace("0\n", "mine\n", 1))
    git(site.root, "add", "-A")
    git(site.root, "-c", "core.editor=true", "revert", "--continue")
    tip = site.tip()
    assert site.undo(landed).json["undone"] is None
    shown = site.project.show(landed)
    assert (shown["undone"], site.tip()) == (tip, tip)


def test_later_changes_of_the_same_lines_go_with_it_as_proposed_and_all_others_stay(site):
    site.commit("shared.txt", LINES)
    site.write("tool.sh", LINES).chmod(0o755)
    for name, content in {"gone.txt": "gone\n", "image.bin": "a\0b\n", "tool.sh": LINES}.items():
        site.commit(name, content)
    begun = site.tree()
    work = "for f in shared.txt tool.sh; do sed -i s/^0$/run/ $f; done; rm gone.txt; echo > new.txt"
    run_id = site.passed(f"{work}; echo run > image.bin; echo > done.txt")
    assert site.land(run_id).code == 0
    for name in ("shared.txt", "tool.sh"):
        changed = (site.root / name).read_text().replace("run\n", "mine\n").replace("29", "mine")
        site.commit(name, changed)
    for name in ("gone.txt", "new.txt", "image.bin"):
        site.commit(name, "mine\n")
    way = site.undo(run_id).json["error"]["fix"][-1]
    assert site.project.treadle(*way.split()[1:]).code == 0
    kept = LINES.replace("29", "mine")
    assert {(site.root / name).read_text() for name in ("shared.txt", "tool.sh")} == {kept}
    assert git(site.root, "status", "--porcelain") == ""
    left = git(site.root, "diff", "--name-status", begun, "HEAD", "--", ":!.treadle").split()
    assert left == ["M", "shared.txt", "M", "tool.sh"]
    assert git(site.root, "ls-files", "-s", "tool.sh").startswith("100755 ")


@pytest.mark.real
def test_what_later_runs_built_on_is_undone_after_them_as_proposed(site, landed):
    above = site.passed("sed -i s/^run$/more/ shared.txt")
    assert site.land(above).code == 0
    ways = site.undo(landed).json["error"]["fix"]
    assert ways == [f"treadle undo {above}", f"treadle undo {landed}"]
    assert [site.project.treadle(*way.split()[1:]).code for way in ways] == [0, 0]
    assert (site.root / "shared.txt").read_text() == LINES


def test_later_runs_of_the_same_lines_are_undone_first_whoever_changed_them_between(site, landed):
    site.commit("shared.txt", (site.root / "shared.txt").read_text().replace("run\n", "1\n"))
    above = site.passed("sed -i 's/^1$/above/' shared.txt; echo > above.txt")
    assert site.land(above).code == 0
    beside = site.passed("sed -i 's/^29$/beside/' shared.txt")
    assert site.land(beside).code == 0
    site.commit("shared.txt", (site.root / "shared.txt").read_text().replace("above\n", "2\n"))
    way = site.undo(landed).json["error"]["fix"][-1]
    done = site.project.treadle(*way.split()[1:], "--json")
    assert (done.code, done.json["above"]) == (0, [above]), done
    assert (site.root / "shared.txt").read_text() == LINES.replace("29", "beside")
    assert not (site.root / "above.txt").exists()
    runs = site.project.treadle("runs", "list", "--json").json["runs"]
    assert {run["run_id"] for run in runs if run["landed"]} == {beside}
    assert site.undo(above).json["error"]["code"] == "already_undone"


def test_undoing_twice_is_refused_and_landing_again_is_not(site, landed):
    after = site.tree()
    site.undo(landed)
    again = site.undo(landed)
    assert (again.code, again.json["error"]["code"]) == (3, "already_undone")
    assert site.land(landed).code == 0
    assert site.tree() == after
    assert site.project.show(landed)["undone"] is None
    assert site.undo(landed).json["exact"]


def test_a_run_that_did_not_land_cannot_be_undone(site):
    run_id = site.passed()
    result = site.undo(run_id)
    assert (result.code, result.json["error"]["code"]) == (3, "not_landed")


def test_a_landing_that_was_reverted_by_hand_leaves_nothing_to_undo(site, landed):
    git(site.root, "revert", "--no-edit", "HEAD")
    tip = site.tip()
    result = site.undo(landed)
    assert (result.code, result.json["undone"], site.tip()) == (0, None, tip)
    assert site.project.show(landed)["undone"] == tip
    assert site.land(landed).code == 0


def test_a_rewritten_branch_is_refused(site, landed):
    git(site.root, "reset", "-q", "--hard", "HEAD~1")
    site.commit("other.txt", "other\n")
    result = site.undo(landed)
    assert (result.code, result.json["error"]["code"]) == (3, "not_in_branch")


@pytest.mark.parametrize("is_cleared", [False, True])
def test_a_landing_that_a_reset_has_taken_out_can_be_landed_again_as_proposed(
    site, landed, is_cleared
):
    after = site.tree()
    git(site.root, "reset", "-q", "--hard", "HEAD~1")
    if is_cleared:
        git(site.root, "reflog", "expire", "--expire=now", "--all")
        git(site.root, "gc", "-q", "--prune=now")
    way = site.undo(landed).json["error"]["fix"][-1]
    assert way == f"treadle land {landed}"
    assert site.land(landed).json["landed"] == site.tip()
    assert site.tree() == after
    site.refused(landed, "already_landed")
    assert site.undo(landed).json["exact"]


def test_what_was_amended_after_its_landing_is_seen_and_not_landed_twice(site, landed):
    git(site.root, "commit", "-q", "--amend", "-m", "Mine")
    tip = site.tip()
    assert site.land(landed).json["by_hand"]
    assert site.tip() == tip
    assert site.undo(landed).json["exact"]


def test_a_deleted_branch_is_refused(site, landed):
    git(site.root, "switch", "-q", "-c", "other")
    git(site.root, "branch", "-q", "-D", "main")
    result = site.undo(landed)
    assert (result.code, result.json["error"]["code"]) == (3, "branch_missing")


def test_an_uncommitted_file_that_overlaps_is_refused(site, landed):
    site.write("shared.txt", "mine\n")
    before = site.state()
    result = site.undo(landed)
    assert (result.code, result.json["error"]["code"]) == (3, "uncommitted_files")
    assert site.state() == before


def test_a_file_where_the_removed_one_comes_back_is_refused(site, landed):
    site.write("gone.txt", "mine\n")
    result = site.undo(landed)
    assert result.json["error"]["files"] == ["gone.txt"]


def test_a_branch_that_is_not_checked_out_is_undone_alone(site, landed):
    git(site.root, "switch", "-q", "-c", "other")
    before = site.tree("main~1")
    assert site.undo(landed).json["exact"]
    assert site.tree("main") == before
    assert (site.root / "done.txt").exists()
