"""What `treadle mission` changes: a new mission, its plan, its tasks, its dossier."""

import os
from argparse import Namespace
from datetime import UTC, datetime

from treadle.cli import output, place
from treadle.errors import ExitCode
from treadle.missions import dossier, scaffold
from treadle.missions import mission as missions
from treadle.missions.mission import Mission
from treadle.missions.state import SCHEMA_VERSION
from treadle.project.project import Project, open_repository
from treadle.project.root import here, refuse_inside_run
from treadle.store.store import Store


def run(args: Namespace) -> int:
    """Change a mission's files, and say what was done."""
    refuse_inside_run(os.environ)
    found = place.find(os.environ)
    project = open_repository(found.layout.root, os.environ)
    project.layout.mail = found.layout.mail
    if args.action == "create":
        return _create(project, args)
    mission = missions.choose(project.layout, args.mission, here())
    return _ACTIONS[args.action](project, mission, args)


def _create(project: Project, args: Namespace) -> int:
    done = scaffold.create(project, args.slug, args.title, datetime.now(UTC))
    files = done.mission.files
    document = {
        "schema_version": SCHEMA_VERSION,
        "mission_slug": done.mission.slug,
        "feature_dir": str(files.folder),
        "spec_file": str(files.spec),
        "meta_file": str(files.meta),
        "commit": done.commit,
    }
    name = done.mission.name(files.spec)
    return output.say(
        args.json, document, f"began {done.mission.slug}; write {name}, then commit it"
    )


def _setup_plan(project: Project, mission: Mission, args: Namespace) -> int:
    done = scaffold.set_up_plan(project, mission)
    document = {
        "schema_version": SCHEMA_VERSION,
        "mission_slug": mission.slug,
        "phase_complete": done.blocked_reason is None,
        "blocked_reason": done.blocked_reason,
        "missing": list(done.missing),
        "plan_file": str(mission.files.plan),
        "commit": done.commit,
    }
    name = mission.name(mission.files.plan)
    good = (f"{name} is committed", f"next: treadle mission tasks --mission {mission.slug}")
    shut = (done.blocked_reason, *done.missing) if done.blocked_reason else ()
    output.say(args.json, document, *shut or good)
    return ExitCode.BLOCKED if shut else ExitCode.DONE


def _tasks(project: Project, mission: Mission, args: Namespace) -> int:
    with Store.open(project.layout) as store:
        done = scaffold.write_tasks(store, mission, datetime.now(UTC))
    head = {"schema_version": SCHEMA_VERSION, "mission_slug": mission.slug}
    lines = [*(f"wrote {name}" for name in done.wrote), *(f"kept {name}" for name in done.kept)]
    after = f"next: treadle next --mission {mission.slug}"
    return output.say(args.json, head | done._asdict(), *lines, after)


def _dossier(project: Project, mission: Mission, args: Namespace) -> int:
    done = dossier.save(mission, datetime.now(UTC))
    document = {"snapshot_file": str(done.path), "written": done.is_new, **done.snapshot}
    verb = "wrote" if done.is_new else "kept"
    status = done.snapshot["completeness_status"]
    return output.say(args.json, document, f"{verb} {mission.name(done.path)} ({status})")


_ACTIONS = {"setup-plan": _setup_plan, "tasks": _tasks, "dossier": _dossier}
