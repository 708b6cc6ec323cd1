"""Count runs, steps, money and what waits, for programs that watch over many of them."""

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from treadle import __version__
from treadle.engine.show import ends
from treadle.store.store import Reader

_FIRST_DAY = "0000-00-00"
_COUNTED = {  # of each agent and model: what it is called, what it is, the field of the store
    "treadle_steps_total": ("Steps that agents have taken", "steps"),
    "treadle_input_tokens_total": (
        "Tokens given to models, cached ones among them",
        "input_tokens",
    ),
    "treadle_cached_tokens_total": ("Tokens given to models that were cached", "cached_tokens"),
    "treadle_output_tokens_total": ("Tokens that models gave", "output_tokens"),
    "treadle_cost_usd_total": ("What agents have cost, in USD", "cost_usd"),
    "treadle_agent_seconds_total": ("How long agents have worked, in seconds", "seconds"),
}
_LISTED = {  # what it is called, what it is, the query and the label it counts by
    "treadle_runs": ("Runs by their status", "run_counts", "status"),
    "treadle_tasks": ("Tasks by their lane", "task_counts", "lane"),
    "treadle_questions": ("What waits for a person, by its kind", "question_counts", "kind"),
}


class Sample(NamedTuple):
    """One number with what it is about."""

    labels: Mapping[str, str]
    value: float


class Figure(NamedTuple):
    """Numbers of one kind."""

    name: str
    text: str
    kind: Literal["counter", "gauge"]
    samples: tuple[Sample, ...]


def figures(store: Reader) -> Iterator[Figure]:
    """Yield everything there is to count; no text of a run is among it."""
    version = Sample({"version": __version__}, 1)
    yield Figure("treadle_info", "The version of treadle", "gauge", (version,))
    for name, (text, query, label) in _LISTED.items():
        rows = tuple(Sample({label: str(key)}, count) for key, count in store.all(query))
        yield Figure(name, text, "gauge", rows)
    left = Sample({}, len(ends.unlanded(store)))
    yield Figure("treadle_runs_unlanded", "Passed runs that wait to land", "gauge", (left,))
    costs: dict[tuple[str, str], list[float]] = {}
    fields = [field for _, field in _COUNTED.values()]
    for row in store.costs(_FIRST_DAY):
        sums = costs.setdefault((row.agent, row.model), [0.0] * len(fields))
        for at, field in enumerate(fields):
            sums[at] += getattr(row, field)
    for at, (name, (text, _)) in enumerate(_COUNTED.items()):
        found = (Sample({"agent": who, "model": it}, n[at]) for (who, it), n in costs.items())
        yield Figure(name, text, "counter", tuple(found))


def prometheus(store: Reader) -> str:
    """Return all figures in the text format that Prometheus reads."""
    return "".join(f"{line}\n" for figure in figures(store) for line in _lines(figure))


def _lines(figure: Figure) -> Iterator[str]:
    yield f"# HELP {figure.name} {figure.text}"
    yield f"# TYPE {figure.name} {figure.kind}"
    for labels, value in figure.samples:
        inside = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
        yield f"{figure.name}{f'{{{inside}}}' if inside else ''} {value:.15g}"


def _escaped(text: str) -> str:
    whole = text.encode(errors="backslashreplace").decode()
    return whole.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
