"""Work through the inbox and look at routines: `process route routine`, and rounds of `serve`."""

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from treadle.cli import output
from treadle.cli.run import open_configured, require_trust, watcher
from treadle.config.load import Loaded
from treadle.config.schema import Config
from treadle.engine import goals, session
from treadle.engine.run.order import Order
from treadle.engine.run.run import Tools
from treadle.errors import ExitCode, UsageError
from treadle.inbox import decide, process, routine
from treadle.inbox.process import Outcome, Summary
from treadle.inbox.routine import Choice, External, Host, Routine
from treadle.proc.keeper import Keeper
from treadle.project import trust
from treadle.project.context import Context
from treadle.store.runs import RunRow
from treadle.store.store import Reader

Submitter = Callable[[Tools, Loaded], Callable[[Order], RunRow]]

_FINE = ("done", "duplicate", "queued")
_COLOURS: dict[str, output.Colour] = {"done": "green", "duplicate": "dim", "dead": "red"}
_MAX = 8 << 20


def process_inbox(args: Namespace, submitter: Submitter | None = None) -> int:
    """Go through the inbox once; `submitter` queues the runs instead of driving them."""
    project, loaded = open_configured()
    if args.dry_run:
        return _dry_run(args, project, loaded)
    require_trust(args, project, tuple(decide.commands(project.layout)))
    goals.require_sandbox(loaded.config)
    with session.opened(project, watch=watcher(args.json), wait=args.wait) as tools:
        submit = submitter(tools, loaded) if submitter else None
        found = process.process(tools, loaded.config, fail_fast=args.fail_fast, submit=submit)
    output.tell(args.json, _document(found), _print, found)
    return found.exit_code


def once(args: Namespace) -> int:
    """Do what is due in a round of `serve`, where that is allowed, and say what came of it."""
    project, loaded = open_configured()
    trust.require(project, tuple(decide.commands(project.layout)))
    goals.require_sandbox(loaded.config)
    summary = process.serve_once(project, watcher(args.json))
    if args.json and (summary.outcomes or summary.failed_hook):
        output.print_json(_document(summary))
    elif summary.outcomes:
        output.line(_counts(summary), flush=True)
    return summary.exit_code if summary.interrupted else ExitCode.DONE


def _dry_run(args: Namespace, project: Context, loaded: Loaded) -> int:
    with Reader.open(project.layout) as store:
        found = decide.plan(project.layout, loaded.config, store)
    lines = [
        f"{item.name}: {item.routine if item.would == 'run' else item.would} ({item.reason})"
        for item in found
    ]
    return output.say(args.json, decide.plan_document(found), *lines or ["nothing to do"])


def _document(found: Summary) -> dict[str, object]:
    return {
        "processed": [item.name for item in found.outcomes if item.status == "done"],
        "failed": [item.name for item in found.outcomes if item.status not in _FINE],
        "dead": [item.name for item in found.outcomes if item.status == "dead"],
        "messages": [_message(item) for item in found.outcomes],
        "interrupted": found.interrupted,
        "failed_hook": found.failed_hook,
    }


def _message(item: Outcome) -> dict[str, object]:
    row, run_ids = item.row, _runs(item)
    return {
        "id": row.message_id if row else None,
        "name": item.name,
        "routine": row.routine if row else None,
        "status": item.status,
        "run_id": run_ids[-1] if run_ids else None,
        "run_ids": run_ids,
        "reason": item.reason or None,
    }


def _runs(item: Outcome) -> list[str]:
    return list(item.row.run_ids) if item.row else []


def _print(found: Summary) -> None:
    for item in found.outcomes:
        word = output.paint(item.status.upper(), _COLOURS.get(item.status, "yellow"))
        run = "".join(f" {run_id}" for run_id in _runs(item)[-1:])
        tail = f": {item.reason}" if item.reason else ""
        output.line(word, f"{item.name}{run}{tail}")
    if found.failed_hook:
        output.line(output.paint("FAILED", "red"), found.failed_hook)
    output.line(_counts(found) if found.outcomes else "nothing to do")


