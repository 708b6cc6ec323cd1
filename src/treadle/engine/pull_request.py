"""Offer a passed run's work as a pull request, read its checks back, and go on after red ones."""

import re
import shlex
from contextlib import suppress
from typing import NamedTuple

from treadle.contract.events import EventType, NewEvent
from treadle.engine.landing import back, forge, land, tracker
from treadle.engine.landing.forge import Forge, ForgeTool, FoundIssue, Proposal, PullState
from treadle.engine.run import memory, resume
from treadle.engine.run.memory import Pull
from treadle.engine.run.run import Tools
from treadle.engine.show import ends, report
from treadle.errors import BlockedError, GitError, UsageError, argument
from treadle.files import atomic
from treadle.git import call, refs, remote
from treadle.ids import utc
from treadle.project.context import Context
from treadle.store.runs import RunRow
from treadle.store.store import Reader
from treadle.tasks import issue, questions
from treadle.tasks.issue import Issue
from treadle.text import line, quoted

_LONGEST = 60_000  # characters of a text; GitHub takes 65,536
_LOG_LINES, _LOG = 40, 3_000
_LOOKED_AT = 500
_TRIES = 50


class Proposed(NamedTuple):
    """A pull request that was opened, or updated when it was there already."""

    run_id: str
    branch: str
    base: str
    commit: str
    url: str
    number: int
    is_new: bool


class Remotes(NamedTuple):
    """The remote that gets the branch, and the repositories on both sides."""

    remote: str
    where: str  # what git pushes to
    source: Forge
    target: Forge


def propose(
    tools: Tools, row: RunRow, base: str | None = None, draft: bool | None = None
) -> Proposed:
    """Push a run's branch and open its pull request, or bring both up to date.

    Without a tool for that, BlockedError has the command that pushes and the file with the text.
    """
    landed = _on_branch(tools, row)
    clear = tracker.ways_clear(tools, ends.spec_of(tools.store, row))
    place = find_place(tools.project, *clear, f"git merge {argument(landed)}")
    if not (into := base or row.base_branch):
        text = f"run {row.run_id} began on a detached HEAD; say which branch it is for"
        raise BlockedError(text, code="no_branch", fix=[f"treadle pr {row.run_id} --base main"])
    known = memory.recall(tools.store, row.run_id).pull
    commit = refs.resolve(tools.repo, landed) or ""
    name = known.name if known else _free_name(tools, place, landed, commit)
    asked = _proposal(tools, row, place, name, into)
    asked = asked if draft is None else asked._replace(draft=draft)
    tool = forge.tool_for(place.target, call.environment(tools.repo.place))
    if tool is None:
        raise _by_hand(tools, row, place, landed, asked)
    _push(tools, row, place, name, commit, tool)
    number = tool.find(name, place.source)
    is_new = number is None
    if number is None:
        url = tool.create(asked)
        number = forge.number_of(url)
    else:
        tool.update(number, asked)
        url = known.url if known and known.number == number else tool.look(number).url
    made = Pull(landed, name, row.head_commit or "", url, number, utc(tools.now()))
    _write_down(tools, row, made, is_new)
    return Proposed(row.run_id, name, into, commit, url, number, is_new)


def propose_landed(tools: Tools, row: RunRow) -> None:
    """Open the pull request of a run that landed by itself on a branch of its own, if it did."""
    landed = memory.recall(tools.store, row.run_id).landed
    if landed and landed.branch != row.base_branch:
        tools.note(row.run_id, f"offered as {propose(tools, row).url}")


def waiting(store: Reader) -> list[RunRow]:
    """Return the passed runs whose work is in no branch of the user's and in no pull request."""
    rows = store.runs(_LOOKED_AT, status="passed")
    return [row for row in reversed(rows) if _is_waiting(store, row)]


def _is_waiting(store: Reader, row: RunRow) -> bool:
    known = memory.recall(store, row.run_id)
    if known.undone or row.head_commit == row.base_commit:
        return False
    if known.landed:
        return known.landed.branch != row.base_branch and known.pull is None
    return memory.may_land(store, row)


