"""`treadle serve` through the real command: the page, its links and its end."""

import http.client
import json
import signal

import pytest

from tests.builder import wait_for
from treadle.layout import Layout


@pytest.fixture
def served(project):
    process = project.start("serve", "--no-work", "--port", "0", "--json")
    yield json.loads(process.stdout.readline()), process
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 143
    assert "Traceback" not in process.stderr.read()
    process.stdout.close()
    process.stderr.close()


def get(url, path, **headers):
    host = url.split("/")[2]
    connection = http.client.HTTPConnection(host, timeout=120)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body.decode()


def enter(link):
    answer, _ = get(link, "/" + link.split("/", 3)[3])
    return answer.getheader("set-cookie").split(";")[0]


def test_the_link_opens_the_page_and_another_can_be_had(project, served):
    said, _ = served
    cookie = enter(said["link"])
    assert get(said["url"], "/runs.json", cookie=cookie)[1] == '{"runs":[],"weather":[]}'
    other = project.treadle("serve", "--link", "--json").json["link"]
    assert enter(other) == cookie
    assert get(said["url"], "/runs")[0].status == 401


def test_it_listens_on_this_machine_alone_and_dots_lead_nowhere(project, served):
    said, _ = served
    cookie = enter(said["link"])
    for path in ("/runs/../../../etc/passwd", "/static/../keys.py", "/static/%2e%2e/keys.py"):
        answer, body = get(said["url"], path, cookie=cookie)
        assert (answer.status, "class Keys" in body) == (404, False)
    port = int(said["url"].split(":")[2].strip("/"))
    with open("/proc/net/tcp") as table:
        listening = [line.split()[1] for line in table if line.split()[3] == "0A"]
        hosts = {place for place in listening if place.endswith(f":{port:04X}")}
    assert hosts == {f"0100007F:{port:04X}"}
    refused = project.treadle("serve", "--no-work", "--json")
    assert (refused.code, refused.json["error"]["code"]) == (75, "served")


def test_page_and_inbox_work_side_by_side(inbox):
    process = inbox.start("serve", "--port", "0", "--json")
    said = json.loads(process.stdout.readline())
    inbox.treadle("send", "hello")
    cookie = enter(said["link"])

    def passed():
        runs = json.loads(get(said["url"], "/runs.json", cookie=cookie)[1])["runs"]
        return [run for run in runs if run["status"] == "passed"]

    wait_for(passed)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == 143


def test_nobody_serves_nothing(project):
    refused = project.treadle("serve", "--link", "--json")
    assert (refused.code, refused.json["error"]["code"]) == (3, "not_served")
    assert project.treadle("serve", "--no-web", "--no-work").code == 2
    assert project.treadle("serve", "--no-web", "--read-only").code == 2  # it does no work


@pytest.mark.real
def test_a_round_that_fails_is_tried_again_and_the_page_stays(inbox):
    gate = inbox.folder / "open"
    command = json.dumps(["sh", "-c", f"test -e {gate}"])
    inbox.settings(f'default_routine = "log"\n[hooks]\nbeforeAll = {command}\n')
    inbox.treadle("send", "after the failure")
    process = inbox.start("serve", "--port", "0", "--json")
    said = json.loads(process.stdout.readline())
    heard = (line for line in process.stderr)
    assert any("the round failed" in line for line in heard)
    assert get(said["url"], "/runs", cookie=enter(said["link"]))[0].status == 200
    gate.touch()
    wait_for(lambda: (inbox.root / "log.txt").exists())
    end(process, 143)


@pytest.mark.real
def test_a_store_that_is_away_is_told_and_waited_for(inbox):
    log, store = inbox.root / "log.txt", Layout(inbox.root).database
    process = inbox.start("serve", "--port", "0", "--json")
    said = json.loads(process.stdout.readline())
    inbox.treadle("send", "before")
    wait_for(lambda: log.read_text().count("\n") == 1)
    away = store.rename(store.with_name("away"))
    store.mkdir()
    heard = (line for line in process.stderr)
    assert any("the round failed" in line for line in heard)
    assert get(said["url"], "/desk", cookie=enter(said["link"]))[0].status == 503
    store.rmdir()
    away.rename(store)
    inbox.treadle("send", "after")
    wait_for(lambda: log.read_text().count("\n") == 2)
    end(process, 143)


def test_a_page_that_cannot_answer_ends_with_the_reason(project):
    process = project.start("serve", "--no-work", "--port", "0", "--json")
    said = json.loads(process.stdout.readline())
    project.git("add", "-f", ".treadle/config.toml")
    (project.root / ".treadle" / "runs").mkdir(exist_ok=True)
    (project.root / ".treadle" / "runs" / "forged").write_text("")
    project.git("add", "-f", ".treadle/runs/forged")
    with pytest.raises(OSError):  # noqa: PT011  # however the connection ends
        get(said["url"], "/runs")
    assert process.wait(120) == 3
    assert "state_tracked" in process.stdout.read()
    process.stdout.close()
    process.stderr.close()


def end(process, code):
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == code
    process.stdout.close()
    process.stderr.close()
