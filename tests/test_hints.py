"""Records behave as typing's do, though nothing is compiled to make one."""

import pickle
import typing

import pytest

from treadle import hints


class Theirs(typing.NamedTuple):
    """A record as typing makes it."""

    a: int
    b: str = "b"

    @property
    def both(self):
        return f"{self.a}{self.b}"


class Ours(hints.NamedTuple):
    """The same without typing."""

    a: int
    b: str = "b"

    @property
    def both(self):
        return f"{self.a}{self.b}"


def seen(record):
    """Return what can be seen of a class and of what it makes."""
    made = [record(1), record(1, "x"), record(b="y", a=2), record._make((3, "z"))]
    changed = [item._replace(a=9) for item in made]
    kept = [pickle.loads(pickle.dumps(item)) for item in made]
    match made[1]:
        case record(a, b=b):
            matched = (a, b)
    return [
        *(made, changed, kept == made, matched, record._fields, record._field_defaults),
        *([item._asdict() for item in made], [item.both for item in made], hash(made[0])),
        repr(made).replace(record.__name__, ""),
    ]


def test_a_record_is_what_typing_would_make():
    assert seen(Ours) == seen(Theirs)


@pytest.mark.parametrize("wrong", [{}, {"a": 1, "c": 2}, {"c": 2}], ids=str)
def test_a_record_takes_its_own_fields_only(wrong):
    for record in (Ours, Theirs):
        with pytest.raises(TypeError):
            record(**wrong)
        with pytest.raises(TypeError):
            record._make((1, 2, 3))


def test_a_record_never_changes():
    for record in (Ours, Theirs):
        with pytest.raises(AttributeError):
            record(1).a = 2
        with pytest.raises(AttributeError):
            record(1).c = 2


def test_words_of_a_literal_can_be_listed():
    assert hints.get_args(hints.Literal["a", "b"]) == ("a", "b")
    assert hints.Literal["a"] | None == ("a",)
