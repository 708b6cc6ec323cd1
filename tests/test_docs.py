"""Hold the documentation against the program, in both directions."""

import argparse
import ast
import contextlib
import functools
import io
import json
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from tests.sources import PACKAGE, trees
from treadle.cli import describe
from treadle.config import load
from treadle.config import schema as config_schema
from treadle.contract import messages
from treadle.contract.events import EventType, StepError
from treadle.errors import ExitCode
from treadle.layout import Layout
from treadle.store import address

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
HOWTO = ROOT / "docs" / "howto.md"

# What every command has, documented once.
SHARED = {"-h", "--help", "--json"}
WORDS = {
    *("criterion", "task", "lane", "run", "step", "iteration", "role", "agent", "backend"),
    *("routine", "budget", "event", "verdict", "patch", "workspace", "sandbox"),
}
# Words that become due when their package is there.
WORDS_OF_PACKAGES = {
    "inbox": ["spec", "message", "chain", "router"],
    "missions": ["mission", "gate", "decision", "dossier"],
    "mail": ["letter"],
    "desk": ["desk"],
}
FENCE = re.compile(r"^( *)```(\S*) ?(\S*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")


class Block(NamedTuple):
    """A fenced block: its language and, if it is a file to save, its name."""

    language: str
    name: str
    text: str


def blocks(text: str) -> list[Block]:
    return [
        Block(language, name, re.sub(f"^{indent}", "", body, flags=re.MULTILINE))
        for indent, language, name, body in FENCE.findall(text)
    ]


def prose(text: str) -> str:
    return FENCE.sub("", text)


def sections(page: Path) -> dict[str, str]:
    """Return the text below each heading, up to the next one; fenced blocks have no headings."""
    text = page.read_text()
    hidden = FENCE.sub(lambda found: "x" * len(found[0]), text)
    heads = list(HEADING.finditer(hidden))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    return {
        text[head.start(2) : head.end(2)].strip("`"): text[head.end() : end]
        for head, end in zip(heads, ends, strict=True)
    }


