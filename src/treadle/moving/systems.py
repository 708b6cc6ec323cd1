"""Find what decree, norma, spec-kitty and CIRCE left, piece by piece."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from treadle import frontmatter, markdown
from treadle.errors import TreadleError
from treadle.layout import LOGS, NEW_MESSAGES, Layout
from treadle.moving import lists
from treadle.moving.piece import Act, NewTask, Piece, files, is_linked, text_of, words_only
from treadle.sandbox.mask import Mask
from treadle.store.foreign import ForeignRun, read_norma
from treadle.text import plural

_DECREE, _NORMA, _NORMA_JSON = ".decree", ".norma", ".norma.json"
_PRE_CHECK = "DECREE_PRE_CHECK"
_DECREE_KEYS = ("default_routine", "max_retries", "notebook_support", "commands.router")
_AGENT_KEYS = ("type", "cmd", "model", "timeout", "use")
_VARIABLE = r"\$\{(\w+)\}"
_BUDGETS = ("max_iterations", "max_patch_kb", "max_changed_files", "max_risky_files")


def found(layout: Layout) -> list[str]:
    """Return which other systems are at home here."""
    root = layout.root
    marks = {
        "decree": (root / _DECREE).is_dir(),
        "norma": (root / _NORMA).is_dir() or (root / _NORMA_JSON).is_file(),
        "spec-kitty": layout.kitty_specs.is_dir(),
        "circe": any(_circe_roots(root)),
        "spec-kit": any((root / "specs").glob("*/tasks.md")),
        "backlog": (root / "backlog" / "tasks").is_dir(),
        "openspec": (root / "openspec" / "changes").is_dir(),
        "task-master": any(
            (root / name).is_file() for name in (".taskmaster/tasks/tasks.json", "tasks/tasks.json")
        ),
    }
    return [name for name, is_there in marks.items() if is_there]


def pieces(layout: Layout, env: Mapping[str, str]) -> list[Piece]:
    """Return everything that the systems here hold."""
    root = layout.root
    readers: dict[str, Callable[[], Iterator[Piece]]] = {
        "decree": lambda: decree(layout),
        "norma": lambda: norma(layout, env),
        "spec-kitty": lambda: spec_kitty(layout),
        "circe": lambda: circe(layout),
        "spec-kit": lambda: lists.spec_kit(root),
        "backlog": lambda: lists.backlog(root),
        "openspec": lambda: lists.openspec(root),
        "task-master": lambda: lists.task_master(root),
    }
    return [words_only(piece) for name in found(layout) for piece in readers[name]()]


def decree(layout: Layout) -> Iterator[Piece]:
    """Yield routines, messages, specs of both generations, schedules and settings."""
    root = layout.root
    for name in files(root, root / _DECREE):
        yield from _decree_file(layout, name)
    for name in files(root, layout.specs):
        if name.count("/") == 1:
            yield Piece("decree", name, "spec", "in_place", note="treadle reads it where it is")


def _decree_file(layout: Layout, name: str) -> Iterator[Piece]:
    path, inner = layout.root / name, name.removeprefix(f"{_DECREE}/")
    home, _, rest = inner.partition("/")
    if is_linked(layout.root, name):
        yield Piece("decree", name, "link", "left", note="a link is not followed")
    elif inner in ("config.yml", "config.yaml"):
        yield from _decree_settings(layout, name, text_of(layout.root, name))
    elif home == "routines" and path.suffix in (".sh", ".ipynb"):
        target = layout.relative(layout.routines / rest)
        yield Piece(
            "decree", name, "routine", "copy", target, _with_pre_check(layout.root, name, target)
        )
    elif inner.startswith(("inbox/dead/", "dead/")) and path.suffix == ".md":
        target = layout.relative(layout.inbox_dead / path.name)
        yield Piece("decree", name, "dead letter", "copy", target)
    elif home == "inbox" and "/" not in rest and path.suffix == ".md":
        yield Piece("decree", name, "message", "copy", layout.relative(layout.inbox / rest))
    elif home == "cron" and path.suffix == ".md":
        yield Piece("decree", name, "schedule", "copy", layout.relative(layout.cron / rest))
    elif home == "migrations" and path.suffix == ".md":
        yield Piece("decree", name, "migration", "copy", f"specs/{_spec_name(path.name)}")
    elif inner in ("processed.md", "processed-migrations.md", layout.tracker.name):
        yield from _listed(name, text_of(layout.root, name))
    else:
        yield _kept(layout, "decree", name)


def _listed(name: str, text: str) -> Iterator[Piece]:
    yield Piece("decree", name, "list", "in_place")
    for line in filter(None, map(str.strip, text.splitlines())):
        yield Piece("decree", f"{name}#{line}", "done", "listed", _spec_name(Path(line).name))


def _spec_name(name: str) -> str:
    return name.removesuffix(".md").removesuffix(".spec") + ".spec.md"


def _with_pre_check(root: Path, name: str, target: str) -> bytes | None:
    """Return a routine with a pre-check for its own block; None if it has no such block."""
    text = text_of(root, name)
    if _PRE_CHECK not in text or not name.endswith(".sh"):
        return None
    head = re.match(r"(#!.*\n)?(#.*\n)*", text)
    end = head.end() if head else 0
    line = f"# pre-check: {_PRE_CHECK}=true {_shell(text)} {target}\n"
    return (text[:end] + line + text[end:]).encode()


def _shell(script: str) -> str:
    return "bash" if "bash" in script.partition("\n")[0] else "sh"


def _decree_settings(layout: Layout, name: str, text: str) -> Iterator[Piece]:
    if not (known := _yaml(text)):
        yield Piece("decree", name, "setting", "left", note="it cannot be read, or says nothing")
    for key, value in _flat(known):
        source = f"{name}#{key}"
        if key in _DECREE_KEYS:
            yield Piece("decree", source, "setting", "setting", key, value=_typed(value))
        elif key.startswith("hooks.") and value:
            script = text_of(layout.root, f"{_DECREE}/routines/{value}.sh")
            command = [_shell(script), layout.relative(layout.routines / f"{value}.sh")]
            yield Piece("decree", source, "setting", "setting", key, value=command)
        else:
            note = "treadle has no such setting"
            yield Piece("decree", source, "setting", "left", note=note)


def norma(layout: Layout, env: Mapping[str, str]) -> Iterator[Piece]:
    """Yield agents and budgets, and every run with its rows and files."""
    root = layout.root
    names = [
        *files(root, root / _NORMA),
        *([_NORMA_JSON] if (root / _NORMA_JSON).is_file() else []),
    ]
    for name in names:
        inner = name.removeprefix(f"{_NORMA}/")
        if inner == _NORMA_JSON or Path(inner).stem == "config":
            yield from _norma_settings(name, text_of(root, name), env)
        elif inner == "norma.db":
            yield from _norma_runs(layout, name)
        elif inner.startswith(("norma.db", "locks/")):
            yield Piece("norma", name, "lock", "left", note="it belongs to norma's own process")
        else:
            yield _kept(layout, "norma", name)


def _norma_runs(layout: Layout, name: str) -> Iterator[Piece]:
    try:
        runs = read_norma(layout.root, name)
    except TreadleError as error:
        yield Piece("norma", name, "database", "left", note=error.message)
        return
    yield Piece("norma", name, "database", "in_place")
    for run in runs:
        if not re.fullmatch(r"\w[\w.-]{0,99}", run.run_id):
            note = "its id cannot name a file"
            yield Piece("norma", f"{name}#{run.run_id}", "run", "left", note=note)
            continue
        target = layout.relative(layout.adopted / "norma" / "rows" / f"{run.run_id}.json")
        data = json.dumps(run._asdict(), indent=1, default=str).encode()
        told = f"{plural(len(run.steps), 'step')}, {plural(len(run.events), 'event')}"
        yield Piece("norma", f"{name}#{run.run_id}", "run", "copy", target, data, note=told)
        id_ = lists.task_id("norma", run.run_id)
        task = _norma_task(layout.root, run)
        yield Piece("norma", f"{name}#{run.run_id}/goal", "goal", "task", id_, task=task)


def _norma_task(root: Path, run: ForeignRun) -> NewTask:
    """Make a task of a run's goal: done if it passed, else still to do."""
    text = text_of(root, f"{_NORMA}/runs/{run.run_id}/norma.md")
    asked = tuple(item._replace(verify=None) for item in markdown.criteria(text))
    return NewTask(run.goal, text or None, asked, "done" if run.status == "passed" else "planned")


