"""Where an answer may stand in what a tool says, and in which order it is looked for."""

import json

import pytest

from treadle.agents import answer

GOOD = {"version": 1, "status": "ok", "summary": "done"}
TEXT = json.dumps(GOOD)
OTHER = json.dumps(GOOD | {"summary": "other"})


@pytest.mark.parametrize(
    ("text", "source"),
    [
        (TEXT, "whole"),
        (f"\n {TEXT} \n", "whole"),
        (f"Here it is:\n```json\n{TEXT}\n```\nBye.", "fence"),
        (f"```\n{OTHER}\n```\nand better:\n```json\n{TEXT}\n```", "fence"),
        (f"~~~\n{TEXT}\n~~~", "fence"),
        (f"````\nnever closed\n```json\r\n{TEXT}\n```\r\nBye.", "fence"),
        (f"I did it. {TEXT} That is all {{x}}.", "scan"),
        (f'{OTHER} {TEXT} {{"note": 1}}', "scan"),
        (f"```\nnot json\n```\n{TEXT}", "scan"),
    ],
)
def test_the_answer_is_found(tmp_path, text, source):
    found = answer.find(text, tmp_path)
    assert isinstance(found, answer.Answer)
    assert (found.source, found.response.summary) == (source, "done")


@pytest.mark.parametrize("noise", ["```x\n", "{", "{ ", '{"a'])
def test_a_flood_of_openings_holds_nobody_up(tmp_path, noise):
    found = answer.find(f"{noise * 200_000}\n{TEXT}", tmp_path)
    assert (found.source, found.response.summary) == ("scan", "done")


def test_structured_output_comes_first(tmp_path):
    found = answer.find(OTHER, tmp_path, GOOD)
    assert (found.source, found.response.summary) == ("schema", "done")


def test_a_file_left_by_the_agent_comes_last(tmp_path):
    (tmp_path / "output.json").write_text(TEXT)
    assert answer.find("All done!", tmp_path).source == "file"
    assert answer.find(OTHER, tmp_path).source == "whole"


def test_unknown_keys_are_kept(tmp_path):
    found = answer.find(json.dumps(GOOD | {"mood": "fine"}), tmp_path)
    assert found.document["mood"] == "fine"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("I could not decide.", "the last message"),
        ('{"version": 2, "status": "ok", "summary": "x"}', "the last message"),
        ('{"status": "ok", "summary": "x"}', "version is missing"),
        ('{"version": 1, "status": "ok", "summary": "x", "files": ["../up"]}', "../up"),
        ('{"a": ' * 5000, "nested deeper"),
        ("[1]", "expected a JSON object"),
        ('{"version": 1, "verdict": "PASS", "criteria": []}', "field `status`"),
    ],
)
def test_what_is_no_answer_says_why(tmp_path, text, words):
    found = answer.find(text, tmp_path)
    assert isinstance(found, str)
    assert words in found
