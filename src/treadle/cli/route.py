"""`treadle route`: say which routine a text would get, or how often that is right."""

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from treadle.cli import consent, output
from treadle.config.load import load
from treadle.config.schema import Config
from treadle.errors import ExitCode, UsageError
from treadle.inbox import hooks, routine
from treadle.inbox.hooks import Host
from treadle.inbox.routine import Choice, External, Fallback, Routine
from treadle.proc.keeper import Keeper
from treadle.project.project import Project, open_project
from treadle.project.root import here, refuse_inside_run

_MAX = 8 << 20


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("text", metavar="TEXT", nargs="?", help="What a message would say")
    parser.add_argument("--explain", action="store_true", help="Show what decided, and the prompt")
    parser.add_argument("--test", metavar="FILE", help="Lines of TEXT, a tab and a routine's name")


def run(args: Namespace) -> int:
    """Ask the router as a pass would."""
    if (args.text is None) == (args.test is None):
        raise UsageError("give a text or --test FILE, one of them")
    refuse_inside_run(os.environ)
    project = open_project(here(), os.environ)
    loaded = load(project.layout, project.env)
    consent.require(args, project, loaded)
    known = routine.discover(project.layout, loaded.config.notebook_support)
    with Keeper() as keeper:
        external = _external(project, loaded.config, keeper)
        fallback = Fallback(None, loaded.config.default_routine)
        if args.test:
            return _test(args, known, fallback, external)
        choice = routine.choose(args.text, known, fallback, external)
    return _render(args, choice, known)


def _external(project: Project, config: Config, keeper: Keeper) -> External | None:
    if config.commands.router is None:
        return None
    held = hooks.bounds_for(config, project)
    return External(config.commands.router, Host(project.layout.root, project.env, keeper, held))


def _render(args: Namespace, choice: Choice, known: dict[str, Routine]) -> int:
    told = {"routine": choice.routine, "source": choice.source, "reason": choice.reason}
    if not args.explain:
        return output.say(args.json, told, choice.routine)
    prompt = routine.router_prompt(args.text, known)
    words = (choice.transcript or prompt).splitlines()
    lines = [f"because: {choice.reason} ({choice.source})", *(f"  {line}" for line in words)]
    whole = told | {"prompt": prompt, "transcript": choice.transcript}
    return output.say(args.json, whole, choice.routine, *lines)


def _test(
    args: Namespace, known: dict[str, Routine], fallback: Fallback, external: External | None
) -> int:
    cases = _cases(Path(args.test))
    results = [
        (text, wanted, routine.choose(text, known, fallback, external).routine)
        for text, wanted in cases
    ]
    wrong = [item for item in results if item[1] != item[2]]
    total, right = len(results), len(results) - len(wrong)
    rows = [dict(zip(("text", "expected", "routine"), item, strict=True)) for item in wrong]
    told = {"total": total, "right": right, "accuracy": right / total, "wrong": rows}
    lines = [f"{text[:80]}: {got}, not {wanted}" for text, wanted, got in wrong]
    output.say(args.json, told, *lines, f"{right} of {total} right, accuracy {right / total:.1%}")
    return ExitCode.FAILED if wrong else ExitCode.DONE


def _cases(path: Path) -> list[tuple[str, str]]:
    try:
        with path.open(errors="replace") as handle:
            lines = handle.read(_MAX).splitlines()
    except OSError as error:
        raise UsageError(f"--test {path}: {error.strerror}") from error
    found = []
    for number, line in enumerate(lines, 1):
        text, tab, wanted = line.rpartition("\t")
        if line.strip() and not tab:
            raise UsageError(f"{path}: line {number}: write a text, a tab and a routine's name")
        if line.strip():
            found.append((text, wanted.strip()))
    if not found:
        raise UsageError(f"{path} has no lines to test")
    return found
