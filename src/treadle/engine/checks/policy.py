"""Rate a change: what the policy or a reservation refuses, what a person must see first."""

import json
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator

from treadle.config.schema import BudgetsConfig, PolicyConfig, PolicyRules
from treadle.contract import Role
from treadle.engine.checks.protected import matcher
from treadle.engine.run.order import RISKY_FILES, Exceeded, Order
from treadle.engine.run.run import Run
from treadle.files import walk
from treadle.git import trees
from treadle.git.judge import WORK, Judged, Refusal, Risk, bare, folded
from treadle.git.scratch import Scratch
from treadle.git.trees import FileChange
from treadle.ids import HUMAN, utc
from treadle.layout import HOME_NAME
from treadle.project import trust
from treadle.store.task_changes import ReservationRow
from treadle.tasks import claim
from treadle.text import line

# What no policy allows: treadle, or whoever follows a mission, would carry it out.
_ALWAYS = ("protected", "treadle_config", "work")
_RISKY = (
    "CI files, hooks of git and editors, settings and instructions of agents (`AGENTS.md`,"
    " `.cursor/`), `.gitattributes`, `.gitmodules`, `.envrc`, `.npmrc` and their like, what"
    " installing or building runs (`setup.py`, `build.rs`, install scripts of `package.json`),"
    " treadle's own configuration, and `specs/`, `missions/`, `kitty-specs/`"
)
_PROTECTED = (
    "Tests that are there already and what steers them are looked at closely: if the commands pass"
    " only because these were changed, the work is not accepted. New tests are welcome."
)
_INSTALLS = (
    *("preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare", "postprepare"),
    *("dependencies", "pnpm:devPreinstall"),
)


def rate(run: Run, role: Role, place: Scratch, judged: Judged) -> Judged:
    """Return a change as the policy for this role rates it."""
    prefix, tables = place.repo.prefix, _tables(run.order.policy, role)
    known = dict(judged.risky)
    denied, risky = [*_reserved(run, judged)], []
    for change in judged.files:
        path = change.path.removeprefix(prefix)
        reason = known.get(change.path) or _installs(place, change) or _work(run, change.path)
        word = _word(tables, path)
        if word == "deny":
            text = f"{change.path}: policy.deny keeps agents away from it"
            denied.append(Refusal("policy_denied", change.path, text))
        elif reason in _ALWAYS or word == "ask" or (reason and word != "allow"):
            risky.append(Risk(change.path, reason or "policy"))
    return judged._replace(refusals=(*judged.refusals, *denied), risky=tuple(risky))


def told(order: Order, role: Role, kept: Iterable[ReservationRow] = ()) -> Iterator[str]:
    """Tell an agent which files it may change, and what stops the run; do speaks for the rest."""
    tables, budgets = _tables(order.policy, role if role == "act" else "do"), order.budgets
    deny, ask, allow = (
        _named(glob for rules in tables for glob in getattr(rules, key))
        for key in ("deny", "ask", "allow")
    )
    taken = _named(row.pattern for row in kept)
    if refused := ", ".join(filter(None, (deny, taken))):
        yield f"A change of these is refused and fails the step: {refused}."
    most = budgets.max_risky_files
    many = f"More than {most} risky files stop" if most else "A risky file stops"
    yield (
        f"{many} the run until a person has seen the change:"
        f" {f'{ask}, ' if ask else ''}{_RISKY}.{f' Not so {allow}.' if allow else ''}"
    )
    if order.checks.protect_mode != "warn":
        yield _PROTECTED
    limits = (budgets.max_changed_files, "files"), (budgets.max_patch_kb, "KiB of patch")
    if over := " or ".join(f"{limit:g} {what}" for limit, what in limits if limit is not None):
        yield f"One change of more than {over} stops the run, too."


def _named(globs: Iterable[str]) -> str:
    return ", ".join(f"`{line(glob)}`" for glob in globs)


def exceeded(budgets: BudgetsConfig, judged: Judged) -> Exceeded | None:
    """Return the first budget of one change that is too small for this one."""
    used = {
        "max_changed_files": len(judged.files),
        "max_patch_kb": judged.patch_kb,
        RISKY_FILES: len(judged.risky),
    }
    for key, amount in used.items():
        limit = getattr(budgets, key)
        if limit is not None and amount > limit:
            return Exceeded(key, limit, amount)
    return None


