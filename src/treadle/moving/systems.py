"""Find what decree, norma, spec-kitty and CIRCE left, piece by piece."""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from treadle import frontmatter, markdown
from treadle.errors import TreadleError
from treadle.layout import LOGS, NEW_MESSAGES, Layout
from treadle.moving import lists
from treadle.moving.piece import Act, NewTask, Piece, files, is_linked, text_of, words_only
from treadle.sandbox.mask import Mask
from treadle.store.foreign import ForeignRun, read_norma
from treadle.text import plural

_DECREE, _NORMA, _NORMA_JSON, _KITTY = ".decree", ".norma", ".norma.json", ".kittify"
_PRE_CHECK = "DECREE_PRE_CHECK"
_DECREE_KEYS = ("default_routine", "max_retries", "notebook_support", "commands.router")
_AGENT_KEYS = ("type", "cmd", "model", "path", "timeout", "use")
_NO_SETTING = "treadle has no such setting"
_VARIABLE = r"\$\{(\w+)\}"
_BUDGETS = ("max_iterations", "max_patch_kb", "max_changed_files", "max_risky_files")


class _System(NamedTuple):
    """Another system: what tells that it is here, the folders that are its own, its pieces."""

    marks: Sequence[Path]
    homes: Sequence[Path]
    pieces: Callable[[], Iterator[Piece]]


def _systems(layout: Layout, env: Mapping[str, str]) -> dict[str, _System]:
    """Return the systems that are at home here."""
    root, mail = layout.root, [*_circe_folders(layout.root)]
    own, norma_own, kitty = [root / _DECREE], [root / _NORMA], [layout.kitty_specs, root / _KITTY]
    kit, notes = [*(root / "specs").glob("*/tasks.md")], root / "backlog"
    changes, master = root / "openspec", [root / name for name in lists.MASTER]
    known = {
        "decree": _System(own, own, lambda: decree(layout)),
        "norma": _System([*norma_own, root / _NORMA_JSON], norma_own, lambda: norma(layout, env)),
        "spec-kitty": _System(kitty[:1], kitty, lambda: spec_kitty(layout)),
        "circe": _System(mail, mail, lambda: circe(layout)),
        "spec-kit": _System(kit, [it.parent for it in kit], lambda: lists.spec_kit(root)),
        "backlog": _System([notes / "tasks"], [notes], lambda: lists.backlog(root)),
        "openspec": _System([changes / "changes"], [changes], lambda: lists.openspec(root)),
        "task-master": _System(master, [master[0].parents[1]], lambda: lists.task_master(root)),
    }
    return {name: it for name, it in known.items() if any(mark.exists() for mark in it.marks)}


def found(layout: Layout) -> list[str]:
    """Return which other systems are at home here."""
    return list(_systems(layout, {}))


def pieces(layout: Layout, env: Mapping[str, str]) -> list[Piece]:
    """Return everything that the systems here hold."""
    return [words_only(piece) for it in _systems(layout, env).values() for piece in it.pieces()]


def every_file(layout: Layout) -> Iterator[str]:
    """Yield every file of the systems here, by folder and not by what is known of it."""
    for it in _systems(layout, {}).values():
        for home in it.homes:
            yield from files(layout.root, home)


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
        data = _with_pre_check(layout.root, name, target)
        yield Piece("decree", name, "routine", "copy", target, data)
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
        source, spec = f"{name}#{line}", Path(line.lstrip("-* ")).name
        if spec.endswith(".md"):
            yield Piece("decree", source, "done", "listed", _spec_name(spec))
        else:
            yield Piece("decree", source, "line", "left", note="it names no spec")


def _spec_name(name: str) -> str:
    return name.removesuffix(".md").removesuffix(".spec") + ".spec.md"


def _with_pre_check(root: Path, name: str, target: str) -> bytes | None:
    """Return a routine with a pre-check for its own block; None if it has no such block."""
    text = text_of(root, name)
    if _PRE_CHECK not in text or not name.endswith(".sh"):
        return None
    line = f"# pre-check: {_PRE_CHECK}=true {_shell(text)} {target}\n"
    return re.sub(r"\A(#.*\n)*", lambda head: head[0] + line, text, count=1).encode()


def _shell(script: str) -> str:
    return "bash" if "bash" in script.partition("\n")[0] else "sh"


def _decree_settings(layout: Layout, name: str, text: str) -> Iterator[Piece]:
    known, why = _yaml(text)
    yield _settings_file("decree", name, known, why)
    for key, value in _flat(known):
        source, is_hook = f"{name}#{key}", key.startswith("hooks.")
        script = text_of(layout.root, f"{_DECREE}/routines/{value}.sh") if is_hook else ""
        if script:
            command = [_shell(script), layout.relative(layout.routines / f"{value}.sh")]
            yield Piece("decree", source, "setting", "setting", key, value=command)
        elif key in _DECREE_KEYS and not str(value).startswith("decree "):
            yield Piece("decree", source, "setting", "setting", key, value=_typed(value))
        else:
            note = "treadle chooses by itself" if key in _DECREE_KEYS else _NO_SETTING
            note = "it names no script" if is_hook else note
            yield Piece("decree", source, "setting", "left", note=note)


