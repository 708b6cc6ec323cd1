"""Take a mission into its plan: refuse before the spec is ready, commit only a real plan."""

from typing import NamedTuple

from treadle.files import atomic
from treadle.missions import gates, template
from treadle.missions import mission as missions
from treadle.missions.gates import SENTENCES
from treadle.missions.mission import Mission
from treadle.project.commit import commit_only, require_ready
from treadle.project.project import Project


class Planned(NamedTuple):
    """How far the plan is; without a reason it is substantive and committed."""

    blocked_reason: str | None
    missing: tuple[str, ...] = ()
    commit: str | None = None


def set_up(project: Project, mission: Mission) -> Planned:
    """Write the plan's scaffold if there is none, commit a plan that is one."""
    head = gates.read_head([mission])
    entry = gates.judge(mission, head, "spec")
    if entry.missing:
        return Planned(entry.reason, entry.missing)
    plan = mission.files.plan
    if not plan.exists():
        text = template.PLAN.format(title=missions.title(mission))
        atomic.write(plan, text.encode(errors="replace"))
    if not gates.is_substantive(plan, "plan"):
        return Planned(SENTENCES["plan"], gates.judge(mission, head, "plan").missing)
    require_ready(project)
    message = f"Add plan for feature {mission.slug}"
    return Planned(None, commit=commit_only(project, [mission.name(plan)], message))
