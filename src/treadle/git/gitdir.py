"""Write the disposable .git of a workspace: the agent's own, tied to nothing it could harm."""

import contextlib
import os
import re
import shutil
from pathlib import Path

from treadle.files import remove
from treadle.git import checkout, objects
from treadle.git.checkout import Workspace
from treadle.git.config import Entry
from treadle.git.repo import Repo

# What decides how files look on disk must be the same for the agent's git, or every file
# would count as modified there.
_COPIED = (
    "attributesfile autocrlf bigfilethreshold eol excludesfile filemode ignorecase"
    " precomposeunicode sparsecheckout sparsecheckoutcone symlinks"
)
_COPIED_KEYS = frozenset(f"core.{name}" for name in _COPIED.split())
_COPIED_SECTIONS = ("filter.", "lfs.")
_OWN = {
    "core.bare": "false",
    "core.logallrefupdates": "true",
    "core.fsmonitor": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
_FALLBACK = {"user.name": "treadle", "user.email": "treadle@localhost"}
_ID = re.compile(rb"[0-9a-f]{40,64}")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\b": "\\b"})


def write(ws: Workspace, commit: str) -> None:
    """Make the workspace's .git anew, whatever the agent left there."""
    folder = ws.path / ".git"
    remove.remove_tree(folder)
    (folder / "refs" / "heads").mkdir(parents=True)
    objects.write_alternates(folder / "objects", objects.alternates(ws.repo.objects))
    (folder / "packed-refs").write_bytes(_references(ws, commit))
    (folder / "config").write_text(_settings(ws), errors="surrogateescape")
    _copy_state(ws.repo, folder)
    checkout.copy_index(ws.index, folder / "index")
    head = f"ref: refs/heads/{ws.branch}" if ws.branch else commit
    (folder / "HEAD").write_bytes(os.fsencode(head) + b"\n")


def _references(ws: Workspace, commit: str) -> bytes:
    """Return the base branch and all tags, sorted as git wants them."""
    found = _tags(ws.repo)
    if ws.branch:
        found[os.fsencode(f"refs/heads/{ws.branch}")] = commit.encode("ascii")
    lines = [b"%s %s\n" % (found[name], name) for name in sorted(found)]
    return b"# pack-refs with: sorted \n" + b"".join(lines)


def _tags(repo: Repo) -> dict[bytes, bytes]:
    """Return the tags that name an object; files come first, as they may be packed meanwhile."""
    found: dict[bytes, bytes] = {}
    for folder, _, names in os.walk(repo.common_dir / "refs" / "tags"):
        for path in [Path(folder, name) for name in names if not name.endswith(".lock")]:
            with contextlib.suppress(OSError):
                found[os.fsencode(path.relative_to(repo.common_dir))] = path.read_bytes().strip()
    packed = repo.common_dir / "packed-refs"
    for line in packed.read_bytes().split(b"\n") if packed.is_file() else ():
        name, _, ref = line.partition(b" ")
        if ref.startswith(b"refs/tags/"):
            found.setdefault(ref, name)
    # A tag may be another name for a reference, or empty after a power loss: git would choke.
    return {ref: name for ref, name in found.items() if _ID.fullmatch(name)}


def _settings(ws: Workspace) -> str:
    entries = [(entry.key, entry.value) for entry in ws.config.entries if _is_copied(entry)]
    own = dict(_OWN)
    if not any(_is_identity(entry) for entry in ws.config.entries):
        own |= _FALLBACK
    extended = ws.repo.object_format != "sha1"
    own["core.repositoryformatversion"] = "1" if extended else "0"
    if extended:
        own["extensions.objectformat"] = ws.repo.object_format
    return "".join(_setting(key, value) for key, value in (*entries, *own.items()))


def _is_copied(entry: Entry) -> bool:
    is_wanted = entry.key in _COPIED_KEYS or entry.key.startswith(_COPIED_SECTIONS)
    return entry.is_local and is_wanted


def _is_identity(entry: Entry) -> bool:
    return entry.key == "user.email" and not entry.is_local


def _setting(key: str, value: str) -> str:
    section, _, rest = key.partition(".")
    subsection, _, name = rest.rpartition(".")
    title = f'{section} "{_escaped(subsection)}"' if subsection else section
    return f'[{title}]\n\t{name} = "{value.translate(_ESCAPES)}"\n'


def _escaped(subsection: str) -> str:
    return subsection.replace("\\", "\\\\").replace('"', '\\"')


def _copy_state(repo: Repo, folder: Path) -> None:
    (folder / "info").mkdir()
    copies = {
        repo.common_dir / "shallow": folder / "shallow",
        repo.common_dir / "info" / "exclude": folder / "info" / "exclude",
        repo.common_dir / "info" / "attributes": folder / "info" / "attributes",
        repo.git_dir / "info" / "sparse-checkout": folder / "info" / "sparse-checkout",
    }
    for source, target in copies.items():
        if source.is_file():
            shutil.copyfile(source, target)
