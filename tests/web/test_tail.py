"""What an agent does, as the page shows it."""

import json

from treadle.sandbox.mask import Mask
from treadle.web import foreign


def test_events_of_a_tool_are_lines_for_people(tmp_path):
    line = {"ts": "2026-01-22T12:00:01Z", "type": "agent_event", "kind": "tool_end"}
    text = json.dumps(line | {"message": "exit 0: <b>ls</b>"}) + "\n" + '{"ts": "20'
    (tmp_path / "events.jsonl").write_text(text)
    (shown,) = foreign.tails_of_folder(tmp_path, ["events.jsonl", "stderr.txt"], Mask({}))
    assert shown.text == "12:00:01 tool_end   exit 0: &lt;b&gt;ls&lt;/b&gt;"


def test_what_is_being_written_shows_no_secret(tmp_path):
    mask, secret = Mask({"DOOR_PASSWORD": "sesame-open-0815"}), "sesame-open-0815"
    (tmp_path / "live").mkdir()
    log = tmp_path / "live" / "stderr.txt"
    for end in range(len(secret) + 1):  # as it comes, sign by sign
        log.write_text(f"before\nthe door: {secret[:end]}")
        (shown,) = foreign.tails_of_folder(tmp_path, ["live/stderr.txt"], mask)
        assert shown.text == "before\n"
    log.write_text(f"before\nthe door: {secret}\n")
    assert foreign.tails_of_folder(tmp_path, ["live/stderr.txt"], mask)[0].text.endswith(
        "[masked]\n"
    )


def test_a_key_that_began_before_the_end_shows_none_of_it(tmp_path):
    body = "\n".join(["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"] * 20)
    key = f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n"
    filler = "x\n" * (((64 << 10) - len(key) // 2) // 2)
    (tmp_path / "log.txt").write_text("y\n" * (64 << 10) + key + filler)
    (shown,) = foreign.tails_of_folder(tmp_path, ["log.txt"], Mask({}))
    assert "MIIEv" not in shown.text