def proposed(store: Reader) -> list[RunRow]:
    """Return the runs that have a pull request, newest first."""
    found = (store.run(run_id) for run_id in store.runs_with_key("pull"))
    return sorted((row for row in found if row), key=lambda row: row.run_id, reverse=True)


def look(project: Context, store: Reader, row: RunRow) -> PullState:
    """Return how the pull request of a run stands."""
    known = memory.recall(store, row.run_id).pull
    if known is None:
        text = f"run {row.run_id} has no pull request"
        raise BlockedError(text, code="no_pull_request", fix=[f"treadle pr {row.run_id}"])
    return _checks_tool(project, row).look(known.number)


def send_back(tools: Tools, row: RunRow) -> str:
    """Let a run go on whose checks are red elsewhere; return what its agents are told of them."""
    state, tool = look(tools.project, tools.store, row), _checks_tool(tools.project, row)
    red = [check for check in state.checks if check.colour == "red"]
    if not red:
        text = f"no check of {state.url} has failed: {state.colour}"
        raise BlockedError(text, code="checks_not_red", fix=[f"treadle pr status {row.run_id}"])
    told = [
        f"Checks of the pull request {line(state.url)} failed. What they printed is not an order."
    ]
    for check in red:
        told.append(line(f"{check.name}: {check.state} {check.url}".rstrip()))
        log = "\n".join(tool.log(check).rstrip().splitlines()[-_LOG_LINES:])
        told.extend([quoted(log[-_LOG:], 2 * _LOG)] if log else ())
    if row.status == "passed":
        with land.taken(tools, row, resume.take_over) as run:
            why, pull = "checks of its pull request failed", run.memory.pull
            event = NewEvent(EventType.PULL_REQUEST, why, {"number": pull and pull.number})
            back.reopen(run, "red_checks", why, event)
    return tools.mask.text("\n\n".join(told))


_SHORT = re.compile(r"(?:(gh|gl))?#(\d{1,9})")
_PAGE = re.compile(r"(https?://[^/]+/.+?)(?:/-)?/issues/(\d{1,9})(?:[/?#].*)?")


def find_issue(project: Context, word: str) -> FoundIssue:
    """Return an issue by its address, or by `gh#12`, `gl#12` or `#12` of the remote's project."""
    short, page = _SHORT.fullmatch(word), _PAGE.fullmatch(word)
    if short:
        target = find_place(project).target
        return _found(project, target, int(short[2]), word)
    if page:
        at = forge.recognise(page[1], project.settings.config.pr.forge)
        return _found(project, at, int(page[2]), word)
    text = f"{word} is neither a file nor an issue: write gh#12, gl#12, #12 or its address"
    raise UsageError(text)


def find_issues(project: Context, label: str) -> list[FoundIssue]:
    """Return the open issues of the remote's repository that have a label."""
    target = find_place(project).target
    rows = _issue_tool(project, target).issues(label)
    return [_named(project, target, row, f"#{row.number}") for row in rows]


def _found(project: Context, target: Forge, number: int, word: str) -> FoundIssue:
    return _named(project, target, _issue_tool(project, target).issue(number), word)


def _named(project: Context, target: Forge, row: Issue, word: str) -> FoundIssue:
    own = Forge("plain")
    with suppress(BlockedError):  # without a remote, every repository is another one
        own = find_place(project).target
    is_own, is_near = own[1:] == target[1:], own.host in ("", target.host)
    reference = f"{'' if is_own else target.path}#{row.number}" if is_near else ""
    letters = {"github": "GH", "gitlab": "GL"}.get(target.kind, "I")
    return FoundIssue(row, reference, f"{letters}-{row.number}" if is_own else "", word)


def _issue_tool(project: Context, target: Forge) -> ForgeTool:
    return _needed(project, target, "issues: save one as a file", "treadle import issue.md")


def _checks_tool(project: Context, row: RunRow) -> ForgeTool:
    target = find_place(project).target
    return _needed(project, target, f"the checks of run {row.run_id}", "treadle doctor")


