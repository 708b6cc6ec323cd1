"""Who changes what decides a check must have a person's word for it."""

import json
import sys

import pytest

from tests.web.conftest import Worked, uncoloured

TEST = "import calc\n\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n"
WRONG = "def add(a, b):\n    return a - b\n"
CHEAT = 'pathlib.Path("test_calc.py").write_text("def test_add():\\n    pass\\n")'
REPAIR = 'pathlib.Path("calc.py").write_text("def add(a, b):\\n    return a + b\\n")'
COMMAND = f"{sys.executable} -m pytest -q -p no:cacheprovider"


@pytest.fixture
def calc(project):
    """A project whose test fails because the product is wrong."""
    (project.root / "calc.py").write_text(WRONG)
    (project.root / "test_calc.py").write_text(TEST)
    project.git("add", ".")
    project.git("commit", "-q", "-m", "Calc")
    return project


def edits(project, code, role="do"):
    project.agent(role, f'os.chdir(repo)\n{code}\nok("edited")', edits=True)


def run(project, *more, command=COMMAND):
    return project.run_json("--verify", f"AC1={command}", *more)


def test_a_pass_that_hangs_on_a_changed_test_waits_for_a_person(calc):
    edits(calc, CHEAT)
    found = run(calc)
    assert (found["status"], found["verdict"], found["code"]) == ("stopped", "PASS", 3)
    assert found["reason_code"] == "protected_changed"
    (item,) = calc.treadle("desk", "--json").json["items"]
    assert (item["kind"], item["options"]) == ("approval", ["approve", "reject", "leave it"])
    look, approve = item["fix"][:2]
    assert "-    assert calc.add" in (calc.root / look.removeprefix("cat ")).read_text()
    assert calc.treadle("land", found["run_id"]).code == 3
    assert calc.treadle(*approve.split()[1:]).code == 0
    assert calc.show(found["run_id"])["status"] == "passed"
    assert calc.treadle("desk", "--json").json["items"] == []
    assert "protected_approved" in calc.event_types(found["run_id"])
    assert calc.treadle(*approve.split()[1:]).code == 1


@pytest.mark.real
def test_the_page_shows_the_change_and_offers_to_approve_it(calc):
    edits(calc, CHEAT)
    run_id = run(calc)["run_id"]
    browser = Worked(calc, run_id, {}).browser
    step = uncoloured(browser.get(f"/runs/{run_id}/steps/3").text)
    assert "test_calc.py: with these files as the base has them, AC1 fails" in step
    assert '<td class="old del">    assert calc.add(1, 2) == 3</td>' in step
    desk = browser.get("/desk").text
    assert "treadle answer Q-1 approve --wait" in desk


@pytest.mark.real
def test_going_on_without_approval_sends_it_back_as_a_failed_criterion(calc):
    edits(calc, f"if iteration == 1: {CHEAT}")
    edits(calc, f"{REPAIR}\npathlib.Path('test_calc.py').write_text({TEST!r})", role="act")
    run_id = run(calc)["run_id"]
    result = calc.treadle("run", "--resume", run_id, "--json").json
    assert (result["status"], result["iteration"]) == ("passed", 2)
    sent = json.loads((calc.step_dir(run_id, "004-act") / "input.json").read_text())
    assert "Failing in the last check: AC1" in sent["context"]["notes"]
    assert "Not accepted: the commands pass only because" in sent["context"]["notes"]
    assert calc.show(run_id)["protected"] == []


@pytest.mark.real
def test_fail_sends_it_back_without_asking(calc):
    calc.settings('[checks]\nprotect_mode = "fail"\n')
    edits(calc, CHEAT)
    edits(calc, f"{REPAIR}\npathlib.Path('test_calc.py').write_text({TEST!r})", role="act")
    result = run(calc)
    assert (result["status"], result["iteration"]) == ("passed", 2)
    sent = json.loads((calc.step_dir(result["run_id"], "004-act") / "input.json").read_text())
    assert "Not accepted" in sent["context"]["notes"]


@pytest.mark.real
def test_warn_only_tells(calc):
    calc.settings('[checks]\nprotect_mode = "warn"\n')
    edits(calc, CHEAT)
    result = run(calc)
    assert result["status"] == "passed"
    assert "AC1 fails" in calc.event(result["run_id"], "protected_changed")["message"]


@pytest.mark.real
def test_a_change_that_the_base_does_not_mind_is_listed_everywhere(calc):
    more = f"{TEST}\n\ndef test_more():\n    assert calc.add(2, 2) == 4\n"
    edits(calc, f"{REPAIR}\npathlib.Path('test_calc.py').write_text({more!r})")
    result = run(calc)
    run_id = result["run_id"]
    assert (result["status"], calc.show(run_id)["protected"]) == ("passed", ["test_calc.py"])
    told = "test_calc.py: with these files as the base has them the commands pass too"
    assert told in calc.treadle("why", run_id).out
    assert told in calc.treadle("runs", "show", run_id).out
    assert told.replace("_", "_") in calc.treadle("report", run_id).out
    assert told in Worked(calc, run_id, {}).browser.get(f"/runs/{run_id}").text
    logs = calc.step_dir(run_id, "003-check") / "files/checks/base"
    assert "1 passed" in (logs / "AC1.txt").read_text()


