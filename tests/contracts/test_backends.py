"""What every backend keeps to, whichever tool it drives."""

import json
import sys
from pathlib import Path

import pytest

from tests.agents import fake
from treadle.agents.backend import AgentResult, AgentSpec
from treadle.agents.table import BACKENDS, TOOLS, can_change, may_edit
from treadle.config.schema import AgentConfig
from treadle.contract import ROLES
from treadle.contract import messages as requests
from treadle.contract.events import StepError
from treadle.proc.keeper import Keeper, Limits

ACP = Path(fake.__file__).with_name("acp_agent.py")
AGENT = 'import sys; sys.stdin.read(); print(\'{"version": 1, "status": "ok", "summary": "done"}\')'


@pytest.fixture(scope="module")
def keeper():
    with Keeper() as found:
        yield found


@pytest.fixture
def place(tmp_path):
    for name in ("step", "live", "workspace"):
        (tmp_path / name).mkdir()
    return tmp_path


def configured(type_: str, place: Path) -> AgentConfig:
    """Return an honest agent of this type."""
    if type_ in ("exec", "command"):
        return AgentConfig(type=type_, cmd=(sys.executable, "-c", AGENT))
    if type_ == "builtin":
        return AgentConfig(type="builtin", run=("true",))
    if type_ == "acp":
        return AgentConfig(type="acp", cmd=(sys.executable, str(ACP), "plain", str(place)))
    if type_ in TOOLS:
        fake.program(place, type_)
        # It would choose a service by itself.
        return AgentConfig(type=type_, model="maker/model" if type_ == "opencode" else None)
    for number, role in enumerate(ROLES, 1):
        folder = place / "recorded" / "steps" / f"{number:03d}-{role}"
        folder.mkdir(parents=True)
        (folder / "output.json").write_text('{"version": 1, "status": "ok", "summary": "done"}')
        (folder / "notes.txt").write_text("kept")
    return AgentConfig(type="replay", recording=str(place / "recorded"))


def turn(keeper, place, config, role="do", iteration=1, **changes) -> AgentResult:
    asked = requests.AgentRequest(
        run_id="20260101-000000-000000",
        step=requests.Step(index=1, role=role, iteration=iteration),
        goal="g",
        norma=requests.Asked(
            acceptance_criteria=(requests.AskedCriterion(id="AC1", text="t", verify="true"),),
            budgets={"max_iterations": 5},
            observed=changes.pop("observed", ()),
        ),
        paths=requests.Paths(repo_root="/r", run_dir="/d", step_dir=str(place / "step")),
        context=requests.RequestContext(previous_step_dirs=(), notes=""),
    )
    (place / "step" / "input.json").write_bytes(requests.encode(asked))
    spec = AgentSpec(
        name=role,
        config=config,
        root=place,
        workspace=place / "workspace",
        environment={"PATH": f"{place / 'bin'}:/usr/bin:/bin", "HOME": str(place)},
        stdout=place / "live" / "stdout.txt",
        stderr=place / "live" / "stderr.txt",
        limits=changes.pop("limits", Limits(wall=120, output_bytes=1 << 20)),
        keeper=keeper,
        should_stop=changes.pop("should_stop", lambda: None),
        on_tick=lambda elapsed: None,
    )
    return BACKENDS[config.type](spec, asked, changes.pop("prompt", ""), place / "step")


@pytest.mark.parametrize("type_", BACKENDS)
def test_an_honest_turn_has_a_response_and_no_error(keeper, place, type_):
    result = turn(keeper, place, configured(type_, place))
    assert result.error is None
    assert result.response is not None
    assert result.response.status == "ok"
    assert result.message


@pytest.mark.parametrize("type_", BACKENDS)
def test_every_backend_knows_whether_it_can_change_code(place, type_):
    config = configured(type_, place)
    answers = {role: can_change(config, role) for role in ROLES}
    assert answers["act"] is True
    assert (answers["plan"], answers["check"]) == (False, False)


@pytest.mark.parametrize("type_", BACKENDS)
def test_edits_are_only_for_do_and_act(place, type_):
    config = configured(type_, place)
    assert not may_edit(config, "plan")
    assert not may_edit(config, "check")
    assert may_edit(config, "do") is (type_ != "exec")


