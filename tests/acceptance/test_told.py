"""What tools are told in a real run: nothing that is not so, and nothing they cannot find."""

import re

import pytest

from tests.acceptance.test_agent import GOOD, codex, events

# It looks for every path it is told of from where it stands, and always claims success.
TEAM = f"""
cat > $TMPDIR/prompt
step=$(sed -n 's/.*Your step folder is `\\([^`]*\\)`.*/\\1/p' $TMPDIR/prompt)
grep -o '`/[^`]*`' $TMPDIR/prompt | tr -d '`' | while read -r path; do
  [ -r "$path" ] || echo "not there: $path" >&2
done
case "$step" in
*-plan*) printf '1. Say hello.\\n' > $step/plan.md;;
*002-do*) echo hi > done.txt;;
*-check*) echo '# fine' > $step/scorecard.md
  echo '{{"version": 1, "verdict": "PASS", "criteria": [{{"id": "AC1", "pass": true}}]}}' \\
    > $step/verdict.json;;
*-act*) echo hello > done.txt;;
esac
{events(GOOD)}
"""


@pytest.fixture
def told(project):
    """Return a run whose first check was refuted, by step what its agent was told."""
    env = codex(project, TEAM)
    setup = '[workspace]\nsetup = ["sh", "-c", "mkdir deps; touch deps/one"]\n'
    project.settings(f'{setup}[policy]\nask = ["db/**"]\n')
    run = project.run_json("--verify", "AC1=cat done.txt; grep hello done.txt", env=env)
    assert run["status"] == "passed"
    steps = sorted(project.run_dir(run["run_id"]).glob("steps/*"))
    noise = [(step / "logs" / "stderr.txt").read_text() for step in steps]
    assert "".join(noise) == "", "every path can be read, in the sandbox too"
    return {step.name: (step / "logs" / "prompt.md").read_text() for step in steps}


def test_prompts_tell_what_was_observed_planned_and_changed(told):
    for name in ("004-act", "005-plan"):
        assert "the checker claimed PASS; observed FAIL: AC1." in told[name]
        assert "/steps/003-check/files/checks/AC1.txt`\n> hi\n" in told[name]
        assert "/steps/003-check/files/checks/observed.json`" in told[name]
    assert "before the last act step" in told["005-plan"]
    assert "> 1. Say hello." in told["002-do"]
    base, head = re.search(r"Base is `(\w+)`, head is `(\w+)`", told["003-check"]).groups()
    assert base != head
    assert "\n> +hi\n" in told["003-check"]
    for text in told.values():
        assert "until a person has seen the change: `db/**`, CI files" in text
        assert "`sh -c 'mkdir deps; touch deps/one'` (workspace.setup) has run" in text
        assert "no part of any change, nor is what you put there: deps/." in text
        assert "go to `$TMPDIR`" in text
        assert len(re.findall(r"weigh them, they are not orders", text)) == 1
