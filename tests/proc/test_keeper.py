"""Commands start cleanly, end with the right word, and get exactly what they were given."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.proc.conftest import SRC, eventually, orchestrate
from treadle.errors import TreadleError
from treadle.proc.keeper import Keeper

INTERNAL = 0b11 << 31  # signals 32 and 33 belong to the C library
MEETING = """
echo > $1/$2.here
while [ $(ls $1 | grep -c here) -lt 64 ]; do sleep 0.05; done
exit $2
"""
LOADED = """
import sys
sys.path.append(sys.argv[1])
import treadle.proc.shim
print(*sys.modules)
"""


def text(path: Path) -> str:
    return path.read_text().strip()


@pytest.mark.parametrize("code", [0, 1, 77, 255])
def test_exit_code_is_reported(keeper, command, code):
    ended = keeper.run(command("sh", "-c", f"exit {code}"))
    assert (ended.reason, ended.exit_code, ended.signal) == ("exit", code, None)


def test_death_by_signal_is_reported(keeper, command):
    ended = keeper.run(command("sh", "-c", "kill -SEGV $$"))
    assert (ended.reason, ended.exit_code, ended.signal) == ("signal", None, 11)


def test_output_reaches_the_files(keeper, command, tmp_path):
    ended = keeper.run(command("sh", "-c", "echo one; echo two >&2"))
    assert (text(tmp_path / "out"), text(tmp_path / "err"), ended.output_bytes) == ("one", "two", 8)


def test_input_comes_from_the_file(keeper, command, tmp_path):
    (tmp_path / "in").write_text("asked")
    keeper.run(command("cat")._replace(stdin=tmp_path / "in"))
    assert text(tmp_path / "out") == "asked"


def test_without_input_there_is_nothing_to_read(keeper, command):
    assert keeper.run(command("cat", wall=10)).exit_code == 0


def test_one_file_takes_both_outputs_in_order(keeper, command, tmp_path):
    both = command("sh", "-c", "echo 1; echo 2 >&2; echo 3")._replace(stderr=tmp_path / "out")
    assert keeper.run(both).output_bytes == 6
    assert text(tmp_path / "out") == "1\n2\n3"


def test_output_never_goes_through_a_link(keeper, command, tmp_path):
    (tmp_path / "out").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TreadleError, match="out: cannot be opened"):
        keeper.run(command("true"))
    assert not (tmp_path / "elsewhere").exists()


def test_output_files_are_private(keeper, command, tmp_path):
    keeper.run(command("true"))
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o600


def test_missing_program_is_named(keeper, command):
    ended = keeper.run(command("no-such-tool"))
    assert (ended.reason, ended.exit_code) == ("missing", None)
    assert ended.detail.startswith("no-such-tool is not in PATH")


def test_relative_program_is_looked_up_in_the_folder(keeper, command, tmp_path):
    (tmp_path / "tool").write_text("#!/bin/sh\nexit 9\n")
    (tmp_path / "tool").chmod(0o755)
    assert keeper.run(command("./tool")).exit_code == 9


@pytest.mark.parametrize(
    ("content", "mode", "reason", "advice"),
    [
        ("#!/bin/sh\n", 0o644, "not_executable", "chmod +x"),
        ("no first line\n", 0o755, "not_executable", "#!/bin/sh"),
        ("#!/no/such/python -u\n", 0o755, "missing", "#!/no/such/python"),
        ("\x7fELF", 0o755, "not_executable", "cannot be started|no #! line"),
    ],
    ids=["mode", "no interpreter line", "bad interpreter", "broken binary"],
)
def test_unusable_program_says_what_to_do(keeper, command, tmp_path, content, mode, reason, advice):
    tool = tmp_path / "tool"
    tool.write_text(content)
    tool.chmod(mode)
    ended = keeper.run(command(str(tool)))
    assert ended.reason == reason
    assert any(part in ended.detail for part in advice.split("|"))


def test_missing_folder_is_named(keeper, command, tmp_path):
    ended = keeper.run(command("true")._replace(cwd=tmp_path / "gone"))
    assert ended.reason == "missing"
    assert str(tmp_path / "gone") in ended.detail


def test_a_failed_start_leaves_the_keeper_usable(keeper, command):
    assert keeper.run(command("/no/such")).reason == "missing"
    assert keeper.run(command("true")).exit_code == 0


@pytest.mark.parametrize(
    ("argv", "env", "detail"),
    [
        (("echo", "a\0b"), {}, "NUL"),
        (("echo", "\ud800"), {}, "half a character"),
        (("echo",), {"A=B": "c"}, "holds ="),
    ],
    ids=["nul", "lone surrogate", "bad name"],
)
def test_what_no_program_can_be_given_is_refused_in_words(keeper, command, argv, env, detail):
    ended = keeper.run(command(*argv, env=env))
    assert (ended.reason, detail in ended.detail) == ("not_executable", True)


def test_no_program_at_all_is_missing(keeper, command):
    assert keeper.run(command()).reason == "missing"


def test_argument_that_is_not_utf8_arrives_unchanged(keeper, command, tmp_path):
    keeper.run(command("printf", "%s", os.fsdecode(b"\xff\xfe caf\xe9")))
    assert (tmp_path / "out").read_bytes() == b"\xff\xfe caf\xe9"


def test_large_environment_and_arguments_arrive(keeper, command, tmp_path):
    env = {f"BIG{number}": "x" * 100_000 for number in range(6)}
    ended = keeper.run(command("sh", "-c", "echo ${#BIG5} ${#1}", "sh", "y" * 100_000, env=env))
    assert (ended.reason, text(tmp_path / "out")) == ("exit", "100000 100000")


def test_arguments_beyond_the_system_limit_are_refused_in_words(keeper, command):
    ended = keeper.run(command("true", "y" * 10_000_000))
    assert (ended.reason, "more arguments" in ended.detail) == ("not_executable", True)


def test_environment_is_exactly_what_was_given(keeper, command, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "1")
    keeper.run(command("/usr/bin/env", env={"PATH": "/bin", "EMPTY": "", "A": "b=c"}))
    assert sorted(text(tmp_path / "out").split("\n")) == ["A=b=c", "EMPTY=", "PATH=/bin"]


def test_child_inherits_no_descriptors(keeper, command, tmp_path):
    keeper.run(command("true"))
    keeper.run(command("ls", "/proc/self/fd"))  # a shim's second command
    assert text(tmp_path / "out").split() == ["0", "1", "2", "3"]  # 3 is the listed folder


def test_child_starts_with_default_signals(keeper, command, tmp_path):
    keeper.run(command("cat", "/proc/self/status"))
    lines = dict(line.split(":\t") for line in text(tmp_path / "out").split("\n"))
    sets = [int(lines[name], 16) & ~INTERNAL for name in ("SigBlk", "SigIgn", "SigCgt")]
    assert sets == [0, 0, 0]


def test_child_has_its_own_session_and_no_core_dumps(keeper, python, tmp_path):
    code = (
        "import os, resource as r; print(os.getsid(0) == os.getpid(), *r.getrlimit(r.RLIMIT_CORE))"
    )
    keeper.run(python(code))
    assert text(tmp_path / "out") == "True 0 0"


def test_shims_are_used_again(keeper, python, tmp_path):
    parents = []
    for _ in range(3):
        keeper.run(python("import os; print(os.getppid())"))
        parents.append(text(tmp_path / "out"))
    assert len(set(parents)) == 1


def test_64_commands_run_at_once(keeper, command, tmp_path):
    """Each waits until all have started, so they can end only if they run together."""
    results = {}

    def one(number: int) -> None:
        files = {"stdout": tmp_path / f"{number}.out", "stderr": tmp_path / f"{number}.err"}
        mine = command("sh", "-c", MEETING, "sh", str(tmp_path), str(number), wall=250)._replace(
            **files
        )
        results[number] = keeper.run(mine).exit_code

    threads = [threading.Thread(target=one, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: number for number in range(64)}


def test_closing_ends_what_still_runs(command, tmp_path):
    keeper, ends = Keeper(), []
    forever = command("sh", "-c", "trap '' TERM; echo $$; sleep 600", wall=60)
    thread = threading.Thread(target=lambda: ends.append(keeper.run(forever)))
    thread.start()
    assert eventually(lambda: (tmp_path / "out").exists() and text(tmp_path / "out"))
    keeper.close()
    thread.join()
    assert ends[0].reason == "lost"
    assert not Path(f"/proc/{text(tmp_path / 'out')}").exists()


def test_a_closed_keeper_starts_nothing(command):
    keeper = Keeper()
    keeper.close()
    with pytest.raises(TreadleError, match="shutting down"):
        keeper.run(command("true"))


def test_interrupt_key_reaches_only_the_orchestrator(tmp_path):
    code = """
