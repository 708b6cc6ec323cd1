"""Race treadle against its floors and print the ratios: python -m bench [--quick] [NAMES]."""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from bench import (
    agent,
    commits,
    first,
    fleet,
    growth,
    harvest,
    inbox,
    judge,
    mail,
    next,
    normalize,
    page,
    parallel,
    recovery,
    spawn,
    start,
    step,
    stream,
    workspace,
)
from bench.harness import Race, race
from bench.lab import Lab, open_lab

WORKLOADS = {
    "start": start,
    "next": next,
    "step": step,
    "spawn": spawn,
    "parallel": parallel,
    "commits": commits,
    "recovery": recovery,
    "stream": stream,
    "workspace": workspace,
    "mail": mail,
    "judge": judge,
    "harvest": harvest,
    "normalize": normalize,
    "inbox": inbox,
    "agent": agent,
    "page": page,
    "first": first,
    "fleet": fleet,
    "growth": growth,
}
# They need a PostgreSQL server or a browser, which only the packages of the real tests bring.
ON_REQUEST = ("first", "fleet", "growth")
_HEAD = ("id", "candidate", "floor", "wall", "cpu", "paired", "target", "gate", "verdict")
_WIDTHS = (9, 28, 34, 7, 7, 7, 7, 7, 12)


def main() -> int:
    """Run the chosen workloads; the exit code says whether a gate failed."""
    args = _parser().parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="bench-", dir=args.scratch))
    here = Path.cwd()
    try:
        lab = open_lab(scratch, quick=args.quick)
        _print(_HEAD)
        races = [found for name in args.names or _usual() for found in _run(lab, name)]
    finally:
        os.chdir(here)
        shutil.rmtree(scratch, ignore_errors=True)
    if args.json:
        args.json.write_text(json.dumps([_document(found) for found in races], indent=2) + "\n")
    return 1 if any(found.verdict == "FAILED" for found in races) else 0


def _run(lab: Lab, name: str) -> list[Race]:
    found = []
    for bench in WORKLOADS[name].benches(lab):
        try:
            result = race(bench, lab.scratch / bench.id)
        except RuntimeError as error:
            sys.exit(f"{bench.id} could not be measured: {error}")
        _show(result)
        found.append(result)
    return found


def _show(found: Race) -> None:
    bench = found.bench
    ratios = (found.wall, found.cpu, found.paired, bench.target, bench.gate)
    verdict = found.verdict + (" (2nd try)" if found.repeated else "")
    _print(
        (bench.id, bench.candidate_name, bench.floor_name, *(f"{x:.2f}" for x in ratios), verdict)
    )
    times = [
        statistics.median(item.wall for item in side) * 1000
        for side in (found.candidate, found.floor)
    ]
    print(
        f"          median {times[0]:.2f} ms against {times[1]:.2f} ms,"
        f" drift {found.drift:.2f}, load {found.load:.1f}"
    )
    for claim in found.claims:
        word = "holds" if claim.holds else "BROKEN"
        print(f"          {claim.name}: {claim.value:.2f}, at most {claim.limit:.2f}: {word}")
    sys.stdout.flush()


def _print(cells: tuple[str, ...]) -> None:
    print(" ".join(text[:width].ljust(width) for text, width in zip(cells, _WIDTHS, strict=True)))


def _document(found: Race) -> dict[str, object]:
    bench = found.bench
    return {
        "id": bench.id,
        "candidate": bench.candidate_name,
        "floor": bench.floor_name,
        "wall_ratio": found.wall,
        "cpu_ratio": found.cpu,
        "paired_ratio": found.paired,
        "target": bench.target,
        "gate": bench.gate,
        "verdict": found.verdict,
        "repeated": found.repeated,
        "drift": found.drift,
        "load": found.load,
        "claims": [claim._asdict() for claim in found.claims],
        "candidate_ms": [sample.wall * 1000 for sample in found.candidate],
        "floor_ms": [sample.wall * 1000 for sample in found.floor],
    }


def _usual() -> list[str]:
    return [name for name in WORKLOADS if name not in ON_REQUEST]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"Of {', '.join(WORKLOADS)}")
    parser.add_argument("--quick", action="store_true", help="Smaller workloads, fewer rounds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="Write all figures there")
    parser.add_argument("--scratch", type=Path, metavar="FOLDER", help="On the disk to measure")
    return parser


if __name__ == "__main__":
    sys.exit(main())
