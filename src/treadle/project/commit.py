"""Commit a few files of the user's checkout and nothing else."""

from collections.abc import Sequence

from treadle.errors import BlockedError
from treadle.git import call
from treadle.git import repo as git
from treadle.project.context import Context

_IDENTITY = ("GIT_AUTHOR_", "GIT_COMMITTER_")


def require_ready(project: Context) -> None:
    """Stop while git itself is in the middle of something."""
    operation = git.operation_in_progress(project.repo)
    if operation:
        raise BlockedError(
            f"a {operation} is in progress, and nothing can be committed before it is ended",
            fix=["git status"],
        )


def committed(project: Context, name: str) -> bytes | None:
    """Return a file as the last commit has it, or None if it has none of that name."""
    args = ["cat-file", "--filters", f"HEAD:{name}"]
    done = call.run(args, project.repo.place, cwd=project.repo.root)
    return None if done.returncode else done.stdout


def commit_only(project: Context, names: Sequence[str], message: str) -> str | None:
    """Commit these files as they are; None if they already are. What is staged stays staged."""
    place = project.repo.place
    new = [name for name in names if not git.tracked(project.repo, [name])]
    if not new and not _differs(project, names):
        return None
    _git(project, "add", "--", *new)
    args = ["commit", "--quiet", "--only", "--no-verify", "-m", message, "--", *names]
    done = call.run(args, place | _identity(project), cwd=project.repo.root)
    if done.returncode:
        _git(project, "rm", "--quiet", "--cached", "--ignore-unmatch", "--", *new)
        raise call.failure(args, done)
    return git.head(project.repo).commit


def _differs(project: Context, names: Sequence[str]) -> bool:
    args = ["diff", "--quiet", "HEAD", "--", *names]
    return call.run(args, project.repo.place, cwd=project.repo.root).returncode != 0


def _git(project: Context, *args: str) -> None:
    if args[-1] == "--":  # nothing to do, and git would take it for everything
        return
    done = call.run(args, project.repo.place, cwd=project.repo.root)
    if done.returncode:
        raise call.failure(args, done)


def _identity(project: Context) -> dict[str, str]:
    """Let the user's variables say who commits; without any identity, treadle signs."""
    known = {name: value for name, value in project.env.items() if name.startswith(_IDENTITY)}
    if call.run(["var", "GIT_COMMITTER_IDENT"], project.repo.place | known).returncode == 0:
        return known
    names = {f"{prefix}NAME": "treadle" for prefix in _IDENTITY}
    return names | {f"{prefix}EMAIL": "treadle@localhost" for prefix in _IDENTITY} | known
