"""Tell the user of what ended or waits, in a process of its own that holds nobody up."""

import json
from collections.abc import Mapping
from datetime import datetime
from importlib.util import find_spec

from treadle.config.schema import NoticeKind, NotifyConfig
from treadle.contract.events import EventType, NewEvent
from treadle.engine.run import memory, resume
from treadle.engine.run.run import Run, Tools
from treadle.engine.show import ends, status, view
from treadle.errors import BlockedError, FormatError, install_extra
from treadle.ids import utc
from treadle.layout import Layout
from treadle.proc import environment, helper
from treadle.store.questions import QuestionRow
from treadle.store.store import Reader
from treadle.tasks import questions
from treadle.text import line, plural

FAILED = "notice_failed"  # the key under which a delivery leaves why it failed
COLLECTOR = "OTEL_EXPORTER_OTLP_ENDPOINT"
_GOAL = 200
_RUNS = 100


def is_told(tools: Tools) -> bool:
    """Tell whether anybody hears of the end of a run."""
    return _is_on(tools) or has_collector(tools.env)


def run_ended(run: Run) -> None:
    """Tell that a run has ended, or what it asks where it asks something."""
    wanted = _settings(run.tools).on if _is_on(run.tools) else ()
    asked = [row for row in run.tools.store.questions() if row.run_id == run.id]
    if asked and "question" in wanted:
        for row in asked:
            _start(run.tools, "question", _of_question(row) | _of_run(run.tools, run.id))
    elif "run_ended" in wanted:
        _start(run.tools, "run_ended", _of_run(run.tools, run.id))


def has_collector(env: Mapping[str, str]) -> bool:
    """Tell whether the user has an OpenTelemetry collector to which runs should be told."""
    return bool(env.get(COLLECTOR))


def export_run(run: Run) -> None:
    """Send a run that has ended to the collector, if there is one, and go on at once."""
    tools = run.tools
    if not has_collector(tools.env):
        return
    if find_spec("opentelemetry") is None:
        needs = f"the extra `otel`, which is not installed: {install_extra('otel')}"
        tools.note(run.id, f"{COLLECTOR} is set, and needs {needs}")
        return
    words = environment.treadle_command(["telemetry", run.id], tools.layout.root, tools.env)
    helper.detach(*words, 0)


def asked_since(tools: Tools, since: datetime) -> None:
    """Tell what was asked since a moment about anything but a run; of runs their ends tell."""
    if not _is_on(tools) or "question" not in _settings(tools).on:
        return
    for row in tools.store.questions():
        if row.run_id is None and row.created_at >= utc(since):
            _start(tools, "question", _of_question(row))


def work_ended(tools: Tools, since: datetime, what: str) -> None:
    """Sum up what was done since a moment, when a pass, a night or `serve` is over."""
    if _is_on(tools) and "night_ended" in _settings(tools).on:
        told = digest(tools.layout, tools.store, since)
        if told["runs"] or told["questions"]:
            _start(tools, "night_ended", told | {"text": f"{what}: {told['text']}", "what": what})


def digest(layout: Layout, store: Reader, since: datetime) -> dict[str, object]:
    """Return what ended since a moment, what waits for a person and what it has cost."""
    counts, asked = status.ended_since(store, since), store.questions()
    rows = [row for row in store.runs(_RUNS) if (row.ended_at or "") >= utc(since)]
    waits = [*map(_of_question, asked)]
    left = len(ends.unlanded(store))
    words = [f"{counts[word]} {word}" for word in ("passed", "failed", "stopped") if counts[word]]
    words += [f"{left} not landed"] if left else []
    words += [f"{plural(len(asked), 'question')} for you"] if asked else []
    return {
        "text": ", ".join(words) or "nothing happened",
        **counts,
        "runs": [_brief(layout, store, row.run_id) for row in reversed(rows)],
        "questions": waits,
        "unlanded": left,
    }


def send(layout: Layout, env: Mapping[str, str], told: Mapping[str, object]) -> None:
    """Start the delivery of a notice and go on at once."""
    words = environment.treadle_command(["notify", "--document", "-"], layout.root, env)
    helper.detach(*words, 0, json.dumps(told, default=str).encode())


def take_failures(tools: Tools) -> None:
    """Write into the timelines what deliveries have left there."""
    for run_id in tools.store.runs_with_key(FAILED):
        row = tools.store.run(run_id)
        left = tools.store.kv_value(run_id, FAILED)
        if row is None or row.owner or not isinstance(left, dict):
            continue
        try:
            run = resume.take_over(tools, row)
        except (BlockedError, FormatError):  # its folder is gone or damaged
            continue
        event = NewEvent(EventType.NOTICE_FAILED, str(left.get("message")), left)
        others = {key: value for key, value in run.memory.others.items() if key != FAILED}
        run.record(event, others=others)
        tools.store.release(run.id, run.row.claim_epoch)


def _is_on(tools: Tools) -> bool:
    return bool(_settings(tools).command or _settings(tools).webhook)


def _settings(tools: Tools) -> NotifyConfig:
    return tools.project.settings.config.notify


def _start(tools: Tools, kind: NoticeKind, told: Mapping[str, object]) -> None:
    send(tools.layout, tools.env, {"kind": kind, **told})


def _of_question(row: QuestionRow) -> dict[str, object]:
    text = f"{row.question_id} waits for you: {line(row.summary)[:_GOAL]}"
    return {"text": text, "question": questions.item_document(row)}


def _of_run(tools: Tools, run_id: str) -> dict[str, object]:
    told = _brief(tools.layout, tools.store, run_id)
    goal, word = str(told["goal"]), str(told["status"])
    why = f" ({told['reason']})" if told["reason"] and word != "passed" else ""
    return {"text": f"{word}: {goal}{why}", **told} | {"run": told}


def _brief(layout: Layout, store: Reader, run_id: str) -> dict[str, object]:
    row = store.run(run_id)
    assert row is not None
    known = memory.recall(store, run_id)
    passed, total = view.counts(view.criteria(layout, store, row))
    return {
        **{"run_id": run_id, "task_id": row.task_id, "spec": ends.spec_of(store, row)},
        **{"goal": line(row.goal)[:_GOAL], "status": row.status, "verdict": row.verdict},
        **{"reason": known.reason, "reason_code": known.reason_code},
        **{"criteria": total, "criteria_passed": passed},
        "cost_usd": round(known.spent.cost_usd, 6) if known.spent else 0.0,
        "landed": known.landed_commit,
        "pull_request": known.pull and known.pull.url,
        "next": list(memory.next_commands(row, known)),
    }
