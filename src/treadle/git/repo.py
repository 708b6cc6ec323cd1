"""Find a repository and read its state and settings without changing it."""

import functools
import os
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from treadle.errors import GitError, ProjectError, argument
from treadle.git import call
from treadle.proc.helper import Captured

MIN_VERSION = (2, 38)

_QUESTIONS = (
    "--is-bare-repository --show-object-format --git-dir --git-common-dir --show-prefix"
    " --show-toplevel"
)
_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_OPERATIONS = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "sequencer": "cherry-pick",
    "BISECT_LOG": "bisect",
}
_COMMANDS = ("clean", "smudge", "process")
_TEXT_MERGE = "git merge-file --marker-size=%L %A %O %B"


class Repo(NamedTuple):
    """One work tree of a repository; `git_dir` is the work tree's own, `common_dir` is shared.

    `prefix` is the project's folder in it, with a slash at its end, or nothing for the whole.
    """

    root: Path
    git_dir: Path
    common_dir: Path
    object_format: str = "sha1"
    prefix: str = ""

    @property
    def place(self) -> dict[str, str]:
        """Return the variables that point git here, so that it never searches."""
        return {"GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(self.root)}

    @property
    def objects(self) -> Path:
        """Return the folder of the object store."""
        return self.common_dir / "objects"

    @property
    def null_id(self) -> str:
        """Return the id that stands for no object."""
        return "0" * (64 if self.object_format == "sha256" else 40)


class Head(NamedTuple):
    """What is checked out; no commit before the first one, no branch when detached."""

    commit: str | None
    branch: str | None


class Setting(NamedTuple):
    """One setting: `local` and `worktree` are the repository's own scopes."""

    scope: str
    key: str
    value: str

    @property
    def is_local(self) -> bool:
        """Tell whether the repository itself brings this setting."""
        return self.scope in ("local", "worktree")


# How a settings file looked; nothing if it was not there.
SettingsStamp = tuple[Path, tuple[int, ...]]


class GitSettings(NamedTuple):
    """All settings in force, and the files they came from."""

    entries: tuple[Setting, ...]
    stamps: tuple[SettingsStamp, ...]

    def get(self, key: str) -> str | None:
        """Return the value in force."""
        values = [entry.value for entry in self.entries if entry.key == key]
        return values[-1] if values else None

    def filters(self) -> dict[str, dict[str, str]]:
        """Return each content filter with its commands."""
        found: dict[str, dict[str, str]] = {}
        for entry in self.entries:
            section, _, name = entry.key.partition(".")
            driver, _, command = name.rpartition(".")
            if section == "filter" and command in _COMMANDS:
                found.setdefault(driver, {})[command] = entry.value
        return found


def find(start: Path) -> Repo:
    """Find the repository around `start`; ProjectError says what is missing."""
    _require_git()
    asked = _QUESTIONS.split()
    done = _ask(start, *asked)
    if done.returncode:
        raise _explain(start, done)
    answers = os.fsdecode(done.stdout).removesuffix("\n").split("\n")
    if len(answers) != len(asked):  # a path holds a line break: ask one by one
        answers = [os.fsdecode(_ask(start, word).stdout).removesuffix("\n") for word in asked]
    _bare, object_format, git_dir, common_dir, prefix, root = answers
    return Repo(Path(root), Path(git_dir), Path(common_dir), object_format, prefix)


@functools.cache
def version() -> tuple[int, ...]:
    """Return git's version; ProjectError if git is missing."""
    text = call.out(["version"], {}).decode(errors="replace")
    found = re.search(r"\d+(\.\d+)+", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def head(repo: Repo) -> Head:
    """Return what is checked out, from two small files where that is possible."""
    text = _first_line(repo.git_dir / "HEAD")
    if _ID.fullmatch(text):
        return Head(text, None)
    ref = text.removeprefix("ref: ").strip()
    if not text.startswith("ref: ") or ref.endswith("/.invalid"):
        # Not a file-based HEAD: only git can read this repository's references.
        ref = os.fsdecode(_quiet(repo, "symbolic-ref", "-q", "HEAD")).strip()
    commit = read_ref(repo, ref) if ref else os.fsdecode(_parse(repo, "HEAD^{commit}"))
    branch = ref.removeprefix("refs/heads/") if ref.startswith("refs/heads/") else None
    return Head(commit or None, branch)


def read_ref(repo: Repo, ref: str) -> str | None:
    """Return the commit a full reference name points at, or None."""
    text = _first_line(repo.common_dir / ref)
    if _ID.fullmatch(text):
        return text
    return os.fsdecode(_parse(repo, f"{ref}^{{commit}}")) or None


@functools.lru_cache(maxsize=64)
def tree_of(repo: Repo, commit: str) -> str:
    """Return the id of a commit's tree, which never changes."""
    args = ["rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}"]
    return call.out(args, repo.place).decode("ascii").splitlines()[-1]


def dirty_files(root: Path, exclude: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the uncommitted files below a folder of a checkout, untracked ones included."""
    patterns = [f":(top,exclude,glob){pattern}" for pattern in exclude]
    args = [*call.STATUS, "--ignore-submodules=none", "--", ".", *patterns]
    place, skip = call.around(root)
    return tuple(entry[3 + skip :] for entry in call.fields(args, place, root))


def tracked(repo: Repo, paths: Iterable[str]) -> tuple[str, ...]:
    """Return the tracked files among `paths`, which may name folders."""
    args = ["--literal-pathspecs", "ls-files", "-z", "--", *paths]
    return tuple(call.fields(args, repo.place))


def operation_in_progress(repo: Repo) -> str | None:
    """Return the name of an operation the user has begun and not ended."""
    found = (name for sign, name in _OPERATIONS.items() if (repo.git_dir / sign).exists())
    return next(found, None)


def read_settings(repo: Repo) -> GitSettings:
    """Read all settings in force."""
    listing = call.out(["config", "--list", "-z", "--show-origin", "--show-scope"], repo.place)
    fields = os.fsdecode(listing).split("\0")
    rows = list(zip(fields[0::3], fields[1::3], fields[2::3], strict=False))
    entries = tuple(_setting(scope, text) for scope, _, text in rows if scope != "command")
    files = {Path("/", row[1].removeprefix("file:")) for row in rows if row[1].startswith("file:")}
    files |= {repo.common_dir / "config", repo.git_dir / "config.worktree"}
    return GitSettings(entries, tuple(_stamp(path) for path in sorted(files)))


def disabled_filters(repo: Repo, trusted: GitSettings) -> tuple[str, ...]:
    """Return the filters that must not run in a workspace.

    These are filters that were not there, or ran something else, when `trusted` was read, and
    filters whose program lies in the work tree: in a workspace that is the agent's copy.
    """
    is_same = all(stamp == _stamp(stamp[0]) for stamp in trusted.stamps)
    now = trusted if is_same else read_settings(repo)
    known = trusted.filters()
    return tuple(
        driver
        for driver, commands in now.filters().items()
        if known.get(driver) != commands or _lies_in_tree(repo.root, commands)
    )


def plain_merges(repo: Repo) -> tuple[str, ...]:
    """Return the settings that put git's own text merge in place of everybody's drivers."""
    found = [re.fullmatch(r"(?s)merge\.(.+)\.driver", it.key) for it in read_settings(repo).entries]
    drivers = tuple(dict.fromkeys(it[1] for it in found if it))
    _require_plain(drivers, "merge")
    return tuple(f"merge.{driver}.driver={_TEXT_MERGE}" for driver in drivers)


def filters_off(drivers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the settings that turn content filters off for one call of git."""
    _require_plain(drivers, "filter")
    off = [f"filter.{driver}.{command}=" for driver in drivers for command in _COMMANDS]
    return (*off, *(f"filter.{driver}.required=false" for driver in drivers))


def _require_git() -> None:
    if version() < MIN_VERSION:
        found = ".".join(map(str, version())) or "unknown"
        text = f"git {found} is too old; treadle needs git 2.38 or newer"
        raise ProjectError(text, code="git_too_old", fix=["git --version"])


def _ask(start: Path, *questions: str) -> Captured:
    return call.run(["rev-parse", "--path-format=absolute", *questions], {}, cwd=start)


def _explain(start: Path, done: Captured) -> ProjectError:
    text = done.stderr.decode(errors="replace")
    is_bare = "safe.bareRepository" in text
    if done.stdout.startswith(b"true") or (is_bare and ".git" not in start.parts):
        return ProjectError(
            f"{start} is a bare repository; treadle needs one with a work tree",
            code="bare_repository",
            fix=[f"git clone {argument(str(start))} project"],
        )
    if is_bare or "must be run in a work tree" in text:
        message = f"{start} lies inside git's own folder; run treadle in the work tree"
        return ProjectError(message, code="no_work_tree", fix=["cd .."])
    if "not a git repository" in text:
        message = f"{start} is not inside a git repository"
        return ProjectError(message, code="no_repository", fix=["git init"])
    if "dubious ownership" in text:
        return ProjectError(
            f"git refuses {start} because another user owns it",
            code="foreign_repository",
            fix=[f"git config --global --add safe.directory {argument(str(start))}"],
        )
    return ProjectError(f"git cannot read the repository at {start}: {call.said(done)}")


def _first_line(path: Path) -> str:
    try:
        return path.read_text().split("\n", 1)[0]
    except (OSError, ValueError):
        return ""


def _parse(repo: Repo, name: str) -> bytes:
    return _quiet(repo, "rev-parse", "-q", "--verify", "--end-of-options", name)


def _quiet(repo: Repo, *args: str) -> bytes:
    """Return the last line git printed, or nothing if it said no."""
    done = call.run(args, repo.place)
    lines = done.stdout.splitlines()
    return lines[-1] if lines and not done.returncode else b""


def _setting(scope: str, text: str) -> Setting:
    key, found, value = text.partition("\n")
    return Setting(scope, key, value if found else "true")


def _stamp(path: Path) -> SettingsStamp:
    try:
        state = path.stat()
    except OSError:
        return path, ()
    return path, (state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)


def _lies_in_tree(root: Path, commands: dict[str, str]) -> bool:
    words = [word for command in commands.values() for word in _command_words(command)]
    names = [word for word in words if "/" in word or "." in word]
    paths = [root / name for name in names if not name.startswith(("/", "~"))]
    # A word may be a whole program, and too long for a name.
    return any(os.path.lexists(path) and (path.is_symlink() or not path.is_dir()) for path in paths)


def _command_words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def _require_plain(drivers: tuple[str, ...], section: str) -> None:
    """Refuse names that git's command line cannot carry."""
    for driver in drivers:
        if "=" in driver:
            raise GitError(
                f"the {section} driver {driver!r} must not run here and cannot be switched off",
                code="filter_refused",
                fix=[f"git config --remove-section '{section}.{driver}'"],
            )
