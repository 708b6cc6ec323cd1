"""P10: treadle's own cost around one shot of a real tool, codex, with a scripted model."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.real.model import KEY, Model, Say, Shell, Turn, answer
from tests.real.tools import BINARIES, settings

from bench import wheel
from bench.harness import Bench, Claim, Command, Sample
from bench.lab import Lab
from bench.told import measured
from treadle.agents import table
from treadle.config.load import load
from treadle.engine.health import spec_of
from treadle.engine.run import begin
from treadle.layout import Layout
from treadle.proc.keeper import Ended, Keeper
from treadle.project.context import open_context


def benches(lab: Lab) -> list[Bench]:
    """Return the one-shots: through treadle, and the very same command lines without it."""
    number = lab.size(10, 3)

    def side(verb: str, folder: Path) -> Command:
        root = wheel.make_project(lab, folder)
        return lab.part("agent", verb, root, number)

    return [
        Bench(
            "P10",
            f"{number} codex steps",
            "the same codex one-shots by hand",
            lambda folder: side("candidate", folder),
            lambda folder: side("floor", folder),
            1.10,
            1.25,
            False,
            lab.size(10, 3),
            claims,
        )
    ]


def claims(samples: list[Sample]) -> list[Claim]:
    """Return the share of a step that is spent outside of the tool's process."""
    shares = [sample.told["own"] / sample.told["wall"] for sample in samples]
    return [Claim("own share of a step", statistics.median(shares), 0.10)]


def script(turn: Turn) -> Shell | Say:
    """Use one tool, then answer."""
    return Say(answer("planned")) if turn.results else Shell(f"echo plan > {turn.step}/plan.md")


def prepare(root: Path, url: str) -> None:
    """Let codex play every role, led to the scripted model."""
    os.environ["PATH"] = ":".join([*map(str, BINARIES), os.environ["PATH"]])
    os.environ["CODEX_API_KEY"] = KEY
    text = "\n".join(
        f"{key} = {json.dumps(value)}" for key, value in settings("codex", url).items()
    )
    roles = "".join(f"[agents.{role}]\n{text}\n" for role in ("plan", "do", "check", "act"))
    (root / ".treadle" / "config.toml").write_text(roles)


def _candidate(root: Path, number: int) -> None:
    with Model(script) as model:
        prepare(root, model.url)
        with wheel.opened(root) as (tools, asked):
            run = begin.begin_run(tools, asked)
            wheel.plan(run)
            inside = _timed(tools.keeper)
            with measured(steps=number) as figures:
                begun = time.perf_counter()
                for _ in range(number):
                    wheel.plan(run)
                figures["own"] = time.perf_counter() - begun - sum(inside)


def _timed(keeper: Keeper) -> list[float]:
    """Note how long each of a keeper's commands takes."""
    taken: list[float] = []
    run = keeper.run

    def timed(*args: Any, **options: Any) -> Ended:
        begun = time.perf_counter()
        try:
            return run(*args, **options)
        finally:
            taken.append(time.perf_counter() - begun)

    keeper.run = timed  # type: ignore[method-assign]  # only here, to look inside
    return taken


def _floor(root: Path, number: int) -> None:
    """Start codex as treadle would, prompt on stdin, and wait for it."""
    folder = root.parent / "by-hand"
    step = folder / "step"
    for name in ("step", "live", "tmp"):
        (folder / name).mkdir(parents=True)
    with Model(script) as model:
        prepare(root, model.url)
        project = open_context(root, os.environ)
        config = load(Layout(root), os.environ, None).config
        agent = config.agents["plan"]
        spec = spec_of(project, config, "plan", agent, step, root, Keeper())
        launch = table.launch(spec, "plan", step)
        assert launch
        state = Path(launch.env["CODEX_HOME"])
        state.mkdir(parents=True, exist_ok=True)
        for name, content in launch.files.items():
            (state / name).write_text(content)
        prompt = _prompt(step, root)
        call = _caller(launch.argv, launch.cwd, {**spec.environment, **launch.env}, prompt)
        call()
        with measured(steps=number):
            for _ in range(number):
                call()


def _prompt(step: Path, workspace: Path) -> str:
    return (
        f"You are the planner.\n- Your step folder is `{step}`.\n- The repository is `{workspace}`."
    )


def _caller(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], prompt: str
) -> Callable[[], None]:
    program = str(shutil.which(argv[0], path=env["PATH"]))

    def call() -> None:
        done = subprocess.run(
            [program, *argv[1:]], cwd=cwd, env=env, input=prompt, text=True, capture_output=True
        )
        assert done.returncode == 0, done.stderr

    return call


if __name__ == "__main__":
    side = _candidate if sys.argv[1] == "candidate" else _floor
    side(Path(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.flush()
    os._exit(0)
