"""The product's own modules as trees, read once for all tests that look at them."""

import ast
import functools
from pathlib import Path

import treadle

PACKAGE = Path(treadle.__file__).parent


@functools.cache
def trees() -> dict[Path, ast.Module]:
    """Return every module of the product by its path."""
    return {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
