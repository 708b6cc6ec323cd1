"""Walk the schema: which keys there are, what each expects, how a key is spelled."""

import json
import re
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Literal, NamedTuple, Union, get_args, get_origin

from msgspec import Meta, Struct, structs

from treadle.config.schema import Config

Path = tuple[str, ...]
ANY_NAME = "NAME"

_BARE = re.compile(r"[A-Za-z0-9_-]+")


class Key(NamedTuple):
    """A leaf of the schema; `ANY_NAME` in its path stands for a name the user chooses."""

    path: Path
    type: object
    default: object

    @property
    def is_scalar(self) -> bool:
        """Tell whether an environment variable could hold the value."""
        return not any(get_origin(part) is tuple for part in _parts(self.type))


def leaves(struct: type[Struct] = Config, prefix: Path = ()) -> Iterator[Key]:
    """Yield every key a configuration may have."""
    for field in structs.fields(struct):
        path = (*prefix, field.name)
        inner = table_of(field.type)
        if inner is not None and not is_struct(inner):
            yield Key((*path, ANY_NAME), inner, None)
        elif inner is not None:
            yield from leaves(inner, (*path, ANY_NAME))  # type: ignore[arg-type]  # is_struct
        elif is_struct(field.type):
            yield from leaves(field.type, path)
        else:
            yield Key(path, field.type, field.default)


def field_types(struct: type[Struct]) -> dict[str, object]:
    """Return the keys of one table."""
    return {field.name: field.type for field in structs.fields(struct)}


def is_struct(type_: object) -> bool:
    """Tell whether a key holds a table with fixed keys."""
    return isinstance(type_, type) and issubclass(type_, Struct)


def table_of(type_: object) -> object | None:
    """Return what a table with free names holds, or None if `type_` is no such table."""
    return get_args(type_)[1] if get_origin(type_) is dict else None


def expectation(type_: object) -> str:
    """Say in words what a value of this type must be."""
    for part in (type_, *get_args(type_)):  # what may be left out is said like the rest
        for note in getattr(part, "__metadata__", ()):
            if isinstance(note, Meta) and note.description:
                return note.description
    words = [
        word for part in _parts(type_) if get_origin(part) is Literal for word in get_args(part)
    ]
    return f"one of {', '.join(map(json.dumps, words))}" if words else "a table"


def dotted(path: Path) -> str:
    """Spell a key as TOML would: `agents.check.timeout`, `verify."all tests"`."""
    return ".".join(
        part if _BARE.fullmatch(part) else json.dumps(part, ensure_ascii=False)
        for part in _short(path)
    )


def variable(path: Path) -> str:
    """Return the environment variable that sets a key."""
    return "TREADLE_" + re.sub(r"[^A-Z0-9]", "_", "_".join(_short(path)).upper())


def _short(path: Path) -> Path:
    """Leave out the name of a table's main key."""
    return path[:1] if path == ("sandbox", "mode") else path


def _parts(type_: object) -> Iterator[object]:
    if get_origin(type_) is Annotated:
        yield from _parts(get_args(type_)[0])
    elif get_origin(type_) in (Union, UnionType):
        for part in get_args(type_):
            yield from _parts(part)
    else:
        yield type_
