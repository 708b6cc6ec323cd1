"""Runs reach an OpenTelemetry collector: workflow, agent and tool spans, and no words unasked."""

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.acceptance.site import Site
from tests.builder import wait_for

USAGE = '{"model": "m-1", "input_tokens": 70, "output_tokens": 5, "cost_usd": 0.5}'
DO = f'(repo / "done.txt").write_text("done"); ok(usage=json.loads({USAGE!r}))'
KINDS = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}


class Collector:
    """Takes what is sent as a collector does, and keeps it."""

    def __init__(self):
        self.status, self.got = 200, {path: [] for path in KINDS}
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                data = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    data = gzip.decompress(data)
                assert self.headers["Content-Type"] == "application/x-protobuf"
                if collector.status == 200:
                    collector.got[self.path].append(KINDS[self.path].FromString(data))
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.env = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.server.server_address[1]}"
        }

    @property
    def spans(self):
        resources = (it for sent in self.got["/v1/traces"] for it in sent.resource_spans)
        return [span for it in resources for scope in it.scope_spans for span in scope.spans]

    @property
    def metrics(self):
        resources = (it for sent in self.got["/v1/metrics"] for it in sent.resource_metrics)
        return [item for it in resources for scope in it.scope_metrics for item in scope.metrics]


@pytest.fixture
def collector():
    found = Collector()
    yield found
    found.server.shutdown()
    found.server.server_close()


def told(span):
    values = {item.key: item.value for item in span.attributes}
    return {key: getattr(value, value.WhichOneof("value")) for key, value in values.items()}


@pytest.mark.real
def test_a_run_is_a_trace_of_agents_and_tools(project, collector):
    site = Site(project)
    project.agent("do", f"write('prompt.md', 'planted')\n{DO}", edits=True)
    goal, words = "Make the secret thing", ("--verify", "AC1=test -f done.txt", "--json")
    run = project.treadle("run", "--goal", goal, *words, env=collector.env).json
    assert run["status"] == "passed", run
    wait_for(lambda: collector.metrics and collector.spans)
    spans = {span.name: span for span in collector.spans}
    (top,) = [span for span in collector.spans if span.name.startswith("invoke_workflow")]
    work = spans["invoke_agent do"]
    checks = [span for span in collector.spans if span.name == "execute_tool AC1"]
    assert {span.trace_id for span in collector.spans} == {top.trace_id}
    assert work.parent_span_id == top.span_id
    assert {check.parent_span_id for check in checks} <= {it.span_id for it in collector.spans}
    assert top.start_time_unix_nano <= work.start_time_unix_nano <= work.end_time_unix_nano
    assert told(top)["gen_ai.operation.name"] == "invoke_workflow"
    assert told(top)["treadle.status"] == "passed"
    about = told(work)
    assert (about["gen_ai.request.model"], about["treadle.cost_usd"]) == ("m-1", 0.5)
    assert about["gen_ai.usage.input_tokens"] == 70
    assert {told(check)["treadle.passed"] for check in checks} >= {True}
    sent = b"".join(it.SerializeToString() for it in collector.got["/v1/traces"])
    assert b"secret thing" not in sent
    assert b"done.txt" not in sent
    tokens = next(it for it in collector.metrics if it.name == "gen_ai.client.token.usage")
    assert sorted(point.sum for point in tokens.histogram.data_points) == [5, 70]
    cost = next(it for it in collector.metrics if it.name == "treadle.cost")
    assert [point.as_double for point in cost.sum.data_points] == [0.5]

    # What was sent is not sent again; what somebody asks for goes out with its words.
    again = project.treadle("telemetry", run["run_id"], "--json", env=collector.env)
    assert (again.code, again.json["spans"]) == (0, 1)
    site.commit("more.txt", "x")
    open_ = {**collector.env, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}
    run = project.treadle("run", "--goal", goal, "--anyway", *words, env=open_).json
    wait_for(lambda: any(told(span).get("treadle.goal") == goal for span in collector.spans))
    sent = b"".join(it.SerializeToString() for it in collector.got["/v1/traces"])
    assert b"planted" not in sent  # a file of the agent's is no prompt of ours
    collector.status = 400
    failed = project.treadle("telemetry", run["run_id"], "--json", env=collector.env)
    assert (failed.code, "traces" in failed.json["error"]) == (1, True)
    assert "notice_failed" in _after(project, run["run_id"])
    nowhere = project.treadle("telemetry", run["run_id"], "--json").json["error"]
    assert nowhere["code"] == "no_collector"


def _after(project, run_id):
    project.treadle("runs", "prune")
    return project.event_types(run_id)