@pytest.mark.parametrize("type_", ["exec", "builtin"])
def test_a_stop_is_an_interruption(keeper, place, type_):
    field = "cmd" if type_ == "exec" else "run"
    config = AgentConfig(type=type_, **{field: ("sleep", "60")})
    result = turn(keeper, place, config, should_stop=lambda: "stopped by SIGTERM")
    assert result.error == StepError.INTERRUPTED
    assert "SIGTERM" in result.message


@pytest.mark.parametrize("type_", ["exec", "builtin"])
def test_a_program_that_fails_says_its_exit_code(keeper, place, type_):
    field = "cmd" if type_ == "exec" else "run"
    result = turn(keeper, place, AgentConfig(type=type_, **{field: ("sh", "-c", "exit 9")}))
    assert result.error == StepError.AGENT_EXIT
    assert "exited with 9" in result.message


def test_builtin_has_nothing_to_add_without_a_command(keeper, place):
    for role in ("plan", "do", "act"):
        assert turn(keeper, place, AgentConfig(type="builtin"), role=role).skipped


@pytest.mark.parametrize("passed", [True, False])
def test_builtin_judges_by_what_was_observed(keeper, place, passed):
    seen = requests.Observed(
        id="AC1",
        command="true | cat",
        passed=passed,
        exit_code=0,
        seconds=0.1,
        log="files/checks/AC1.txt",
    )
    result = turn(keeper, place, AgentConfig(type="builtin"), role="check", observed=(seen,))
    verdict = json.loads((place / "step" / "verdict.json").read_text())
    assert verdict["verdict"] == ("PASS" if passed else "FAIL")
    assert result.response is not None
    card = (place / "step" / "scorecard.md").read_text()
    assert card.startswith(f"# {verdict['verdict']}")
    assert card.endswith(f"| AC1: t | {'yes' if passed else 'no'} | `true \\| cat` | 0 |\n")


def test_builtin_never_passes_what_nobody_observed(keeper, place):
    turn(keeper, place, AgentConfig(type="builtin"), role="check")
    assert json.loads((place / "step" / "verdict.json").read_text())["verdict"] == "FAIL"


def test_replay_copies_the_recorded_files_and_not_treadles_own(keeper, place):
    config = configured("replay", place)
    recorded = place / "recorded" / "steps" / "002-do"
    (recorded / "logs").mkdir()
    (recorded / "logs" / "stdout.txt").write_text("old")
    (recorded / "step.json").write_text("{}")
    (recorded / "input.json").write_text("[" * 100_000)
    (recorded / "files" / "checks").mkdir(parents=True)
    (recorded / "files" / "checks" / "AC1.txt").write_text("old")
    (recorded / "files" / "checksums.txt").write_text("kept too")
    turn(keeper, place, config)
    assert [path.name for path in (place / "step" / "files").iterdir()] == ["checksums.txt"]
    assert (place / "step" / "notes.txt").read_text() == "kept"
    assert not (place / "step" / "step.json").exists()
    assert not (place / "step" / "logs").exists()


def test_replay_says_when_the_recording_is_over(keeper, place):
    result = turn(keeper, place, configured("replay", place), iteration=2)
    assert result.error == StepError.REPLAY_EXHAUSTED
    assert "do in iteration 2" in result.message


@pytest.mark.parametrize(
    ("told", "used"),
    [
        (
            {"input_tokens": 5, "cached_tokens": 2, "output_tokens": 3, "cost_usd": 0.5},
            (5, 2, 3, 0.5),
        ),
        ({"input_tokens": -5, "cost_usd": -1, "output_tokens": "9", "model": 7}, (0, 0, 0, 0.0)),
        ({}, (0, 0, 0, 0.0)),
        ([1], None),
        (None, None),
    ],
)
def test_a_program_can_say_what_it_has_used(keeper, place, told, used):
    said = {"version": 1, "status": "ok", "summary": "s", "usage": told}
    config = AgentConfig(type="exec", cmd=("printf", "%s", json.dumps(said)))
    found = turn(keeper, place, config)
    assert found.error is None
    kept = found.usage
    tokens = kept and (kept.input_tokens, kept.cached_tokens, kept.output_tokens, kept.cost_usd)
    assert tokens == used
