"""What `treadle mission` changes: a new mission, its plan, its tasks, its dossier."""

import os
from argparse import Namespace
from datetime import UTC, datetime

from treadle.cli import context, output
from treadle.errors import ExitCode
from treadle.ids import HUMAN, acting_agent
from treadle.missions import accept, course, dossier, gates, merge, scaffold, state, worktree
from treadle.missions import mission as missions
from treadle.missions.course import PutAway
from treadle.missions.mission import Mission
from treadle.missions.state import SCHEMA_VERSION, Decision, NextStep, State
from treadle.project import here, refuse_inside_run
from treadle.project.context import Context, open_context, open_folder, refuse_tracked
from treadle.store.questions import WorkReader
from treadle.store.store import Store


def _open() -> Context:
    refuse_inside_run(os.environ)
    return refuse_tracked(open_folder(context.find_project().layout, os.environ))


def _choose(project: Context, args: Namespace) -> Mission:
    found = missions.choose(project.layout, args.mission, here())
    if found.trouble:
        raise found.trouble
    return found


def _head(mission: Mission) -> dict[str, object]:
    return {"schema_version": SCHEMA_VERSION, "mission_slug": mission.slug}


def create_mission(args: Namespace) -> int:
    """Begin a mission."""
    done = scaffold.create(_open(), args.slug, args.title, datetime.now(UTC), args.goal)
    files = done.mission.files
    document = _head(done.mission) | {
        "feature_dir": str(files.folder),
        "spec_file": str(files.spec),
        "meta_file": str(files.meta),
        "commit": done.commit,
    }
    name = done.mission.name(files.spec)
    return output.say(
        args.json, document, f"began {done.mission.slug}; write {name}, then commit it"
    )


def set_up_plan(args: Namespace) -> int:
    """Write a scaffold for the plan, or commit a finished plan."""
    project = _open()
    mission = _choose(project, args)
    kind, missing, commit = scaffold.set_up_plan(project, mission)
    shut = (gates.SENTENCES[kind], *missing) if missing else ()
    document = _head(mission) | {
        "phase_complete": not missing,
        "blocked_reason": shut[0] if shut else None,
        "missing": list(missing),
        "plan_file": str(mission.files.plan),
        "commit": commit,
    }
    name = mission.name(mission.files.plan)
    good = (f"{name} is committed", f"next: treadle mission tasks --mission {mission.slug}")
    output.say(args.json, document, *shut or good)
    return ExitCode.BLOCKED if shut else ExitCode.DONE


def write_tasks(args: Namespace) -> int:
    """Write task files from the plan's list."""
    project = _open()
    mission = _choose(project, args)
    with Store.open(project.layout) as store:
        done = scaffold.write_tasks(store, mission, datetime.now(UTC))
    lines = [*(f"wrote {name}" for name in done.wrote), *(f"kept {name}" for name in done.kept)]
    after = f"next: treadle next --mission {mission.slug}"
    return output.say(args.json, _head(mission) | done._asdict(), *lines, after)


def record_acceptance(found: State) -> None:
    """Commit what a report on the last step of a mission accepts."""
    accept.record(_open(), found)


def save_dossier(args: Namespace) -> int:
    """Index a mission's files."""
    mission = _choose(_open(), args)
    done = dossier.save_dossier(mission, datetime.now(UTC))
    document = {"snapshot_file": str(done.path), "written": done.is_new, **done.snapshot}
    verb = "wrote" if done.is_new else "kept"
    status = done.snapshot["completeness_status"]
    missing = [f"missing: {name}" for name in dossier.missing_artifacts(mission)]
    return output.say(args.json, document, f"{verb} {mission.name(done.path)} ({status})", *missing)


def hand_out(makes: bool, found: State, store: WorkReader, step: NextStep) -> Decision:
    """Hand a step out in its task's worktree: a rare part of `next`."""
    project = refuse_tracked(open_folder(found.layout, os.environ))
    return worktree.hand_out(project, found, store, step, makes=makes)


