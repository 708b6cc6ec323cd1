"""What a message costs: specs with a routine that does nothing, few and many, old ones beside."""

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from bench import bare, wheel
from bench.harness import Bench, Claim, Command, Sample, run
from bench.lab import Lab
from bench.told import measured, used
from treadle.config.load import load
from treadle.engine import session
from treadle.engine.run.memory import Progress, Watch
from treadle.inbox.process import process
from treadle.layout import Layout
from treadle.project.context import open_context

ROUTINE = "#!/bin/sh\n# Do nothing\n# workspace: project\n:\n"
SPEC = "---\nroutine: noop\n---\n# Part {number}\n\nDo nothing about part {number}.\n"
MESSAGE = "---\nid: {0}-0\nchain: {0}\nseq: 0\ntype: spec\ninput_file: {1}\nroutine: noop\n---\n"
RUN_JSON = (
    b'{"version": 1, "order": {}, "row": {}, "events": [], "kv": {"' + b"x" * 2600 + b'": 0}}'
)
_STEP = ("input.json", "output.json", "step.json", "logs/stdout.txt", "logs/stderr.txt")
_BLOCKS = 20  # parts of a pass between which both sides take turns
_ROUNDS = 3


def benches(lab: Lab) -> list[Bench]:
    """Return specs against the same work by hand; more of them, and old messages, cost no more."""
    number, few = lab.size(1000, 60), lab.size(100, 20)

    def project(folder: Path) -> Command:
        return lab.part("inbox", "candidate", make_project(lab, folder, number), number)

    def alternating(folder: Path) -> tuple[list[Sample], list[Sample]]:
        root = make_project(lab, folder / "both", number)
        told = run(lab.part("inbox", "both", root, number), folder / "both.out").told
        return _samples(told, "mine"), _samples(told, "base")

    def claims(samples: list[Sample]) -> list[Claim]:
        many = sum(sample.cpu for sample in samples) / len(samples) / (number / _BLOCKS)
        small = _least(lab, "few", few, 0)
        old = _least(lab, "old", few, lab.size(100_000, 3_000))
        return [
            Claim(f"CPU per message, {number} against {few}", many / small, 1.2),
            Claim("CPU per message, many done against none", old / small, 1.2),
        ]

    what = "same spawn, files, fsyncs, commits"
    name = f"{number} specs"
    return [
        Bench("inbox", name, what, project, project, 1.5, 1.5, True, 1, claims, alternating),
    ]


def _samples(told: Mapping[str, float], side: str) -> list[Sample]:
    """Return what each part of the pass cost; the first one warms both sides up."""
    return [
        Sample(told[f"{side}_wall{index}"], told[f"{side}_cpu{index}"], 0, told)
        for index in range(1, _BLOCKS)
    ]


def _least(lab: Lab, name: str, specs: int, old: int) -> float:
    """Return the least CPU that a message took in a few passes over one project."""
    root, found = make_project(lab, lab.scratch / f"{name}-{time.time_ns()}", 0, old), []
    for number in range(_ROUNDS + 1):
        write_specs(root, range(number * specs, (number + 1) * specs))
        sample = run(lab.part("inbox", "candidate", root, specs), lab.scratch / f"{name}.out")
        found.append(sample.cpu / specs)
    return min(found[1:])


def make_project(lab: Lab, folder: Path, specs: int, old: int = 0) -> Path:
    """Make a project with so many specs, and so many messages that were carried out before."""
    root = folder / "project"
    wheel.make_repository(lab, root, 100)
    layout = Layout(root)
    layout.routines.mkdir(parents=True)
    (layout.routines / "noop.sh").write_text(ROUTINE)
    layout.config_toml.write_text('sandbox = "off"\n')
    layout.specs.mkdir()
    write_specs(root, range(specs))
    layout.inbox_done.mkdir(parents=True)
    for number in range(old):
        (layout.inbox_done / f"{2025010100000000 + number}-0.md").write_text("x\n")
    return root


def write_specs(root: Path, numbers: range) -> None:
    """Write specs that the routine does nothing about."""
    for number in numbers:
        (Layout(root).specs / f"{number:05d}-x.spec.md").write_text(SPEC.format(number=number))


def _candidate(root: Path, number: int) -> None:
    with measured(messages=number):
        _process(root, number, lambda _: None)