def _counts(found: Summary) -> str:
    done = sum(item.status == "done" for item in found.outcomes)
    return f"{done} done, {len(found.outcomes) - done} not"


def route_text(args: Namespace) -> int:
    """Ask the router as a pass would."""
    if (args.text is None) == (args.test is None):
        raise UsageError("give either a text or --test FILE")
    project, loaded = open_configured()
    require_trust(args, project)
    known = routine.discover(project.layout, loaded.config.notebook_support)
    with Keeper() as keeper:
        external = _external(project, loaded.config, keeper)
        usual = loaded.config.default_routine
        if args.test:
            return _test(args, known, usual, external)
        choice = routine.choose(args.text, known, external, default=usual)
    return _render(args, choice, known)


def _external(project: Context, config: Config, keeper: Keeper) -> External | None:
    if config.commands.router is None:
        return None
    return External(config.commands.router, Host(project, config, keeper))


def _render(args: Namespace, choice: Choice, known: dict[str, Routine]) -> int:
    name = choice.routine.name
    told = {"routine": name, "source": choice.source, "reason": choice.reason}
    if not args.explain:
        return output.say(args.json, told, name)
    prompt = routine.router_prompt(args.text, known)
    words = (choice.transcript or prompt).splitlines()
    lines = [f"because: {choice.reason} ({choice.source})", *(f"  {line}" for line in words)]
    whole = told | {"prompt": prompt, "transcript": choice.transcript}
    return output.say(args.json, whole, name, *lines)


def _test(args: Namespace, known: dict[str, Routine], usual: str, external: External | None) -> int:
    cases = _cases(Path(args.test))
    results = [
        (text, wanted, routine.choose(text, known, external, default=usual).routine.name)
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


def list_routines(args: Namespace) -> int:
    project, loaded = open_configured(inside_run=True)
    found = routine.discover(project.layout, loaded.config.notebook_support).values()
    told = {"routines": [_routine(project, item) for item in found]}
    lines = [f"{item.name}  {item.summary}" for item in found]
    return output.say(args.json, told, *lines or ["no routines"])


def show_routine(args: Namespace) -> int:
    project, loaded = open_configured(inside_run=True)
    found = routine.find(project.layout, args.name, loaded.config.notebook_support)
    told = _routine(project, found)
    texts = {key: ", ".join(it) if isinstance(it, list) else it for key, it in told.items()}
    lines = [f"{key}: {'; '.join(str(text).splitlines())}" for key, text in texts.items() if text]
    return output.say(args.json, told, *lines)


def check_routines(args: Namespace) -> int:
    project, loaded = open_configured(inside_run=True)
    require_trust(args, project, tuple(decide.commands(project.layout)))
    notebooks = loaded.config.notebook_support
    if args.name:
        found = [routine.find(project.layout, args.name, notebooks)]
    else:
        found = list(routine.discover(project.layout, notebooks).values())
    with Keeper() as keeper:
        host = Host(project, loaded.config, keeper)
        results = {item.name: list(routine.problems(host, item)) for item in found}
    rows = [{"name": name, "ok": not bad, "problems": bad} for name, bad in results.items()]
    lines = [f"{name}: {'; '.join(bad) or 'ok'}" for name, bad in results.items()]
    output.say(args.json, {"routines": rows}, *lines)
    return ExitCode.FAILED if any(results.values()) else ExitCode.DONE


def _routine(project: Context, found: Routine) -> dict[str, object]:
    return {
        "name": found.name,
        "kind": found.kind,
        "file": project.layout.relative(found.path) if found.path else None,
        "description": found.description,
        "when": found.when,
        "workspace": "project" if found.in_project else "own",
        "parameters": list(found.parameters),
        "pre_check": found.pre_check,
    }
