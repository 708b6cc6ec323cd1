"""What a message costs: specs with a routine that does nothing, few and many, old ones beside."""

import os
import sys
import tempfile
from pathlib import Path

from bench import bare, wheel
from bench.harness import Bench, Claim, Command, Sample, run
from bench.lab import Lab
from bench.told import measured
from treadle.config.load import load
from treadle.engine import orchestrator
from treadle.inbox.process import process
from treadle.layout import Layout
from treadle.project.project import open_project

ROUTINE = "#!/bin/sh\n# Do nothing\n# workspace: project\n:\n"
SPEC = "---\nroutine: noop\n---\n# Part {number}\n\nDo nothing about part {number}.\n"
RUN_JSON = (
    b'{"version": 1, "order": {}, "row": {}, "events": [], "kv": {"' + b"x" * 2600 + b'": 0}}'
)
_STEP = ("input.json", "output.json", "step.json", "logs/stdout.txt", "logs/stderr.txt")


def benches(lab: Lab) -> list[Bench]:
    """Return specs against the same work by hand; more of them, and old messages, cost no more."""
    number, few = lab.size(1000, 40), lab.size(100, 10)

    def candidate(folder: Path, specs: int = number, old: int = 0) -> Command:
        return lab.part("inbox", "candidate", make_project(lab, folder, specs, old), specs)

    def floor(folder: Path) -> Command:
        folder.mkdir(parents=True)
        return lab.part("inbox", "floor", folder, number)

    def claims(samples: list[Sample]) -> list[Claim]:
        many = min(sample.cpu for sample in samples) / number
        small = _least(lab, candidate, few, 0, "few") / few
        old = _least(lab, candidate, few, lab.size(100_000, 3_000), "old") / few
        return [
            Claim(f"CPU per message, {number} against {few}", many / small, 1.2),
            Claim("CPU per message, many done against none", old / small, 1.2),
        ]

    what = "spawn, same files, same fsyncs, one commit"
    rounds = lab.size(3, 3)
    return [
        Bench("inbox", f"{number} specs", what, candidate, floor, 1.5, 1.5, True, rounds, claims)
    ]


def _least(lab: Lab, candidate: object, specs: int, old: int, name: str) -> float:
    assert callable(candidate)
    samples = [
        run(
            candidate(Path(tempfile.mkdtemp(dir=lab.scratch)) / name, specs, old),
            lab.scratch / f"{name}.out",
        )
        for _ in range(3)
    ]
    return min(sample.cpu for sample in samples)


def make_project(lab: Lab, folder: Path, specs: int, old: int) -> Path:
    """Make a project with so many specs, and so many messages that were carried out before."""
    root = folder / "project"
    wheel.make_repository(lab, root, 100)
    layout = Layout(root)
    layout.routines.mkdir(parents=True)
    (layout.routines / "noop.sh").write_text(ROUTINE)
    layout.config_toml.write_text('sandbox = "off"\n')
    layout.specs.mkdir()
    for number in range(specs):
        (layout.specs / f"{number:05d}-x.spec.md").write_text(SPEC.format(number=number))
    layout.inbox_done.mkdir(parents=True)
    for number in range(old):
        (layout.inbox_done / f"{2025010100000000 + number}-0.md").write_text("x\n")
    return root


def _candidate(root: Path, number: int) -> None:
    project = open_project(root, os.environ)
    config = load(project.layout, os.environ, None).config
    with orchestrator.opened(project, watch=lambda _: None) as tools, measured(messages=number):
        found = process(tools, config)
    if len([item for item in found.outcomes if item.status == "done"]) != number:
        sys.exit(f"not all of them are done: {found.outcomes[:3]}")


def _floor(folder: Path, number: int) -> None:
    by_hand = ByHand(folder)
    with measured(messages=number):
        for index in range(number):
            by_hand.message(index)


class ByHand:
    """A message carried out by hand: the same files, the same syncs, one commit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps = bare.Bare(folder / "by-hand")
        for name in ("inbox/done", "runs", "specs"):
            (folder / name).mkdir(parents=True)
        (folder / "noop.sh").write_text(ROUTINE)
        self.listed = b""

    def message(self, index: int) -> None:
        """Put it down, make its run, spawn, commit the step, list it, move it."""
        inbox, runs = self.folder / "inbox", self.folder / "runs"
        self._replace(inbox / f"{index}.md", SPEC.format(number=index).encode())
        folder = runs / f"run{index}"
        for name in ("steps", "live", "message"):
            (folder / name).mkdir(parents=True)
        files = [folder / "treadle.md", folder / "spec.md", folder / "message" / "message.md"]
        for path in files:
            path.write_bytes(RUN_JSON[:400])
        list(self.steps.pool.map(bare.sync, [*files, folder, folder / "message"]))
        self._replace(folder / "run.json", RUN_JSON)
        bare.sync(runs)
        self._step(folder)
        bare.commit(self.steps.store, "run", index)
        (inbox / f"{index}.md").rename(inbox / "done" / f"{index}.md")
        bare.sync(inbox / "done")
        self.listed += f"{index:05d}-x.spec.md\n".encode()
        self._replace(self.folder / "specs" / "processed-spec.md", self.listed)

    def _step(self, folder: Path) -> None:
        staged = folder / "steps" / "001-do.tmp"
        (staged / "logs").mkdir(parents=True)
        flags = os.O_WRONLY | os.O_CREAT
        actions = [
            (os.POSIX_SPAWN_OPEN, 1, str(staged / "logs" / "stdout.txt"), flags, 0o644),
            (os.POSIX_SPAWN_OPEN, 2, str(staged / "logs" / "stderr.txt"), flags, 0o644),
        ]
        os.waitpid(bare.spawn(["sh", str(self.folder / "noop.sh")], actions), 0)
        for name in _STEP[:3]:
            (staged / name).write_bytes(bare.REQUEST)
        paths = [*(staged / name for name in _STEP), staged / "logs", staged]
        list(self.steps.pool.map(bare.sync, paths))
        staged.rename(folder / "steps" / "001-do")
        bare.sync(folder / "steps")

    def _replace(self, path: Path, data: bytes) -> None:
        staged = path.with_name(f".{path.name}.tmp")
        staged.write_bytes(data)
        bare.sync(staged)
        staged.rename(path)
        bare.sync(path.parent)


if __name__ == "__main__":
    side = _candidate if sys.argv[1] == "candidate" else _floor
    side(Path(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.flush()
    os._exit(0)