def _settings_file(system: str, name: str, known: Mapping[str, Any], why: str) -> Piece:
    note = "" if known else why or "it says nothing"
    return Piece(system, name, "settings", "in_place" if known else "left", note=note)


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
        runs, others = read_norma(layout.root, name)
    except TreadleError as error:
        yield Piece("norma", name, "database", "left", note=error.message)
        return
    yield Piece("norma", name, "database", "in_place")
    for table in others:
        yield Piece("norma", f"{name}#{table}", "table", "left", note="treadle has no such table")
    for run in runs:
        if not re.fullmatch(r"\w[\w.-]{0,99}", run.run_id):
            note = "its id cannot name a file"
            yield Piece("norma", f"{name}#{run.run_id}", "run", "left", note=note)
            continue
        target = layout.relative(layout.adopted / "norma" / "rows" / f"{run.run_id}.json")
        data = json.dumps(run._asdict(), indent=1, default=str).encode()
        told = f"{plural(len(run.steps), 'step')}, {plural(len(run.events), 'event')}"
        yield Piece("norma", f"{name}#{run.run_id}", "run", "copy", target, data, note=told)
        if not run.goal.strip():
            yield Piece("norma", f"{name}#{run.run_id}/goal", "goal", "left", note="it is empty")
            continue
        id_ = lists.task_id("norma", run.run_id)
        task = _norma_task(layout.root, run)
        yield Piece("norma", f"{name}#{run.run_id}/goal", "goal", "task", id_, task=task)


def _norma_task(root: Path, run: ForeignRun) -> NewTask:
    """Make a task of a run's goal: done if it passed, else still to do."""
    text = text_of(root, f"{_NORMA}/runs/{run.run_id}/norma.md")
    asked = tuple(item._replace(verify=None) for item in markdown.criteria(text))
    return NewTask(run.goal, text or None, asked, "done" if run.status == "passed" else "planned")


def _norma_settings(name: str, text: str, env: Mapping[str, str]) -> Iterator[Piece]:
    known, why = _json(text) if name.endswith(".json") else _yaml(text)
    yield _settings_file("norma", name, known, why)
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
            left = ", ".join(sorted(told.keys() - kept))
            note, key = f"without {left}" if left else "", f"agents.{who}"
            yield Piece("norma", source, "agent", "setting", key, value=value, note=note)
    for key, value in _inner(known, "budgets").items():
        act: Act = "setting" if key in _BUDGETS else "left"
        source, note = f"{name}#budgets.{key}", "" if act == "setting" else _NO_SETTING
        target = f"budgets.{key}"
        yield Piece("norma", source, "budget", act, target, value=_typed(value), note=note)
    for key in known.keys() - {"agents", "budgets", "profiles", "profile"}:
        yield Piece("norma", f"{name}#{key}", "setting", "left", note=_NO_SETTING)


def _profile(known: Mapping[str, Any]) -> dict[str, Any]:
    """Return who plays the roles in the profile that is in force."""
    profiles = _inner(known, "profiles")
    chosen = profiles.get(str(known.get("profile") or "default"))
    roles = chosen.get("pdca", chosen) if isinstance(chosen, dict) else {}
    named = (it for it in roles.items() if isinstance(it[1], str) and it[0] != it[1])
    return {role: {"use": name} for role, name in named}


def spec_kitty(layout: Layout) -> Iterator[Piece]:
    """Yield missions and their tasks: treadle works on them where they are."""
    root = layout.root
    for name in [*files(root, layout.kitty_specs), *files(root, root / _KITTY)]:
        task = re.fullmatch(r"(kitty-specs/[^/]+/tasks/)(.+/)?WP\d+[^/]*\.md", name)
        if task and task[2]:  # a folder for each lane, as its older versions had them
            note = f"treadle does not look below tasks/: mv {shlex.join([name, task[1]])}"
            yield Piece("spec-kitty", name, "task", "left", note=note)
        else:
            yield Piece("spec-kitty", name, "task" if task else "mission file", "in_place")
    for path in sorted((root / ".worktrees").glob("*/.git")):
        name = path.parent.relative_to(root).as_posix()
        note = "git keeps its branch; nothing in it is touched"
        yield Piece("spec-kitty", name, "worktree", "in_place", note=note)


def circe(layout: Layout) -> Iterator[Piece]:
    """Yield letters and the files of tasks, for treadle's own tree of them."""
    root = layout.root
    for folder in _circe_folders(root):
        for name in files(root, folder):
            target = layout.mail.root / (root / name).relative_to(folder.parent)
            kind = "task file" if folder.name == "TASKS" else "letter"
            if is_linked(root, name):
                yield Piece("circe", name, "link", "left", note="a link is not followed")
            else:
                yield Piece("circe", name, kind, "copy", layout.relative(target))


def _circe_folders(root: Path) -> Iterator[Path]:
    for home in (root, root / "circe", root / "CIRCE", root / ".circe"):
        parts = [home / it for it in (NEW_MESSAGES, "AGENTS", "TASKS", LOGS)]
        if parts[0].is_dir() or (parts[1].is_dir() and parts[2].is_dir()):
            yield from parts


def _kept(layout: Layout, system: str, name: str) -> Piece:
    """Keep a copy of what has no place of its own in treadle."""
    if is_linked(layout.root, name) or ".tmp-" in name:
        return Piece(system, name, "rest", "left", note="a link, or an incomplete step")
    target = layout.adopted / system / name.removeprefix(f".{system}/")
    return Piece(system, name, "record", "copy", layout.relative(target))


def _yaml(text: str) -> tuple[dict[str, Any], str]:
    """Return the fields, and why there are none."""
    try:
        return dict(frontmatter.read(f"---\n{text.rstrip()}\n---\n".encode())[0]), ""
    except TreadleError as error:
        return {}, re.sub(r"\Aline \d+, column \d+: ", "", error.message)


def _json(text: str) -> tuple[dict[str, Any], str]:
    with suppress(ValueError, RecursionError):
        if isinstance(found := json.loads(text), dict):
            return found, ""
    return {}, "it is not a JSON object"


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
