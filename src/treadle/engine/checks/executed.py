"""Tell from the text of shell commands which files they execute, and which they only read."""

import fnmatch
import json
import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from treadle.engine.checks import WORDS

_DEPTH = 3
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{(\w+)[^}]*\}|(\w+))")
_COUNT = re.compile(r"-.*|\d+[smhd]?|[\w@%+]+=.*", re.DOTALL)
_FILE = re.compile(r"[\w@%+./*?$-]*[./][\w@%+./*?-]+")
_MODULE = re.compile(r"\A-[bBdEiIOPqsSuvx]*m(?=\w|\Z)(.*)")  # as Python takes it, `-Im` too
_ATTACHED = re.compile(r"-(?:[^=]*=(.*)|\w(.*)|.*)", re.DOTALL)  # an option with its value
_SCRIPT = re.compile(r"\.(bash|bats|cjs|js|mjs|mk|mts|php|pl|py|rb|sh|ts|zsh)\Z")
# What turns words that look read into code: substitution, and programs that run what they read.
_OPAQUE = re.compile(
    r"`|\$\(|<\(|(?<![\w-])(eval|source|xargs|-exec|-execdir)(?!\w)|(\A|[;&|])\s*\. "
)
_WRAPPER_FILE = re.compile(r"(?i)(.*\.(sh|bash|zsh|mk|bats)|gnumakefile|makefile|\.?justfile)\Z")
_SHEBANG = re.compile(rb"#!.*\b(ba|da|k|z|a)?sh\b")


_WORDS = {
    key: frozenset(WORDS["commands"][key].split())
    for key in ("operators", "around", "readers", "printers", "valued", "whole")
}
_IMPLIED: dict[str, str] = WORDS["commands"]["implied"]
_INTERPRETERS = re.compile(
    r"(ba|da|z|k|a)?sh|(python|pypy|perl|ruby|php|lua|node)[\d.]*|deno|bun|tsx|ts-node|Rscript"
)
_SHELLS = re.compile(r"(ba|da|z|k|a)?sh")
_ANYWHERE = ("__main__.py", "__init__.py", "index.js")
_PYTHON_RUNNERS = ("pytest", "unittest", "coverage", "nose2", "doctest")


class Executed(NamedTuple):
    """The words that name what is executed, and the programs looked up in PATH."""

    words: frozenset[str] = frozenset()
    programs: frozenset[str] = frozenset()

    def finder(self) -> Callable[[str], bool]:
        """Return what tells whether a word names a file, in whatever spelling and folder."""
        globs = [word for word in self.words if re.search(r"[*?\[]", posixpath.basename(word))]
        plain = {posixpath.basename(word) for word in self.words.difference(globs)}

        def names(path: str) -> bool:
            last = posixpath.basename(path)
            if last in _ANYWHERE:  # a name that says nothing without its folder
                return any(f"/{path}".endswith(f"/{word}") for word in self.words)
            return last in plain or any(_fits(glob, path, last) for glob in globs)

        return names


def join(parts: Iterable[Executed]) -> Executed:
    """Return all that is executed in one of these."""
    found = list(parts)
    words = {word for part in found for word in part.words}
    programs = {program for part in found for program in part.programs}
    return Executed(frozenset(words), frozenset(programs))


def read(text: str, depth: int = 0) -> Executed:
    """Return what a shell text executes."""
    return join(_commands(text, depth))


def scripts(argv: Sequence[str]) -> Executed:
    """Return the scripts among the words of a command line, and a program given by its path."""
    named = [word for word in argv if _SCRIPT.search(word)]
    return Executed(frozenset([*named, *(word for word in argv[:1] if "/" in word)]))


def _commands(text: str, depth: int) -> Iterator[Executed]:
    values: dict[str, str] = {}
    is_opaque = bool(_OPAQUE.search(text))
    for pipeline in _pipelines(_tokens(text)):
        for number, command in enumerate(pipeline):
            feeds = any(_is_interpreter(later) for later in pipeline[number + 1 :])
            yield _command(command, values, is_opaque or feeds, depth)


def read_file(name: str, data: bytes) -> Executed:
    """Return what a script, a Makefile or the scripts of a package.json execute."""
    if not is_wrapper(name, data):
        return Executed()
    text = data.decode(errors="replace").replace("\\\n", " ")
    if posixpath.basename(name) == "package.json":
        text = "\n".join(_package_scripts(data))
    text = re.sub(r"\$\((\w+)\)", r"$\1", text)
    text = re.sub(r"(?m)^([A-Za-z_]\w*)[ \t]*[:?+]?=[ \t]*", r"\1=", text)
    # A line may use what another one sets.
    values = frozenset(_FILE.findall(" ".join(re.findall(r"(?m)^\w+=(.*)", text))))
    lines = [read(line.strip().lstrip("@-+"), depth=1) for line in text.splitlines()]
    return join([*lines, Executed(values)])


