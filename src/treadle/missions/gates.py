"""The gates of a mission: its spec and its plan must be committed and substantive."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from treadle import markdown
from treadle.git import call
from treadle.missions.mission import Mission

Kind = Literal["spec", "plan"]

_SCAFFOLDS = Path(__file__).with_name("scaffolds")

LANGUAGE = "Language/Version"
PEERS = (
    *("Primary Dependencies", "Storage", "Testing", "Target Platform", "Project Type"),
    *("Performance Goals", "Constraints", "Scale/Scope"),
)

# What stands in brackets is to be replaced, in our templates and in others'; a link is not.
_SPAN = r"\[(?:[^\[\]]|\[[^\[\]]*\])*\](?!\()"
# What is left of a template's sentence when its placeholders are taken out says nothing.
_HOLLOW = (
    r"(?i)\b(?:the|system|users?|must|shall|should|be|able|to|can|and|or|as|an?|i|want|so|that)\b"
)
# Examples and open questions stand for what is to be written, in brackets or not.
_UNWRITTEN = r"(?is)(?:\be\.g\.(?:,|\s)|\bneeds clarification\b).*"
_OPEN = ("TODO", "TBD")  # what a gate does not take for a text
_SIGNS = " \t*_`~:.,;()-–—"
# A priority or a state is no description.
_LABELS = frozenset(
    {
        *("", "high", "medium", "low", "must", "should", "could", "open", "new", "draft"),
        *("proposed", "approved", "done", "yes", "no", "n/a", "p0", "p1", "p2", "p3", "p4"),
    }
)

# A line that counts: its number in the file, what is seen of it, and its level as a heading.
Line = tuple[int, str, int]


def missing(text: str, kind: Kind) -> tuple[str, ...]:
    """Return what keeps a spec or plan from being substantive; nothing if it is."""
    lines = list(_visible(text))
    found = _missing_spec(lines) if kind == "spec" else _missing_plan(lines)
    return tuple(f"{kind}.md:{number}: {what}" for number, what in found)


def _missing_spec(lines: list[Line]) -> list[tuple[int, str]]:
    head, found = _required(lines)
    hollow = []
    for number, _, described in found:
        if is_real(described):
            return []
        hollow.append((number, "this requirement has no description yet"))
    if hollow:
        return hollow
    where = head[0] if head else 1
    return [
        (where, "add a row such as `| FR-001 | what must be true |` to Functional Requirements")
    ]


def requirements(text: str) -> dict[str, str]:
    """Return what a spec requires, by id; nothing but placeholders is no requirement."""
    _, found = _required(list(_visible(text)))
    return {id_: described for _, id_, described in found if is_real(described)}


def _required(lines: list[Line]) -> tuple[Line | None, Iterator[tuple[int, str, str]]]:
    head, body = _section(lines, "functional requirements")
    return head, _requirements(body if head else lines)


def technical_context(text: str) -> str:
    """Return what a plan says about its technical context, without fields that are not filled."""
    _, body = _section(list(_visible(text)), "technical context")
    hollow = {number for number, _, value in _fields(body) if not is_real(value)}
    return "\n".join(text for number, text, _ in body if number not in hollow)


def _missing_plan(lines: list[Line]) -> list[tuple[int, str]]:
    head, body = _section(lines, "technical context")
    if head is None:
        return [(1, "add a section `## Technical Context`")]
    fields = {name: (number, is_real(value)) for number, name, value in _fields(body)}
    found = []
    number, is_good = fields.get(LANGUAGE, (head[0], False))
    if not is_good:
        found.append((number, f"give {LANGUAGE} a real value"))
    if not any(fields.get(name, (0, False))[1] for name in PEERS):
        peers = [fields[name][0] for name in PEERS if name in fields]
        where = peers[0] if peers else head[0]
        found.append((where, f"give at least one more field a real value: {', '.join(PEERS)}"))
    return found


def scaffold(name: str) -> str:
    """Return the scaffold of a mission's file; what stands in brackets is to be replaced."""
    return (_SCAFFOLDS / f"{name}.md").read_text("utf-8")


