"""What `treadle mission` changes: a new mission, its plan, its tasks, its dossier."""

import os
from argparse import Namespace
from datetime import UTC, datetime

from treadle.cli import context, output
from treadle.errors import ExitCode
from treadle.missions import mission as missions
from treadle.missions import scaffold
from treadle.missions.mission import Mission
from treadle.missions.state import SCHEMA_VERSION
from treadle.project import here, refuse_inside_run
from treadle.project.context import Context, open_repository
from treadle.store.store import Store


def _open() -> Context:
    refuse_inside_run(os.environ)
    found = context.find_project()
    return open_repository(found.layout.root, os.environ)._replace(layout=found.layout)


def _choose(project: Context, args: Namespace) -> Mission:
    return missions.choose(project.layout, args.mission, here())


def _head(mission: Mission) -> dict[str, object]:
    return {"schema_version": SCHEMA_VERSION, "mission_slug": mission.slug}


def create_mission(args: Namespace) -> int:
    """Begin a mission."""
    done = scaffold.create(_open(), args.slug, args.title, datetime.now(UTC))
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
    gate, commit = scaffold.set_up_plan(project, mission)
    document = _head(mission) | {
        "phase_complete": gate.reason is None,
        "blocked_reason": gate.reason,
        "missing": list(gate.missing),
        "plan_file": str(mission.files.plan),
        "commit": commit,
    }
    name = mission.name(mission.files.plan)
    good = (f"{name} is committed", f"next: treadle mission tasks --mission {mission.slug}")
    shut = (gate.reason, *gate.missing) if gate.reason else ()
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


def save_dossier(args: Namespace) -> int:
    """Index a mission's files."""
    mission = _choose(_open(), args)
    done = scaffold.save_dossier(mission, datetime.now(UTC))
    document = {"snapshot_file": str(done.path), "written": done.is_new, **done.snapshot}
    verb = "wrote" if done.is_new else "kept"
    status = done.snapshot["completeness_status"]
    return output.say(args.json, document, f"{verb} {mission.name(done.path)} ({status})")
