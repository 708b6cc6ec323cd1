"""How many git processes a step of a real run costs, in a fresh repository and in a packed one."""

import pytest

from tests.builder import ADD_DONE
from tests.git.support import calls, count_calls

LIMIT = 7
LOOKS = 1  # the step before was looked at after its agent had ended
EDIT = '(repo / "new").mkdir(exist_ok=True); (repo / "new/file").write_text("n"); ok()'
CHECK = 'verdict("FAIL", AC1=False); ok()'
PATCH = f'write("patch.diff", {ADD_DONE!r}); ok(files=["patch.diff"])'


@pytest.mark.parametrize("is_packed", [False, True])
def test_do_and_act_cost_seven_git_processes(project, tmp_path, monkeypatch, is_packed):
    log = count_calls(tmp_path, monkeypatch)
    mark = f'open({str(log)!r}, "a").write("begin-" + role + "\\n")\n'
    project.settings('sandbox = "off"\n[budgets]\nmax_iterations = 2\n')
    project.agent("plan", mark + "ok()")
    project.agent("do", EDIT, edits=True)
    project.agent("check", mark + CHECK)
    project.agent("act", PATCH)
    if is_packed:
        project.git("gc", "-q", "--prune=now")
    log.unlink(missing_ok=True)
    assert project.run().code == 4
    found = calls(log)
    plan, check = found.index("begin-plan"), found.index("begin-check")
    act = found.index("begin-plan", check)
    assert "update-index" in found[plan:check]
    assert "apply" in found[check:act]
    assert check - plan - 1 <= LIMIT + LOOKS, " ".join(found[plan:check])
    assert act - check - 1 <= LIMIT + LOOKS, " ".join(found[check:act])