def _both(root: Path, number: int) -> None:
    """Carry the specs out, and after each part do as much by hand."""
    by_hand, told = ByHand(root.parent / "by-hand"), {}
    size, done, begun = number // _BLOCKS, 0, (0.0, 0.0)

    def watch(moment: Progress) -> None:
        nonlocal done, begun
        if not moment.message.endswith(": done"):
            return
        done += 1
        if done % size:
            return
        middle = used()
        for index in range(done - size, done):
            by_hand.message(index)
        end, block = used(), done // size - 1
        for name, (start, stop) in {"mine": (begun, middle), "base": (middle, end)}.items():
            told[f"{name}_wall{block}"] = stop[0] - start[0]
            told[f"{name}_cpu{block}"] = stop[1] - start[1]
        begun = used()

    begun = used()
    _process(root, number, watch)
    print(json.dumps({"wall": 0.0, **told}))


def _process(root: Path, number: int, watch: Watch) -> None:
    project = open_context(root, os.environ)
    config = load(project.layout, os.environ, None).config
    with session.opened(project, watch=watch) as tools:
        found = process(tools, config)
    if len([item for item in found.outcomes if item.status == "done"]) != number:
        sys.exit(f"not all of them are done: {found.outcomes[:3]}")


class ByHand:
    """A message carried out by hand: the files, the syncs and the durable commits of the product.

    Both ends must outlive a power cut: that of the step, and that of the message, behind which
    come its follow-ups and its landing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps = bare.Bare(folder / "by-hand")
        for name in ("inbox/done", "runs", "specs"):
            (folder / name).mkdir(parents=True)
        (folder / "noop.sh").write_text(ROUTINE)
        self.steps.store.execute("CREATE TABLE messages (id TEXT PRIMARY KEY, status TEXT)")

    def message(self, index: int) -> None:
        """Put it down, make its run, spawn, commit the step, move it, list it."""
        inbox, spec = self.folder / "inbox", f"{index:05d}-x.spec.md"
        chain = f"{2026010100000000 + index}"
        message = MESSAGE.format(chain, f"specs/{spec}").encode()
        staged = inbox / f".{chain}-0.md.tmp"
        staged.write_bytes(message)
        bare.sync(staged)
        staged.rename(inbox / f"{chain}-0.md")
        self._run(index, message)
        bare.commit(self.steps.store, "run", index)
        self.steps.store.execute("INSERT INTO messages VALUES (?, 'done')", (chain,))
        (inbox / f"{chain}-0.md").rename(inbox / "done" / f"{chain}-0.md")
        with (self.folder / "specs" / "processed-spec.md").open("a") as handle:
            handle.write(f"{spec}\n")

    def _run(self, index: int, message: bytes) -> None:
        runs = self.folder / "runs"
        folder = runs / f".run{index}"
        for name in ("steps", "live", "message"):
            (folder / name).mkdir(parents=True)
        files = {
            folder / "treadle.md": RUN_JSON[:400],
            folder / "spec.md": SPEC.encode(),
            folder / "run.json": RUN_JSON,
            folder / "message" / "message.md": message,
        }
        for path, data in files.items():
            path.write_bytes(data)
        list(self.steps.pool.map(bare.sync, [*files, folder, folder / "message"]))
        folder.rename(runs / f"run{index}")
        bare.sync(runs)
        self._step(runs / f"run{index}")

    def _step(self, folder: Path) -> None:
        staged, live = folder / "steps" / "001-do.tmp", folder / "live"
        (staged / "outbox").mkdir(parents=True)
        (staged / "input.json").write_bytes(bare.REQUEST)
        flags = os.O_WRONLY | os.O_CREAT
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, str(staged / "input.json"), os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(live / "stdout.txt"), flags, 0o644),
            (os.POSIX_SPAWN_OPEN, 2, str(live / "stderr.txt"), flags, 0o644),
        ]
        os.waitpid(bare.spawn(["/bin/sh", str(self.folder / "noop.sh")], actions), 0)
        (staged / "logs").mkdir()
        for name in ("stdout.txt", "stderr.txt"):
            (live / name).rename(staged / "logs" / name)
        (staged / "outbox").rename(live / "outbox")
        (staged / "output.json").write_text(bare.RESPONSE)
        (staged / "step.json").write_bytes(bare.MANIFEST)
        paths = [*(staged / name for name in _STEP), staged / "logs", staged]
        list(self.steps.pool.map(bare.sync, paths))
        staged.rename(folder / "steps" / "001-do")
        bare.sync(folder / "steps")


if __name__ == "__main__":
    side = _candidate if sys.argv[1] == "candidate" else _both
    side(Path(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.flush()
    os._exit(0)
