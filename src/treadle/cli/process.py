"""Work through the inbox, specs and routines: `process spec route routine`, rounds of `serve`."""

import itertools
import os
from argparse import Namespace
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from treadle.cli import output
from treadle.cli.run import open_configured, require_trust, watcher
from treadle.cli.runs import print_failed
from treadle.config.load import Loaded
from treadle.config.schema import Config
from treadle.engine import goals, notices, session
from treadle.engine.run.order import Order
from treadle.engine.run.run import Tools
from treadle.errors import ExitCode, UsageError
from treadle.ids import age, local, utc
from treadle.inbox import plan, process, routine, spec_state, specs
from treadle.inbox.known import InboxView
from treadle.inbox.outcome import Outcome, Summary
from treadle.inbox.routine import Choice, External, Host, Routine
from treadle.inbox.spec_state import SpecView
from treadle.inbox.specs import NotTaken
from treadle.proc.keeper import Keeper
from treadle.project import refuse_inside_run, trust
from treadle.project.context import Context
from treadle.store.runs import RunRow
from treadle.store.store import Reader, Store

Submitter = Callable[[Tools, Loaded], Callable[[Order], RunRow]]

_FINE = ("done", "duplicate", "queued", "waiting")
_COLOURS: dict[str, output.Colour] = {"done": "green", "duplicate": "dim", "dead": "red"}
_MAX = 8 << 20
_MOST = 100


def process_inbox(args: Namespace, submitter: Submitter | None = None) -> int:
    """Go through the inbox once; `submitter` queues the runs instead of driving them."""
    project, loaded = open_configured()
    if not 1 <= args.parallel <= _MOST:
        raise UsageError(f"--parallel must be from 1 to {_MOST}")
    if args.dry_run:
        return _dry_run(args, project, loaded)
    require_trust(args, project, tuple(plan.commands(project.layout)))
    goals.require_sandbox(loaded.config)
    with session.opened(project, watch=watcher(args.json), wait=args.wait) as tools:
        submit = submitter(tools, loaded) if submitter else None
        scope = process.find_scope(project, tools.store, args.specs)
        scope = scope._replace(fail_fast=args.fail_fast, parallel=args.parallel)
        begun = tools.now()
        found = process.process(tools, loaded.config, scope, submit)
        if found.outcomes:
            notices.work_ended(tools, begun, "process ended")
    output.tell(args.json, _document(found), _print, found)
    return found.exit_code


def carry_on(tools: Tools, config: Config, run: RunRow) -> None:
    """Finish the message of a run that passed after somebody took it up."""
    process.carry_on(tools, config, run)


def once(args: Namespace) -> int:
    """Do what is due in a round of `serve`, where that is allowed, and say what came of it."""
    project, loaded = open_configured()
    trust.require(project, tuple(plan.commands(project.layout)))
    goals.require_sandbox(loaded.config)
    summary = process.serve_once(project, watcher(args.json))
    if args.json and (summary.outcomes or summary.failed_hook):
        output.print_json(_document(summary))
    elif summary.outcomes:
        output.line(_counts(summary), flush=True)
    return summary.exit_code if summary.interrupted else ExitCode.DONE


def _dry_run(args: Namespace, project: Context, loaded: Loaded) -> int:
    with Reader.open(project.layout) as store:
        scope = process.find_scope(project, store, args.specs)
        found = plan.plan(project.layout, loaded.config, store, scope)
    lines = [
        f"{item.name}: {item.routine if item.would == 'run' else item.would} ({item.reason})"
        for item in found
    ]
    left = tuple(specs.not_taken(project.layout))
    return output.say(args.json, plan.plan_document(found, left), *lines or _nothing(left))


def _document(found: Summary) -> dict[str, object]:
    return {
        "processed": [item.name for item in found.outcomes if item.status == "done"],
        "failed": [item.name for item in found.outcomes if item.status not in _FINE],
        "dead": [item.name for item in found.outcomes if item.status == "dead"],
        "messages": [_message(item) for item in found.outcomes],
        "interrupted": found.interrupted,
        "failed_hook": found.failed_hook,
        **plan.left_document(found.not_taken),
    }


def _nothing(left: Sequence[NotTaken]) -> list[str]:
    """Say that there is nothing to do, unless for what is not called as specs are."""
    if not left:
        return ["nothing to do"]
    lines = [(f"{item.name} is not taken: {item.reason}", f"  next: {item.next}") for item in left]
    return [*itertools.chain(*lines), "nothing else to do"]


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
        "next": item.fix,
        "failed_commands": [command._asdict() for command in item.failed],
    }


def _runs(item: Outcome) -> list[str]:
    return list(item.row.run_ids) if item.row else []


