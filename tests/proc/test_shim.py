"""Nothing that a command starts outlives it, its shim, the keeper or the orchestrator."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.proc.conftest import DAEMON, children, eventually, is_alive, once, orchestrate
from treadle.proc import keeper as keeper_module
from treadle.proc import sweep, watch
from treadle.proc.keeper import Keeper

# Runs commands until it is killed: two that leave daemons and wait.
ORCHESTRATOR = """
import os, sys, threading
from pathlib import Path
from treadle.proc.keeper import Command, Keeper, Limits
here, daemon, marker = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
env = {"PATH": os.environ["PATH"], "TREADLE_STEP": marker}
keeper = Keeper()
def run(name):
    code = daemon + "\\nsignal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    argv = (sys.executable, "-S", "-c", code, str(here / name))
    keeper.run(Command(argv, here, env, None, here / f"{name}.o", here / f"{name}.e", Limits()))
for name in ("one", "two"):
    threading.Thread(target=run, args=(name,)).start()
"""

# Changes its process id and its session all the time.
GHOST = """
import os, sys
open(sys.argv[1], "w").close()
if os.fork():
    os._exit(0)
while True:
    os.setsid()
    if os.fork():
        os._exit(0)
"""

PORTABLE = (
    "sys.platform = 'darwin'; "
    "from treadle.proc import sweep; sweep.rows = sweep.rows_of_ps; "
    "from treadle.proc.shim import main; main(int(sys.argv[1]))"
)


def run_aside(keeper, command):
    """Run a command in a thread; return the thread and the list its end will be in."""
    ends = []
    thread = threading.Thread(target=lambda: ends.append(keeper.run(command)))
    thread.start()
    return thread, ends


def pid_in(path: Path) -> int:
    assert eventually(lambda: path.exists() and path.read_text().strip())
    return int(path.read_text())


def test_daemon_is_dead_when_the_command_has_ended(keeper, python, tmp_path):
    ended = keeper.run(python(DAEMON, str(tmp_path / "daemon")))
    assert (ended.reason, ended.exit_code, ended.stragglers) == ("exit", 0, 1)
    assert ended.vouched
    assert "left running" in ended.detail
    assert not is_alive(pid_in(tmp_path / "daemon"))


def test_background_job_of_a_shell_is_dead(keeper, command, tmp_path):
    ended = keeper.run(command("sh", "-c", "sleep 600 & echo $!"))
    assert ended.stragglers == 1
    assert not is_alive(pid_in(tmp_path / "out"))


def test_deep_tree_is_dead_after_a_stop(keeper, command, tmp_path):
    tree = 'trap "" TERM; echo $$ >> pids; [ $1 -gt 0 ] && sh tree.sh $(($1 - 1)) & sleep 600'
    (tmp_path / "tree.sh").write_text(tree)
    tree = command("sh", "tree.sh", "8", wall=60, grace=0.1)
    assert keeper.run(tree, should_stop=once(tmp_path / "pids", count=9)).reason == "stopped"
    pids = [int(line) for line in (tmp_path / "pids").read_text().split()]
    assert (len(pids), [pid for pid in pids if is_alive(pid)]) == (9, [])


def test_process_that_forks_away_all_the_time_is_caught(keeper, python, tmp_path):
    env = {sweep.MARKER: str(tmp_path)}
    ended = keeper.run(python(GHOST, str(tmp_path / "started"), env=env, wall=30))
    assert ended.reason == "exit"
    assert sweep.stragglers(str(tmp_path)) == []


def test_a_wide_tree_left_behind_is_caught(keeper, command, tmp_path):
    storm = "f() { [ $1 -gt 0 ] && { f $(($1 - 1)) & f $(($1 - 1)) & }; sleep 600; }; f 5 & exit 0"
    ended = keeper.run(command("sh", "-c", storm, env={sweep.MARKER: str(tmp_path)}, wall=30))
    assert (ended.reason, ended.exit_code) == ("exit", 0)
    assert sweep.stragglers(str(tmp_path)) == []


@pytest.mark.parametrize("batch", range(5))
def test_nothing_survives_a_kill_of_the_orchestrator(tmp_path, batch):
    """Four orchestrators at a time, twenty in all."""
    folders = [tmp_path / str(number) for number in range(4)]
    processes = []
    for folder in folders:
        folder.mkdir()
        processes.append(orchestrate(ORCHESTRATOR, str(folder), DAEMON, str(folder)))
    for folder, process in zip(folders, processes, strict=True):
        daemons = [pid_in(folder / "one"), pid_in(folder / "two")]
        (keeper,) = children(process.pid)
        assert eventually(lambda folder=folder: len(sweep.stragglers(str(folder))) == 4)
        process.kill()
        process.communicate()
        alive = [keeper, *daemons]
        assert eventually(lambda alive=alive: not any(map(is_alive, alive)))
        assert eventually(lambda folder=folder: sweep.stragglers(str(folder)) == [])


def test_nothing_survives_a_kill_of_the_orchestrator_while_it_starts(tmp_path):
    for number in range(8):
        folder = tmp_path / str(number)
        folder.mkdir()
        process = orchestrate(ORCHESTRATOR, str(folder), DAEMON, str(folder))
        eventually((folder / "one.o").exists, seconds=number * 0.01 + 0.1)
        process.kill()
        process.communicate()
        assert eventually(lambda folder=folder: sweep.stragglers(str(folder)) == [])


def test_agent_that_kills_its_parent_loses_everything(keeper, python, tmp_path):
    """The keeper inherits the orphans and ends them before the loss is reported."""
    code = DAEMON + "\nos.kill(os.getppid(), 9); time.sleep(600)"
    ended = keeper.run(python(code, str(tmp_path / "daemon")))
    assert (ended.reason, ended.exit_code, ended.vouched) == ("lost", None, True)
    assert "killed from outside" in ended.detail
    assert not is_alive(pid_in(tmp_path / "daemon"))


def test_others_go_on_when_one_shim_is_killed(keeper, command, python, tmp_path):
    wait = "while [ ! -e go ]; do sleep 0.01; done; exit 5"
    files = {"stdout": tmp_path / "o2", "stderr": tmp_path / "e2"}
    thread, ends = run_aside(keeper, command("sh", "-c", wait, wall=30)._replace(**files))
    assert eventually((tmp_path / "e2").exists)
    assert keeper.run(python("import os; os.kill(os.getppid(), 9)")).reason == "lost"
    assert keeper.run(command("true")).reason == "exit"
    (tmp_path / "go").touch()
    thread.join()
    assert ends[0].exit_code == 5


def test_idle_shim_that_was_killed_is_not_used(keeper, python, command, tmp_path):
    keeper.run(python("import os; print(os.getppid())"))
    os.kill(pid_in(tmp_path / "out"), signal.SIGKILL)
    (idle,) = keeper._idle
    assert eventually(lambda: not idle.is_quiet())  # the keeper has left word
    assert keeper.run(command("true")).reason == "exit"


def test_killed_keeper_is_replaced(keeper, command):
    keeper.run(command("true"))
    killed = keeper.pid
    os.kill(killed, signal.SIGKILL)
    assert keeper.run(command("true")).reason == "exit"
    assert eventually(lambda: keeper.run(command("true")).reason == "exit" and keeper.pid != killed)


def test_command_survives_its_keeper(keeper, command, tmp_path):
    wait = "while [ ! -e go ]; do sleep 0.01; done; setsid sleep 600 & echo $!; exit 5"
    thread, ends = run_aside(keeper, command("sh", "-c", wait, wall=30))
    assert eventually(lambda: keeper.pid and (tmp_path / "err").exists() and children(keeper.pid))
    os.kill(keeper.pid, signal.SIGKILL)
    (tmp_path / "go").touch()
    thread.join()
    assert (ends[0].reason, ends[0].exit_code) == ("exit", 5)
    assert not is_alive(pid_in(tmp_path / "out"))


def test_agent_that_kills_shim_and_keeper_is_found_by_its_mark(keeper, python, tmp_path):
    code = DAEMON + "\nos.kill(int(sys.argv[2]), 9); os.kill(os.getppid(), 9); time.sleep(600)"
    keeper.start()
    daemon = str(tmp_path / "daemon")
    ended = keeper.run(python(code, daemon, str(keeper.pid), env={sweep.MARKER: str(tmp_path)}))
    assert (ended.reason, ended.stragglers, ended.vouched) == ("lost", 2, False)
    assert not is_alive(pid_in(tmp_path / "daemon"))


def test_nobody_vouches_for_a_daemon_without_its_mark(keeper, python, tmp_path):
    """The shim is killed before it can adopt, the keeper before it can clean up."""
    unmarked = DAEMON.replace("time.sleep(600)", "os.execve('/bin/sleep', ['sleep', '600'], {})")
    code = unmarked + "\nos.kill(int(sys.argv[2]), 9); os.kill(os.getppid(), 9); time.sleep(600)"
    keeper.start()
    daemon = str(tmp_path / "daemon")
    ended = keeper.run(python(code, daemon, str(keeper.pid), env={sweep.MARKER: str(tmp_path)}))
    left = pid_in(tmp_path / "daemon")
    try:
        assert is_alive(left)
        assert (ended.reason, ended.vouched) == ("lost", False)
    finally:
        os.kill(left, signal.SIGKILL)


def test_shim_that_was_stopped_is_killed_in_the_end(keeper, python, tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "_OBEY", 0.3)
    code = DAEMON + "\nos.kill(os.getppid(), signal.SIGSTOP); print('stopped', flush=True)"
    ended = keeper.run(
        python(f"{code}; time.sleep(600)", str(tmp_path / "daemon"), wall=60, grace=0.1),
        should_stop=once(tmp_path / "out"),
    )
    assert ended.reason == "stopped"
    assert not is_alive(pid_in(tmp_path / "daemon"))


def test_keeper_that_was_stopped_is_replaced(keeper, command, monkeypatch):
    ask = keeper_module._ask_for_shim

    def hasty(requests, pid):
        monkeypatch.setattr(keeper_module, "_GREETING", 0.3 if pid == stopped else 60)
        return ask(requests, pid)

    assert keeper.run(command("true")).reason == "exit"
    stopped = keeper.pid
    monkeypatch.setattr(keeper_module, "_ask_for_shim", hasty)
    os.kill(stopped, signal.SIGSTOP)
    ends = [run_aside(keeper, command("sleep", "0.2")) for _ in range(2)]
    for thread, _ in ends:
        thread.join()
    assert [end.reason for _, (end,) in ends] == ["exit", "exit"]
    assert keeper.pid != stopped


def test_unfinished_exception_of_a_callback_ends_the_command(keeper, python, tmp_path):
    def explode(elapsed: float) -> None:
        if (tmp_path / "daemon").exists():
            raise ZeroDivisionError

    code = DAEMON + "\ntime.sleep(600)"
    with pytest.raises(ZeroDivisionError):
        keeper.run(python(code, str(tmp_path / "daemon")), on_tick=explode)
    assert not is_alive(pid_in(tmp_path / "daemon"))


@pytest.fixture
def portable_keeper(monkeypatch):
    """Return a keeper that neither adopts orphans nor reads /proc."""
    monkeypatch.setattr(keeper_module, "_CODE", PORTABLE)
    monkeypatch.setattr(keeper_module, "_ADOPTS", False)
    with Keeper() as keeper:
        yield keeper


def test_without_adoption_the_process_group_is_dead(portable_keeper, command, tmp_path):
    ended = portable_keeper.run(command("sh", "-c", "(sleep 600 & echo $!) & wait"))
    assert (ended.reason, ended.stragglers) == ("exit", 1)
    assert not is_alive(pid_in(tmp_path / "out"))


def test_without_adoption_a_session_below_the_command_is_dead(portable_keeper, command, tmp_path):
    stay = "trap '' TERM; setsid sleep 600 & echo $!; sleep 600"
    ended = portable_keeper.run(
        command("sh", "-c", stay, wall=60, grace=0.1), should_stop=once(tmp_path / "out")
    )
    assert ended.reason == "stopped"
    assert not is_alive(pid_in(tmp_path / "out"))


def test_without_adoption_a_daemon_is_found_by_its_mark(portable_keeper, python, tmp_path):
    ended = portable_keeper.run(
        python(DAEMON, str(tmp_path / "daemon"), env={sweep.MARKER: str(tmp_path)})
    )
    assert (ended.reason, ended.stragglers) == ("exit", 1)
    assert not is_alive(pid_in(tmp_path / "daemon"))


def test_keeper_stays_small(keeper, command):
    keeper.run(command("true"))
    status = Path(f"/proc/{keeper.pid}/status").read_text()
    assert int(status.split("VmRSS:")[1].split()[0]) < 16_000


def test_keeper_ends_with_the_orchestrator_that_forgot_it(tmp_path):
    code = "from treadle.proc.keeper import Keeper\nk = Keeper(); k.start(); print(k.pid)"
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert eventually(lambda: not is_alive(int(done.stdout)))
