"""Secrets do not come through, whatever they are written as."""

import base64
import json
import random
import string
from urllib.parse import quote, quote_plus

import pytest

from treadle.sandbox.mask import MASKED, Mask

ODD = 'p@ss w"ör/d\n99+%'
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNza\nAAAA\n-----END OPENSSH PRIVATE KEY-----"


def canaries(count=100):
    chance = random.Random(7)
    letters = string.ascii_letters + string.digits + "_-+/=!@#$%&*"
    return {
        f"CANARY_{n}_TOKEN": "".join(chance.choices(letters, k=chance.randint(12, 80)))
        for n in range(count)
    }


FORMS = {
    "plain": lambda text: text,
    "JSON": lambda text: json.dumps({"k": text}),
    "JSON with Unicode": lambda text: json.dumps({"k": text}, ensure_ascii=False),
    "JSON in JSON": lambda text: json.dumps(json.dumps(text)),
    "URL": lambda text: quote(text, safe=""),
    "form": quote_plus,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 in a longer text": lambda text: base64.b64encode(b"ab" + text.encode() + b"c").decode(),
    "base64 in lines": lambda text: base64.encodebytes(b"x" * 50 + text.encode()).decode(),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "hex": lambda text: text.encode().hex(),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_hundred_canaries_in_a_file(tmp_path, form):
    env = canaries()
    mask, log = Mask(env), tmp_path / "log.txt"
    written = [FORMS[form](value) for value in env.values()]
    log.write_text("".join(f"line {n}: {text}\n" for n, text in enumerate(written)))
    mask.file(log)
    left = log.read_text()
    assert left.count(MASKED) >= 100
    assert [value for value in env.values() if value in left] == []
    cores = [text[4:-8] for text in written if len(text) > 40]
    assert [core for core in cores if core in left] == []


@pytest.mark.parametrize("form", FORMS)
def test_an_odd_value(form):
    text = Mask({"MY_SECRET": ODD}).text(f"before {FORMS[form](ODD)} after")
    assert MASKED in text
    assert text.startswith("before ")
    assert text.endswith(" after")


def test_a_file_larger_than_memory_is_masked_and_stays_as_sparse(tmp_path):
    path, value = tmp_path / "huge.log", "s3cr3t-value-of-nobody"
    with path.open("wb") as file:
        file.write(f"first {value}\n".encode())
        file.seek(3 << 30)
        file.write(f"last {value}, and on\n".encode())
        file.truncate(4 << 30)
    Mask({"A_TOKEN": value}).file(path)
    masked = f"first {MASKED}\n".encode()
    gone = len(value) - len(MASKED)
    with path.open("rb") as file:
        assert file.read(len(masked) + 1) == masked + b"\0"
        file.seek((3 << 30) - gone)
        assert file.read(30).rstrip(b"\0") == f"last {MASKED}, and on\n".encode()
    assert path.stat().st_size == (4 << 30) - 2 * gone
    assert path.stat().st_blocks < 10_000  # of 512 bytes


def test_a_value_across_two_windows(tmp_path):
    log = tmp_path / "big.txt"
    log.write_bytes(b"x" * ((1 << 20) - 5) + b"sesame-open-0815" + b"y" * 100)
    Mask({"DOOR_PASSWORD": "sesame-open-0815"}).file(log)
    assert b"sesame" not in log.read_bytes()
    assert log.stat().st_size == (1 << 20) - 5 + len(MASKED) + 100


SHAPES = [
    "ghp_" + "a1" * 18, "github_pat_" + "a" * 30, "sk-ant-" + "b" * 30, "AKIA" + "A1" * 8,
    "xoxb-123456789012-abc", "glpat-" + "c" * 20, "AIza" + "d" * 35, "npm_" + "e" * 36, KEY,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijklmnop",
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_known_kinds_of_tokens(shape):
    assert Mask({}).text(f"got {shape}!") == f"got {MASKED}!"


@pytest.mark.parametrize("text", ["task-" + "a" * 30, "sk-short", "eyJ is a word", "ghp_no"])
def test_what_is_no_token_stays(text):
    assert Mask({}).text(text) == text


def test_names_that_are_no_secrets_and_short_values_stay():
    env = {"EDITOR": "a-long-value", "MY_TOKEN": "short"}
    assert Mask(env).text("a-long-value short") == "a-long-value short"


def test_a_diff_keeps_what_only_looks_like_a_token(tmp_path):
    diff = tmp_path / "patch.diff"
    text = f"+token = {SHAPES[0]} {SHAPES[4]} sesame-open-0815\n"
    diff.write_text(text)
    Mask({"X_TOKEN": "sesame-open-0815"}).file(diff)
    assert diff.read_text() == text.replace("sesame-open-0815", MASKED)


def test_values_in_documents():
    mask = Mask({"X_TOKEN": "sesame-open-0815"})
    assert mask.value({"a": ["sesame-open-0815", 1], "b": None}) == {"a": [MASKED, 1], "b": None}


@pytest.mark.parametrize("flood", ["eyJ", "-----BEGIN PRIVATE KEY-----\n", "xsk-", "ghp_", "."])
def test_a_flood_of_beginnings_holds_nobody_up(flood):
    text = flood * 50_000
    assert Mask({}).text(f"{text} {SHAPES[0]}") == f"{text} {MASKED}"


def test_half_a_character_is_no_obstacle():
    text = "cut off \ud83d, sesame-open-0815"
    assert Mask({"X_TOKEN": "sesame-open-0815"}).text(text) == f"cut off \ufffd, {MASKED}"