def _print(found: Summary) -> None:
    for item in found.outcomes:
        word = output.paint(item.status.upper(), _COLOURS.get(item.status, "yellow"))
        run = "".join(f" {run_id}" for run_id in _runs(item)[-1:])
        tail = f": {item.reason}" if item.reason else ""
        output.line(word, f"{item.name}{run}{tail}")
        print_failed(item.failed)
        if item.fix:
            output.line(f"  next: {item.fix}")
    if found.failed_hook:
        output.line(output.paint("FAILED", "red"), found.failed_hook)
    for text in [_counts(found)] if found.outcomes else _nothing(found.not_taken):
        output.line(text)


def _counts(found: Summary) -> str:
    done = sum(item.status == "done" for item in found.outcomes)
    return f"{done} done, {len(found.outcomes) - done} not"


def _view(project: Context, loaded: Loaded, store: Reader) -> InboxView:
    return InboxView(project.layout, loaded.config, store, utc(project.now()))


def list_specs(args: Namespace) -> int:
    project, loaded = open_configured(inside_run=True)
    with Reader.open(project.layout) as store:
        found = spec_state.spec_views(_view(project, loaded, store))
    output.tell(args.json, spec_state.specs_document(found), _print_specs, project, found)
    output.warn(*specs.complaints(project.layout))
    return ExitCode.DONE


def _print_specs(project: Context, found: list[SpecView]) -> None:
    heads = ["spec", "state", "run", "age", "because"]
    ages = [age(item.since, project.now()) if item.since else "" for item in found]
    rows = [
        (item.name, item.state, (item.run_id or "")[-6:], old, item.reason)
        for item, old in zip(found, ages, strict=True)
    ]
    output.table(False, {}, heads, rows, "no specs; put one into specs/NAME.spec.md")
    ready = [item for item in found if item.state == "waiting" and not item.reason]
    commands = ["treadle process"] if len(ready) > 1 else [item.next for item in ready]
    landings = [item for item in found if item.state == "done" and item.next]
    commands += ["treadle land --all"] if len(landings) > 1 else [it.next for it in landings]
    commands += [item.next for item in found if item not in (*ready, *landings)]
    for command in dict.fromkeys(filter(None, commands)):
        output.line(f"next: {command}")


def show_spec(args: Namespace) -> int:
    project, loaded = open_configured(inside_run=True)
    with Reader.open(project.layout) as store:
        view = _view(project, loaded, store)
        found = spec_state.look(view, _named(view, args.name))
        told = found._asdict() | spec_state.details(view, found.name)
    return output.tell(args.json, told, _print_spec, told)


def _print_spec(told: dict[str, object]) -> None:
    for key, value in told.items():
        pairs = [f"{name}={it}" for name, it in value.items()] if isinstance(value, dict) else value
        shown = ", ".join(map(str, pairs)) if isinstance(pairs, list | tuple) else pairs
        shown = local(str(value)) if value and key == "since" else shown
        if shown and key not in ("text", "next"):
            output.line(f"{key}: {shown}")
    for command in spec_state.ways(str(told["name"]), str(told["state"]), told["next"]):
        output.line(f"next: {command}")
    output.line()
    output.block(str(told["text"]))


def retry_spec(args: Namespace) -> int:
    return _change_spec(args, spec_state.retry)


def drop_spec(args: Namespace) -> int:
    return _change_spec(args, spec_state.drop)


def _change_spec(
    args: Namespace, change: Callable[[InboxView, Store, str, datetime], SpecView]
) -> int:
    refuse_inside_run(os.environ)
    project, loaded = open_configured()
    with Store.open(project.layout) as store:
        view = _view(project, loaded, store)
        open_ = store.questions() if change is spec_state.drop else []  # they outlive a file
        asked = [row.subject_id for row in open_ if row.subject_kind == "spec"]
        found = change(view, store, _named(view, args.name, asked), project.now())
    is_there = (project.layout.specs / found.name).exists()
    goes_on = [f"  next: {found.next}"] if found.next and is_there else []
    return output.say(args.json, found._asdict(), f"{found.name} is {found.state}", *goes_on)


def _named(view: InboxView, text: str, asked: Sequence[str] = ()) -> str:
    return specs.match({*specs.names(view.layout), *view.processed, *asked}, text)


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
    require_trust(args, project, tuple(plan.commands(project.layout)))
    notebooks = loaded.config.notebook_support
    if args.name:
        found = [routine.find(project.layout, args.name, notebooks)]
    else:
        found = list(routine.discover(project.layout, notebooks).values())
    with Keeper() as keeper:
        host = Host(project, loaded.config, keeper)
        results = {item.name: list(routine.problems(host, item)) for item in found}
    if not args.name:
        results |= {
            name: [why] for name, why in routine.unusable(project.layout, notebooks).items()
        }
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
