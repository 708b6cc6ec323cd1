"""Keep a second checkout in which commands meet the judged commit and nothing an agent left."""

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from treadle import layout
from treadle.contract.events import EventType, NewEvent
from treadle.engine.checks import WORDS
from treadle.engine.run import confinement, resume
from treadle.engine.run.run import Run, Tools
from treadle.errors import ConfigError, FormatError, GitError
from treadle.files import atomic, beneath, walk
from treadle.git import judge, repo, trees, workspace
from treadle.git.trees import GITLINK
from treadle.git.workspace import Workspace
from treadle.ids import is_run_id
from treadle.proc.keeper import Ended
from treadle.project.context import workspaces
from treadle.store.runs import RunRow
from treadle.text import name_some

_NAMED = 20
_MAX_STATE = 512 << 20
_MANIFESTS = frozenset(WORDS["manifests"].split())
_REQUIREMENTS = re.compile(r"(requirements|constraints)\b.*\.(txt|in)", re.IGNORECASE)
_WORD = re.compile(r"[\w@%+=:,./-]+")

Mark = tuple[int, ...]


class SetupState(Struct, frozen=True, kw_only=True):
    """What the setup left: made from which tree, out of what, and how each file looked then."""

    tree: str
    inputs: str
    files: dict[str, Mark]
    folders: tuple[str, ...] = ()  # those without a file in them


def checkout_of(run: Run) -> Workspace:
    """Return the run's second checkout, made or not."""
    path = layout.clean_of(run.workspace.path)
    return replace(run.workspace, path=path, index=run.folder.clean_index)


def bring(run: Run, commit: str) -> Ended | None:
    """Bring the checkout to `commit` as a fresh clone has it; return how its setup failed."""
    ws, state, tree = checkout_of(run), _read(run), repo.tree_of(run.tools.repo, commit)
    if state and _is_tidy(ws, commit, state) and _is_fit(run, state, tree):
        return None
    if not (state and _is_tidy(ws, commit, None)):
        workspace.remove(ws)
        workspace.create(ws, commit)
    return _prepare_for(run, ws, commit, tree)


def _is_tidy(ws: Workspace, commit: str, state: SetupState | None) -> bool:
    """Tidy up; False if that cannot be done, so that the checkout is better made anew."""
    try:
        return walk.is_folder(ws.path) and ws.index.is_file() and _tidy(ws, commit, state)
    except (GitError, OSError):
        return False


def remove_workspace(tools: Tools, row: RunRow) -> None:
    """Delete the checkout that run.json names, never merely what the link points at."""
    folder = tools.layout.run(row.run_id)
    try:
        path = resume.load_run(tools, row).workspace.path
    except FormatError:
        path = layout.workspace_root(tools.env, tools.layout.shared) / row.run_id
    for checkout in (path, layout.clean_of(path)):
        beneath.remove_tree(checkout)
        beneath.remove_tree(layout.scratch_of(checkout))
        beneath.remove_tree(layout.own_caches_of(checkout))
    index = folder.clean_index.parent
    beneath.remove_tree(index)
    marker = index.with_name(f"{index.name}.commit")
    state = (marker, folder.clean_state, folder.clean_setup)
    for file in (*state, folder.workspace_link, folder.index):
        file.unlink(missing_ok=True)


def bound_workspaces(tools: Tools) -> None:
    """Remove all but the newest workspaces of ended runs; what a killed step left is kept aside."""
    with contextlib.suppress(ConfigError, OSError):
        names = sorted(filter(is_run_id, walk.names(workspaces(tools.project))), reverse=True)
        found = (tools.store.run(name) for name in names)
        ended = [row for row in found if row and row.status != "running" and not row.owner]
        for row in ended[tools.today.workspace.keep :]:
            if row.status != "passed":
                run = resume.take_over(tools, row)
                resume.keep_interrupted(run)
                tools.store.release(run.id, run.row.claim_epoch)
            remove_workspace(tools, row)


def _is_fit(run: Run, state: SetupState, tree: str) -> bool:
    """Tell whether what the setup made may serve this tree.

    What it made from the base serves as long as its inputs are the same. What it made from an
    agent's tree serves that tree alone: files that are gone by now may have had a hand in it.
    """
    if state.tree == tree or not run.order.workspace.setup:
        return True
    return state.tree == _base_tree(run) and state.inputs == _inputs(run, tree)


def _prepare_for(run: Run, ws: Workspace, commit: str, tree: str) -> Ended | None:
    """Set up anew; from the base, if this commit would give the setup the same inputs."""
    base = run.row.base_commit or commit
    if not run.order.workspace.setup or tree == _base_tree(run):
        return _prepare(run, ws, commit, tree)
    if _inputs(run, tree) != _inputs(run, _base_tree(run)):
        return _prepare(run, ws, commit, tree)
    workspace.restore(ws, base)
    failed = _prepare(run, ws, base, _base_tree(run))
    if failed is None:
        workspace.restore(ws, commit)
    return failed


def _prepare(run: Run, ws: Workspace, commit: str, tree: str) -> Ended | None:
    """Fill a checkout in which nothing is ignored yet, and write down with what."""
    run.folder.clean_state.unlink(missing_ok=True)
    copied, inputs = workspace.copy_included(ws.repo, ws.path), ""
    if argv := run.order.workspace.setup:
        inputs = _inputs(run, tree)
        log = run.folder.clean_setup
        log.unlink(missing_ok=True)
        ended = confinement.execute(run, argv, log, log, ws.path, fetches=True)
        if ended.reason != "exit" or ended.exit_code != 0:
            return ended
    state = SetupState(tree=tree, inputs=inputs, files={})
    if argv or copied:
        workspace.restore(ws, commit)
        roots = (*workspace.survey(ws).ignored, *_submodules(ws, commit))
        made = dict(_files(ws.path, roots))
        state = structs.replace(state, files=made, folders=tuple(_empty_folders(ws.path)))
    atomic.write(run.folder.clean_state, msgspec.json.encode(state))
    return None


