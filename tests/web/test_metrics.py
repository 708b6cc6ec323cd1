"""Figures for Prometheus: on the page's port, for programs of this machine, and no words."""

import re

import pytest

from tests.web.conftest import Client
from treadle.store.runs import CostRow
from treadle.store.store import Store

LINE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (-?[0-9.e+]+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"')
PLAIN = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}


def parse(text):
    """Read the text format strictly: help and type before the samples of each, a newline last."""
    assert text.endswith("\n")
    found, kinds, helped = {}, {}, set()
    for row in text[:-1].split("\n"):
        if row.startswith("# HELP "):
            helped.add(row.split(" ", 3)[2])
        elif row.startswith("# TYPE "):
            _, _, name, kind = row.split(" ")
            assert name not in kinds
            assert kind in ("counter", "gauge")
            kinds[name] = kind
        else:
            match = LINE.fullmatch(row)
            assert match, row
            name = match[1]
            assert name in kinds.keys() & helped
            assert (kinds[name] == "counter") == name.endswith("_total")
            labels = {
                key: re.sub(r'\\[n"\\]', lambda it: PLAIN[it[0]], value)
                for key, value in LABEL.findall(match[2] or "")
            }
            found[name, tuple(sorted(labels.items()))] = float(match[3])
    return found


def test_prometheus_reads_what_there_is(site, stranger):
    model = 'odd "model"\\\nname'
    with Store.open(site.project.layout) as store:
        row = CostRow("2026-01-01", "claude", model, 3, 100, 40, 20, 0.125, 9.5)
        for day in ("2026-01-01", "2026-01-02"):
            store.executemany("count_cost", [row._replace(day=day)])
    answer = stranger.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = parse(answer.text)
    who = (("agent", "claude"), ("model", model))
    assert found["treadle_cost_usd_total", who] == 0.25
    assert found["treadle_steps_total", who] == 6
    assert found["treadle_runs_unlanded", ()] == 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Bearer s3cret-é".encode()}, 401),
        ({"authorization": "Bearer s3cret"}, 200),
        ({"authorization": "Bearer s3cret", "host": "evil.example"}, 421),
        ({"authorization": "Bearer s3cret", "sec-fetch-site": "cross-site"}, 403),
    ],
)
def test_a_token_keeps_others_out(site, headers, status):
    env = {"TREADLE_METRICS_TOKEN": "s3cret"}
    client = Client(site._replace(project=site.project._replace(env=env)))
    assert client.get("/metrics", headers=headers).status_code == status
    assert client.post("/metrics", headers=headers).status_code in (401, 403, 421)
