"""Find routines and read what they say about themselves."""

import json
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from treadle.errors import FormatError, NotFoundError
from treadle.files import walk
from treadle.ids import nearest
from treadle.layout import Layout

BUILT_IN = "develop"
Kind = Literal["builtin", "sh", "ipynb"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAX = 8 << 20
_SHEBANG = 256
_DIRECTIVE = re.compile(r"^\s*(when|workspace|pre-check)\s*:\s*(.+?)\s*$", re.MULTILINE)
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_PARAMETER = re.compile(r"^([A-Za-z_][A-Za-z0-9_]*)\s*(?::[^=\n]+)?=(?!=)", re.MULTILINE)
_ABOUT_DEVELOP = "Plan, do, check and act until every acceptance criterion holds"


class Routine(NamedTuple):
    """A way to carry a message out; the built-in one has no file."""

    name: str
    kind: Kind
    path: Path | None
    description: str
    when: str | None = None
    in_project: bool = False
    parameters: tuple[str, ...] = ()
    pre_check: str | None = None
    interpreter: tuple[str, ...] = ("sh",)

    @property
    def summary(self) -> str:
        """Return the first line of the description."""
        return self.description.partition("\n")[0].strip()


def discover(layout: Layout, notebooks: bool) -> dict[str, Routine]:
    """Return every routine by name, each once: a script before a notebook before the built-in."""
    found = {BUILT_IN: Routine(BUILT_IN, "builtin", None, _ABOUT_DEVELOP)}
    kinds: tuple[Kind, ...] = ("ipynb", "sh") if notebooks else ("sh",)
    for kind in kinds:
        found |= {path.stem: _read(path, kind) for path in _files(layout, kind)}
    return dict(sorted(found.items()))


def find(layout: Layout, name: str, notebooks: bool) -> Routine:
    """Return a routine by its name, or with its extension; NotFoundError names the nearest."""
    stem, dot, extension = name.rpartition(".")
    if dot and extension in ("sh", "ipynb"):
        kind: Kind = "sh" if extension == "sh" else "ipynb"
        if kind == "sh" or notebooks:
            path = next((path for path in _files(layout, kind) if path.stem == stem), None)
            if path:
                return _read(path, kind)
        raise _missing(layout, name, notebooks)
    found = discover(layout, notebooks).get(name)
    if found is None:
        raise _missing(layout, name, notebooks)
    return found


def scripts(layout: Layout) -> Iterator[Path]:
    """Yield every file that could run as a routine."""
    yield from _files(layout, "sh")
    yield from _files(layout, "ipynb")


def _missing(layout: Layout, name: str, notebooks: bool) -> NotFoundError:
    stem = name.removesuffix(".ipynb")
    if not notebooks and any(path.stem == stem for path in _files(layout, "ipynb")):
        hint = "; it is a notebook, and notebook_support is false"
    else:
        close = nearest(name, discover(layout, notebooks))
        hint = f"; did you mean {close}?" if close else ""
    return NotFoundError(
        f"there is no routine {name[:80]!r}{hint}",
        code="routine_not_found",
        fix=["treadle routine list"],
    )


def _files(layout: Layout, kind: Kind) -> list[Path]:
    suffix = f".{kind}"
    paths = [layout.routines / name for name in walk.names(layout.routines)]
    return sorted(
        path
        for path in paths
        if path.suffix == suffix
        and _NAME.fullmatch(path.stem)
        and stat.S_ISREG(path.lstat().st_mode)
    )


def _read(path: Path, kind: Kind) -> Routine:
    try:
        text = walk.read(path, max_bytes=_MAX).decode(errors="replace")
        description, parameters = _script(text) if kind == "sh" else _notebook(path, text)
    except FormatError as error:
        return Routine(path.stem, kind, path, f"({error.message})")
    directives = {key: value for key, value in _DIRECTIVE.findall(description)}
    return Routine(
        name=path.stem,
        kind=kind,
        path=path,
        description=description,
        when=directives.get("when"),
        in_project=directives.get("workspace") == "project",
        parameters=parameters,
        pre_check=directives.get("pre-check"),
        interpreter=_interpreter(text),
    )


def _interpreter(text: str) -> tuple[str, ...]:
    """Return what executes a script, whether or not its mode says that it can be."""
    first = text[:_SHEBANG].partition("\n")[0].strip()
    return tuple(first[2:].split(None, 1)) if first.startswith("#!") else ("sh",)


def _script(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the first block of comments, and the variables that are set right behind it."""
    lines = text.splitlines()
    if lines and lines[0].startswith("#!"):
        lines = lines[1:]
    while lines and not lines[0].strip():
        lines = lines[1:]
    size = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
    words = [line.removeprefix("#").removeprefix(" ").rstrip() for line in lines[:size]]
    return "\n".join(words).strip("\n"), tuple(_assigned(lines[size:]))


def _assigned(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if not line.strip() or line.startswith("#") or line.startswith("set "):
            continue
        found = _ASSIGNED.match(line)
        if not found:
            return
        yield found[1]


def _notebook(path: Path, text: str) -> tuple[str, tuple[str, ...]]:
    """Return the first markdown cell, and what the cell tagged `parameters` sets."""
    cells = list(_cells(path, text))
    about = next((source for kind, _, source in cells if kind == "markdown"), "")
    declared = (source for kind, tags, source in cells if kind == "code" and "parameters" in tags)
    return about.strip(), tuple(_PARAMETER.findall(next(declared, "")))


def _cells(path: Path, text: str) -> Iterator[tuple[str, list[str], str]]:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path.name} is no notebook: {error}") from error
    cells = body.get("cells") if isinstance(body, Mapping) else None
    for cell in cells if isinstance(cells, list) else []:
        if isinstance(cell, Mapping):
            source, data = cell.get("source", ""), cell.get("metadata", {})
            tags = data.get("tags", []) if isinstance(data, Mapping) else []
            joined = "".join(map(str, source)) if isinstance(source, list) else str(source)
            yield str(cell.get("cell_type")), list(tags) if isinstance(tags, list) else [], joined