def commands(run: Run) -> set[str]:
    """Return the words of every command but the setup's: changing such a file is risky.

    What the setup makes is looked at where the commands pass.
    """
    root, used = run.tools.layout.root, (agent.config for agent in run.order.agents.values())
    found = [line for config in used for line in (config.cmd or (), config.run or ())]
    today = trust.lines(run.tools.project.settings.config)
    found += (line for key, line in today if key[0] != "workspace")
    words = (word for line in found for word in line if "\0" not in word)
    repo = run.tools.repo
    return {os.path.relpath(root / it, repo.root).removeprefix(repo.prefix) for it in words}


def idle_globs(policy: PolicyConfig, names: list[str]) -> Iterator[str]:
    """Yield the globs that fit no file there is, with the keys that have them."""
    for table, rules in (("policy", policy), ("policy.do", policy.do), ("policy.act", policy.act)):
        for key in ("allow", "ask", "deny"):
            for glob in getattr(rules, key):
                if not any(_fits((glob,), key, name) for name in names):
                    yield f"{table}.{key}: {glob}"


def _reserved(run: Run, judged: Judged) -> Iterator[Refusal]:
    """Yield the files of a change that somebody else keeps to another task."""
    paths = [item.path.removeprefix(run.tools.repo.prefix) for item in judged.files]
    found = claim.conflicts(reserved(run), paths)
    yield from (Refusal("reserved", path, claim.reserved(path, row).message) for path, row in found)


def reserved(run: Run) -> list[ReservationRow]:
    """Return what somebody else keeps to another task."""
    rows = run.tools.store.reservations(utc(run.tools.now()))
    task = run.tools.store.task(run.order.task_id or "") if rows else None
    return claim.of_others(rows, run.order.task_id, task.owner if task else HUMAN)


def _tables(policy: PolicyConfig, role: Role) -> list[PolicyRules]:
    """Return the rules that hold for a role, its own before those for all."""
    return [rules for rules in (getattr(policy, role, None), policy) if rules]


def _word(tables: list[PolicyRules], path: str) -> str | None:
    """Return what the rules say of a path; to deny counts most, then what is said first."""
    keys = [("deny", rules) for rules in tables]
    keys += [(key, rules) for rules in tables for key in ("ask", "allow")]
    return next((key for key, rules in keys if _fits(getattr(rules, key), key, path)), None)


def _fits(globs: tuple[str, ...], key: str, path: str) -> bool:
    """Tell whether a glob names a path; in another spelling it may be asked for, never allowed."""
    if not globs:
        return False
    if matcher(globs)(path):
        return True
    return key != "allow" and matcher(tuple(map(folded, globs)))(folded(path))


def _installs(place: Scratch, change: FileChange) -> str | None:
    """Say so if a change is about what a package manager runs when it installs the project."""
    read = _PARTS.get(change.path.rpartition("/")[2].casefold())
    if read is None or change.new is None:
        return None
    old, new = (
        read(trees.read_blob(place, leaf.id) or b"") if leaf else None
        for leaf in (change.old, change.new)
    )
    return "install_script" if new and new != old else None


def _work(run: Run, path: str) -> str | None:
    """Say so if a file is work for a project in a folder of this one."""
    pairs = (it.rpartition("/") for it in trees.above(path) if "\n" not in it)
    found = [folder for folder, _, name in pairs if folder and bare(name) in WORK]
    inside = trees.names(run.tools.repo, run.tree, found) if found else {}
    is_project = any(
        HOME_NAME in inside[it] or walk.is_folder(run.tools.repo.root / it / HOME_NAME)
        for it in found
    )
    return "work" if is_project else None


def _package(data: bytes) -> object:
    try:
        found = json.loads(data)
        return {name: found["scripts"][name] for name in _INSTALLS if name in found["scripts"]}
    except KeyError:
        return None
    except (ValueError, TypeError, AttributeError):
        return data


def _pyproject(data: bytes) -> object:
    try:
        return tomllib.loads(data.decode()).get("build-system", {}).get("backend-path")
    except (ValueError, AttributeError):
        return None


_PARTS: dict[str, Callable[[bytes], object]] = {
    "package.json": _package,
    "pyproject.toml": _pyproject,
}