@pytest.mark.real
@pytest.mark.parametrize(
    ("how", "named"),
    [
        ('pathlib.Path("test_calc.py").unlink()', "test_calc.py"),
        ('pathlib.Path("test_calc.py").rename("later.py")', "test_calc.py"),
    ],
)
def test_a_protected_file_that_is_deleted_or_renamed_is_asked_about(calc, how, named):
    (calc.root / "test_ok.py").write_text("def test_ok():\n    pass\n")
    calc.git("add", ".")
    calc.git("commit", "-q", "-m", "Another test")
    edits(calc, how)
    found = run(calc)
    assert (found["code"], found["reason_code"]) == (3, "protected_changed")
    assert calc.show(found["run_id"])["protected"] == [named]
    diff = calc.step_dir(found["run_id"], "003-check") / "files/protected.diff"
    assert "-    assert calc.add(1, 2) == 3" in diff.read_text()


@pytest.mark.real
def test_an_honest_run_that_moves_a_test_is_listed_and_passes(calc):
    move = (
        'pathlib.Path("tests").mkdir(); pathlib.Path("test_calc.py").rename("tests/test_calc.py")'
    )
    (calc.root / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    calc.git("add", ".")
    calc.git("commit", "-q", "-m", "Settings")
    edits(calc, f"{REPAIR}\n{move}")
    found = run(calc)
    assert found["status"] == "passed"
    assert "test_calc.py" in calc.show(found["run_id"])["protected"]


def test_without_commands_it_is_listed_and_nothing_more(calc):
    edits(calc, CHEAT)
    calc.agent("check", 'verdict("PASS", AC1=True); ok()')
    result = calc.run_json()
    assert (result["status"], calc.show(result["run_id"])["protected"]) == (
        "passed",
        ["test_calc.py"],
    )


@pytest.mark.real
def test_globs_of_the_user_take_the_place_of_the_built_in_ones(calc):
    calc.settings('[checks]\nprotect = ["qa/**"]\n')
    edits(calc, CHEAT)
    assert run(calc)["status"] == "passed"
    calc.settings('[checks]\nprotect = ["qa/**", "default"]\n')
    assert run(calc)["reason_code"] == "protected_changed"


@pytest.mark.real
def test_in_the_workspace_it_is_looked_at_too(calc):
    calc.settings('[checks]\nplace = "workspace"\n')
    edits(calc, CHEAT)
    assert run(calc)["reason_code"] == "protected_changed"


@pytest.mark.real
def test_an_approval_is_for_one_tree_alone(calc):
    edits(calc, CHEAT)
    run_id = run(calc)["run_id"]
    other = calc.git("commit-tree", "-m", "other", "HEAD^{tree}").strip()
    calc.git("update-ref", f"refs/heads/treadle/{run_id}", other)
    assert calc.treadle("run", "--resume", run_id, "--approve", "protected").code != 0
    assert calc.show(run_id)["status"] != "passed"


@pytest.mark.real
@pytest.mark.parametrize(
    ("expect", "passes"),
    [
        ('"tests>=1"', True),
        ('"tests>=2"', False),
        ('["junit:out/report.xml", "tests>=1"]', True),
        ('"junit:report.xml"', False),
    ],
)
def test_more_than_exit_0_can_be_expected(calc, expect, passes):
    calc.settings(f"[checks]\nexpect = {expect}\n")
    edits(calc, REPAIR)
    result = run(
        calc, "--budget", "max_iterations=1", command=f"{COMMAND} --junitxml=out/report.xml"
    )
    assert (result["verdict"] == "PASS") is passes


@pytest.mark.parametrize("bad", ['"tests>=0"', '"junit:/abs"', '"junit:a/../../b"', '"many"', "3"])
def test_an_expectation_that_makes_no_sense_is_a_config_error(calc, bad):
    calc.settings(f"[checks]\nexpect = {bad}\n")
    found = calc.run("--verify", "AC1=true")
    assert found.code == 1
    assert "checks.expect" in found.err


def test_a_report_that_is_committed_is_not_a_fresh_one(calc):
    calc.settings('[checks]\nexpect = "junit:report.xml"\n')
    edits(
        calc,
        'pathlib.Path("report.xml").write_text("<testsuite><testcase/></testsuite>")',
    )
    assert run(calc, "--budget", "max_iterations=1", command="true")["verdict"] == "FAIL"
