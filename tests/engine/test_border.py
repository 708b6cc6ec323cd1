"""Other packages use of the engine what its own page names, and nothing else."""

import ast
from pathlib import Path

import treadle.engine

SOURCE = Path(treadle.engine.__file__).parents[2]
PRODUCT = SOURCE / "treadle"


def named():
    """Return what the engine's docstring lists, one module to a line."""
    lines = [line.strip() for line in treadle.engine.__doc__.splitlines() if line[:4] == "    "]
    rows = (line.partition(": ") for line in lines)
    return {(module, name) for module, _, names in rows for name in names.split()}


def used():
    """Return the modules of the engine, and their names, that others import or call."""
    found = set()
    for path in PRODUCT.rglob("*.py"):
        if path.relative_to(PRODUCT).parts[0] != "engine":
            found |= used_by(ast.parse(path.read_text()))
    return found


def used_by(tree):
    found, modules = set(), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("treadle.engine"):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if SOURCE.joinpath(*whole.split(".")).with_suffix(".py").exists():
                    modules[alias.asname or alias.name] = whole.removeprefix("treadle.engine.")
                else:
                    found.add((node.module.removeprefix("treadle.engine."), alias.name))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.add((modules.get(node.value.id), node.attr))
    return {(module, name) for module, name in found if module}


def test_others_import_what_the_engine_names():
    assert used() == named()
