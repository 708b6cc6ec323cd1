"""Modules load in the environments they are meant for."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def only_in_the_real_environment():
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    named = [line for line in groups["real"] if isinstance(line, str)]
    return [re.split(r"[\[<>=~ ]", line)[0].replace("-", "_") for line in named]


def test_no_module_of_the_tests_needs_the_real_environment_to_load():
    names = "|".join(only_in_the_real_environment())
    needs = re.compile(rf"^(?:import|from) (?:{names})\b", re.MULTILINE)
    assert needs.search("import playwright")
    modules = [*ROOT.glob("tests/*.py"), *ROOT.glob("tests/*/*.py")]
    loads = [str(path) for path in modules if needs.search(path.read_text())]
    assert loads == []


def test_what_benches_take_from_the_tests_loads_without_pytest():
    benches = "".join(path.read_text() for path in ROOT.glob("bench/*.py"))
    taken = set(re.findall(r"^from tests\.(\w+)\.(\w+) import", benches, re.MULTILINE))
    texts = {name: (ROOT / "tests" / name[0] / f"{name[1]}.py").read_text() for name in taken}
    assert texts
    assert [name for name, text in texts.items() if "import pytest" in text] == []
