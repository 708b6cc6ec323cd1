"""P11: an agent that prints a gigabyte, and a treadle that does not grow."""

import sys
from pathlib import Path

from bench import wheel
from bench.harness import Bench, Claim, Command, Sample
from bench.lab import Lab
from bench.told import Memory, measured, own_cpu
from treadle.engine.run import begin
from treadle.proc import keeper

_LINE = '{"type": "text", "text": "' + "word " * 34 + '"}'
_LIMIT_MB = 4.0


def benches(lab: Lab) -> list[Bench]:
    """Return the stream alone, for its speed, and a whole step, for its memory.

    A step is cut off at treadle's own limit of output, so its ratio says little.
    """
    size = lab.size(1 << 30, 1 << 27)
    rounds = lab.size(5, 3)

    def floor(folder: Path) -> Command:
        for old in folder.parent.glob("*-floor/out"):
            old.unlink()
        folder.mkdir()
        return lab.command("sh", "-c", f"{producer(size)} > {folder}/out")

    def stream(folder: Path) -> Command:
        folder.mkdir()
        return lab.part("stream", "stream", folder, size)

    def whole(folder: Path) -> Command:
        budget = "[budgets]\nmax_output_mb = 4000\n"
        agent = producer(size).replace("{", "{{").replace("}", "}}")
        return lab.part("stream", "step", wheel.make_project(lab, folder, agent, budget), size)

    what = "shell redirection"
    mb = size >> 20
    return [
        Bench("P11", f"{mb} MB of output", what, stream, floor, 1.1, 1.1, False, rounds, _grows),
        Bench("P11-step", f"a step with {mb} MB", what, whole, floor, 9.0, 9.0, True, 3, _reads),
    ]


def producer(size: int) -> str:
    """Return a shell command that prints so many bytes of JSON lines."""
    return f"yes '{_LINE}' | head -c {size}"


def _grows(samples: list[Sample]) -> list[Claim]:
    grown = max(sample.told["grown_kb"] for sample in samples) / 1024
    cpu = min(sample.told["own_cpu"] for sample in samples)
    return [Claim("MB more memory", grown, _LIMIT_MB), Claim("own CPU seconds", cpu, 0.1)]


def _reads(samples: list[Sample]) -> list[Claim]:
    """A step's log is read once more, for secrets to be masked, up to the limit of output."""
    grown, cpu = _grows(samples)
    return [grown._replace(limit=_LIMIT_MB * 2), cpu._replace(limit=3.0)]


def _stream(folder: Path, size: int) -> None:
    out = folder / "out"
    command = keeper.Command(
        ("sh", "-c", producer(size)), folder, {"PATH": "/usr/bin:/bin"}, None, out, folder / "err"
    )
    with keeper.Keeper() as own:
        own.start()
        memory, used = Memory(), own_cpu()
        with measured() as figures:
            ended = own.run(command)
            figures["grown_kb"], figures["own_cpu"] = memory.grown_kb(), own_cpu() - used
    if ended.output_bytes < size:
        raise ValueError(f"only {ended.output_bytes} bytes came: {ended}")
    out.unlink()


def _step(root: Path, size: int) -> None:
    with wheel.opened(root) as (tools, asked):
        run = begin.begin_run(tools, asked)
        memory, used = Memory(), own_cpu()
        with measured() as figures:
            turn = wheel.plan(run)
            figures["grown_kb"], figures["own_cpu"] = memory.grown_kb(), own_cpu() - used
        log = run.folder.step(turn.stage.index, "plan") / "logs" / "stdout.txt"
        if not 0 < log.stat().st_size <= size:
            raise ValueError(f"{log} has {log.stat().st_size} bytes")


if __name__ == "__main__":
    side = _stream if sys.argv[1] == "stream" else _step
    side(Path(sys.argv[2]), int(sys.argv[3]))
