"""P13: from a patch of 100 files to a judged tree, against the git calls it cannot do without."""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench import wheel
from bench.harness import Bench, Claim, Command, Sample
from bench.lab import Lab
from bench.told import measured
from treadle.git import build, judge
from treadle.git import repo as repos
from treadle.git.build import PatchFailed

_FILES = 100
_DIFF = ("diff-tree", "-r", "-z", "--raw", "-p", "--binary", "--full-index", "-M", "-l100")


def benches(lab: Lab) -> list[Bench]:
    """Return the judging of one patch that changes, adds, deletes and renames."""
    root = lab.scratch / "judge" / "project"
    wheel.make_repository(lab, root, lab.size(1_000, 200))
    patch = root.parent / "patch.diff"
    patch.write_text(_make_patch(lab, root))

    def side(verb: str, folder: Path) -> Command:
        folder.mkdir()
        return lab.part("judge", verb, root, patch, folder)

    return [
        Bench(
            "P13",
            f"judge a patch of {_FILES} files",
            "read-tree, apply, write-tree, diff-tree",
            lambda folder: side("candidate", folder),
            lambda folder: side("floor", folder),
            target=2.0,
            gate=3.0,
            rounds=lab.rounds,
            claims=_claims,
        )
    ]


def _claims(samples: list[Sample]) -> list[Claim]:
    over = statistics.median(sample.told["over_ms"] for sample in samples)
    return [Claim("ms over the bare git calls", over, 60)]


def _make_patch(lab: Lab, root: Path) -> str:
    files = sorted(root.glob("part*/*.txt"))[:_FILES]
    for number, path in enumerate(files):
        if number % 10 == 0:
            path.rename(path.with_name(f"moved{number}.txt"))
        elif number % 10 == 1:
            path.unlink()
        elif number % 10 == 2:
            path.with_name(f"new{number}.txt").write_text(f"new {number}\n" * 30)
        else:
            path.write_text(path.read_text().replace("\n", f" {number}\n", 5))
    lab.git(root, "add", "-A")
    text = lab.git(root, "diff", "--cached", "-M")
    lab.git(root, "reset", "-q", "--hard")
    return text + "\n"


def _candidate(root: Path, patch: bytes, folder: Path) -> None:
    """Measure both in one process, so that the difference is not the interpreter's start."""
    repo = repos.find(root)
    head = repos.head(repo).commit or ""
    tree = repos.tree_of(repo, head)
    begun = time.perf_counter()
    _bare(root, patch, folder / "bare")
    bare = time.perf_counter() - begun
    with measured() as told:
        begun = time.perf_counter()
        built = build.from_patch(repo, head, patch, folder / "scratch")
        if isinstance(built, PatchFailed):
            raise SystemExit(built.message)
        judge.judge(built.scratch, tree, built.tree)
        told["over_ms"] = (time.perf_counter() - begun - bare) * 1000


def _floor(root: Path, patch: bytes, folder: Path) -> None:
    with measured():
        _bare(root, patch, folder / "bare")


def _bare(root: Path, patch: bytes, folder: Path) -> None:
    folder.mkdir(parents=True)
    env = {**os.environ, "GIT_INDEX_FILE": str(folder / "index")}
    env |= {"GIT_OBJECT_DIRECTORY": str(folder / "objects")}
    env |= {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(root / ".git" / "objects")}
    (folder / "objects").mkdir()

    def git(*args: str, stdin: bytes | None = None) -> bytes:
        done = subprocess.run(
            ["git", *args], cwd=root, env=env, input=stdin, capture_output=True, check=True
        )
        return done.stdout

    git("read-tree", "HEAD")
    git("apply", "--cached", "-", stdin=patch)
    git(*_DIFF, "HEAD", git("write-tree").decode().strip())


if __name__ == "__main__":
    sides = {"candidate": _candidate, "floor": _floor}
    where, patch_file, place = map(Path, sys.argv[2:])
    sides[sys.argv[1]](where, patch_file.read_bytes(), place)