def _tidy(ws: Workspace, commit: str, state: SetupState | None) -> bool:
    """Undo what commands did, except to what the state keeps; without one, keep nothing ignored.

    Return whether all that is to be kept is there as it was.
    """
    if workspace.commit_of(ws) != commit:
        workspace.restore(ws, commit)
    found = workspace.survey(ws)
    if found.changes:
        workspace.restore(ws, commit)
        found = workspace.survey(ws)
    else:
        workspace.write_git_dir(ws, commit)
    roots = (*found.ignored, *_submodules(ws, commit))
    if state and not _remove_others(ws.path, roots, state):
        return False
    for name in () if state else roots:
        beneath.remove_tree(ws.path / name.rstrip("/"))
    kept = state.folders if state else ()
    for folder in _empty_folders(ws.path):
        if folder not in kept:
            beneath.empty_upwards(ws.path, ws.path / folder)
    for folder in kept:
        (ws.path / folder).mkdir(parents=True, exist_ok=True)
    return True


def _submodules(ws: Workspace, commit: str) -> list[str]:
    """Return the folders of submodules: git looks into none of them, the setup fills them."""
    if not (ws.path / ".gitmodules").is_file():
        return []
    leaves = trees.files(ws.repo, commit).items()
    return [
        name for name, leaf in leaves if leaf.mode == GITLINK and walk.is_folder(ws.path / name)
    ]


def edited_submodules(run: Run, since: float) -> tuple[NewEvent, ...]:
    """Say which edits since then no commit of this repository can hold."""
    found = _edited(run, since)
    if not found:
        return ()
    text = f"edits inside a submodule are not part of the work: {name_some(found)}"
    run.tools.note(run.id, text)
    told = {"count": len(found), "files": found[:_NAMED]}
    return (NewEvent(EventType.SUBMODULE_NOT_HARVESTED, text, told),)


def _edited(run: Run, since: float) -> list[str]:
    """Return what was changed in submodules since then; no program can choose a change time."""
    ws, found = run.workspace, list[str]()
    for name in _submodules(ws, run.head):
        for folder, inner, names in os.walk(ws.path / name):
            if ".git" in inner:
                inner.remove(".git")
            inside = [Path(folder, item) for item in names if item != ".git"]
            changed = [path for path in inside if path.lstat().st_ctime > since]
            if not changed and Path(folder).lstat().st_ctime > since:
                changed = [Path(folder)]
            found += [os.path.relpath(path, ws.path) for path in changed]
    return sorted(found)


def _remove_others(root: Path, ignored: Iterable[str], state: SetupState) -> bool:
    """Remove what the setup did not make; False if it cannot be told apart any more."""
    try:
        there = dict(_files(root, ignored))
        if not state.files.items() <= there.items():
            return False
        for name in there.keys() - state.files.keys():
            (root / name).unlink()
    except OSError:  # a folder that a command closed to its owner
        return False
    return True


def _files(root: Path, ignored: Iterable[str]) -> Iterator[tuple[str, Mark]]:
    """Yield every file below what git ignores; no program can choose its change time."""
    for name in ignored:
        path = root / name.rstrip("/")
        if not walk.is_folder(path):
            yield name, _mark(path)
            continue
        for folder, inner, names in os.walk(path, onerror=_fail):
            links = [item for item in inner if Path(folder, item).is_symlink()]
            for item in (*names, *links):
                file = Path(folder, item)
                yield os.path.relpath(file, root), _mark(file)


def _fail(error: OSError) -> None:
    raise error


def _mark(path: Path) -> Mark:
    found = path.lstat()
    return (found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _empty_folders(root: Path) -> Iterator[str]:
    """Yield folders with nothing in them, which git does not see and a clone does not have."""
    for folder, inner, names in os.walk(root):
        if ".git" in inner:
            inner.remove(".git")
        elif not inner and not names and folder != str(root):
            yield os.path.relpath(folder, root)


def _base_tree(run: Run) -> str:
    return repo.tree_of(run.tools.repo, run.row.base_commit or run.head)


def _inputs(run: Run, tree: str) -> str:
    """Return a digest of what the setup depends on in a tree: lock files, and what it names."""
    files = trees.files(run.tools.repo, tree)
    named = _named(" ".join(run.order.workspace.setup or ()), files)
    texts = trees.contents(run.tools.repo, (files[name] for name in named))
    for text in texts.values():
        named |= _named(text.decode(errors="replace"), files)
    wanted = sorted(named | {name for name in files if _is_manifest(name)})
    lines = [" ".join(run.order.workspace.setup or ()), *(f"{n} {files[n].id}" for n in wanted)]
    return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()


def _named(text: str, files: trees.Listing) -> set[str]:
    """Return the files whose names stand in a text, by themselves or by a folder above them."""
    words = {os.path.normpath(word) for word in _WORD.findall(text)} - {".", ".."}
    return {name for name in files if not words.isdisjoint([name, *trees.above(name)])}


def _is_manifest(name: str) -> bool:
    last = name.rpartition("/")[2]
    known = judge.is_generated(name) or last.lower() in _MANIFESTS
    return known or bool(_REQUIREMENTS.fullmatch(last))


def _read(run: Run) -> SetupState | None:
    try:
        data = walk.read(run.folder.clean_state, max_bytes=_MAX_STATE)
        return msgspec.json.decode(data, type=SetupState)
    except (OSError, ValueError, FormatError):
        return None
