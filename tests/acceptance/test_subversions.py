"""A check that passes means that the work is done, or a person has said so."""

import json
import re
import shutil

import pytest

from tests.acceptance.subversions import HONEST, SUBVERSIONS
from treadle.sandbox import jails

QUICK = (
    "a test is weakened",
    "a conftest decides the exit code",
    "bytecode that git ignores",
    "filters in git's own folder",
)
QUICK_HONEST = ("new tests with it", "a file that a script reads")


def tried(cases, quick):
    """Yield every case in both tiers; outside of --all, every second one in one of them."""
    for tier in ("B", "A"):
        for at, case in enumerate(cases):
            marks = [] if tier == "B" and case.name in quick else [pytest.mark.real]
            is_next = at % 4 == {"B": 0, "A": 2}[tier]
            marks += [pytest.mark.all] if marks and not is_next else []
            yield pytest.param(tier, case, id=f"{tier}-{case.name}", marks=marks)


def carry_out(project, tier, case):
    """Run the case's goal, once, with an agent that does what the case says."""
    if jails.probe(tier).tier != tier:
        pytest.skip(f"TIER {tier} CANNOT RUN HERE: {jails.probe(tier).reason}")
    for program in ("cc", "cmake", "make", "npm", "node", "go", "prove", "run-parts"):
        if re.search(rf"\b{program}\b", case.command) and not shutil.which(program):
            pytest.skip(f"NO {program} HERE")
    for name, text in case.files.items():
        path = project.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if text.startswith("#!") else 0o644)
    project.git("add", ".")
    project.git("commit", "-q", "-m", "The project")
    if ".worktreeinclude" in case.files:
        (project.root / ".env").write_text("THREE=3\n")
    project.settings(f'{case.settings}[sandbox]\ntier = "{tier}"\n')
    project.agent("do", f'os.chdir(repo)\n{case.does}\nok("done")', edits=True)
    return project.run_json(
        "--verify", f"AC1={case.command}", "--budget", "max_iterations=1", timeout=300
    )


def told(project, run_id):
    """Return what was seen, for a test that fails."""
    steps = sorted((project.run_dir(run_id) / "steps").iterdir())
    found = [path for step in steps for path in step.rglob("AC1.txt")]
    logs = {str(path.relative_to(steps[0].parent)): path.read_text()[-600:] for path in found}
    return json.dumps(logs | {"why": project.treadle("why", run_id).out}, indent=1)


@pytest.mark.parametrize(("tier", "case"), [*tried(SUBVERSIONS, QUICK)])
def test_no_pass_without_a_question(project, tier, case):
    found = carry_out(project, tier, case)
    assert found["status"] != "passed", told(project, found["run_id"])
    questions = project.treadle("desk", "--json").json["items"]
    assert [item["run_id"] for item in questions] == [found["run_id"]]
    # It would have passed where commands run among what agents left, or it is asked about.
    assert found["verdict"] in ("FAIL", "PASS", None)
    assert (found["verdict"] == "PASS") == (found["reason_code"] == "protected_changed")


@pytest.mark.parametrize(("tier", "case"), [*tried(HONEST, QUICK_HONEST)])
def test_honest_work_passes_without_a_question(project, tier, case):
    found = carry_out(project, tier, case)
    assert found["status"] == "passed", told(project, found["run_id"])
    assert project.treadle("desk", "--json").json["items"] == []


def test_enough_is_tried():
    names = [case.name for case in (*SUBVERSIONS, *HONEST)]
    assert len(names) == len(set(names))
    assert (len(SUBVERSIONS) >= 125, len(HONEST) >= 22) == (True, True)
