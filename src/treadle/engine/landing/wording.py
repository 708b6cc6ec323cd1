"""Word what lands: a commit's message and a branch's name; your own commit hooks look at it."""

import os
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from treadle.engine.checks import clean
from treadle.engine.run import confinement
from treadle.engine.run.run import Run
from treadle.errors import BlockedError
from treadle.files import walk
from treadle.git import refs, workspace
from treadle.git.workspace import Workspace
from treadle.ids import OWN_PREFIX
from treadle.tasks import issue
from treadle.text import line

_SUBJECT = 72
_SLUG = 40
_TYPED = re.compile(r"[a-z]+(\([^()]*\))?!?: ")
_FIXES = re.compile(
    r"(?i)\b(fix(es|ed)?|bug|crash\w*|repair\w*|regress\w*|broken|correct\w*|prevent\w*)\b"
)


def message(run: Run, prefix: str = "", body: str = "") -> str:
    """Return the message of a commit: the goal, and where it came from."""
    settings, goal = run.tools.today.land, " ".join(line(run.order.goal).split())
    text = prefix + _filled(run, settings.subject, goal)
    if settings.conventional and not _TYPED.match(text):
        kind = "fix" if _FIXES.search(goal) else "feat"
        text = f"{'revert' if body else kind}: {_filled(run, settings.subject, goal)}"
    short = text if len(text) <= _SUBJECT else f"{text[: _SUBJECT - 1].rstrip()}…"
    trailers = "\n".join(f"Treadle-{key}: {value}" for key, value in _origin(run) if value)
    task = run.tools.store.task(run.order.task_id) if run.order.task_id and not body else None
    if solved := issue.closes(task):
        trailers = f"Closes: {solved}\n{trailers}"
    parts = [short, text if short != text else "", body, trailers]
    return "\n\n".join(part for part in parts if part) + "\n"


def branch_name(run: Run, prefix: str = "") -> str:
    """Return the name of a branch that is not there yet: `treadle/` and the words of the goal."""
    plain = unicodedata.normalize("NFKD", f"{prefix}{run.order.goal}").encode("ascii", "ignore")
    slug = re.sub(r"[^a-z0-9]+", "-", plain.decode().lower()).strip("-")[:_SLUG].strip("-")
    name, number = f"{OWN_PREFIX}{slug or f'run-{run.id[-6:]}'}", 1
    free = name
    while refs.resolve(run.tools.repo, free):
        number += 1
        free = f"{name}-{number}"
    return free


def _filled(run: Run, template: str, goal: str) -> str:
    """Fill a subject in; what is not there leaves no separator behind."""
    known = dict(_origin(run))
    spec = (known["Spec"] or "").removesuffix(".md").removesuffix(".spec")
    values = {"goal": goal, "task": known["Task"] or "", "spec": spec, "run": run.id}
    text = re.sub(r"\{(\w+)\}", lambda found: values[found[1]], template)
    return re.sub(r"\(\)|\[\]", "", text).strip(" :-–|/")


def _origin(run: Run) -> Iterator[tuple[str, str | None]]:
    order, steps = run.order, run.tools.store.steps(run.id)
    yield "Run", run.id
    yield "Task", order.task_id
    yield "Spec", order.message.spec if order.message else None
    agents = [step.agent for step in steps if step.after_commit != step.before_commit]
    for name in dict.fromkeys(agents):
        yield "Agent", name


_TOLD = 5
_TAIL = 4 << 10


def look_at(run: Run, commit: str, parent: str, message: str) -> str:
    """Let `pre-commit` and `commit-msg` look at a commit; return the message as they leave it.

    They work in a checkout of their own, with `parent` as HEAD and everything else staged.
    """
    found = [(name, path) for name in ("pre-commit", "commit-msg") if (path := _find(run, name))]
    if not found:
        return message
    if clean.bring(run, commit):
        said = run.tools.layout.shown(run.folder.clean_setup)
        raise _refused(run, "workspace.setup failed before your hooks could run", said)
    place = clean.checkout_of(run)
    workspace.write_git_dir(place, commit)
    (place.path / ".git" / "HEAD").write_text(f"{parent}\n")
    text = place.path / ".git" / "COMMIT_EDITMSG"
    text.write_text(message)
    for name, path in found:
        _execute(run, place, name, [str(path), *([str(text)] if name == "commit-msg" else [])])
    return walk.read(text, max_bytes=walk.MAX_BYTES).decode(errors="replace")


def _find(run: Run, name: str) -> Path | None:
    asked = run.tools.git_settings.get("core.hookspath")
    home = Path(run.tools.env.get("HOME") or "/")
    folder = Path(asked.replace("~", str(home), 1) if asked and asked[0] == "~" else asked or "")
    path = (run.tools.repo.root / folder if asked else run.tools.repo.common_dir / "hooks") / name
    return path if path.is_file() and os.access(path, os.X_OK) else None


def _execute(run: Run, place: Workspace, name: str, argv: list[str]) -> None:
    run.folder.landing.mkdir(parents=True, exist_ok=True)
    log = run.folder.landing / f"{name}.txt"
    # As git does it: at the top of the work tree, wherever in it the project lies.
    words = ("sh", "-c", 'cd "$0" && exec "$@"', str(place.path), *argv)
    ended = confinement.execute(run, words, log, log, place.path)
    if ended.reason == "exit" and ended.exit_code == 0:
        return
    how = f"exit code {ended.exit_code}" if ended.reason == "exit" else ended.detail
    last = " / ".join(map(line, walk.tail(log, _TAIL).strip().splitlines()[-_TOLD:]))
    text = f"your {name} hook refused the landing ({how}){f': {last}' if last else ''}"
    raise _refused(run, text, run.tools.layout.shown(log))


def _refused(run: Run, text: str, log: str) -> BlockedError:
    fix = [f"cat {log}", f"TREADLE_LAND_HOOKS=false treadle land {run.id}"]
    return BlockedError(text, code="hook_refused", fix=fix)
