"""Every tool, pinned and newest, mends a real library, whose own tests judge it."""

import json
import shlex
import sys
import tarfile

import pytest

from tests.builder import Project
from tests.real.cases import VERSIONS
from tests.real.conftest import Bench, good
from tests.real.model import Model, Shell
from tests.real.tools import CACHE, PATIENCE
from treadle.sandbox import jails

pytestmark = [pytest.mark.real, pytest.mark.timeout(PATIENCE)]
LIBRARY = "inflection-0.5.1"
RIGHT, WRONG = "return word.lower()", "return word.upper()"
TIERS = [*(tier for tier in ("A", "B") if jails.probe(tier).tier == tier), "0"]
# In each tier every tool has a part, and another one makes the change.
CASTS = (
    {"plan": "codex", "do": "gemini", "check": "codex", "act": "claude"},
    {"plan": "claude", "do": "gemini", "check": "codex", "act": "claude"},
    {"plan": "gemini", "do": "codex", "check": "claude", "act": "claude"},
)
# The same of the two that start slowly.
SLOW_CASTS = (
    {"plan": "copilot", "do": "copilot", "check": "copilot", "act": "opencode"},
    {"plan": "copilot", "do": "opencode", "check": "copilot", "act": "copilot"},
    {"plan": "opencode", "do": "copilot", "check": "copilot", "act": "copilot"},
)


def mend(role):
    """Undo the mistake in this role: at once, or in a second round."""

    def script(turn):
        if turn.results or turn.role != role:
            return good(turn)
        path = shlex.quote(f"{turn.workspace}/inflection/__init__.py")
        # Not the plainest command: without a sandbox a tool may look at every word of it.
        edit = f"(grep -q '{WRONG}' {path} 2>/dev/null) && sed -i 's/{WRONG}/{RIGHT}/' {path}"
        return Shell(f"{edit}; touch {shlex.quote(turn.workspace)}/done.txt")

    return script


@pytest.fixture
def library(tmp_path):
    """A project that is the library, as its authors published it but for one mistake."""
    archive = CACHE / "library" / f"{LIBRARY}.tar.gz"
    if not archive.exists():
        pytest.skip(f"{LIBRARY} is NOT FETCHED: run scripts/test --real")
    names = ("inflection/__init__.py", "test_inflection.py", "LICENSE")
    with tarfile.open(archive) as found:
        members = {name: found.extractfile(f"{LIBRARY}/{name}") for name in names}
        files = {name: it.read().decode() for name, it in members.items()}
    assert files[names[0]].count(RIGHT) == 1
    files[names[0]] = files[names[0]].replace(RIGHT, WRONG)
    return Project.make(tmp_path / "library", tmp_path / "agents", files)


@pytest.mark.parametrize("casts", [CASTS, SLOW_CASTS], ids=["three", "two"])
@pytest.mark.parametrize("tier", TIERS)
def test_tools_mend_a_library_together(library, tier, casts):
    with Model(mend(_who(tier))) as model:
        cast = casts[TIERS.index(tier)]
        bench = Bench(library, cast["plan"], model)
        bench.cast(cast)
        mends(bench, tier)


@pytest.mark.all
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("tool", VERSIONS)
def test_a_whole_run_from_plan_to_pass_mends_a_library(library, tool, tier):
    with Model(mend(_who(tier))) as model:
        bench = Bench(library, tool, model)
        bench.configure()
        mends(bench, tier)


def _who(tier):
    return "act" if tier == TIERS[0] else "do"


def mends(bench, tier):
    """Let them work in this tier: judged by the library's tests, counted by the model."""
    library = bench.project
    check = f"{sys.executable} -m pytest -q -p no:cacheprovider test_inflection.py"
    library.settings('sandbox = "off"\n' if tier == "0" else f'[sandbox]\ntier = "{tier}"\n')
    words = ("--goal", "Make underscore() right", "--verify", f"AC1={check}", "--json")
    done = library.treadle("run", *words, env=bench.env, timeout=PATIENCE)
    assert done.json.get("status") == "passed", done.out + library.treadle("why", "last").out
    shown = library.show(done.json["run_id"])
    assert {step["sandbox_tier"] for step in shown["steps"]} == {tier}
    roles = [step["role"] for step in shown["steps"]]
    again = ["act", "plan", "do", "check"] if _who(tier) == "act" else []  # the tests saw it
    assert roles == ["plan", "do", "check", *again]
    assert RIGHT in library.git("show", f"{done.json['branch']}:inflection/__init__.py")
    assert bench.step(shown["run_id"], "001-plan").joinpath("plan.md").exists()
    step = "004-act" if again else "002-do"
    lines = bench.step(shown["run_id"], step).joinpath("logs/events.jsonl").read_text()
    kinds = {json.loads(line)["kind"] for line in lines.splitlines()}
    assert "done" in kinds
    assert kinds & {"tool_start", "tool_end"}
    used = shown["usage"]
    assert (used["input_tokens"], used["output_tokens"]) == bench.model.counted