def _norma_settings(name: str, text: str, env: Mapping[str, str]) -> Iterator[Piece]:
    known = _json(text) if name.endswith(".json") else _yaml(text)
    if not known:
        yield Piece("norma", name, "setting", "left", note="it cannot be read, or says nothing")
        return
    agents = {**_inner(known, "agents"), **_profile(known)}
    for who, told in agents.items():
        source = f"{name}#agents.{who}"
        kept = {key: told[key] for key in _AGENT_KEYS if isinstance(told, dict) and key in told}
        named = re.findall(_VARIABLE, json.dumps(kept))
        missing = [it for it in named if it not in env]
        secret = [it for it in named if it in env and Mask(env).text(env[it]) != env[it]]
        if missing or secret or not kept:
            note = f"set {', '.join(missing)} first" if missing else "it is not an agent"
            if secret:
                note = f"{', '.join(secret)} is a secret, which no file should hold"
            yield Piece("norma", source, "agent", "left", note=note)
        else:
            filled = re.sub(_VARIABLE, lambda it: json.dumps(env[it[1]])[1:-1], json.dumps(kept))
            value = json.loads(filled)
            value = {key: _typed(it) for key, it in value.items()}
            yield Piece("norma", source, "agent", "setting", f"agents.{who}", value=value)
    for key, value in _inner(known, "budgets").items():
        act: Act = "setting" if key in _BUDGETS else "left"
        source = f"{name}#budgets.{key}"
        yield Piece("norma", source, "budget", act, f"budgets.{key}", value=_typed(value))
    for key in known.keys() - {"agents", "budgets", "profiles", "profile"}:
        note = "treadle has no such setting"
        yield Piece("norma", f"{name}#{key}", "setting", "left", note=note)