def is_real(text: str) -> bool:
    """Tell whether something is left of a text when placeholders are taken out."""
    rest = re.sub(_SPAN, "", text) if "[" in text else text
    if any(words in rest.lower() for words in ("e.g.", "needs clarification")):
        rest = re.sub(_UNWRITTEN, "", rest)
    words = rest.strip(_SIGNS)
    if words.startswith((*_OPEN, "???")) or words.upper() in _OPEN:
        return False
    if rest != text:
        rest = re.sub(_HOLLOW, "", rest)
    return any(char.isalnum() for char in rest) and words.casefold() not in _scaffold_words()


@cache
def _scaffold_words() -> frozenset[str]:
    """Return what our scaffolds say in brackets; taking these away writes nothing."""
    text = scaffold("spec") + scaffold("plan")
    spans = (it.partition("]")[0] for it in text.split("[")[1:] if "]" in it)
    return frozenset(words.strip(_SIGNS).casefold() for words in spans if words)


def _visible(text: str) -> Iterator[Line]:
    """Yield the lines outside code and HTML comments."""
    for number, line in enumerate(markdown.lines(text.removeprefix("\ufeff")), 1):
        if not line.is_code and line.text.strip():
            yield number, line.text, line.level


def _section(lines: list[Line], title: str) -> tuple[Line | None, list[Line]]:
    """Return the heading and what stands below it, deeper headings included."""
    start, depth = None, 0
    for index, (_, text, level) in enumerate(lines):
        if level and start is not None and level <= depth:
            return lines[start], lines[start + 1 : index]
        if level and start is None and _title(text).startswith(title):
            start, depth = index, level
    return (None, []) if start is None else (lines[start], lines[start + 1 :])


def _title(text: str) -> str:
    """Return a heading's words without numbers before them or emphasis."""
    return text.lstrip("#*_` \t0123456789.)").lower()


def _requirements(lines: list[Line]) -> Iterator[tuple[int, str, str]]:
    """Yield each requirement's line number, id and description."""
    for index, (number, text, _) in enumerate(lines):
        if text.lstrip().startswith("|"):
            yield from _table_row(number, text)
        elif found := _requirement(_item(text) or ""):
            yield number, found[0], " ".join([found[1], *_continued(lines, index)])


def _requirement(text: str) -> tuple[str, str] | None:
    """Return the `FR-001` that begins a text and what follows it; None if that is not there."""
    before, sign, rest = text.partition("FR-")
    behind = rest.lstrip("0123456789")
    number = rest.removesuffix(behind)
    is_glued = any(it.isalnum() or it == "_" for it in before + behind[:1])
    return (sign + number, behind.lstrip(_SIGNS)) if len(number) > 2 and not is_glued else None


def _item(text: str) -> str | None:
    """Return what a list item says; None for a line that is none."""
    mark, _, words = text.lstrip().partition(" ")
    is_number = mark[-1:] in (".", ")") and mark.isascii() and mark[:-1].isdecimal()
    return words.strip() if is_number or mark in ("-", "*", "+") else None


def _table_row(number: int, text: str) -> Iterator[tuple[int, str, str]]:
    cells = text.replace("\\|", " ").strip().strip("|").split("|")
    for index, cell in enumerate(cells):
        if found := _requirement(cell):
            described = [found[1], *cells[index + 1 :]]
            kept = [item for item in described if item.strip(_SIGNS).lower() not in _LABELS]
            yield number, found[0], " ".join(" ".join(kept).split())
            return


def _continued(lines: list[Line], index: int) -> Iterator[str]:
    last = lines[index][0]
    for number, text, _ in lines[index + 1 :]:
        last += 1
        if number != last or not text[0].isspace() or _item(text) is not None:
            return
        yield text.strip()


