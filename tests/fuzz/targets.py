"""Every parser of something a stranger wrote: any bytes are read, or refused in words."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from treadle import ids
from treadle.config import check, read
from treadle.contract import response, strictjson, verdict
from treadle.errors import TreadleError
from treadle.frontmatter import parse, rewrite
from treadle.git import patch, rules
from treadle.mail import letter
from treadle.sandbox.mask import Mask


class Target(NamedTuple):
    """One parser, and inputs it knows, to begin from."""

    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]


_SCRATCH = Path(tempfile.gettempdir())
_MASK = Mask({"MY_TOKEN": "sesame-open-0815", "B_SECRET": 'p@ss w"ord\n99'})


def attempt(target: Target, data: bytes) -> None:
    """Feed a parser; only an error of treadle's own, with a sentence, may come out."""
    try:
        target.read(data)
    except TreadleError as error:
        if not error.message.strip().encode():
            raise ValueError("an error without a sentence") from error


def _ids(data: bytes) -> None:
    text = data.decode(errors="surrogateescape")
    for accepts in (ids.is_run_id, ids.is_task_id, ids.is_criterion_id):
        if accepts(text):
            assert text.isascii()
            assert not set(text) & set("/\\\0\n ")
            assert text not in (".", "..")
    ids.nearest(text[:40], ["plan", "check"])


def _patch(data: bytes) -> None:
    patch.oddity(data)
    patch.broken_rule(data)
    patch.is_relative_to_root(data, "src")
    name = data.decode(errors="surrogateescape")
    if rules.forbidden(name) is None:
        assert ".." not in name.split("/")
    rules.unwelcome(name)


def _config(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".toml", dir=_SCRATCH) as file:
        file.write(data)
        file.flush()
        check.leaves(read.read(Path(file.name), name="config.toml"), "config.toml")


def _frontmatter(data: bytes) -> None:
    parse.read(data)
    once = rewrite.set_fields(data, {"chain": "2025022514320000", "seq": "0"})
    assert rewrite.set_fields(once, {"chain": "2025022514320000", "seq": "0"}) == once


def _mask(data: bytes) -> None:
    text = data.decode(errors="surrogateescape")
    masked = _MASK.text(text)
    assert "sesame-open-0815" not in masked
    masked.encode(errors="surrogateescape")


TARGETS = {
    "json": Target(
        lambda data: strictjson.loads(data, source="it"),
        (b'{"a": [1, 2.5, "x", null, true]}', b"[" * 40, b'{"a": 1, "a": 2}', b"NaN", b'"\\ud800"'),
    ),
    "response": Target(
        lambda data: response.parse(data, source="stdout"),
        (b'{"version": 1, "status": "ok", "summary": "s", "files": ["a/b"]}',),
    ),
    "verdict": Target(
        lambda data: verdict.parse(data, source="verdict.json", asked={"AC1", "AC2"}),
        (b'{"version": 1, "verdict": "PASS", "criteria": [{"id": "AC1", "pass": true}]}',),
    ),
    "patch": Target(
        _patch,
        (
            b"diff --git a/x b/x\nnew mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+x\n",
            b'diff --git "a/\\303\\244" b/.git/config\nrename from ../x\nrename to /etc/passwd\n',
            b'diff --git "a/\\304\\944" b/x\n',
        ),
    ),
    "ids": Target(_ids, (b"20250101-000000-abcdef", b"T-1", b"AUTH-012", b"AC1", b"../x")),
    "config": Target(
        _config,
        (
            b'sandbox = "auto"\n[agents.do]\ntype = "exec"\ncmd = ["x"]\n[verify]\n"a b" = "x"\n',
            b'[sandbox]\nmode = "off"\nhide = ["~/.ssh"]\n[checks]\ntimeout = 1e3\n',
        ),
    ),
    "frontmatter": Target(
        _frontmatter,
        (
            b"---\nchain: 2025022514320000\nseq: 0\ntype: task\n---\nbody\r\n",
            b"\xef\xbb\xbf---\r\na: [x, {b: c}]\r\n---\r\n",
            b"---\n&a x: *a\n---\n",
        ),
    ),
    "letter": Target(
        lambda data: letter.parse(data.decode(errors="replace")),
        (b"from: a\nto: b\nintent: answer\n\n## Summary\n\nText\n",),
    ),
    "mask": Target(
        _mask, (b"x sesame-open-0815 y", b"ghp_" + b"a" * 36, b"c2VzYW1lLW9wZW4tMDgxNQ==")
    ),
}
