"""Death is claimed only where it can be proven."""

import os
import subprocess

import pytest

from treadle.errors import FormatError
from treadle.proc import identity
from treadle.proc.identity import Identity


def of(pid: int) -> Identity:
    return identity.current()._replace(pid=pid, started=identity._started(pid) or "")


def test_this_process_is_alive():
    assert not identity.is_dead(identity.current())


def test_text_brings_the_same_process_back():
    mine = identity.current()
    assert identity.decode(mine.encode()) == mine


@pytest.mark.parametrize("text", ["", "{}", "[1]", '["h","b","x","s"]', "null"])
def test_other_text_is_refused(text):
    with pytest.raises(FormatError, match="does not name a process"):
        identity.decode(text)


def test_ended_process_is_dead():
    with subprocess.Popen(["sleep", "60"]) as child:
        it = of(child.pid)
        assert not identity.is_dead(it)
        child.kill()
    assert identity.is_dead(it)


def test_zombie_is_dead():
    with subprocess.Popen(["sleep", "60"]) as child:
        it = of(child.pid)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert identity.is_dead(it)


def test_another_process_with_the_same_id_does_not_count():
    assert identity.is_dead(identity.current()._replace(started="1"))


def test_reboot_ends_everything():
    boot = "00000000-0000-0000-0000-000000000000/pid:[1]"
    assert identity.is_dead(identity.current()._replace(boot=boot))


def test_another_machine_proves_nothing():
    assert not identity.is_dead(Identity("elsewhere", "other-boot/pid:[1]", 1, "1"))


def test_another_container_on_this_boot_proves_nothing():
    mine = identity.current()
    boot = mine.boot.partition("/")[0] + "/pid:[1]"
    assert not identity.is_dead(mine._replace(boot=boot, pid=4_000_000, started="1"))


def test_unknown_boot_proves_nothing():
    assert not identity.is_dead(identity.current()._replace(boot="", pid=4_000_000))


def test_name_of_a_process_cannot_confuse(tmp_path):
    tool = tmp_path / "a) Z 1 (b"
    tool.symlink_to("/bin/sleep")
    with subprocess.Popen([tool, "60"]) as child:
        assert not identity.is_dead(of(child.pid))
        child.kill()


def test_ps_knows_starts_and_deaths():
    with subprocess.Popen(["sleep", "60"]) as child:
        assert identity.started_by_ps(child.pid) == identity.started_by_ps(child.pid) != ""
        child.kill()
    assert identity.started_by_ps(child.pid) is None