def _profile(known: Mapping[str, Any]) -> dict[str, Any]:
    """Return who plays the roles in the profile that is in force."""
    profiles = _inner(known, "profiles")
    chosen = profiles.get(str(known.get("profile") or "default"))
    roles = chosen.get("pdca", chosen) if isinstance(chosen, dict) else {}
    named = {role: name for role, name in roles.items() if isinstance(name, str)}
    return {role: {"use": name} for role, name in named.items() if role != name}


def spec_kitty(layout: Layout) -> Iterator[Piece]:
    """Yield missions and their tasks: treadle works on them where they are."""
    root = layout.root
    for name in files(root, layout.kitty_specs):
        kind = "task" if re.search(r"/tasks/.*WP\d+[^/]*\.md$", name) else "mission file"
        yield Piece("spec-kitty", name, kind, "in_place")
    for path in sorted((root / ".worktrees").glob("*/.git")):
        name = path.parent.relative_to(root).as_posix()
        note = "git keeps its branch; nothing in it is touched"
        yield Piece("spec-kitty", name, "worktree", "in_place", note=note)


def circe(layout: Layout) -> Iterator[Piece]:
    """Yield letters and the files of tasks, for treadle's own tree of them."""
    root = layout.root
    for home in _circe_roots(root):
        for part in (NEW_MESSAGES, "AGENTS", "TASKS", LOGS):
            for name in files(root, home / part):
                target = layout.mail.root / (root / name).relative_to(home)
                kind = "task file" if part == "TASKS" else "letter"
                if is_linked(root, name):
                    yield Piece("circe", name, "link", "left", note="a link is not followed")
                else:
                    yield Piece("circe", name, kind, "copy", layout.relative(target))


def _circe_roots(root: Path) -> Iterator[Path]:
    for home in (root, root / "circe", root / "CIRCE", root / ".circe"):
        if (home / NEW_MESSAGES).is_dir() or all(
            (home / it).is_dir() for it in ("AGENTS", "TASKS")
        ):
            yield home


def _kept(layout: Layout, system: str, name: str) -> Piece:
    """Keep a copy of what has no place of its own in treadle."""
    if is_linked(layout.root, name) or ".tmp-" in name:
        return Piece(system, name, "rest", "left", note="a link, or an incomplete step")
    target = layout.adopted / system / name.removeprefix(f".{system}/")
    return Piece(system, name, "record", "copy", layout.relative(target))


def _yaml(text: str) -> dict[str, Any]:
    try:
        return dict(frontmatter.read(f"---\n{text.rstrip()}\n---\n".encode()).fields)
    except TreadleError:
        return {}


def _json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _inner(known: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = known.get(key)
    return dict(found) if isinstance(found, Mapping) else {}


def _flat(value: Mapping[str, Any], head: str = "") -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _flat(inner, f"{head}{key}.")
        else:
            yield head + key, inner


def _typed(value: object) -> object:
    """Give a text of a YAML file the type that it would have there."""
    if isinstance(value, str):
        if value in ("true", "false"):
            return value == "true"
        return int(value) if re.fullmatch(r"\d{1,9}", value) else value
    return [str(it) for it in value] if isinstance(value, tuple) else value


def every_file(layout: Layout) -> Iterator[str]:
    """Yield every file of the systems here, by folder and not by what is known of it."""
    root, here = layout.root, found(layout)
    homes = {
        "decree": [root / _DECREE],
        "norma": [root / _NORMA],
        "spec-kitty": [layout.kitty_specs],
        "circe": [
            home / part
            for home in _circe_roots(root)
            for part in (NEW_MESSAGES, "AGENTS", "TASKS", LOGS)
        ],
        "spec-kit": [path.parent for path in (root / "specs").glob("*/tasks.md")],
        "backlog": [root / "backlog"],
        "openspec": [root / "openspec"],
        "task-master": [root / ".taskmaster"],
    }
    for name in here:
        for home in homes[name]:
            yield from files(root, home)
