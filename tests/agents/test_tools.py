"""How each tool is started and understood, from streams that the real ones printed."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.agents import fake
from treadle.agents.backend import hear, overlay, read_events
from treadle.agents.table import TOOLS
from treadle.proc.keeper import Keeper

EVERY = sorted(TOOLS)
TOKENS = {"copilot": None}


@pytest.fixture(scope="module")
def keeper():
    with Keeper() as found:
        yield found


@pytest.fixture
def asked(tmp_path, keeper):
    def make(tool, role="do", *, tier="A", resume=None, **config):
        found = fake.spec(tmp_path, keeper, tool, "/usr/bin", **config)
        return fake.ask(replace(found, tier=tier), TOOLS[tool], role, resume=resume)

    return make


@pytest.mark.parametrize("tool", EVERY)
def test_a_recorded_stream_is_understood(asked, tool):
    heard = hear(TOOLS[tool], read_events(fake.RECORDED / f"{tool}.jsonl"), asked(tool))
    answer = heard.structured or json.loads(heard.text)
    assert (heard.is_done, answer["summary"], heard.error) == (True, "plan is done", "")
    assert heard.session
    if tool != "copilot":
        assert heard.usage.input_tokens >= 2000
        assert (heard.usage.cached_tokens, heard.usage.output_tokens) == (800, 100)


@pytest.mark.parametrize("tool", EVERY)
def test_a_stream_without_its_last_event_is_no_success(asked, tool):
    events = list(read_events(fake.RECORDED / f"{tool}.jsonl"))[:-1]
    assert not hear(TOOLS[tool], events, asked(tool)).is_done


@pytest.mark.parametrize("tool", EVERY)
def test_nothing_at_all_is_no_success(asked, tool):
    assert not hear(TOOLS[tool], [], asked(tool)).is_done


@pytest.mark.parametrize("tool", EVERY)
def test_watchers_hear_of_tools_and_the_end(tool):
    events = read_events(fake.RECORDED / f"{tool}.jsonl")
    kinds = [note.kind for event in events for note in TOOLS[tool].tell(event)]
    assert {"tool_start", "tool_end"} & set(kinds)
    assert kinds[-1] == "done"


def test_an_error_after_which_the_tool_went_on_is_forgotten(asked):
    error = {"type": "error", "error": {"data": {"message": "boom", "statusCode": 500}}}
    text = {"type": "text", "part": {"text": "{}"}}
    stop = {"type": "step_finish", "part": {"reason": "stop"}}
    heard = hear(TOOLS["opencode"], [error, text, stop], asked("opencode"))
    assert (heard.is_done, heard.error) == (True, "")
    last = hear(TOOLS["opencode"], [text, error], asked("opencode"))
    assert (last.is_done, last.error, last.status) == (False, "boom", 500)


def test_an_error_of_copilot_outweighs_its_exit_code(asked):
    error = {"type": "session.error", "data": {"message": "boom", "statusCode": 401}}
    for code in (0, 1):
        heard = hear(
            TOOLS["copilot"], [error, {"type": "result", "exitCode": code}], asked("copilot")
        )
        assert (heard.is_done, heard.error, heard.status) == (False, "boom", 401)


def test_an_api_error_of_claude_is_no_success(asked):
    event = {"type": "result", "subtype": "success", "is_error": True, "api_error_status": 429}
    heard = hear(TOOLS["claude"], [event | {"result": "API Error: 429"}], asked("claude"))
    assert (heard.is_done, heard.status, heard.error) == (False, 429, "API Error: 429")


@pytest.mark.parametrize("tool", EVERY)
def test_the_tools_own_sandbox_is_off_only_inside_ours(asked, tool):
    off = ("danger-full-access", "bypassPermissions", "--allow-all-paths", '"external_directory"')

    def words(tier):
        launch = TOOLS[tool].launch(asked(tool, "plan", tier=tier))
        return " ".join([*launch.argv, *launch.env.values()])

    if tool in ("codex", "claude", "copilot"):
        assert any(word in words("A") for word in off)
        assert not any(word in words("0") for word in off)
    if tool == "opencode":
        assert '"deny"' in words("0")
        assert '"deny"' not in words("B")


def test_without_a_sandbox_copilot_may_name_earlier_steps_programs_and_devices(asked):
    found = asked("copilot", tier="0")
    words = TOOLS["copilot"].launch(found).argv
    added = {after for word, after in pairwise(words) if word == "--add-dir"}
    of_system = {"/usr", "/bin", "/opt", "/etc", "/dev"}
    assert added == {str(found.step_dir), str(found.step_dir.parent.parent)} | of_system
    held = TOOLS["copilot"].launch(asked("copilot", tier="A")).argv
    assert held.count("--add-dir") == 1


@pytest.mark.parametrize("tool", EVERY)
def test_model_and_further_arguments_reach_the_tool(asked, tool):
    launch = TOOLS[tool].launch(asked(tool, model="x/y", extra_args=("--one", "2")))
    assert "x/y" in [*launch.argv, *launch.env.values()]
    assert ("--one", "2") in list(zip(launch.argv, launch.argv[1:], strict=False))


@pytest.mark.parametrize("tool", EVERY)
def test_a_conversation_is_taken_up_again(asked, tool):
    launch = TOOLS[tool].launch(asked(tool, resume="abc-1"))
    assert any("abc-1" in word for word in launch.argv)


@pytest.mark.parametrize("tool", EVERY)
def test_state_goes_to_the_folder_of_the_turn(asked, tool):
    found = asked(tool)
    launch = TOOLS[tool].launch(found)
    assert str(found.state) in launch.env[TOOLS[tool].state_variable]


ISOLATION = {
    "codex": ("--ignore-user-config", "project_root_markers=[]"),
    "claude": ("--strict-mcp-config", "--setting-sources"),
    "gemini": ("--include-directories",),
    "opencode": ("--pure", "OPENCODE_DISABLE_PROJECT_CONFIG"),
    "copilot": ("--disable-builtin-mcps", "--no-custom-instructions"),
}


@pytest.mark.parametrize("tool", EVERY)
def test_what_a_repository_brings_does_not_run(asked, tool):
    found = asked(tool)
    launch = TOOLS[tool].launch(found)
    assert set(ISOLATION[tool]) <= {*launch.argv, *launch.env}
    if tool == "gemini":
        assert launch.cwd == found.apart
        assert f"{found.spec.workspace},{found.step_dir}" in launch.argv
    assert launch.env.get("COPILOT_ALLOW_ALL", "false") == "false"


def test_opencode_has_nothing_to_fetch_when_it_starts(asked):
    found = asked("opencode")
    launch = TOOLS["opencode"].launch(found)
    folder = Path(launch.env["XDG_CONFIG_HOME"]) / "opencode"
    files = {found.state / name: text for name, text in launch.files.items()}
    assert "@opencode-ai/plugin" in files[folder / "package-lock.json"]
    assert folder / "node_modules" in {path.parent for path in files}


@pytest.mark.parametrize("own", ["{", "[1]"])
def test_settings_of_the_user_that_make_no_sense_are_the_tools_to_refuse(own):
    assert overlay(own, {"a": 1}) == own
    assert overlay(None, {"a": 1}) == '{"a": 1}'


@pytest.mark.parametrize("tool", EVERY)
def test_events_that_nobody_knows_change_nothing(asked, tool):
    odd = [
        {"type": "imagined"},
        {"type": 7, "data": [], "part": "x", "item": None},
        {},
        {"kind": 1},
    ]
    events = [*read_events(fake.RECORDED / f"{tool}.jsonl")]
    mixed = [event for known in events for event in (*odd, known)]
    assert hear(TOOLS[tool], mixed, asked(tool)) == hear(TOOLS[tool], events, asked(tool))


def test_gemini_says_before_its_last_event_what_it_ends_with(asked):
    blocked = "The model response was blocked due to safety settings."
    events = [
        {"type": "init", "session_id": "s"},
        {"type": "error", "severity": "error", "message": blocked},
        {"type": "result", "status": "error", "stats": {"input_tokens": 5}},
    ]
    heard = hear(TOOLS["gemini"], events, asked("gemini"))
    assert (heard.is_done, heard.error) == (False, blocked)


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("codex", ["--image=/r/images/1-a.png", "--image=/r/images/2-b.png"]),
        ("opencode", ["--file=/r/images/1-a.png", "--file=/r/images/2-b.png"]),
        ("copilot", ["--attachment=/r/images/1-a.png", "--attachment=/r/images/2-b.png"]),
        ("gemini", ["--include-directories", "/r/images"]),
        ("claude", []),
    ],
)
def test_images_go_to_tools_that_take_them(asked, tool, words):
    first, again = asked(tool), asked(tool, resume="s")
    before = TOOLS[tool].launch(first).argv
    shown = (Path("/r/images/1-a.png"), Path("/r/images/2-b.png"))
    first, again = (replace(it, spec=replace(it.spec, images=shown)) for it in (first, again))
    added = [word for word in TOOLS[tool].launch(first).argv if word not in before]
    assert [*dict.fromkeys(added)] == [word for word in words if word not in before]
    assert not any("/r/images" in word for word in TOOLS[tool].launch(again).argv)
