"""Fill a project with something for every page to show, through treadle's own functions."""

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.acceptance.mission import REAL_PLAN, REAL_SPEC
from tests.builder import git, make_home, make_repository
from treadle.contract import Criterion
from treadle.ids import utc
from treadle.inbox import box as inbox
from treadle.layout import Layout
from treadle.mail import effect as mail
from treadle.mail.letter import Draft
from treadle.project.context import open_context
from treadle.store.messages import MessageRow
from treadle.store.questions import LEAVE, Action, Subject
from treadle.store.runs import Cursor, Event, History, RunRow, StepRow, UsageRow
from treadle.store.store import Store
from treadle.store.tasks import TaskRow
from treadle.tasks import claim, questions, task
from treadle.tasks.claim import Holder
from treadle.tasks.questions import Question
from treadle.web.access import Keys
from treadle.web.site import Site

PORT = 7717
RUN = "20260120-100000-00000a"
NOW = datetime(2026, 1, 22, 12, tzinfo=UTC)
XSS = (Path(__file__).parent / "xss.txt").read_text().splitlines()
_ROLES = ("plan", "do", "check", "act")


def site(folder: Path, texts: Sequence[str] = ("Add a login",), now: datetime = NOW) -> Site:
    """Return a filled project, as its pages see it; the clock stands."""
    env = {"PATH": os.environ["PATH"], **make_home(folder)}
    files = {".treadle/config.toml": "", ".gitignore": ".treadle/*\n"}
    root = make_repository(folder / "project", files, env=env)
    project = open_context(root, env)
    fill(project.layout, now, texts)
    return Site(project, Keys(), PORT, now=lambda: now)


def fill(layout: Layout, now: datetime, texts: Sequence[str] = ("Add a login",)) -> None:
    """Put tasks, runs, questions, letters, messages, costs and a mission there.

    Each of `texts` becomes the goal of a task and a run, a letter, a message and a question.
    """
    with Store.open(layout) as store:
        tasks(store, now, texts)
        runs(layout, store, now, texts)
        desk(store, now, texts)
        messages(layout, store, now, texts)
    letters(layout, now, texts)
    mission(layout, texts)


def tasks(store: Store, now: datetime, texts: Sequence[str]) -> None:
    for text in texts:
        asked = (Criterion("AC1", text, "test -f done.txt"),)
        task.add(store, TaskRow("", text, criteria=asked), now)
    task.add(store, TaskRow("WAITS", "Wait for the first"), now)
    task.link(store, "WAITS", ["T-1"])
    task.add(store, TaskRow("STUCK", "Be stuck"), now)
    row = claim.claim(store, "STUCK", "codex", now)
    holder = Holder("codex", row.claim_id)
    claim.move_task(store, "STUCK", "in_progress", holder, now)
    claim.move_task(store, "STUCK", "blocked", holder, now, f"no key: {texts[0]}")
    task.add(store, TaskRow("HELD", "Be held"), now)
    claim.claim(store, "HELD", "ada", now)


def runs(layout: Layout, store: Store, now: datetime, texts: Sequence[str]) -> None:
    for number, text in enumerate(texts):
        run_id = RUN[:-6] + f"{number + 10:06x}"
        stamp = utc(now - timedelta(hours=2))
        folder = layout.run(run_id)
        row = RunRow(run_id, stamp, text, "running", 1, 0, None, layout.relative(folder.folder))
        row = row._replace(task_id="T-1", claim_epoch=1, base_commit="a" * 40, head_commit="b" * 40)
        store.insert_run(row, [Event(1, stamp, "run_started", text)], {})
        folder.folder.mkdir(parents=True)
        order = {"criteria": [{"id": "AC1", "text": text, "verify": "true"}]}
        folder.run_json.write_text(json.dumps({"order": order}))
        for index, role in enumerate(_ROLES[: 4 if number == 0 else 1], 1):
            _step(layout, store, run_id, index, role, text, now)
        spent = {"spent": {"minutes": 3.5, "tokens": 5000, "cost_usd": 0.25}}
        end = Cursor("stopped", 1, 4, "FAIL", "b" * 40, utc(now))
        store.advance(run_id, History(kv=spent), end, 1)


