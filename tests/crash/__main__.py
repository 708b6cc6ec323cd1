"""Run every crash experiment on a scenario and print what broke."""

import argparse
import errno
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.crash import experiments, landing, survivors
from tests.crash.crew import Crew
from tests.crash.experiments import Report

_SHOWN = 5
Experiment = Callable[[Crew], Report]


def main() -> int:
    """Print one line per experiment; the exit code says whether a promise broke."""
    args = _parser().parse_args()
    reports = []
    with Crew(args.scenario, args.jobs) as crew:
        for name, experiment in _plan(args):
            if args.only and name not in args.only:
                continue
            started = time.monotonic()
            report = experiment(crew)
            _show(report, time.monotonic() - started, args.verbose)
            reports.append({"experiment": name, **report._asdict()})
    if args.json:
        args.json.write_text(json.dumps(reports, indent=2) + "\n")
    return 1 if any(report["broken"] for report in reports) else 0


def _plan(args: argparse.Namespace) -> Iterator[tuple[str, Experiment]]:
    every = args.sample
    for victim in experiments.VICTIMS:
        yield "kill", partial(experiments.kills, victim=victim, sample=every)
    yield "double", partial(experiments.doubles, sample=args.double)
    yield "late", partial(experiments.late_kills, number=args.late, longest=args.longest)
    for error in experiments.ERRORS:
        yield "error", partial(experiments.failures, error=error, lasts=False, sample=every)
    for error in (errno.ENOSPC, errno.EROFS):
        yield "error", partial(experiments.failures, error=error, lasts=True, sample=every)
    yield "fill", partial(experiments.fills, levels=args.levels)
    for kind in experiments.KINDS:
        yield "power", partial(experiments.power, kind=kind, limit=args.states)
    yield "mutants", partial(experiments.mutants, limit=args.mutant_states)
    yield "survivors", lambda _: survivors.trials(args.survivors)
    yield "moves", lambda _: landing.kills(args.moves, args.jobs)


def _show(report: Report, seconds: float, verbose: bool) -> None:
    line = f"{report.name:28} {report.tried:6} tried {len(report.broken):5} broken {seconds:7.1f} s"
    print(line, flush=True)
    for text in report.broken if verbose else report.broken[:_SHOWN]:
        print(f"    {text[:500]}", flush=True)
    for note in report.notes:
        print(f"    - {note}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/crashtest", description=__doc__)
    names = ["kill", "double", "late", "error", "fill", "power", "mutants", "survivors", "moves"]
    parser.add_argument("scenario", nargs="?", default="tests.crash.wheel:Wheel")
    parser.add_argument("--only", nargs="+", choices=names, help="Do these experiments")
    parser.add_argument("--sample", type=int, help="Disturb so many calls instead of all")
    parser.add_argument("--double", type=int, default=12, help="First kills of double crashes")
    parser.add_argument("--late", type=int, default=200, help="Kills at random moments")
    parser.add_argument("--longest", type=float, default=1.0, help="Latest such moment, seconds")
    parser.add_argument("--levels", type=int, default=50, help="Fill levels of a small disk")
    parser.add_argument("--states", type=int, default=3000, help="Power-cut states per model")
    parser.add_argument("--mutant-states", type=int, default=200, help="States per mutant")
    parser.add_argument("--survivors", type=int, default=200, help="Kills of orchestrators")
    parser.add_argument("--moves", type=int, default=1000, help="Kills of runs, landings, undoings")
    parser.add_argument("--jobs", type=int, help="Workers; default one per core")
    parser.add_argument("--json", type=Path, metavar="FILE", help="Write all results there")
    parser.add_argument("--verbose", action="store_true", help="Show every broken promise")
    return parser


if __name__ == "__main__":
    sys.exit(main())
