"""Record one run of a command as a model that power cuts can be tried on."""

from pathlib import Path

from tests.crash import trace
from tests.crash.model import Model
from tests.crash.replay import Replay
from tests.crash.supervise import Command, Ending


def record(command: Command, world: Path, output: Path) -> tuple[Model, Ending]:
    """Run the command under strace and replay it; the replay must equal the disk."""
    log = output.with_suffix(".strace")
    replay = Replay(world, output)
    ending = trace.record(command, output, log)
    model = replay.follow(trace.read(log), command.cwd)
    replay.tree.check()
    log.unlink()
    return model, ending
