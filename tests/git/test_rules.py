"""The rules over single paths are total: no text makes them fail, and none slips through."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from treadle.git import judge

names = st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=40)


@given(names)
@example("\ud800")
@example("\udc80/..")
def test_every_text_gets_an_answer(path):
    answers = {judge.forbidden(path), judge.unwelcome(path)}
    assert answers <= {*judge._MESSAGES, None}
    for rule in answers - {None}:
        assert judge.explain(rule, path, mode="", other="").isprintable()


@given(st.sampled_from(".gG iItT.:~1\u200c\u200d\ufeff\\"), names)
def test_nothing_that_folds_to_git_is_allowed(char, name):
    for spelled in (f".g{char}it", f"{char}.git", f".git{char}", f"{name}/.GIT/{name}"):
        bare = judge.folded(spelled.split("/")[-2 if "/" in spelled else 0])
        if bare == ".git":
            assert judge.forbidden(spelled) is not None


@given(names)
def test_folding_is_stable(name):
    once = judge.folded(name)
    assert judge.folded(once) == once
    assert judge.folded(unicodedata.normalize("NFD", name)) == once


@pytest.mark.parametrize(
    "path",
    ["README.md", "src/app.py", ".gitignore", ".github/x", "a.b/c..d", "ünï/数据.txt", "v1.0/~x"],
)
def test_ordinary_paths_are_welcome(path):
    assert (judge.forbidden(path), judge.unwelcome(path)) == (None, None)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".treadle/config.toml", True),
        (".treadle/config.json", True),
        (".treadle/routines/a/b.sh", True),
        (".treadle/routines", False),
        (".treadle/treadle.db", False),
        (".treadle/config.toml/x", False),
        ("treadle/config.toml", False),
        ("x/.treadle/config.toml", True),
    ],
)
def test_treadles_own_configuration(path, expected):
    assert judge.is_own_config(path) is expected


def test_nested_folder_of_the_same_name_is_nobodys_state():
    assert judge.forbidden("examples/.treadle/treadle.db") is None


@pytest.mark.parametrize(
    "path",
    ["uv.lock", "a/Cargo.lock", "go.sum", "pnpm-lock.yaml", "poetry.lock", "x/package-lock.json"],
)
def test_lock_files_are_generated(path):
    assert judge.is_generated(path)


@pytest.mark.parametrize("path", ["lock", "src/yarn.lock.py", "go.mod"])
def test_other_files_are_not_generated(path):
    assert not judge.is_generated(path)
