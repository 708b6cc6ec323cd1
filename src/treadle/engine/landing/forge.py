"""Speak to the place where a repository is hosted, through the user's own `gh` or `glab`."""

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol
from urllib.parse import quote

from treadle.errors import BlockedError, TreadleError
from treadle.proc import helper
from treadle.sandbox.mask import Mask
from treadle.tasks.issue import Issue
from treadle.text import line

Kind = Literal["github", "gitlab", "gitea", "plain"]
Colour = Literal["green", "red", "pending", "none"]

_URL = re.compile(r"(https?|ssh|git|git\+ssh)://(?:[^@/]*@)?([^/:]+)(:\d+)?/(.+)")
_SCP = re.compile(r"(?:[^@/\s]+@)?([\w.-]+):(?!//)(.+)")
# Who has several keys calls hosts so in the settings of ssh: github.com-work, github-work.
_ALIAS = re.compile(r"\A(github|gitlab)(?:\.com)?[-_][\w-]+\Z")
_KINDS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    ("github", ("github",)),
    ("gitlab", ("gitlab",)),
    ("gitea", ("gitea", "forgejo", "codeberg.org")),
)
PROGRAMS: Mapping[Kind, str] = {"github": "gh", "gitlab": "glab"}
_ADDRESS = re.compile(r"https?://\S+")
_PATIENCE = 120.0  # seconds for one call of a tool
# Both tools ask, page, colour and look for news of themselves unless they are told not to.
_QUIET = {
    **dict.fromkeys(("GH_PROMPT_DISABLED", "GH_NO_UPDATE_NOTIFIER", "NO_COLOR", "NO_PROMPT"), "1"),
    **dict.fromkeys(("GH_PAGER", "GLAB_PAGER", "PAGER"), "cat"),
    "GLAB_CHECK_UPDATE": "false",
}
_LOGIN = ("auth login", "401", "unauthorized", "bad credentials", "not logged in", "gh_token")
_NEEDS_LOGIN = 4  # what gh ends with


class Forge(NamedTuple):
    """Where a repository is hosted, by the address of a remote."""

    kind: Kind
    host: str = ""
    path: str = ""  # the repository there, such as owner/name

    @property
    def name(self) -> str:
        """Return the repository's name with its host, as the tools take it."""
        return f"{self.host}/{self.path}"

    @property
    def url(self) -> str:
        """Return the repository's address."""
        return f"https://{self.host}/{self.path}"

    @property
    def owner(self) -> str:
        """Return whose repository it is."""
        return self.path.rpartition("/")[0]

    def page(self, branch: str, base: str) -> str | None:
        """Return the address at which a person opens a pull request."""
        at = self.url
        names = quote(branch), quote(base)
        if self.kind == "gitlab":
            source, target = (quote(f"merge_request[{it}_branch]") for it in ("source", "target"))
            return f"{at}/-/merge_requests/new?{source}={names[0]}&{target}={names[1]}"
        return None if self.kind == "plain" else f"{at}/compare/{names[1]}...{names[0]}"


def recognise(url: str, kind: str = "auto") -> Forge:
    """Tell what an address leads to: by its host, unless somebody said what it is."""
    found = _URL.fullmatch(url)
    plain = None if found or "://" in url or url.startswith(("/", ".")) else _SCP.fullmatch(url)
    if found:
        port = found[3] or "" if found[1].startswith("http") else ""
        host, path = f"{found[2]}{port}", found[4]
    elif plain:
        host, path = _ALIAS.sub(r"\1.com", plain[1]), plain[2]
    else:
        return Forge("plain")
    known = next((it for it, words in _KINDS if any(word in host.lower() for word in words)), None)
    chosen: Any = known or "plain" if kind == "auto" else kind
    return Forge(chosen, host.lower(), path.strip("/").removesuffix(".git"))


class Proposal(NamedTuple):
    """A pull request as it should be; `source` is where its branch lies."""

    branch: str
    base: str
    title: str
    body: str
    body_file: Path
    source: Forge
    labels: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()
    draft: bool = False


class CheckState(NamedTuple):
    """One check of a pull request; `job` names its log to the tool."""

    name: str
    colour: Colour
    state: str
    url: str = ""
    job: str = ""


