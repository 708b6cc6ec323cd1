"""Turn treadle's wheel inside a bench: a project, an order, runs that only plan."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from bench.bare import RESPONSE
from bench.lab import Lab
from treadle.config.load import load
from treadle.contract import Criterion
from treadle.engine import session
from treadle.engine.run import order
from treadle.engine.run.order import Order
from treadle.engine.run.run import Run, Tools
from treadle.engine.wheel import loop
from treadle.engine.wheel.commit import Finished
from treadle.layout import Layout
from treadle.project.context import open_context


def make_project(
    lab: Lab, folder: Path, agent: str = "cat {response}", extra: str = "", files: int = 100
) -> Path:
    """Make a repository with treadle in it; every role is played by `agent`."""
    root = folder / "project"
    make_repository(lab, root, files)
    (folder / "response.json").write_text(RESPONSE)
    (root / ".treadle").mkdir()
    (root / ".treadle" / ".gitignore").write_text("*\n")
    command = ["sh", "-c", agent.format(response=folder / "response.json")]
    if agent.startswith("cat "):
        command = ["cat", str(folder / "response.json")]
    text = "".join(_role(role, command) for role in ("plan", "do", "check", "act"))
    (root / ".treadle" / "config.toml").write_text(extra + text)
    return root


def make_repository(lab: Lab, root: Path, files: int) -> None:
    """Make a repository with so many small files, a hundred in each folder."""
    root.mkdir(parents=True)
    for number in range(files):
        place = root / f"part{number // 100:03d}" / f"file{number:05d}.txt"
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"file {number}\n" * 40)
    lab.git(root, "init", "-q", "-b", "main")
    lab.git(root, "add", ".")
    lab.git(root, "commit", "-q", "-m", "Begin")


def plan(run: Run) -> Finished:
    """Take a step and tell the store of it, as the wheel does."""
    done = loop.take_step(run, "plan")
    loop.record_step(run, done)
    return done


@contextlib.contextmanager
def opened(root: Path) -> Iterator[tuple[Tools, Order]]:
    """Open the project as `treadle run` does, and freeze what is asked."""
    project = open_context(root, os.environ)
    config = load(Layout(root), os.environ, None).config
    criteria = [Criterion("AC1", "It works", None)]
    asked = order.freeze(config, text="Measure it", criteria=criteria, swaps={}, task_id=None)
    with session.opened(project, watch=lambda _: None) as tools:
        yield tools, asked


def _role(role: str, command: list[str]) -> str:
    return f'[agents.{role}]\ntype = "exec"\ncmd = {json.dumps(command)}\n'