def rows(text: str) -> list[list[str]]:
    """Return the cells of every table row whose first cell is code or a number."""
    lines = [line for line in text.splitlines() if re.match(r"\| *(`|\d)", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def first_codes(text: str) -> list[str]:
    return [code for row in rows(text) for code in CODE.findall(row[0])]


whole_parser = functools.cache(describe.whole_parser)


def commands() -> dict[str, argparse.ArgumentParser]:
    return dict(_leaves(whole_parser(), "treadle"))


def _leaves(parser, path):
    choices = _choices(parser)
    if not choices or parser.get_default("call"):
        yield path, parser
    for name, inner in choices.items():
        yield from _leaves(inner, f"{path} {name}")


def _choices(parser):
    found = [a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return found[0] if found else {}


def options(parser: argparse.ArgumentParser) -> set[str]:
    actions = [a for a in parser._actions if not isinstance(a, argparse._SubParsersAction)]
    words = [action.option_strings or [action.metavar or action.dest] for action in actions]
    return {word for group in words for word in group} - SHARED


@functools.cache
def calls() -> list[tuple[Path, ast.Call]]:
    return [
        (p, n) for p, tree in trees().items() for n in ast.walk(tree) if isinstance(n, ast.Call)
    ]


def test_every_command_has_a_section_and_no_other_does():
    documented = [name for name in sections(REFERENCE / "cli.md") if name.startswith("treadle ")]
    assert sorted(documented) == sorted(commands())


def test_every_option_is_documented_and_no_other_is():
    found = sections(REFERENCE / "cli.md")
    documented = {
        name: {code.split()[0] for code in first_codes(found[name])} for name in commands()
    }
    assert documented == {name: options(parser) for name, parser in commands().items()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_command_lines_in_blocks_are_accepted(page):
    text = "\n".join(block.text for block in blocks(page.read_text())).replace("\\\n", " ")
    for line in re.findall(r"^(?:\$ )?treadle (.*)$", text, re.MULTILINE):
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
        end = next((n for n, word in enumerate(words) if set(word) <= set("();<>|&")), len(words))
        _parse(words[:end])


def _parse(words):
    # Asking for help ends like that.
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        whole_parser().parse_args(words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_named_in_sentences_exist(page):
    for code in CODE.findall(prose(page.read_text())):
        if re.match(r"treadle [a-z]", code):
            parser, words = whole_parser(), shlex.split(code)[1:]
            while _choices(parser) and words:
                assert words[0] in _choices(parser), code
                parser, words = _choices(parser)[words[0]], words[1:]
            named = {word for word in words if word.startswith("-")}
            assert named <= options(parser) | SHARED, code


def test_every_config_key_is_documented_with_type_default_and_variable():
    found = [row for row in rows((REFERENCE / "config.md").read_text()) if len(row) == 5]
    documented = {row[0].strip("`"): [cell.strip("`") for cell in row[1:4]] for row in found}
    assert documented == {
        config_schema.dotted(key.path): _described(key) for key in config_schema.leaves()
    }


def _described(key):
    default = "none" if key.default is None else json.dumps(key.default)
    is_named = config_schema.ANY_NAME in key.path
    settable = key.is_scalar and (not is_named or (key.path[0], len(key.path)) == ("agents", 3))
    if key.path[-1] == "type":
        default = "required without `use"
    return [
        config_schema.expectation(key.type),
        default,
        config_schema.variable(key.path) if settable else "",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_config_examples_and_keys_in_sentences_are_valid(page, tmp_path):
    (tmp_path / ".treadle").mkdir()
    for block in blocks(page.read_text()):
        if block.language == "toml":
            (tmp_path / ".treadle" / "config.toml").write_text(block.text)
            load.load(Layout(tmp_path), {})
    known = [key.path for key in config_schema.leaves()]
    tables = {path[0] for path in known if len(path) > 1}
    for code in CODE.findall(prose(page.read_text())):
        path = tuple(code.split("."))
        if path[0] in tables and re.fullmatch(r"\w+(\.\w+)+(?<!\.py)", code):
            path = (path[0], config_schema.ANY_NAME, *path[2:]) if path[0] == "agents" else path
            assert any(key[: len(path)] == path for key in known), f"{page.name}: {code}"


def test_every_event_is_documented_with_its_data():
    text = (REFERENCE / "events.md").read_text()
    found = {row[0].strip("`"): CODE.findall(row[2]) for row in rows(text)}
    assert set(found) == set(EventType)
    for path, call in calls():
        name = call.args[0] if call.args else None
        if isinstance(name, ast.Attribute) and getattr(name.value, "id", "") == "EventType":
            data = {item.arg for item in call.keywords if item.arg}
            assert data <= set(found[EventType[name.attr]]), f"{path.name}: {name.attr}"


def test_every_step_error_is_documented():
    text = sections(REFERENCE / "agents.md")["Step errors"]
    assert sorted(first_codes(text)) == sorted(StepError)


def test_every_error_code_is_documented():
    text = sections(REFERENCE / "errors.md")["Error codes"]
    assert sorted(first_codes(text)) == sorted(_error_codes())


def _error_codes():
    """Collect literal codes: of the classes, of calls, and of calls to what passes a code on."""
    codes = set(
        re.findall(r'^    code = "(\w+)"$', (PACKAGE / "errors.py").read_text(), re.MULTILINE)
    )
    passing = {(p, f.name): n for p, tree in trees().items() for f, n in _passing(tree)}
    for path, call in calls():
        values = [item.value for item in call.keywords if item.arg == "code"]
        place = passing.get((path, getattr(call.func, "id", None)))
        values += call.args[place : place + 1] if place is not None else []
        codes |= {text for item in values for text in _texts(item, path)}
    return codes


def _from_table(name, assigned):
    """Return what a name gets from the rows of a table: `what, name = TABLE[key]`."""
    tables = {getattr(node.targets[0], "id", ""): node.value for node in assigned}
    for node in assigned:
        names = [getattr(item, "id", "") for item in getattr(node.targets[0], "elts", ())]
        if name in names and isinstance(node.value, ast.Subscript):
            rows = tables[node.value.value.id].values
            yield from (row.elts[names.index(name)] for row in rows)


def _texts(value, path):
    """Return the literal texts an argument can be, through one assignment."""
    found = [value]
    if isinstance(value, ast.Name):
        nodes = ast.walk(trees()[path])
        assigned = [node for node in nodes if isinstance(node, ast.Assign)]
        found = [node.value for node in assigned if getattr(node.targets[0], "id", "") == value.id]
        found += _from_table(value.id, assigned)
    nodes = [node for item in found for node in ast.walk(item) if isinstance(node, ast.Constant)]
    return {node.value for node in nodes if isinstance(node.value, str)}


def _passing(tree):
    """Yield the functions of a module that pass their parameter `code` on, with its place."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names = [argument.arg for argument in node.args.args]
            inner = [item for item in ast.walk(node) if isinstance(item, ast.keyword)]
            if "code" in names and any(item.arg == "code" for item in inner):
                yield node, names.index("code")


def test_every_exit_code_is_documented():
    text = sections(REFERENCE / "errors.md")["Exit codes"]
    found = {int(row[0]): row[1] for row in rows(text)}
    assert found == {code.value: code.name.lower() for code in ExitCode}


def test_every_table_and_column_is_documented():
    store = address.open_empty()
    tables = [row[0] for row in store.execute("SELECT name FROM sqlite_master WHERE type='table'")]
    schema = {
        name: [row[1] for row in store.execute(f"PRAGMA table_info({name})")] for name in tables
    }
    store.close()
    found = sections(REFERENCE / "store.md")
    for name, columns in schema.items():
        documented = first_codes(found[name].split("\n\n| key |")[0])
        assert sorted(documented) == sorted(columns), name


def test_every_word_in_use_is_explained():
    built = [name for name in WORDS_OF_PACKAGES if (PACKAGE / name).is_dir()]
    due = {*WORDS, *(word for name in built for word in WORDS_OF_PACKAGES[name])}
    text = (ROOT / "docs" / "concepts.md").read_text()
    assert due <= {line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|")}


def test_every_package_stands_in_the_architecture():
    tree = blocks((ROOT / "docs" / "architecture.md").read_text())[0].text
    built = {path.stem for path in PACKAGE.iterdir() if not path.name.startswith(("_", "py."))}
    planned = set(re.findall(r"\((\w+)\)", tree))
    assert built <= set(re.findall(r"\w+", tree)) - planned
    assert not any((PACKAGE / name).exists() for name in planned)


def test_request_and_response_examples_are_exact():
    asked, answered = (b for b in blocks(HOWTO.read_text()) if b.language == "json")
    decoded = msgspec.json.decode(asked.text, type=messages.AgentRequest)
    assert json.loads(messages.encode(decoded)) == json.loads(asked.text)
    assert messages.parse_response(answered.text.encode(), source="howto")[0].status == "ok"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_scripts_and_sources_that_are_named_exist(page):
    for name in re.findall(r"\b(?:scripts|tests|src)/[\w/.]*\w", page.read_text()):
        assert "NAME" in name or (ROOT / name).exists(), name


def test_the_list_of_how_tos_names_them_all():
    text = prose((ROOT / "docs" / "howto.md").read_text())
    named = re.findall(r"^- \[(.+)\]\(#", text, re.MULTILINE)
    assert named == re.findall(r"^## (.+)", text, re.MULTILINE)


def test_readme_fits_on_three_screens():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link in LINK.findall(prose(page.read_text())):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.is_file(), link
        assert not anchor or anchor in {_anchor(head) for head in sections(target)}, link


def _anchor(heading):
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
