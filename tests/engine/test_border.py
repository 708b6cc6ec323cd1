"""Other packages use of the engine what its own page names, and nothing else."""

import ast

import treadle.engine
from tests.sources import PACKAGE, trees

SOURCE = PACKAGE.parent


def named():
    """Return what the engine's docstring lists, one module to a line."""
    lines = [line.strip() for line in treadle.engine.__doc__.splitlines() if line[:4] == "    "]
    rows = (line.partition(": ") for line in lines)
    return {(module, name) for module, _, names in rows for name in names.split()}


def used():
    """Return the modules of the engine, and their names, that others import or call."""
    found = set()
    for path, tree in trees().items():
        if path.relative_to(PACKAGE).parts[0] != "engine":
            found |= used_by(tree)
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
