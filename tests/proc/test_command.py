"""A program is found where the command's own PATH says."""

import errno
import os
from pathlib import Path

import pytest

from treadle.proc import command
from treadle.proc.command import Cause, Command


def find(name: str, env: dict[str, str]) -> str | Cause:
    nothing = Path(os.devnull)
    return command.find_program(Command((name,), Path("/"), env, None, nothing, nothing))


def make(path: Path, mode: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


def test_first_executable_of_the_name_wins(tmp_path):
    make(tmp_path / "a" / "tool", 0o644)
    second = make(tmp_path / "b" / "tool", 0o755)
    assert find("tool", {"PATH": f"{tmp_path}/a:{tmp_path}/b"}) == str(second)


def test_file_without_permission_is_not_simply_missing(tmp_path):
    tool = make(tmp_path / "a" / "tool", 0o644)
    found = find("tool", {"PATH": f"{tmp_path}/a"})
    assert found == Cause("not_executable", f"{tool} is not executable; run: chmod +x {tool}")


def test_relative_entries_of_the_path_are_skipped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "tool", 0o755)
    assert isinstance(find("tool", {"PATH": ":.:"}), Cause)


def test_without_a_path_the_system_default_counts():
    assert find("sh", {}) in {f"{folder}/sh" for folder in os.defpath.split(":")}


def test_empty_name_is_missing():
    assert isinstance(find("", {"PATH": "/bin"}), Cause)


def test_full_system_is_no_fault_of_the_program(tmp_path):
    assert command.explain_refusal("/bin/sh", tmp_path, "program", errno.EAGAIN).reason == "lost"


def test_folder_is_not_a_program(tmp_path):
    assert find(str(tmp_path), {}).detail.startswith(f"{tmp_path} is a folder")


@pytest.mark.skipif(os.geteuid() == 0, reason="every folder is open to root")
def test_closed_folder_in_the_path_is_passed_over(tmp_path):
    (tmp_path / "closed").mkdir(mode=0)
    tool = make(tmp_path / "open" / "tool", 0o755)
    assert find("tool", {"PATH": f"{tmp_path}/closed:{tmp_path}/open"}) == str(tool)
