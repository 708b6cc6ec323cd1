"""The gates of a mission: its spec and its plan must be committed and substantive."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from treadle import markdown
from treadle.git import repo
from treadle.git.repo import Committed
from treadle.missions.mission import Mission

Kind = Literal["spec", "plan"]

_SCAFFOLDS = Path(__file__).with_name("scaffolds")

LANGUAGE = "Language/Version"
PEERS = (
    "Primary Dependencies",
    "Storage",
    "Testing",
    "Target Platform",
    "Project Type",
    "Performance Goals",
    "Constraints",
    "Scale/Scope",
)

# What stands in brackets is to be replaced, in our templates and in others'; a link is not.
_SPAN = r"\[(?:[^\[\]]|\[[^\[\]]*\])*\](?!\()"
# What is left of a template's sentence when its placeholders are taken out says nothing.
_HOLLOW = (
    r"(?i)\b(?:the|system|users?|must|shall|should|be|able|to|can|and|or|as|an?|i|want|so|that)\b"
)
_OPEN = ("todo", "tbd", "needs clarification")
_LATER = ("TODO", "TBD", "NEEDS CLARIFICATION")
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
    head, body = _section(lines, "functional requirements")
    hollow = []
    for number, described in _requirements(body if head else lines):
        if is_real(described):
            return []
        hollow.append((number, "this requirement has no description yet"))
    if hollow:
        return hollow
    where = head[0] if head else 1
    return [
        (where, "add a row such as `| FR-001 | what must be true |` to Functional Requirements")
    ]


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
    words = rest.strip(_SIGNS)
    if words.startswith(_LATER) or words.startswith("???") or words.lower() in _OPEN:
        return False
    if rest != text:
        rest = re.sub(_HOLLOW, "", rest)
    return any(char.isalnum() for char in rest)


def _visible(text: str) -> Iterator[Line]:
    """Yield the lines outside code fences and HTML comments."""
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


def _requirements(lines: list[Line]) -> Iterator[tuple[int, str]]:
    """Yield each requirement's line number and description."""
    for index, (number, text, _) in enumerate(lines):
        if text.lstrip().startswith("|"):
            yield from _table_row(number, text)
        elif (described := _requirement(_item(text) or "")) is not None:
            yield number, " ".join([described, *_continued(lines, index)])


def _requirement(text: str) -> str | None:
    """Return what follows `FR-001` at the beginning of a text; None if that is not there."""
    found = re.match(r"\W*FR-[0-9]{3,}(?!\w)(.*)", text)
    return found[1].lstrip(_SIGNS) if found else None


def _item(text: str) -> str | None:
    """Return what a list item says; None for a line that is none."""
    found = re.match(r"\s*(?:[-*+]|[0-9]+[.)])(?: |$)(.*)", text)
    return found[1].strip() if found else None


def _table_row(number: int, text: str) -> Iterator[tuple[int, str]]:
    cells = text.replace("\\|", " ").strip().strip("|").split("|")
    for index, cell in enumerate(cells):
        if (first := _requirement(cell)) is not None:
            described = [first, *cells[index + 1 :]]
            kept = [item for item in described if item.strip(_SIGNS).lower() not in _LABELS]
            yield number, " ".join(kept)
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

Head = Mapping[str, Committed]


class Gate(NamedTuple):
    """One gate and what keeps it shut; nothing missing means that it is open."""

    kind: Kind
    missing: tuple[str, ...]

    @property
    def reason(self) -> str | None:
        """Return the sentence that says why it may not."""
        return SENTENCES[self.kind] if self.missing else None


def is_substantive(file_path: Path, kind: Kind) -> bool:
    """Tell whether a file has content of its own and is no scaffold."""
    text, _ = _read(file_path)
    return text is not None and not missing(text, kind)


def is_committed(file_path: Path, repo_root: Path) -> bool:
    """Tell whether git tracks a file and the last commit has it."""
    name = file_path.relative_to(repo_root).as_posix()
    return _is_committed(repo.read_head(repo_root, [name])[name])


def read_head(missions: Iterable[Mission]) -> Head:
    """Read specs and plans as the last commit has them, with one git process for all."""
    missions = list(missions)
    names = [m.name(path) for m in missions for path in (m.files.spec, m.files.plan)]
    return repo.read_head(missions[0].root, names) if missions else {}


def judge(mission: Mission, head: Head, kind: Kind) -> Gate:
    """Hold a spec or plan against its gate: the file in the work tree, and the one committed."""
    path = mission.files.spec if kind == "spec" else mission.files.plan
    text, problem = _read(path)
    if text is None:
        return Gate(kind, (f"{path.name}: {problem}",))
    return Gate(kind, missing(text, kind) or _uncommitted(mission, path, head, kind))


def _uncommitted(mission: Mission, path: Path, head: Head, kind: Kind) -> tuple[str, ...]:
    committed = head[mission.name(path)]
    if not _is_committed(committed):
        return (f"{path.name} is not committed",)
    text = (committed.content or b"").decode(errors="replace")
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