class PullState(NamedTuple):
    """How a pull request stands: open, merged or closed, and what its checks say."""

    state: str
    url: str
    draft: bool = False
    review: str = ""
    checks: tuple[CheckState, ...] = ()

    @property
    def colour(self) -> Colour:
        """Return what the checks say together."""
        found = {check.colour for check in self.checks} - {"none"}
        order: tuple[Colour, ...] = ("red", "pending", "green")
        return next((it for it in order if it in found), "none")


class FoundIssue(NamedTuple):
    """An issue, how a commit names it, the id its task gets, and the word that finds it again."""

    issue: Issue
    reference: str
    task_id: str
    word: str


class ForgeTool(Protocol):
    """A program that speaks for the user at one kind of host."""

    def find(self, branch: str, source: Forge) -> int | None:
        """Return the number of the open pull request of a branch."""

    def create(self, asked: Proposal) -> str:
        """Open a pull request and return its address."""

    def update(self, number: int, asked: Proposal) -> None:
        """Give a pull request its new text."""

    def look(self, number: int) -> PullState:
        """Return how a pull request stands."""

    def log(self, check: CheckState) -> str:
        """Return the end of what a check printed; nothing if it cannot be had."""

    def issue(self, number: int) -> Issue:
        """Return an issue."""

    def issues(self, label: str) -> list[Issue]:
        """Return the open issues that have a label, the oldest first."""


class Program(NamedTuple):
    """One of the user's programs and what it may know."""

    name: str
    path: str
    env: Mapping[str, str]
    host: str

    def out(self, *words: str) -> str:
        """Run it to its end and return what it printed, or raise BlockedError with its reason."""
        argv = (*helper.FROM_NOWHERE, self.path, *words)
        try:
            done = helper.run(argv, {**self.env, **_QUIET}, timeout=_PATIENCE)
        except TreadleError as error:
            if error.code != "helper_timeout":
                raise
            text, fix = f"{self.name} did not answer within {_PATIENCE:g} s", (self._state,)
            raise BlockedError(text, code="forge_failed", fix=fix) from None
        if done.returncode == 0:
            return done.stdout.decode(errors="replace")
        said = Mask(self.env).text((done.stderr or done.stdout).decode(errors="replace").strip())
        raise self._refusal(" ".join(words[:2]), done.returncode, said)

    def json(self, *words: str) -> Any:
        """Run it and return the document it printed."""
        text = self.out(*words)
        try:
            return json.loads(text)
        except ValueError:
            why = f"{self.name} {words[0]} {words[1]} did not answer with JSON: {line(text)[:200]}"
            raise BlockedError(why, code="forge_failed", fix=[f"{self.name} --version"]) from None

    def _refusal(self, what: str, code: int, said: str) -> BlockedError:
        login = f"{self.name} auth login --hostname {self.host}"
        if code == _NEEDS_LOGIN or any(word in said.lower() for word in _LOGIN):
            text = f"{self.name} is not logged in at {self.host}: {line(said)[:500]}"
            return BlockedError(text, code="forge_login", fix=[login])
        text = f"{self.name} {what} failed: {line(said)[:500] or f'exit code {code}'}"
        return BlockedError(text, code="forge_failed", fix=[self._state])

    @property
    def _state(self) -> str:
        return f"{self.name} auth status"


def tool_for(forge: Forge, env: Mapping[str, str]) -> ForgeTool | None:
    """Return what can open pull requests there, if the user has it."""
    name = PROGRAMS.get(forge.kind)
    path = shutil.which(name, path=env.get("PATH")) if name else None
    if name is None or path is None:
        return None
    program = Program(name, path, env, forge.host)
    return GitHub(program, forge) if name == "gh" else GitLab(program, forge)


