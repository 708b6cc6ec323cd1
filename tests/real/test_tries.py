"""Several real tools on one goal, and images that they take."""

import base64
import json

import pytest

from tests.real.cases import cases
from tests.real.conftest import good, require
from tests.real.model import Shell
from tests.real.test_connections import at_once
from tests.real.tools import EVERY, PATIENCE, environment, settings

pytestmark = [pytest.mark.real, pytest.mark.timeout(PATIENCE)]

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="
)


LIMIT = 7_000  # tokens: more than each needs, and less than two of them


def differently(turn):
    """Let one be quick, one need a second round, and one never come to an end."""
    return {"responses": at_once, "gemini": good}.get(turn.protocol, lambda _: Shell("true"))(turn)


def test_three_tools_do_the_same_side_by_side_each_with_its_own_budget(bench):
    found = bench(EVERY[0], differently)
    project, url, env = found.project, found.model.url, {}
    project.config.clear()
    for tool in EVERY:
        require(tool)
        known = settings(tool, url).items()
        project.config[tool] = "\n".join(f"{key} = {json.dumps(value)}" for key, value in known)
        env |= environment(tool, url)
    project.save()
    words = [word for tool in EVERY for word in ("--try", tool)]
    goal = ("--goal", "Make done.txt", "--verify", "AC1=test -f done.txt")
    words += ["--budget", f"max_tokens={LIMIT}", "--json"]
    done = project.treadle("run", *goal, *words, env=env, timeout=PATIENCE)
    assert done.code == 0, done.out
    tries = done.json["tries"]
    ranked = [(it["agent"], it["status"], it["iterations"]) for it in tries]
    ends = [("codex", "passed", 1), ("gemini", "passed", 2), ("claude", "stopped", 1)]
    assert ranked == ends
    quick, slow, endless = (it["tokens"] for it in tries)
    assert quick + slow > LIMIT, "each has a limit of its own"
    assert max(quick, slow) < LIMIT <= endless
    has = [project.git("ls-tree", f"treadle/{it['run_id']}", "done.txt") for it in tries]
    assert [bool(it) for it in has] == [True, True, False]
    assert len({turn.workspace for turn in found.model.turns}) == len(EVERY)
    assert done.json["winner"] == tries[0]["run_id"]
    assert project.treadle("land", done.json["winner"]).code == 0


@pytest.mark.parametrize("tool", cases("codex", "opencode", "copilot"))
def test_an_image_is_attached(bench, tmp_path, tool):
    found = bench(tool)
    (tmp_path / "pixel.png").write_bytes(PIXEL)
    words = ("--verify", "AC1=test -f done.txt", "--image", str(tmp_path / "pixel.png"))
    found.project.treadle("task", "add", "Make done.txt", *words)
    done = found.project.treadle("run", "T-1", "--json", env=found.env, timeout=PATIENCE)
    assert done.code == 0, done.out
    assert base64.b64encode(PIXEL) in found.model.seen
