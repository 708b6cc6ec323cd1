"""Every way a command can end: words for people, one document for programs, an exit code."""

import errno
import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from treadle import __version__
from treadle.cli import main
from treadle.errors import BlockedError, install_extra

TREADLE = [sys.executable, "-m", "treadle"]


@pytest.fixture
def command(monkeypatch):
    """Return a function that makes `treadle probe` do something."""

    def install(action, *arguments):
        module = ModuleType("treadle.cli.probe")
        module.run = action
        monkeypatch.setitem(sys.modules, "treadle.cli.probe", module)
        monkeypatch.setitem(main.COMMANDS, "probe", ("probe.run", "Try something", list(arguments)))

    return install


def fail(error):
    """Return a command that ends this way."""

    def run(args):
        raise error

    return run


def answer(capsys) -> dict:
    """Return the one JSON document on stdout, and see that there is nothing else."""
    shown = capsys.readouterr()
    assert shown.err == ""
    assert shown.out.count("\n") == 1
    return json.loads(shown.out)


def test_error_goes_to_stderr_with_its_fixes(command, capsys):
    command(fail(BlockedError("the gate is shut", fix=["open it", "or wait"])))
    assert main.main(["probe"]) == 3
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == "treadle: the gate is shut\n  try: open it\n  try: or wait\n"


def test_a_command_that_stays_for_hours_has_its_garbage_collected(command):
    """The interpreter looks for none until the command is loaded."""
    seen, threshold = [], gc.get_threshold()
    command(lambda args: seen.append(gc.isenabled()) or 0)
    gc.disable()
    try:
        assert main.main(["probe"]) == 0
    finally:
        gc.set_threshold(*threshold)
        gc.enable()
    assert seen == [True]


@pytest.mark.parametrize("words", [["probe", "--json"], ["--json", "probe"]])
def test_error_is_one_document(command, capsys, words):
    command(fail(BlockedError("shut", code="gate", fix=["open"], details={"files": ["a"]})))
    assert main.main(words) == 3
    expected = {"code": "gate", "message": "shut", "fix": ["open"], "files": ["a"]}
    assert answer(capsys) == {"error": expected}


def test_details_never_hide_the_message(command, capsys):
    command(fail(BlockedError("shut", details={"message": "no"})))
    main.main(["probe", "--json"])
    assert answer(capsys)["error"]["message"] == "shut"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rnu"], "'rnu' is not a command; did you mean run?"),
        (["xyzzyxyzzy"], "'xyzzyxyzzy' is not a command"),
        (["--verison"], "'--verison' is not an option"),
        (["config"], "treadle config: the following arguments are required: ACTION"),
        (["config", "shwo"], "did you mean show?"),
        (["init", "--dry-rum"], "unrecognized arguments: --dry-rum; did you mean --dry-run?"),
        (["init", "--dry"], "unrecognized arguments: --dry"),
        (["completion", "csh"], "argument shell: invalid choice: 'csh'"),
        (["route"], "give either a text or --test FILE"),
        (["replay", "export"], "write it as: treadle replay export RUN FILE"),
    ],
)
def test_usage_error_is_told_in_both_ways(capsys, words, message):
    assert main.main(words) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""
    assert main.main([*words, "--json"]) == 2
    error = answer(capsys)["error"]
    assert error["code"] == "usage"
    assert message in error["message"]
    assert error["fix"]
    assert all(command.endswith("--help") for command in error["fix"])


def test_help_and_version_are_documents_too(capsys):
    for words, key in [
        (["--json"], "commands"),
        (["help", "--json"], "commands"),
        (["--version", "--json"], "version"),
        (["init", "--help", "--json"], "help"),
        (["help", "init", "--json"], "help"),
    ]:
        assert main.main(words) == 0
        assert list(answer(capsys)) == [key]


def test_json_after_two_dashes_is_not_ours(command, capsys):
    command(lambda args: print(args.words, args.json) or 0, "[WORD...] >words  Words")
    assert main.main(["probe", "--", "--json"]) == 0
    assert capsys.readouterr().out == "['--json'] False\n"


def test_bug_is_reported_in_a_file(command, capsys, private_home):
    command(fail(ValueError("impossible")))
    assert main.main(["probe"]) == 70
    (report,) = (private_home / "state" / "treadle").glob("bug-*.log")
    assert str(report) in capsys.readouterr().err
    assert "impossible" in report.read_text()
    assert "Traceback" in report.read_text()


