"""What `typing` gives to hints and records, for modules that must load at once.

Type checkers see the real names; the stand-ins load nothing and compile nothing.
"""

from _collections import _tuplegetter  # type: ignore[import-not-found]  # as namedtuple does

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import (
        Any,
        BinaryIO,
        Generic,
        Literal,
        NamedTuple,
        NoReturn,
        Protocol,
        Self,
        TextIO,
        TypeVar,
        get_args,
    )
else:
    Any = BinaryIO = NoReturn = Protocol = Self = TextIO = object
    get_args = tuple

    class _Words(tuple):
        """The words of a Literal."""

        __or__ = __ror__ = lambda self, other: self

    class _Subscripted:
        def __class_getitem__(cls, words):
            return cls

    class Generic(_Subscripted):
        """A class that may be subscripted."""

    class Literal(_Subscripted):
        """A closed set of words."""

        def __class_getitem__(cls, words):
            return _Words(words if isinstance(words, tuple) else (words,))

    def TypeVar(name, bound=None):
        """Stand for any type."""
        return object

    class _Named(type):
        """Make each annotated name of a class one place of a tuple."""

        def __new__(cls, name, bases, body):
            annotate = body.get("__annotate_func__")  # Python 3.14 and later
            fields = tuple(annotate(1) if annotate else body.get("__annotations__", ()))
            if fields:
                body["_field_defaults"] = {key: body[key] for key in fields if key in body}
                body |= {key: _tuplegetter(at, None) for at, key in enumerate(fields)}
                body |= {"_fields": fields, "__match_args__": fields}
            return super().__new__(cls, name, bases, {"__slots__": (), **body})

    class NamedTuple(tuple, metaclass=_Named):
        """A tuple whose places have names."""

        def __new__(cls, *given, **named):
            fields = cls._fields
            if named or len(given) != len(fields):
                placed = dict(zip(fields, given, strict=False))
                values = {**cls._field_defaults, **placed, **named}
                twice = len(given) > len(fields) or placed.keys() & named.keys()
                if twice or values.keys() != set(fields):
                    raise TypeError(f"{cls.__name__} has the fields {', '.join(fields)}")
                given = [values[name] for name in fields]
            return tuple.__new__(cls, given)

        @classmethod
        def _make(cls, values):
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"{cls.__name__} has {len(cls._fields)} fields, not {len(made)}")
            return made

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def _replace(self, **changes):
            made = self._make(map(changes.pop, self._fields, self))
            return type(self)(*made, **changes) if changes else made

        def __getnewargs__(self):
            return tuple(self)

        def __repr__(self):
            pairs = [f"{name}={value!r}" for name, value in self._asdict().items()]
            return f"{type(self).__name__}({', '.join(pairs)})"


__all__ = [
    "TYPE_CHECKING",
    "Any",
    "BinaryIO",
    "Generic",
    "Literal",
    "NamedTuple",
    "NoReturn",
    "Protocol",
    "Self",
    "TextIO",
    "TypeVar",
    "get_args",
]