@contextmanager
def _understood(name: str) -> Iterator[None]:
    """Name the tool whose JSON has another shape than the one it had so far."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        text = f"{name} answered with JSON that treadle cannot read: {line(repr(error))[:200]}"
        raise BlockedError(text, code="forge_failed", fix=[f"{name} --version"]) from None


def number_of(url: str) -> int:
    """Return the number of a pull request by its address; 0 if it has none."""
    digits = re.search(r"/(\d+)(?:[?#].*)?$", url.rstrip("/"))
    return int(digits[1]) if digits else 0


def _address(said: str) -> str:
    found = _ADDRESS.findall(said)
    if not found:
        text = f"no pull request address in: {line(said)[:300]}"
        raise BlockedError(text, code="forge_failed", fix=["treadle pr status"])
    return str(found[-1])


def _each(option: str, values: Sequence[str]) -> Iterator[str]:
    for value in values:
        yield from (option, value)


_GREEN = ("SUCCESS", "NEUTRAL", "SKIPPED", "success", "skipped", "manual")
_RED = (
    *("FAILURE", "ERROR", "CANCELLED", "TIMED_OUT", "ACTION_REQUIRED", "STARTUP_FAILURE"),
    *("failed", "canceled"),
)
_JOB = re.compile(r"/actions/runs/\d+/job/(\d+)")


def _colour(state: str) -> Colour:
    return "green" if state in _GREEN else "red" if state in _RED else "pending"


class GitHub(NamedTuple):
    """Pull requests through `gh`."""

    gh: Program
    forge: Forge

    @_understood("gh")
    def find(self, branch: str, source: Forge) -> int | None:
        fields = ("--state", "open", "--json", "number,headRepositoryOwner")
        rows = self.gh.json("pr", "list", "--repo", self.forge.name, "--head", branch, *fields)
        owner = source.owner.lower()
        mine = [it for it in rows if _login(it) in ("", owner)]
        return int(mine[0]["number"]) if mine else None

    def create(self, asked: Proposal) -> str:
        is_fork = asked.source.path.lower() != self.forge.path.lower()
        head = f"{asked.source.owner}:{asked.branch}" if is_fork else asked.branch
        words = ["--repo", self.forge.name, "--head", head, "--base", asked.base]
        words += ["--title", asked.title, "--body-file", str(asked.body_file)]
        words += [*_each("--label", asked.labels), *_each("--reviewer", asked.reviewers)]
        words += ["--draft"] if asked.draft else []
        return _address(self._labelled(asked, "pr", "create", *words))

    def update(self, number: int, asked: Proposal) -> None:
        words = ["--repo", self.forge.name, "--body-file", str(asked.body_file)]
        words += [*_each("--add-label", asked.labels), *_each("--add-reviewer", asked.reviewers)]
        self._labelled(asked, "pr", "edit", str(number), *words)

    def _labelled(self, asked: Proposal, *words: str) -> str:
        """Run it; GitHub takes only labels that are there, so that missing ones are made first."""
        try:
            return self.gh.out(*words)
        except BlockedError as error:
            if not any(f"'{line(label)}' not found" in error.message for label in asked.labels):
                raise
        for label in asked.labels:
            with suppress(BlockedError):  # it is there
                self.gh.out("label", "create", label, "--repo", self.forge.name)
        return self.gh.out(*words)

    @_understood("gh")
    def look(self, number: int) -> PullState:
        fields = "state,url,isDraft,reviewDecision,statusCheckRollup"
        it = self.gh.json("pr", "view", str(number), "--repo", self.forge.name, "--json", fields)
        checks = tuple(map(_github_check, it.get("statusCheckRollup") or ()))
        review = str(it.get("reviewDecision") or "").lower()
        state = str(it.get("state", "")).lower()
        return PullState(state, str(it.get("url", "")), bool(it.get("isDraft")), review, checks)

    def log(self, check: CheckState) -> str:
        if not check.job:
            return ""
        words = ("--repo", self.forge.name, "--job", check.job, "--log-failed")
        try:
            return self.gh.out("run", "view", *words)
        except BlockedError:  # logs go away after a while
            return ""

    @_understood("gh")
    def issue(self, number: int) -> Issue:
        words = ("--repo", self.forge.name, "--json", _ISSUE)
        return _github_issue(self.gh.json("issue", "view", str(number), *words))

    @_understood("gh")
    def issues(self, label: str) -> list[Issue]:
        words = ("--repo", self.forge.name, "--label", label, "--state", "open")
        rows = self.gh.json("issue", "list", *words, "--limit", "10000", "--json", _ISSUE)
        return sorted(map(_github_issue, rows))


_ISSUE = "number,title,body,url"
_PAGE = 100  # the most that GitLab gives at once


def _github_issue(it: Mapping[str, Any]) -> Issue:
    return Issue(int(it["number"]), *(str(it.get(name) or "") for name in ("title", "body", "url")))


def _login(row: Mapping[str, Any]) -> str:
    return str((row.get("headRepositoryOwner") or {}).get("login", "")).lower()


def _github_check(it: Mapping[str, Any]) -> CheckState:
    """Read a check run or, from older services, a status."""
    state = str(it.get("conclusion") or it.get("state") or it.get("status") or "PENDING")
    url = str(it.get("detailsUrl") or it.get("targetUrl") or "")
    job = _JOB.search(url)
    name = str(it.get("name") or it.get("context") or "check")
    return CheckState(name, _colour(state), state.lower(), url, job[1] if job else "")


class GitLab(NamedTuple):
    """Merge requests through `glab`."""

    glab: Program
    forge: Forge

    @_understood("glab")
    def find(self, branch: str, source: Forge) -> int | None:
        words = ("--repo", self.forge.url, "--source-branch", branch, "--output", "json")
        rows = self.glab.json("mr", "list", *words)
        if rows:  # a fork of somebody else's may have a branch of this name, too
            mine = self._id(source.path)
            rows = [it for it in rows if it["source_project_id"] == mine]
        return int(rows[0]["iid"]) if rows else None

    @_understood("glab")
    def create(self, asked: Proposal) -> str:
        """Open it by what `glab mr create` calls, which itself works only in a clone."""
        fields = {"source_branch": asked.branch, "target_branch": asked.base}
        fields["title"] = f"Draft: {asked.title}" if asked.draft else asked.title
        fields |= {"description": asked.body, "target_project_id": str(self._id(self.forge.path))}
        words = _each("--raw-field", [f"{name}={value}" for name, value in fields.items()])
        made = json.loads(self._api("/merge_requests", asked.source.path, *words))
        if asked.labels or asked.reviewers:
            self.update(int(made["iid"]), asked)
        return str(made["web_url"])

    def update(self, number: int, asked: Proposal) -> None:
        words = ["--repo", self.forge.url, "--description", asked.body]
        more = [f"+{name}" for name in asked.reviewers]  # without `+` those of others would go
        words += [*_each("--label", asked.labels), *_each("--reviewer", more)]
        self.glab.out("mr", "update", str(number), *words)

    @_understood("glab")
    def look(self, number: int) -> PullState:
        words = ("--repo", self.forge.url, "--output", "json")
        it = self.glab.json("mr", "view", str(number), *words)
        state = {"opened": "open"}.get(it.get("state"), str(it.get("state", "")))
        review = str(it.get("detailed_merge_status") or "")
        checks = tuple(self._checks((it.get("head_pipeline") or {}).get("id")))
        return PullState(state, str(it.get("web_url", "")), bool(it.get("draft")), review, checks)

    def log(self, check: CheckState) -> str:
        try:
            return self._api(f"/jobs/{check.job}/trace") if check.job else ""
        except BlockedError:
            return ""

    def _checks(self, pipeline: int | None) -> Iterator[CheckState]:
        if pipeline is None:
            return
        for it in json.loads(self._api(f"/pipelines/{int(pipeline)}/jobs?per_page=100")):
            state = str(it.get("status", "pending"))
            colour = "green" if it.get("allow_failure") and state == "failed" else _colour(state)
            yield CheckState(
                str(it["name"]), colour, state, str(it.get("web_url", "")), str(it["id"])
            )

    def _id(self, path: str) -> int:
        return int(json.loads(self._api("", path))["id"])

    def _api(self, what: str, path: str = "", *words: str) -> str:
        at = f"projects/{quote(path or self.forge.path, safe='')}{what}"
        return self.glab.out("api", "--hostname", self.forge.host, at, *words)

    @_understood("glab")
    def issue(self, number: int) -> Issue:
        words = ("--repo", self.forge.url, "--output", "json")
        return _gitlab_issue(self.glab.json("issue", "view", str(number), *words))

    @_understood("glab")
    def issues(self, label: str) -> list[Issue]:
        words = ["--repo", self.forge.url, "--label", label, "--per-page", str(_PAGE)]
        words += ["--output", "json", "--page"]
        found, page = list[Issue](), 0
        while len(found) == page * _PAGE:
            page += 1
            found += map(_gitlab_issue, self.glab.json("issue", "list", *words, str(page)))
        return sorted(found)


def _gitlab_issue(it: Mapping[str, Any]) -> Issue:
    names = ("title", "description", "web_url")
    return Issue(int(it["iid"]), *(str(it.get(name) or "") for name in names))