def test_the_report_of_a_bug_has_no_password(command, private_home):
    command(fail(ValueError("no answer from postgresql://ada:geheim@db/x")))
    main.main(["probe"])
    (report,) = (private_home / "state" / "treadle").glob("bug-*.log")
    assert "postgresql://ada:[masked]@db/x" in report.read_text()
    assert "geheim" not in report.read_text()


def test_bug_is_a_document(command, capsys):
    command(fail(RuntimeError("impossible")))
    assert main.main(["probe", "--json"]) == 70
    assert answer(capsys)["error"]["code"] == "bug"


def test_bug_without_a_place_for_its_report_is_still_told(command, capsys, private_home):
    (private_home / "state").write_text("in the way")
    command(fail(ValueError("impossible")))
    assert main.main(["probe"]) == 70
    assert "ValueError: impossible" in capsys.readouterr().err


def test_full_disk_is_no_bug(command, capsys):
    command(fail(OSError(errno.ENOSPC, "No space left on device", "/x/y")))
    assert main.main(["probe", "--json"]) == 1
    error = answer(capsys)["error"]
    assert (error["code"], error["message"]) == (
        "refused_by_system",
        "/x/y: No space left on device",
    )
    assert error["fix"] == ["df -h"]


def test_an_argument_that_is_no_text_is_named():
    done = subprocess.run([*TREADLE, "stop", b"x\xff"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "'x\\udcff' is not valid utf-8 text" in done.stderr


def test_interrupt_ends_with_130(command, capsys):
    command(fail(KeyboardInterrupt()))
    assert main.main(["probe", "--json"]) == 130
    assert answer(capsys)["error"]["code"] == "interrupted"


def test_folder_that_is_gone_is_told(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'cd "{gone}" && rmdir "{gone}" && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *TREADLE, "config", "show"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (
        1,
        "treadle: the current folder no longer exists\n  try: cd\n",
    )


@pytest.mark.parametrize("words", [["help", "--json"], ["--help"], ["--version"]])
def test_reader_that_leaves_early_is_no_error_message(words):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*TREADLE, *words], stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("words", [["help", "--json"], ["init", "--help"], ["--help"]])
def test_full_disk_behind_stdout_is_told(words):
    script = 'exec "$@" >/dev/full'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *TREADLE, *words], capture_output=True, text=True
    )
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)


def test_closed_stdout_is_survived():
    script = 'exec "$@" >&-'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *TREADLE, "help", "--json"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_any_name_can_be_shown_in_any_encoding():
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run([*TREADLE, "caf\xe9"], capture_output=True, text=True, env=env)
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        2,
        r"treadle: 'caf\xe9' is not a command",
    )


def test_closed_streams_get_no_file():
    script = 'exec "$@" <&- 2>&-'
    done = subprocess.run(["sh", "-c", script, "sh", *TREADLE, "nonsense", "--json"], stdout=-1)
    assert json.loads(done.stdout)["error"]["code"] == "usage"
    assert done.returncode == 2


UV, PIPX = ("uv-receipt.toml", ""), ("pipx_metadata.json", "")


@pytest.mark.parametrize(
    ("receipt", "told", "fix"),
    [
        (
            ("x", ""),
            {"url": "file:///src", "dir_info": {}},
            "pip install 'treadle[mcp] @ file:///src'",
        ),
        (
            ("x", ""),
            {"url": "https://x.org/t.git", "vcs_info": {"vcs": "git"}},
            "pip install 'treadle[mcp] @ git+https://x.org/t.git'",
        ),
        (
            ("x", ""),
            {"dir_info": {"editable": True}, "url": "file:///my%20src"},
            "pip install -e 'file:///my%20src[mcp]'",
        ),
        (UV, None, "uv tool install --force 'treadle[mcp]'"),
        (PIPX, None, "pipx install --force 'treadle[mcp]'"),
        # Both make their environment anew: what it has besides is asked for again.
        (
            (
                UV[0],
                '[{ name = "x", extras = ["y"] }, { name = "treadle", extras = ["fleet", "otel"]',
            ),
            {"url": "file:///src"},
            "uv tool install --force 'treadle[fleet,mcp,otel] @ file:///src'",
        ),
        (
            (PIPX[0], '{"package_or_url": "treadle[otel,mcp] @ file:///x"}'),
            None,
            "pipx install --force 'treadle[mcp,otel]'",
        ),
    ],
)
def test_an_extra_is_asked_for_where_treadle_came_from(tmp_path, monkeypatch, receipt, told, fix):
    about = tmp_path / f"treadle-{__version__}.dist-info"
    about.mkdir()
    if told:
        (about / "direct_url.json").write_text(json.dumps(told))
    (tmp_path / receipt[0]).write_text(receipt[1])
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert install_extra("mcp") == fix