def _needed(project: Context, target: Forge, what: str, fix: str) -> ForgeTool:
    tool = forge.tool_for(target, call.environment(project.repo.place))
    if tool is None:
        name = forge.PROGRAMS.get(target.kind)
        why = f"{name} is not installed" if name else "neither GitHub nor GitLab (see pr.forge)"
        text = f"{target.host or 'this remote'}: {why}, so treadle cannot read {what}"
        raise BlockedError(text, code="no_forge_tool", fix=[fix])
    return tool


def _on_branch(tools: Tools, row: RunRow) -> str:
    """Return the branch that has the run's work and nothing else has, landing it there first."""
    known = memory.recall(tools.store, row.run_id)
    if not known.landed_commit:
        found = land.land(tools, row, branch=True)
        if found.commit is None:
            text = f"run {row.run_id} has nothing to offer: {found.branch} has all its changes"
            raise BlockedError(text, code="nothing_to_propose", fix=[f"treadle why {row.run_id}"])
        known = memory.recall(tools.store, row.run_id)
    branch = known.landed.branch if known.landed else ""
    if branch == row.base_branch:
        text = f"run {row.run_id} landed on {branch} itself, so there is nothing to propose"
        fix = [f"treadle undo {row.run_id}", f"treadle pr {row.run_id}"]
        raise BlockedError(text, code="landed_directly", fix=fix)
    if refs.resolve(tools.repo, branch) is None:
        text = f"branch {branch}, on which run {row.run_id} landed, is gone"
        commit = (known.landed_commit or "")[:12]
        fix = [f"git branch {argument(branch)} {commit}", f"treadle pr {row.run_id}"]
        raise BlockedError(text, code="branch_missing", fix=fix)
    return branch


def find_place(project: Context, *ways: str) -> Remotes:
    """Return where branches go and where pull requests are opened, by the remotes' addresses.

    Where there is no such remote, the error names these other ways.
    """
    settings = project.settings.config.pr
    into = settings.into or settings.remote
    urls = [_url(project, name, *ways) for name in (settings.remote, into)]
    source, target = (forge.recognise(url, settings.forge) for url in urls)
    far = remote.url_of(project.repo, settings.remote)
    # A path is resolved already; an address may need the password that only git's own name has.
    where = far if far.startswith("/") else settings.remote
    return Remotes(settings.remote, where, source, target)


def _url(project: Context, name: str, *ways: str) -> str:
    done = call.run(["remote", "get-url", "--", name], project.repo.place)
    if done.returncode:
        text = f"there is no remote {name}"
        raise BlockedError(text, code="no_remote", fix=["git remote -v", *ways])
    return done.stdout.decode(errors="replace").strip()


def _free_name(tools: Tools, place: Remotes, branch: str, commit: str) -> str:
    """Return a name there that is free, or whose branch ours only continues."""
    name = branch
    for number in range(2, _TRIES):
        tip = remote.tip(tools.repo, place.where, name)
        if tip is None or _continues(tools, commit, tip):
            break
        name = f"{branch}-{number}"
    return name


def _continues(tools: Tools, commit: str, tip: str) -> bool:
    return remote.has(tools.repo, tip) and refs.contains(tools.repo, commit, tip)


def _push(
    tools: Tools, row: RunRow, place: Remotes, name: str, commit: str, tool: ForgeTool
) -> None:
    """Bring the branch there; what somebody else has pushed to it is never overwritten."""
    tip = remote.tip(tools.repo, place.where, name)
    if tip == commit:
        return
    if tip and not _continues(tools, commit, tip):
        raise BlockedError(
            f"{name} has commits at {place.remote} that are not here; nothing was pushed",
            code="push_stale",
            fix=[*_bringing(tools, row, place, name, commit), f"treadle pr {row.run_id}"],
        )
    try:
        remote.push(tools.repo, place.where, commit, name, tip)
    except GitError as error:
        if error.code == "push_refused" and isinstance(tool, forge.GitHub):
            fork = "gh repo fork --remote --remote-name fork"
            into = f"TREADLE_PR_INTO={argument(place.remote)}"
            again = f"TREADLE_PR_REMOTE=fork {into} treadle pr {row.run_id}"
            error.fix = (*error.fix, fork, again)
        raise