def _step(layout, store, run_id, index, role, text, now) -> None:
    begun = now - timedelta(hours=2) + timedelta(minutes=index * 3)
    folder = layout.run(run_id).step(index, role)
    (folder / "logs").mkdir(parents=True)
    words = "\n".join(XSS) if run_id == RUN else text
    (folder / "logs" / "stdout.txt").write_text(f"\x1b[31m{words}\x1b[0m\n")
    row = StepRow(run_id, index, role, 1, "ok", layout.relative(folder), utc(begun))
    row = row._replace(ended_at=utc(begun + timedelta(minutes=2)), summary=text, agent=f"{role}er")
    used = UsageRow(run_id, index, f"{role}er", "gpt-5", 12_000, 4_000, 900, 0.12, 120.0)
    events = (Event(index + 1, utc(begun), "step_committed", text),)
    history = History((row,), events, usage=(used,) if role != "check" else ())
    store.advance(run_id, history, Cursor("running", 1, index), 1)


def desk(store: Store, now: datetime, texts: Sequence[str]) -> None:
    more, run = Action("resume", "max_iterations=10"), Subject("run", RUN)
    spent = f"{texts[0]}: max_iterations is 5"
    questions.ask(
        store, Question("budget", spent, run, (more, LEAVE), run_id=RUN), now - timedelta(days=1)
    )
    for text in texts:
        actions = (Action("answer", text), LEAVE)
        questions.ask(store, Question("question", text, actions=actions), now)


def messages(layout: Layout, store: Store, now: datetime, texts: Sequence[str]) -> None:
    for text in texts:
        inbox.send(layout, store, inbox.draft(text, None, None, {}), now)
    root = MessageRow("C-0", "C", 0, "done", "develop", None, None, None, None, 0, (RUN,), None,
                      utc(now), utc(now))  # fmt: skip
    store.add_message(root)
    child = root._replace(message_id="C-1", seq=1, parent="C-0", depth=1, status="dead")
    store.add_message(child._replace(reason=texts[0], run_ids=()))
    layout.inbox_dead.mkdir(parents=True)
    for number, text in enumerate(texts):
        name = f"{number}-{text.replace('/', '_')[:80]}.md"
        (layout.inbox_dead / name).write_text(text)
        reason = {"code": "fields_invalid", "message": text, "at": utc(now)}
        (layout.inbox_dead / f"{name}.reason.json").write_text(json.dumps(reason))
    layout.cron.mkdir(parents=True)
    (layout.cron / "nightly.md").write_text(f"---\ncron: 0 3 * * 1-5\ntz: UTC\n---\n{texts[0]}\n")
    (layout.cron / "wrong.md").write_text("---\ncron: 61 3 * * *\n---\nx\n")


def letters(layout: Layout, now: datetime, texts: Sequence[str]) -> None:
    for number, text in enumerate(texts):
        at = now - timedelta(minutes=number)
        mail.send(
            layout, Draft("ada", "human", "inform", f"## Summary\n{text}\n\n{text}", "T-1"), at
        )
    question = "## Summary\nWhich colour?\n\n## Options\n- red\n- blue\n"
    mail.send(layout, Draft("ada", "human", "question", question, "HELD"), now)
    mail.send(layout, Draft("bob", "ada", "inform", "Hello"), now)
    layout.mail.quarantine.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(texts):
        name = f"{number}-{text.replace('/', '_')[:80]}"
        (layout.mail.quarantine / name).write_text("?")
        reason = json.dumps({"file": name, "reason": text})
        (layout.mail.quarantine / f"{name}.reason.json").write_text(reason)


def mission(layout: Layout, texts: Sequence[str]) -> None:
    words = "\n\n".join(texts)
    folder = layout.missions / "auth"
    (folder / "tasks").mkdir(parents=True)
    (folder / "meta.json").write_text(json.dumps({"title": texts[0]}))
    (folder / "spec.md").write_text(f"{REAL_SPEC}\n{words}\n")
    (folder / "plan.md").write_text(REAL_PLAN)
    title = json.dumps(texts[0])
    refs = json.dumps(["FR-001", texts[0]])
    head = f"work_package_id: WP01\ntitle: {title}\nrequirement_refs: {refs}\n"
    head = f"---\n{head}---\n{words}\n"
    (folder / "tasks" / "WP01-one.md").write_text(head)
    unplanned = layout.missions / "later"
    unplanned.mkdir()
    (unplanned / "meta.json").write_text(json.dumps({"title": "Something later"}))
    (unplanned / "spec.md").write_text("# Later\n\n## Functional Requirements\n\nTBD\n")
    git(layout.root, "add", "missions")
    git(layout.root, "commit", "-q", "-m", "Write missions")
