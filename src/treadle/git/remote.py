"""Talk to a repository elsewhere: mirror it once a machine, clone cheaply, push with a lease."""

import contextlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from treadle.errors import GitError, argument
from treadle.git import call, refs
from treadle.git.call import Reach
from treadle.git.repo import Repo, find
from treadle.proc.helper import Captured

_FAR = Reach(seconds=3600.0)  # a large repository over a slow line
_SECRET = re.compile(r"(https?://)[^/\s]+@")
_REFUSALS = ("rejected", "denied", "not allowed", "read-only", "protected", "hook declined")
# Rejected too, but because it could not keep what it was sent: a full disk, a lock, a lost folder.
_BROKEN = re.compile("unpacker|necessary objects|unable to|cannot lock|failed to (update|write)")


def url_of(repo: Repo, name: str) -> str:
    """Return where the remote `name` is, without a name or password; without one, the folder."""
    done = call.run(["remote", "get-url", "--push", "--", name], repo.place)
    found = done.stdout.decode(errors="replace").strip()
    if done.returncode or not found:
        return str(repo.common_dir)
    return str((repo.root / found).resolve()) if _is_path(repo, found) else bare(found)


def bare(text: str) -> str:
    """Take names and passwords out of the addresses in a text."""
    return _SECRET.sub(r"\1", text)


def mirror(url: str, path: Path, branch: str, commit: str | None = None) -> None:
    """Bring a commit, or what one branch has, into this machine's copy of a repository.

    The caller keeps others away. Thousands of other runs may have branches there: a server that is
    asked for a commit need not look at them, and nobody asks for them.
    """
    if not (path / "HEAD").exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        _out(url, ["init", "-q", "--bare", "--", str(path)])
    words, place = ["fetch", "-q", "--no-tags", "--", url], {"GIT_DIR": str(path)}
    for wanted in filter(None, (commit, f"refs/heads/{branch}")):
        with contextlib.suppress(GitError):  # it is not there, or an old server gives no commits
            return _out(url, [*words, f"+{wanted}:refs/treadle/last"], place)
    return _out(url, [*words, "+refs/heads/*:refs/treadle/all/*"], place)


def reach(url: str) -> None:
    """Raise unless a repository answers."""
    _out(url, ["ls-remote", "-q", "--", url, "HEAD"])


def clone(url: str, mirrored: Path, path: Path, commit: str) -> Repo:
    """Make a clone of one's own that borrows what the mirror has, with `commit` checked out."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _out(url, ["clone", "-q", "-n", "--shared", "--no-tags", "--", str(mirrored), str(path)])
    _out(url, ["remote", "set-url", "origin", url], cwd=path)
    _out(url, ["checkout", "-q", "--detach", commit], cwd=path)
    return find(path)


def push(repo: Repo, url: str, commit: str, branch: str, expected: str | None) -> None:
    """Move a branch elsewhere from `expected` to `commit`, or raise; nothing means not there."""
    ref = f"refs/heads/{branch}"
    lease = f"--force-with-lease={ref}:{expected or ''}"
    args = ["push", "-q", "--porcelain", "--no-verify", lease, "--", url, f"{commit}:{ref}"]
    done = call.run(args, repo.place, reach=_FAR)
    # An earlier push may have got through, and only its answer did not.
    if done.returncode and tip(repo, url, branch) != commit:
        raise _refused(args, done, url, branch)


def push_new(repo: Repo, url: str, commit: str, branches: Sequence[str]) -> None:
    """Make branches elsewhere that are not there yet, with one push, or raise."""
    leases = [f"--force-with-lease=refs/heads/{it}:" for it in branches]
    moves = [f"{commit}:refs/heads/{it}" for it in branches]
    args = ["push", "-q", "--porcelain", "--no-verify", *leases, "--", url, *moves]
    done = call.run(args, repo.place, reach=_FAR)
    if done.returncode:
        raise _refused(args, done, url, branches[0])


def contains(repo: Repo, url: str, branch: str, commit: str) -> bool:
    """Tell whether a branch elsewhere has a commit, as far as can be seen from here."""
    with contextlib.suppress(GitError):  # whoever then pushes says what is wrong
        found = tip(repo, url, branch)
        return found is not None and has(repo, found) and refs.contains(repo, found, commit)
    return False


def tip(repo: Repo, url: str, branch: str) -> str | None:
    """Return where a branch stands elsewhere; None if it is not there."""
    args = ["ls-remote", "-q", "--", url, f"refs/heads/{branch}"]
    done = call.run(args, repo.place, reach=_FAR)
    if done.returncode:
        raise _refused(args, done, url, branch)
    return done.stdout.decode().partition("\t")[0].strip() or None


def pack(repo: Repo, before: str, after: str) -> bytes:
    """Return the objects that a commit adds to another one."""
    wanted = f"{after}\n^{before}\n".encode()
    args = ["pack-objects", "-q", "--revs", "--thin", "--stdout"]
    return call.out(args, repo.place, stdin=wanted)


def unpack(repo: Repo, data: bytes) -> None:
    """Add packed objects."""
    call.out(["index-pack", "--stdin", "--fix-thin"], repo.place, stdin=data)


def has(repo: Repo, commit: str) -> bool:
    """Tell whether a commit is there with everything it needs at hand."""
    return call.run(["cat-file", "-e", f"{commit}^{{tree}}"], repo.place).returncode == 0


def _out(
    url: str, args: list[str], place: dict[str, str] | None = None, cwd: Path = Path("/")
) -> None:
    done = call.run(args, place or {}, cwd=cwd, reach=_FAR)
    if done.returncode:
        fix = [f"git ls-remote {argument(bare(url))}"]
        raise GitError(bare(call.failure(args, done).message), code="remote_failed", fix=fix)


def _refused(args: list[str], done: Captured, url: str, branch: str) -> GitError:
    text = f"{done.stdout.decode(errors='replace')}\n{done.stderr.decode(errors='replace')}"
    if "stale info" in text:
        message = f"{branch} was moved by someone else at {bare(url)}; nothing was pushed"
        return GitError(message, code="push_stale", fix=[f"git ls-remote {bare(url)}"])
    refusal = any(word in text.lower() for word in _REFUSALS) and not _BROKEN.search(text)
    return GitError(
        f"{bare(url)} did not accept {branch}: {bare(_reason(text) or call.said(done))}",
        code="push_refused" if refusal else "remote_failed",
        fix=[f"git {args[0]} {argument(bare(url))} {argument(args[-1])}"],
    )


def _reason(text: str) -> str:
    found = [line for line in text.splitlines() if line.startswith(("!", "remote: "))]
    return found[-1].lstrip("! \t") if found else ""


def _is_path(repo: Repo, url: str) -> bool:
    return "://" not in url and (url.startswith(("/", ".")) or os.path.lexists(repo.root / url))
