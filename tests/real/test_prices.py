"""The prices that come with treadle stand in lists that the tested tools bring along."""

import functools
import mmap
import re
import tomllib
from pathlib import Path

import pytest

from tests.real.conftest import require
from treadle.agents import backend

pytestmark = pytest.mark.real
TABLE = Path(backend.__file__).with_name("prices.toml")
LISTED = tomllib.loads(TABLE.read_text())["models"]
# opencode's list by makers; of two models, which they sell no more, by somebody who still does.
MAKERS = ("openai", "google", "xai", "moonshotai")
SELLERS = {"gpt-5-codex": "abacus", "gemini-3-pro-preview": "merge-gateway"}
TOLD = ("gpt-6.1-sol",)  # in neither list: the table itself says where it is from, and of when


def program(tool):
    path = next(it / tool for it in require(tool) if (it / tool).exists()).resolve()
    with path.open("rb") as stream:
        return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)


def prices(text):
    found = [
        re.search(rb"\b%s:([\d.e-]+)" % it, text) for it in (b"input", b"cache_read", b"output")
    ]
    return [float(it[1]) if it else None for it in found]


@functools.cache
def sold_by(maker):
    """Return the models of one maker in opencode's list."""
    data, name = program("opencode"), re.escape(maker.encode())
    begin = re.search(rb'[,{]"?%s"?:\{id:"%s",env:' % (name, name), data).end()
    end = re.compile(rb'[,{]"?([\w.-]+)"?:\{id:"\1",env:').search(data, begin).start()
    models = re.split(rb'\{id:"', data[begin:end])[1:]
    names = [it.partition(b'"')[0].rpartition(b"/")[2].decode() for it in models]
    costs = [it.rpartition(b"cost:{")[2] for it in models]  # those of faster modes stand before
    return {name: prices(it) for name, it in zip(names, costs, strict=True)}


@functools.cache
def catalogue():
    """Return the models of Claude Code's own catalogue; of a price for long prompts, that one."""
    whole, found = program("claude"), {}
    begin = re.search(rb"\btier_\w+:\{input:", whole).start()
    data = whole[begin : begin + (1 << 17)]
    for model in re.finditer(rb'\{id:"(claude-[a-z0-9-]+)"', data):
        tier = re.search(rb'pricing:"(\w+)"', data[model.end() :])
        told = re.search(rb"\b%s:\{(input:[^}]*)" % tier[1], data)[1]
        found[model[1].decode()] = prices(told.rpartition(b"long_prompt:{")[2])
    return found


@pytest.mark.parametrize("model", LISTED)
def test_a_price_is_from_a_list_or_says_where_it_is_from(model):
    if model in TOLD:
        assert re.search(rf"# .*{re.escape(model)}\b.* \(\d{{4}}-\d\d-\d\d", TABLE.read_text())
        return
    names = (model, f"{model}-0", f"{model}-latest")
    lists = [sold_by(SELLERS[model])] if model in SELLERS else [*map(sold_by, MAKERS)]
    known = [catalogue()] if model.startswith("claude-") else lists
    assert LISTED[model] in [them[name] for them in known for name in names if name in them]