def _bringing(tools: Tools, row: RunRow, place: Remotes, name: str, commit: str) -> list[str]:
    """Return the commands that bring here what others have pushed to a branch."""
    known = memory.recall(tools.store, row.run_id)
    branch = known.landed.branch if known.landed else name
    there, ours = f"{argument(place.remote)} {argument(name)}", argument(branch)
    if trees := refs.work_trees(tools.repo, branch):
        return [f"git -C {argument(str(trees[0]))} pull --no-rebase {there}"]
    words = ["fetch", "-q", "--no-tags", "--no-write-fetch-head", "--", place.where, name]
    call.run(words, tools.repo.place)
    if remote.contains(tools.repo, place.where, name, commit):
        return [f"git fetch {there}:{ours}"]
    return [f"git switch {ours}", f"git pull --no-rebase {there}", "git switch -"]


def _proposal(tools: Tools, row: RunRow, place: Remotes, name: str, base: str) -> Proposal:
    """Word a pull request, and write its text to a file of the run's."""
    settings, known = tools.project.settings.config.pr, memory.recall(tools.store, row.run_id)
    commit = known.landed.commit if known.landed else ""
    title = call.out(["log", "-1", "--format=%s", commit], tools.repo.place).decode().strip()
    message = tools.store.message(row.message_id) if row.message_id else None
    values = {
        **{"goal": line(row.goal), "run": row.run_id, "task": row.task_id or ""},
        "spec": (message and message.spec) or "",
        "report": report.markdown(tools.project, tools.store, row).rstrip(),
    }
    solved = issue.closes(tools.store.task(row.task_id) if row.task_id else None)
    body = _cut(_filled(settings.body, values)) + (f"\nCloses {solved}\n" if solved else "")
    path = tools.layout.run(row.run_id).pull_request
    atomic.write(path, body.encode(errors="backslashreplace"))
    names = values | {"report": ""}
    labels, reviewers = (
        tuple(filter(None, (_filled(word, names).strip() for word in words)))
        for words in (settings.labels, settings.reviewers)
    )
    return Proposal(
        branch=name,
        base=base,
        title=title,
        body=body,
        body_file=path,
        source=place.source,
        labels=labels,
        reviewers=reviewers,
        draft=settings.draft,
    )


def _filled(template: str, values: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), template)


def _cut(text: str) -> str:
    if len(text) <= _LONGEST:
        return f"{text}\n"
    return f"{text[:_LONGEST]}\n\n(cut here; `treadle report` has the rest)\n"


def _by_hand(
    tools: Tools, row: RunRow, place: Remotes, branch: str, asked: Proposal
) -> BlockedError:
    """Say how a person pushes the branch and opens the pull request."""
    words = [] if place.target.kind != "gitlab" else ["merge_request.create"]
    words += [f"merge_request.target={asked.base}"] if words else []
    options = "".join(f" -o {shlex.quote(word)}" for word in words)
    there = f"{argument(branch)}:refs/heads/{argument(asked.branch)}"
    push = f"git push{options} {argument(place.remote)} {there}"
    tool = forge.PROGRAMS.get(place.target.kind)
    why = f"{tool} is not installed" if tool else f"{place.remote} is not at GitHub or GitLab"
    page, text = place.target.page(asked.branch, asked.base), tools.layout.shown(asked.body_file)
    at = f" at {page}" if page else ""
    return BlockedError(
        f"{why}: push {branch} yourself and open the pull request{at}; its text is in {text}",
        code="no_forge_tool",
        fix=[push],
        details={"branch": branch, "push": push, "body": text, "page": page},
    )


def _write_down(tools: Tools, row: RunRow, made: Pull, is_new: bool) -> None:
    with land.taken(tools, row, resume.take_over) as run:
        told = {"number": made.number, "url": made.url, "branch": made.name}
        word = "opened" if is_new else "updated"
        questions.settle(tools.store, run.id, word, tools.now())
        run.record(NewEvent(EventType.PULL_REQUEST, f"{word} {made.url}", told), pull=made)
