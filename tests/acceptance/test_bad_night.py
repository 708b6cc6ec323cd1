"""The bad night: outages of every kind and a kill, and in the morning everything has passed."""

import json
import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.acceptance.messages import spec
from tests.agents import fake
from tests.builder import wait_for

pytestmark = pytest.mark.real
ANSWER = {"version": 1, "status": "ok", "summary": "done"}
CODEX = [
    {"type": "thread.started"},
    {"type": "item.completed", "item": {"type": "agent_message", "text": json.dumps(ANSWER)}},
    {"type": "turn.completed", "usage": {"input_tokens": 10, "output_tokens": 5}},
]
CLAUDE = [
    {
        "type": "result",
        "is_error": False,
        "usage": {"input_tokens": 10, "output_tokens": 5},
        "total_cost_usd": 0.25,
        "structured_output": ANSWER,
    }
]
GEMINI = [
    {"type": "init", "session_id": "s"},
    {"type": "message", "role": "assistant", "content": json.dumps(ANSWER)},
    {"type": "result", "status": "success", "stats": {"input_tokens": 10, "output_tokens": 5}},
]
SCRIBE = ["Cost: 0.125", f"```json\n{json.dumps(ANSWER)}\n```"]
USED = "Cost: (?P<cost>[0-9.]+)"
VERDICT = {"version": 1, "verdict": "PASS", "criteria": [{"id": "AC1", "pass": True}]}
JUDGE = f"""cd "${{TREADLE_LETTERS%/*}}" || exit 1
echo '{json.dumps(VERDICT)}' > verdict.json
echo PASS > scorecard.md"""
SCRIPT = """cat > /dev/null
line=$(head -n 1 {plan} 2>/dev/null)
case "$line" in
  login) if [ ! -e {folder}/logged-in ]; then
      echo '401 Unauthorized: please log in again' >&2; exit 1
    fi ;;
esac
sed -i 1d {plan}
case "$line" in
  529) echo '529 overloaded_error: Overloaded' >&2; exit 1 ;;
  limit) echo 'You have hit your usage limit; try again in 2 seconds' >&2; exit 1 ;;
  stall) exec sleep 600 ;;
esac
echo {tool} >> {folder}/paid
{work}
cat {answer}
"""


def tool(project, name, answer, *night, work=""):
    """Let shell be a tool that goes through these troubles, one a call, and works in between."""
    plan, said = project.folder / f"{name}.plan", project.folder / f"{name}.jsonl"
    plan.write_text("".join(f"{word}\n" for word in night))
    said.write_text("".join(f"{it if isinstance(it, str) else json.dumps(it)}\n" for it in answer))
    names = {"tool": name, "plan": plan, "folder": project.folder, "answer": said, "work": work}
    project.env["PATH"] = fake.program(project.folder, name, SCRIPT.format(**names))


def serve(project):
    return project.start("serve", "--no-web")


def desk(project):
    return project.treadle("desk", "--json").json["items"]


def kill(server):
    """Kill `serve` and the round that it has begun, as a machine that goes down would."""
    server.send_signal(signal.SIGSTOP)
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    for pid in (*map(int, children), server.pid):
        os.kill(pid, signal.SIGKILL)
    server.communicate()


def test_in_the_morning_everything_has_passed_and_nothing_was_paid_for_twice(project):
    tool(project, "claude", CLAUDE, "ok", "login")
    night = ("529", "529", "529", "ok", "limit", "ok", "ok")
    tool(project, "gemini", GEMINI, *night, work=JUDGE)
    make = "touch made-$TREADLE_RUN\n"
    tool(project, "codex", CODEX, "529", "529", "ok", "stall", "ok", work=make)
    tool(project, "scribe", SCRIBE, "529", "limit", "ok", work=make)
    shared = "retry_wait = 0.2\npatience = 90\n"
    project.config["plan"] = 'type = "claude"\n' + shared
    project.config["do"] = f'type = "codex"\nidle_timeout = 3\n{shared}'
    project.config["check"] = f'type = "gemini"\n{shared}'
    project.config["mine"] = f"type = 'command'\ncmd = ['scribe']\nusage = '{USED}'\n{shared}"
    project.settings('sandbox = "off"\n')
    names = ("01-a", "02-b", "03-c")
    for name in names:
        head = "---\nagents:\n  do: mine\n---\n" if name == "03-c" else ""
        text = f"# {name}\n\n## Acceptance Criteria\n- there: `$ test -f made-$TREADLE_RUN`\n"
        spec(project, f"{name}.spec.md", head + text)
    first = serve(project)
    wait_for(lambda: [it for it in desk(project) if it["subject"]["id"] == "claude"])
    kill(first)
    (item,) = desk(project)
    assert item["subject"] == {"kind": "agent", "id": "claude"}
    assert "401 Unauthorized" in item["summary"], "what waits says why"
    (project.folder / "logged-in").touch()
    second = serve(project)
    listed = project.root / "specs" / "processed-spec.md"
    try:
        wait_for(lambda: listed.exists() and all(it in listed.read_text() for it in names))
    finally:
        second.terminate()
        out = second.communicate(timeout=60)
    paid = (project.folder / "paid").read_text().split()
    assert Counter(paid) == {"claude": 3, "codex": 2, "gemini": 3, "scribe": 1}, out
    runs = project.treadle("runs", "list", "--json").json["runs"]
    assert [run["status"] for run in runs] == ["passed"] * 3
    assert desk(project) == []
    today = project.treadle("status", "--json").json["today"]
    assert (today["runs"], today["cost_usd"]) == (3, 0.875)
