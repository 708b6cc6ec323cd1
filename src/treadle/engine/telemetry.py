"""Tell OpenTelemetry what a run did, by the conventions for generative AI, once it has ended.

A run is a workflow span, a step an agent span, a check a tool span. Their ids follow from the
run's, so that what a resumed run adds joins the same trace.
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    InMemoryMetricReader,
    MetricExportResult,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import Span, Status, StatusCode, Tracer, set_span_in_context

from treadle import __version__
from treadle.engine.run import memory
from treadle.files import walk
from treadle.layout import PROMPT
from treadle.project.context import Context
from treadle.sandbox.mask import Mask
from treadle.store.runs import CheckRow, RunRow, StepRow, UsageRow
from treadle.store.store import Reader
from treadle.text import block

MARK = "telemetry"  # the key under which a run has what of it was sent
_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_MAX_PROMPT = 64 << 10
_NANO = 1_000_000_000
_OPERATION = "gen_ai.operation.name"
_MODEL = "gen_ai.request.model"

Value = str | int | float | bool


class Exported(NamedTuple):
    """How many spans went out, the last step among them, and why something did not arrive."""

    spans: int
    last_step: int
    error: str = ""


class _Ids(IdGenerator):
    """Gives each span of a run the id that its name stands for."""

    def __init__(self, run_id: str) -> None:
        self._run_id, self.name = run_id, ""

    def generate_trace_id(self) -> int:
        return self._digest("trace", 16)

    def generate_span_id(self) -> int:
        return self._digest(self.name, 8)

    def _digest(self, name: str, size: int) -> int:
        found = hashlib.sha256(f"{self._run_id}/{name}".encode()).digest()
        return int.from_bytes(found[:size], "big") or 1


def export(project: Context, store: Reader, row: RunRow) -> Exported:
    """Send the spans and the figures of a run, as far as they were not sent before."""
    told = store.kv_value(row.run_id, MARK)
    before = told.get("step") if isinstance(told, dict) else 0
    after = before if isinstance(before, int) else 0
    steps = [step for step in store.steps(row.run_id) if step.step_index > after]
    where = {"service.version": __version__, "service.instance.id": row.run_id}
    resource = Resource.create({"service.name": "treadle", **where, **_service(project)})
    kept, ids = InMemorySpanExporter(), _Ids(row.run_id)
    provider = TracerProvider(resource=resource, id_generator=ids, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    writer = _Writer(project, store, row, provider.get_tracer("treadle", __version__), ids)
    writer.write(steps)
    spans = kept.get_finished_spans()
    failed = []
    if OTLPSpanExporter().export(spans) is not SpanExportResult.SUCCESS:
        failed.append("traces")
    if not _send_figures(resource, store, row, steps):
        failed.append("metrics")
    why = f"the collector did not accept {' and '.join(failed)}" if failed else ""
    return Exported(len(spans), steps[-1].step_index if steps else after, why)


def _service(project: Context) -> dict[str, Value]:
    named = project.env.get("OTEL_SERVICE_NAME")
    return {"service.name": named} if named else {}


class _Writer(NamedTuple):
    """Writes spans with the times at which things happened."""

    project: Context
    store: Reader
    row: RunRow
    tracer: Tracer
    ids: _Ids

    def write(self, steps: list[StepRow]) -> None:
        """Write the run, and below it these steps with their checks."""
        row, known = self.row, memory.recall(self.store, self.row.run_id)
        name = row.routine or "treadle"
        about: dict[str, Value | None] = {
            _OPERATION: "invoke_workflow",
            "gen_ai.workflow.name": name,
            "gen_ai.conversation.id": row.run_id,
            "treadle.status": row.status,
            "treadle.verdict": row.verdict,
            "treadle.iterations": row.iteration,
            "treadle.reason": known.reason_code,
            "treadle.task": row.task_id,
            "treadle.cost_usd": known.spent.cost_usd if known.spent else 0.0,
            "treadle.goal": self._text(row.goal) if self._tells else None,
        }
        span = self._begin("run", f"invoke_workflow {name}", None, row.created_at, about)
        usage = {item.step_index: item for item in self.store.usage(row.run_id)}
        checks = self.store.checks(row.run_id)
        for step in steps:
            found = [check for check in checks if check.step_index == step.step_index]
            self._step(span, step, usage.get(step.step_index), found)
        self._end(span, row.ended_at or row.created_at, row.status == "failed", known.reason_code)

    def _step(
        self, run: Span, step: StepRow, used: UsageRow | None, checks: list[CheckRow]
    ) -> None:
        about: dict[str, Value | None] = {
            _OPERATION: "invoke_agent",
            "gen_ai.agent.name": step.agent,
            _MODEL: used.model if used else None,
            "gen_ai.usage.input_tokens": used.input_tokens if used else None,
            "gen_ai.usage.cache_read.input_tokens": used.cached_tokens if used else None,
            "gen_ai.usage.output_tokens": used.output_tokens if used else None,
            "treadle.cost_usd": used.cost_usd if used else None,
            "treadle.role": step.role,
            "treadle.iteration": step.iteration,
            "treadle.sandbox_tier": step.sandbox_tier,
            "gen_ai.input.messages": self._prompt(step) if self._tells else None,
        }
        name, key = f"invoke_agent {step.agent or step.role}", f"step-{step.step_index}"
        span = self._begin(key, name, run, step.started_at, about)
        at = _nanoseconds(step.started_at)
        for number, check in enumerate(checks):
            end = at + int(check.seconds * _NANO)
            self._check(span, f"{key}-{number}", check, at, end)
            at = end
        over = step.ended_at or step.started_at
        self._end(span, over, step.status == "fail", step.error_code)

    def _check(self, step: Span, key: str, check: CheckRow, begin: int, end: int) -> None:
        about: dict[str, Value | None] = {
            _OPERATION: "execute_tool",
            "gen_ai.tool.name": check.criterion_id,
            "gen_ai.tool.type": "extension",
            "treadle.phase": check.phase,
            "treadle.passed": check.passed,
            "treadle.exit_code": check.exit_code,
            "treadle.command": self._text(check.command) if self._tells else None,
        }
        name = f"execute_tool {check.criterion_id}"
        span = self._begin(key, name, step, begin, about)
        self._end(span, end, not check.passed, f"exit_{check.exit_code}")

    def _begin(
        self,
        key: str,
        name: str,
        above: Span | None,
        at: str | int,
        about: Mapping[str, Value | None],
    ) -> Span:
        self.ids.name = key
        known = {key: value for key, value in about.items() if value is not None}
        context = set_span_in_context(above) if above else None
        begin = at if isinstance(at, int) else _nanoseconds(at)
        return self.tracer.start_span(name, context, attributes=known, start_time=begin)

    def _end(self, span: Span, at: str | int, is_wrong: bool, why: str | None) -> None:
        if is_wrong:
            span.set_attribute("error.type", why or "_OTHER")
            span.set_status(Status(StatusCode.ERROR, why))
        span.end(at if isinstance(at, int) else _nanoseconds(at))

    @property
    def _tells(self) -> bool:
        """Tell whether the user wants what was said to go out, too."""
        return self.project.env.get(_CONTENT, "").lower() in ("1", "true")

    def _prompt(self, step: StepRow) -> str | None:
        folder = self.project.layout.shared / step.step_dir
        text = walk.tail(folder / "logs" / PROMPT, _MAX_PROMPT)  # another one is the agent's
        part = {"type": "text", "content": self._text(text)}
        return json.dumps([{"role": "user", "parts": [part]}]) if text else None

    def _text(self, text: str) -> str:
        return Mask(self.project.secrets).text(block(text))


def _send_figures(resource: Resource, store: Reader, row: RunRow, steps: list[StepRow]) -> bool:
    """Send tokens, money and durations of these steps; each is told once, as a difference."""
    kinds: tuple[type, ...] = (Counter, Histogram)
    once = dict.fromkeys(kinds, AggregationTemporality.DELTA)
    reader = InMemoryMetricReader(preferred_temporality=once)
    provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
    meter = provider.get_meter("treadle", __version__)
    tokens = meter.create_histogram("gen_ai.client.token.usage", "{token}", "Tokens used")
    lasted = meter.create_histogram("gen_ai.client.operation.duration", "s", "Duration of steps")
    cost = meter.create_counter("treadle.cost", "{USD}", "What agents cost")
    indexes = {step.step_index for step in steps}
    for step in steps:
        about: dict[str, Value] = {_OPERATION: "invoke_agent", "gen_ai.agent.name": str(step.agent)}
        seconds = _nanoseconds(step.ended_at or step.started_at) - _nanoseconds(step.started_at)
        lasted.record(max(seconds, 0) / _NANO, about)
    for used in (item for item in store.usage(row.run_id) if item.step_index in indexes):
        about = {_OPERATION: "invoke_agent", "gen_ai.agent.name": used.agent}
        about |= {_MODEL: used.model} if used.model else {}
        for kind, count in (("input", used.input_tokens), ("output", used.output_tokens)):
            if count:
                tokens.record(count, about | {"gen_ai.token.type": kind})
        if used.cost_usd:
            cost.add(used.cost_usd, about)
    data = reader.get_metrics_data()
    return data is None or OTLPMetricExporter().export(data) is MetricExportResult.SUCCESS


def _nanoseconds(at: str) -> int:
    return int(datetime.fromisoformat(at).timestamp() * 1_000_000) * 1000
