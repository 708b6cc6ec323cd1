"""Archives in a bucket, against an S3 server on this machine."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from treadle.engine.elsewhere import archive
from treadle.engine.elsewhere.archive import Shelf
from treadle.errors import FormatError, StoreError

pytestmark = pytest.mark.real


@pytest.fixture
def bucket(monkeypatch):
    """Return the address of a bucket, with credentials in the environment."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    pytest.importorskip("boto3").client("s3").create_bucket(Bucket="runs")
    yield "s3://runs/treadle"
    server.stop()


def test_a_bucket_keeps_archives_and_refuses_a_second_one_of_a_name(bucket):
    shelf = Shelf(bucket)
    assert shelf.put("runs/r/001-do.e1.tar", b"x" * 100_000)
    assert not shelf.put("runs/r/001-do.e1.tar", b"y")
    assert shelf.get("runs/r/001-do.e1.tar") == b"x" * 100_000
    assert shelf.names("runs/r/001-") == ["runs/r/001-do.e1.tar"]
    with pytest.raises(FormatError, match="has no runs/r/002"):
        shelf.get("runs/r/002")
    assert shelf.put("runs/r2/001-do.e1.tar", b"z")
    shelf.remove("runs/r/")
    assert shelf.names("runs/") == ["runs/r2/001-do.e1.tar"]


def test_a_bucket_that_is_not_there_is_named_without_its_keys(bucket):
    with pytest.raises(StoreError) as refused:
        Shelf("s3://elsewhere").put("a", b"x")
    assert refused.value.code == "artifacts_failed"
    assert "s3://elsewhere" in refused.value.message
    assert "hunter2" not in refused.value.message


def test_a_bucket_without_tls_is_refused_with_the_variable_that_allows_it(bucket, monkeypatch):
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    with pytest.raises(StoreError, match="only if AWS_ALLOW_HTTP says so") as refused:
        Shelf(bucket).put("a", b"x")
    assert refused.value.fix == ("export AWS_ALLOW_HTTP=true",)


class Losing(BaseHTTPRequestHandler):
    """A bucket that answers 200 to whatever it is given, and has nothing."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(200)

    def do_HEAD(self):
        self.answer(404)

    def answer(self, code):
        self.send_response(code)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def test_an_archive_that_a_bucket_took_and_lost_is_not_believed_to_be_kept(bucket, monkeypatch):
    name = "runs/r/001-do.e1.tar"
    with ThreadingHTTPServer(("127.0.0.1", 0), Losing) as server, monkeypatch.context() as there:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        there.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(StoreError, match="and does not have it") as lost:
            archive.put(Shelf(bucket), name, b"x")
        server.shutdown()
    assert lost.value.code == "artifacts_failed"  # as trouble that passes: it is tried again
    assert archive.put(Shelf(bucket), name, b"x").key == name