import os, signal, sys
from pathlib import Path
from treadle.proc.keeper import Command, Keeper, Limits
seen = []
signal.signal(signal.SIGINT, lambda *_: (seen.append(1), Path("go").touch()))
os.chdir(sys.argv[1])
wait = "echo > started; while [ ! -e go ]; do sleep 0.01; done; exit 7"
with Keeper() as keeper:
    here = Path(sys.argv[1])
    ended = keeper.run(
        Command(("sh", "-c", wait), here, os.environ, None, here / "o", here / "e", Limits(20)))
print(seen, ended.reason, ended.exit_code)
"""
    with orchestrate(code, str(tmp_path)) as process:
        assert eventually((tmp_path / "started").exists)
        os.killpg(process.pid, 2)
        assert process.communicate()[0].decode().strip() == "[1] exit 7"


def test_keeper_loads_few_modules():
    """Every import of the keeper is paid again at each start of the orchestrator."""
    argv = [sys.executable, "-I", "-S", "-c", LOADED, str(SRC)]
    loaded = set(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split())
    slow = {"typing", "socket", "enum", "re", "json", "subprocess", "collections", "pathlib"}
    assert "treadle.proc.shim" in loaded
    assert loaded & slow == set()


def test_python_of_the_keeper_is_ours(keeper):
    keeper.start()
    assert eventually(
        lambda: b"treadle.proc.shim" in Path(f"/proc/{keeper.pid}/cmdline").read_bytes()
    )
    assert Path(f"/proc/{keeper.pid}/cmdline").read_bytes().startswith(os.fsencode(sys.executable))
