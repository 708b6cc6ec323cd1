"""Records without `typing` are the tuples that `typing` would make."""

import copy
import pickle
import subprocess
import sys
import typing

import pytest

from treadle import hints


class Mine(hints.NamedTuple):
    """A record."""

    name: str
    number: int = 7

    @property
    def twice(self):
        return self.number * 2


class Theirs(typing.NamedTuple):
    """The same by the standard library."""

    name: str
    number: int = 7


@pytest.mark.parametrize("given", [("a",), ("a", 1)])
def test_a_record_is_the_same_tuple(given):
    mine, theirs = Mine(*given), Theirs(*given)
    assert mine == theirs
    assert hash(mine) == hash(theirs)
    assert mine._asdict() == theirs._asdict()
    assert mine._replace(name="b") == theirs._replace(name="b")
    assert repr(mine) == repr(theirs).replace("Theirs", "Mine")
    assert (mine.name, mine.twice) == (theirs.name, theirs.number * 2)


def test_a_record_is_made_by_names_and_from_rows():
    assert Mine(number=1, name="a") == Mine._make(["a", 1]) == ("a", 1)


@pytest.mark.parametrize(
    ("given", "named"),
    [((), {}), (("a", 1, 2), {}), (("a",), {"name": "b"}), (("a",), {"other": 1})],
)
def test_wrong_fields_are_refused_as_there(given, named):
    for kind in (Mine, Theirs):
        with pytest.raises(TypeError):
            kind(*given, **named)


def test_what_no_field_has_is_refused_in_rows_and_changes_too():
    for row in (["a"], ["a", 1, 2]):
        with pytest.raises(TypeError):
            Mine._make(row)
    with pytest.raises(TypeError):
        Mine("a")._replace(other=1)


def test_a_record_is_frozen_and_can_be_copied_kept_and_matched():
    record = Mine("a")
    with pytest.raises(AttributeError):
        record.name = "b"
    assert copy.copy(record) == pickle.loads(pickle.dumps(record)) == record
    match record:
        case Mine(name, number=7):
            assert name == "a"
        case _:
            pytest.fail("it did not match")


def test_words_of_a_closed_set_are_known():
    kind = hints.Literal["one", "two"]
    assert hints.get_args(kind) == typing.get_args(typing.Literal["one", "two"])


def test_what_argparse_and_pathlib_do_without_still_works_when_asked_for():
    program = """
from treadle.cli import lean
lean.load()
import argparse, pathlib, sys
assert not {"gettext", "urllib.parse"} & set(sys.modules)
assert pathlib.Path("/a b").as_uri() == "file:///a%20b"
assert "usage" in argparse.ArgumentParser().format_help()
import gettext, urllib.parse
assert urllib.parse.quote(" ") == "%20" and gettext.gettext("x") == "x"
"""
    subprocess.run([sys.executable, "-c", program], check=True)
