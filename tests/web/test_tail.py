"""What an agent does, as the page shows it."""

import json

from treadle.web import tail


def test_events_of_a_tool_are_lines_for_people(tmp_path):
    line = {"ts": "2026-01-22T12:00:01Z", "type": "agent_event", "kind": "tool_end"}
    text = json.dumps(line | {"message": "exit 0: <b>ls</b>"}) + "\n" + '{"ts": "20'
    (tmp_path / "events.jsonl").write_text(text)
    (shown,) = tail.of_folder(tmp_path, ["events.jsonl", "stderr.txt"])
    assert shown.text == "12:00:01 tool_end   exit 0: &lt;b&gt;ls&lt;/b&gt;"
