"""Judge a built tree by its difference to the base: what is refused, risky, too much."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from treadle.git import diff, rules, trees
from treadle.git.diff import GITLINK, LINK, Difference, FileChange
from treadle.git.repo import Repo
from treadle.git.scratch import Scratch

_PLAIN = ("100644", "100755")


class Refusal(NamedTuple):
    """Why a change cannot be taken."""

    rule: str
    path: str
    message: str


class Risk(NamedTuple):
    """A change somebody must have seen before it is taken."""

    path: str
    reason: str


class ChangeBudgets(NamedTuple):
    """The budgets of one change; None means no limit."""

    max_changed_files: int | None = None
    max_patch_kb: float | None = None
    max_risky_files: int | None = 0


class Excess(NamedTuple):
    """A budget that a change exceeds."""

    budget: str
    limit: int
    used: int


class Judged(NamedTuple):
    """What a change is, whatever the style of the patch it came from."""

    files: tuple[FileChange, ...]
    refusals: tuple[Refusal, ...]
    risky: tuple[Risk, ...]
    exceeded: tuple[Excess, ...]
    changed_files: int
    patch_kb: int
    diff: bytes


def judge(
    place: Scratch | Repo,
    base_tree: str,
    new_tree: str,
    limits: ChangeBudgets,
    protected: Collection[str] = (),
    *,
    inside: str | None = None,
) -> Judged:
    """Judge the way from one tree to another; `inside` is the only folder it may touch."""
    found = diff.read(place, base_tree, new_tree)
    refusals = [*_refusals(found.files, inside), *_collisions(place, new_tree, found.files)]
    risks = tuple(_risks(found.files, protected))
    patch_kb = -(-_counted_bytes(found) // 1024)
    used = {
        "max_changed_files": len(found.files),
        "max_patch_kb": patch_kb,
        "max_risky_files": len(risks),
    }
    exceeded = tuple(_excess(limits, used))
    return Judged(
        found.files, tuple(refusals), risks, exceeded, len(found.files), patch_kb, found.diff
    )


def _refusals(files: tuple[FileChange, ...], inside: str | None) -> Iterator[Refusal]:
    links = {change.path for change in files if change.old_mode == LINK}
    for change in files:
        yield from _refusal(change, links, inside)


def _refusal(change: FileChange, links: set[str], inside: str | None) -> Iterator[Refusal]:
    path = change.path
    rule = (
        rules.forbidden(path) or (change.is_added and rules.unwelcome(path)) or _mode_rule(change)
    )
    if rule:
        yield _refuse(rule, path, mode=change.new_mode)
    above = next((folder for folder in trees.above(path) if folder in links), None)
    if above and not change.is_deleted:
        yield _refuse("parent_symlink", path, other=above)
    if inside and not path.startswith(f"{inside.strip('/')}/"):
        yield _refuse("outside_path", path, other=inside)


def _mode_rule(change: FileChange) -> str | None:
    if GITLINK in (change.old_mode, change.new_mode):
        return "gitlink"
    if change.new_mode == LINK:
        return "symlink"
    return None if change.is_deleted or change.new_mode in _PLAIN else "mode"


def _collisions(
    place: Scratch | Repo, tree: str, files: tuple[FileChange, ...]
) -> Iterator[Refusal]:
    """Yield new names that a system ignoring case or composition cannot tell from another."""
    added = [change.path for change in files if change.is_added and "\n" not in change.path]
    if not added:
        return
    folders = {folder for path in added for folder in trees.above(path)}
    listing = trees.names(place, tree, {"", *folders})
    twins = {folder: _twins(names) for folder, names in listing.items()}
    for path in added:
        parts = path.split("/")
        for depth, name in enumerate(parts):
            same = twins["/".join(parts[:depth])].get(rules.folded(name), [name])
            other = next((twin for twin in same if twin != name), None)
            if other:
                yield _refuse("collision", path, other="/".join([*parts[:depth], other]))
                break


def _twins(names: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(rules.folded(name), []).append(name)
    return {key: twins for key, twins in found.items() if len(twins) > 1}


def _risks(files: tuple[FileChange, ...], protected: Collection[str]) -> Iterator[Risk]:
    for change in files:
        reason = rules.risk(change.path, change.old_mode, change.new_mode, protected)
        if reason:
            yield Risk(change.path, reason)


def _counted_bytes(found: Difference) -> int:
    return sum(size for path, size in found.sizes if not rules.is_generated(path))


def _excess(limits: ChangeBudgets, used: dict[str, int]) -> Iterator[Excess]:
    for budget, limit in limits._asdict().items():
        if limit is not None and used[budget] > limit:
            yield Excess(budget, limit, used[budget])


def _refuse(rule: str, path: str, **values: str) -> Refusal:
    return Refusal(rule, path, rules.explain(rule, path, **values))