def _fields(lines: list[Line]) -> Iterator[tuple[int, str, str]]:
    """Yield the known fields: `**Name**: value`, `- Name: value` or `| Name | value |`."""
    for number, text, _ in lines:
        item = _item(text)
        words = (text if item is None else item).strip().strip("|")
        plain = words.replace("*", "").replace("`", "").replace("_", "").strip()
        for name in (LANGUAGE, *PEERS):
            if plain.lower().startswith(name.lower()):
                yield number, name, plain[len(name) :].lstrip(" :|")


SENTENCES: dict[Kind, str] = {
    "spec": (
        "spec.md must be committed and substantive before the plan phase can begin. "
        "Populate Functional Requirements and commit, then re-run setup-plan."
    ),
    "plan": (
        "plan.md content is not substantive yet; populate Technical Context with real values "
        "and re-run setup-plan to commit."
    ),
}


class Committed(NamedTuple):
    """A file as the last commit has it (None if it has none), and whether the index knows it."""

    content: bytes | None
    is_tracked: bool
    listing: bytes = b""

    def holds(self, name: str) -> bool:
        """Tell whether it is a folder with an entry of this name."""
        return f" {name}\0".encode() in self.listing


Head = Mapping[str, Committed]


def is_substantive(file_path: Path, kind: Kind) -> bool:
    """Tell whether a file has content of its own and is no scaffold."""
    text, _ = _read(file_path)
    return text is not None and not missing(text, kind)


def is_committed(file_path: Path, repo_root: Path) -> bool:
    """Tell whether git tracks a file and the last commit has it."""
    name = file_path.relative_to(repo_root).as_posix()
    return _is_committed(read_files(repo_root, [name])[name])


def read_head(missions: Iterable[Mission]) -> Head:
    """Read specs, plans and metas as the last commit has them, with one git process for all."""
    missions = list(missions)
    parts = ((m, m.files) for m in missions)
    files = [(m, path) for m, it in parts for path in (it.spec, it.plan, it.meta, it.tasks)]
    names = [m.name(path) for m, path in files]
    return read_files(missions[0].root, names) if missions else {}


def read_files(root: Path, names: Iterable[str]) -> dict[str, Committed]:
    """Read files and listings of folders of the last commit, all with one process."""
    names = tuple(names)
    asked = [f"{where}./{name}" for name in names for where in (":", "HEAD:")]
    answers = call.objects(call.around(root)[0], asked, root)
    found = {}
    for name in names:
        (staged, _), (kind, content) = next(answers), next(answers)
        found[name] = Committed(
            content if kind == b"blob" else None,
            staged == b"blob",
            content if kind == b"tree" else b"",
        )
    return found


def judge(mission: Mission, head: Head, kind: Kind) -> tuple[str, ...]:
    """Return what keeps a gate shut, in the work tree's file or the one committed; if anything."""
    path = mission.files.spec if kind == "spec" else mission.files.plan
    text, problem = _read(path)
    if text is None:
        return (f"{path.name}: {problem}",)
    lacks, held = missing(text, kind), head[mission.name(path)]
    is_same = not lacks and _is_committed(held) and held.content == text.encode()
    return () if is_same else lacks or _uncommitted(path, held, kind)


def _uncommitted(path: Path, held: Committed, kind: Kind) -> tuple[str, ...]:
    if not _is_committed(held):
        return (f"{path.name} is not committed",)
    text = (held.content or b"").decode(errors="replace")
    if found := missing(text, kind):
        return (f"{path.name} is written but not committed; the last commit has:", *found)
    return ()


def _is_committed(found: Committed) -> bool:
    return found.is_tracked and found.content is not None


def _read(path: Path) -> tuple[str | None, str]:
    """Return a file's text, or None and why there is none."""
    if not path.exists():
        return None, "this file does not exist"
    if not path.is_file():  # opening a pipe would wait for ever
        return None, "this is not a file but a folder or something else"
    try:
        return path.read_bytes().decode("utf-8"), ""
    except UnicodeDecodeError as error:
        return None, f"not UTF-8: byte {error.start} cannot be read; save it as UTF-8"
    except OSError as error:
        return None, f"this file cannot be read: {error.strerror}"