def merge_tasks(args: Namespace) -> int:
    """Bring the branches of approved tasks together on the branch that is checked out."""
    refuse_inside_run(os.environ)
    project = open_context(here(), os.environ)
    mission = _choose(project, args)
    with Store.open(project.layout) as store:
        found = state.read(project.layout, store, mission, store.now())
        done = merge.merge(project, found, store)
    kept = [f"kept {path}: {reason}" for path, reason, _ in done.tidied.kept]
    told = {**done._asdict(), "tidied": done.tidied.removed, "kept": kept}
    names = ", ".join(done.merged)
    first = (
        f"merged {names} into {done.branch}: {done.commit[:12]}" if names else "nothing to merge"
    )
    left = [f"{task_id} is {lane}" for task_id, lane in done.left.items()]
    lines = [first, *left, *kept, f"next: treadle next --mission {mission.slug}"]
    return output.say(args.json, _head(mission) | told, *lines)


def tidy(found: State, store: WorkReader) -> None:
    """Put away what accepted tasks leave: a rare part of `next`."""
    done = merge.tidy(open_folder(found.layout, os.environ), found.again(store))
    output.warn(*(f"kept {path}: {reason}" for path, reason, _ in done.kept))


def _read(project: Context, args: Namespace, store: Store) -> State:
    agent = acting_agent(os.environ.get("TREADLE_AGENT") or HUMAN)
    mission = _choose(project, args)
    return state.read(project.layout, store, mission, store.now(), agent)


def cancel_mission(args: Namespace) -> int:
    """Give a mission up."""
    project = _open()
    with Store.open(project.layout) as store:
        found = _read(project, args, store)
        done = course.cancel(found, store, args.reason)
    told = [_was_held(task_id, holder, "canceled") for task_id, holder in done.tasks.items()]
    slug = found.mission.slug
    lines = [f"canceled {slug}", *told, *(f"closed {id_}" for id_ in done.questions)]
    lines.append(f"next: treadle mission archive --mission {slug}")
    return output.say(args.json, _head(found.mission) | done._asdict(), *lines)


def reopen_phase(args: Namespace) -> int:
    """Go back to a phase of a mission."""
    project = _open()
    with Store.open(project.layout) as store:
        found = _read(project, args, store)
        done = course.reopen(found, store, args.phase, args.reason or "reopened")
    to = "planned" if args.phase == "implement" else "for_review"
    told = [_was_held(task_id, None, to) for task_id in done.tasks]
    slug = found.mission.slug
    lines = [f"reopened {args.phase} of {slug}", *told, f"next: treadle next --mission {slug}"]
    return output.say(args.json, _head(found.mission) | done._asdict(), *lines)


def archive_mission(args: Namespace) -> int:
    """Put a mission that is over away."""
    project = _open()
    with Store.open(project.layout) as store:
        found = _read(project, args, store)
        done = course.archive(project, found)
    return _say_moved(args, found.mission, done)


def rename_mission(args: Namespace) -> int:
    """Give a mission another name."""
    project = _open()
    args.mission = args.old
    with Store.open(project.layout) as store:
        found = _read(project, args, store)
        done = course.rename(project, found, store, args.new)
    return _say_moved(args, found.mission, done)


def _say_moved(args: Namespace, mission: Mission, done: PutAway) -> int:
    document = _head(mission) | {**done._asdict(), "folder": str(done.folder)}
    lines = [f"{mission.slug} lies in {mission.name(done.folder)} now, staged and not committed"]
    lines += [f"next: {done.commit}", f"undo: {done.undo}"]
    return output.say(args.json, document, *lines)


def _was_held(task_id: str, holder: str | None, lane: str) -> str:
    return f"{task_id} is {lane}{f'; {holder} held it' if holder else ''}"