def _package_scripts(data: bytes) -> Iterator[str]:
    """Yield the commands of a package.json; one that cannot be read has none."""
    try:
        found = json.loads(data)["scripts"]
        yield from map(str, found.values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return


def is_wrapper(name: str, data: bytes) -> bool:
    """Tell whether a file is a list of commands rather than a program of its own."""
    last = posixpath.basename(name)
    if data.startswith(b"#!"):
        return bool(_SHEBANG.match(data[:200]))
    # `sh verify` needs neither an ending nor a first line.
    return last == "package.json" or "." not in last or bool(_WRAPPER_FILE.match(last))


def _tokens(text: str) -> list[str]:
    lexer = shlex.shlex(text.replace("\n", " ; "), posix=True, punctuation_chars=";|&()<>")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(lexer)
    except ValueError:  # a quote that is never closed
        return re.findall(r"[^\s\"']+", text)


def _pipelines(tokens: Sequence[str]) -> Iterator[list[list[str]]]:
    """Yield the commands that feed each other."""
    pipeline: list[list[str]] = [[]]
    for token in tokens:
        if token in ("|", "|&"):
            pipeline.append([])
        elif token in _WORDS["operators"]:
            yield pipeline
            pipeline = [[]]
        else:
            pipeline[-1].append(token)
    yield pipeline


def _command(tokens: list[str], values: dict[str, str], is_code: bool, depth: int) -> Executed:
    """Read one command; `is_code` if what it prints or is told is executed."""
    for token in tokens:
        if match := _ASSIGNMENT.fullmatch(token):
            values[match[1]] = _expanded(match[2], values)
    words = [_expanded(token, values) for token in tokens if token not in ("<", ">", ">>", "<<")]
    assigned = [match[2] for word in words if (match := _ASSIGNMENT.fullmatch(word))]
    program, rest = _program(words)
    name = posixpath.basename(program)
    kept = [program, *assigned, *_run_words(program, name, rest, is_code)]
    implied = _IMPLIED.get(name, "").split()
    bare = frozenset({program} if program and "/" not in program else ())
    found = Executed(frozenset(_spellings([*kept, *implied])), bare)
    is_other = bool(_INTERPRETERS.fullmatch(name)) and not _SHELLS.fullmatch(name)
    is_read = name in _WORDS["readers"] and not (is_code and name in _WORDS["printers"])
    if depth >= _DEPTH or is_other or is_read:
        return found
    texts = [word for word in (*rest, *assigned, program) if re.search(r"\s", word)]
    lines = [text.replace(r"\n", "\n") if is_code else text for text in texts]  # as printf does
    return join([found, *(read(text, depth + 1) for text in lines)])


def _program(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the program behind variables and wrappers, and its words."""
    left = list(words)
    while left and (_ASSIGNMENT.fullmatch(left[0]) or left[0] in _WORDS["around"]):
        around = left.pop(0)
        while around in _WORDS["around"] and left and _COUNT.fullmatch(left[0]):
            left.pop(0)
    return (left[0], left[1:]) if left else ("", [])


def _run_words(program: str, name: str, rest: list[str], is_code: bool) -> Iterable[str]:
    if is_code:
        return rest
    if name in _WORDS["readers"]:
        return [rest[at + 1] for at, word in enumerate(rest[:-1]) if word == "-f" and name == "sed"]
    if _INTERPRETERS.fullmatch(name):
        return _scripts(rest)
    if not {name, "-".join([name, *rest[:1]])}.isdisjoint(_WORDS["whole"]):
        return [spelt for word in rest for spelt in (word, f"{word}/*")]
    if "/" in program:
        return [word for word in rest if _SCRIPT.search(word)]
    return rest


def _scripts(rest: list[str]) -> Iterator[str]:
    """Yield an interpreter's words up to its script; what follows are that script's own."""
    words = [part for word in rest for part in _MODULE.sub(r"-m\n\1", word).split("\n") if part]
    for at, word in enumerate(words):
        before = words[at - 1] if at else ""
        yield word
        yield from (f"{word}/*",) if "--test" in words[:at] else ()
        if before == "-m":
            yield from (*_modules([word]), *_IMPLIED.get(word, "").split())
            yield from _modules(words[at + 1 :]) if word in _PYTHON_RUNNERS else ()
            return
        if before in ("-c", "-e", "--eval") or word.startswith("-"):
            yield from _FILE.findall(word) if re.search(r"\s|\(", word) else ()
        elif before not in _WORDS["valued"]:
            yield from (f"{word}{ending}" for ending in (".js", ".mjs", ".cjs", ".ts", "/index.js"))
            yield f"{word}/__main__.py"
            if "/" in word or "." in word:
                return


def _modules(words: Iterable[str]) -> Iterator[str]:
    """Yield the files that Python may mean by the names of modules."""
    for word in words:
        path = word.partition("::")[0] if "/" in word else word.replace(".", "/")
        yield from (word, f"{path}.py", f"{path}/__main__.py", f"{path}/__init__.py")


def _is_interpreter(tokens: list[str]) -> bool:
    return bool(_INTERPRETERS.fullmatch(posixpath.basename(_program(tokens)[0])))


def _expanded(word: str, values: dict[str, str]) -> str:
    """Fill in variables that the command sets itself; any other may be anything."""
    return _VARIABLE.sub(lambda match: values.get(match[1] or match[2], "*"), word)


def _spellings(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        attached = _ATTACHED.match(word)
        value = attached[1] or attached[2] or "" if attached else word
        parts = [value.partition("::")[0]] if "::" in value else value.split(":")
        yield from (posixpath.normpath(part.removeprefix("@")) for part in parts if part)


def _fits(glob: str, path: str, last: str) -> bool:
    name = posixpath.basename(glob)
    if name.strip("*?"):
        return fnmatch.fnmatchcase(last, name)
    # A name that may be anything says something only together with its folder.
    return bool(glob.strip("*?/.")) and fnmatch.fnmatchcase(path, glob)
