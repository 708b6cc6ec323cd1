"""Stand-ins for `gh` and `glab` that keep pull requests in a file and take no wrong argument."""

import json
import sys
from pathlib import Path

from tests.builder import git

# What each command takes: its options with a value, then those without.
SHELL = """#!{python} -SE
import json, os, pathlib, sys
TOOL, BOOK = {tool!r}, pathlib.Path({book!r})
book = json.loads(BOOK.read_text())
words = sys.argv[1:]

def fail(text, code=1):
    print(text, file=sys.stderr); sys.exit(code)

if os.getcwd() != "/" or any(name.startswith("GIT_WORK") for name in os.environ):
    fail("started inside somebody's repository")
if not book["logged_in"]:
    fail("To get started with GitHub CLI, please run:  gh auth login", 4)
if any(name == "GH_TOKEN" for name in os.environ) and book.get("leak"):
    fail("HTTP 403: token " + os.environ["GH_TOKEN"] + " has no rights")

def parse(values, flags=()):
    found, rest, at = {{}}, [], 2
    while at < len(words):
        word = words[at]
        if word in flags:
            found[word] = True
        elif word in values:
            found.setdefault(word, []).append(words[at + 1]); at += 1
        elif word.startswith("-"):
            fail("unknown flag: " + word)
        else:
            rest.append(word)
        at += 1
    return {{key: value if value is True else value if key in MANY else value[-1]
            for key, value in found.items()}}, rest

MANY = ("--label", "--reviewer", "--add-label", "--add-reviewer", "--raw-field")
def number_of(path):
    return sum(map(ord, path))
def need(given, *names):
    for name in names:
        if name not in given:
            fail("missing " + name)
def at(rest):
    return next(it for it in book["pulls"] if str(it["number"]) == rest[0])
def issue(number, at):
    if number not in book["issues"]:
        fail("GraphQL: Could not resolve to an issue or pull request with the number of " + number)
    it = book["issues"][number]
    return {{"number": int(number), "title": it["title"], "body": it["body"],
            "url": "https://" + at + number}}
def keep(found, text, labels, reviewers):
    found["body"] = text
    found["labels"] = sorted({{*found.get("labels", ()), *labels}})
    found["reviewers"] = sorted({{*found.get("reviewers", ()), *reviewers}})
    for label in labels:
        if TOOL == "gh" and label not in book["labels"]:
            fail(f"could not add label: '{{label}}' not found")

"""
GH = """
command = tuple(words[:2])
if command == ("pr", "list"):
    given, rest = parse(("--repo", "--head", "--state", "--json"))
    need(given, "--repo", "--head", "--state", "--json")
    print(json.dumps([{"number": it["number"], "headRepositoryOwner": {"login": it["owner"]}}
                      for it in book["pulls"] if it["head"] == given["--head"]]))
elif command == ("pr", "create"):
    given, rest = parse(("--repo", "--head", "--base", "--title", "--body-file", *MANY),
                        ("--draft",))
    need(given, "--repo", "--head", "--base", "--title", "--body-file")
    host, owner, name = given["--repo"].split("/")
    who, _, head = given["--head"].rpartition(":")
    number = len(book["pulls"]) + 12
    made = {"number": number, "head": head, "owner": who or owner, "base": given["--base"],
            "title": given["--title"], "draft": given.get("--draft", False)}
    keep(made, pathlib.Path(given["--body-file"]).read_text(),
         given.get("--label", ()), given.get("--reviewer", ()))
    book["pulls"].append(made)
    print("Creating pull request for " + head, file=sys.stderr)
    print(f"https://{host}/{owner}/{name}/pull/{number}")
elif command == ("pr", "edit"):
    given, rest = parse(("--repo", "--body-file", *MANY))
    need(given, "--repo", "--body-file")
    keep(at(rest), pathlib.Path(given["--body-file"]).read_text(),
         given.get("--add-label", ()), given.get("--add-reviewer", ()))
elif command == ("pr", "view"):
    given, rest = parse(("--repo", "--json"))
    assert given["--json"] == "state,url,isDraft,reviewDecision,statusCheckRollup"
    it = at(rest)
    print(json.dumps({"state": "OPEN", "url": "https://" + given["--repo"] + "/pull/" + rest[0],
                      "isDraft": it["draft"], "reviewDecision": "",
                      "statusCheckRollup": book["checks"]}))
elif command == ("issue", "view"):
    given, (number,) = parse(("--repo", "--json"))
    assert given["--json"] == "number,title,body,url"
    print(json.dumps(issue(number, given["--repo"] + "/issues/")))
elif command == ("issue", "list"):
    given, rest = parse(("--repo", "--label", "--state", "--limit", "--json"))
    need(given, "--repo", "--label", "--state", "--limit", "--json")
    print(json.dumps([issue(number, given["--repo"] + "/issues/") for number in book["issues"]
                      if given["--label"][0] in book["issues"][number]["labels"]]
                     [:int(given["--limit"])]))
elif command == ("label", "create"):
    given, (name,) = parse(("--repo",))
    need(given, "--repo")
    if name in book["labels"]:
        fail(f'label with name "{name}" already exists; use `--force` to update its color')
    book["labels"].append(name)
elif command == ("run", "view"):
    given, rest = parse(("--repo", "--job"), ("--log-failed",))
    need(given, "--repo", "--job", "--log-failed")
    print(book["logs"][given["--job"]])
else:
    fail("unknown command " + " ".join(words[:2]))
BOOK.write_text(json.dumps(book))
"""
GLAB = """
command = tuple(words[:2])
if "--repo" in words and not words[words.index("--repo") + 1].startswith("https://gitlab.com/"):
    fail("a repository is named by its address, for two slashes are a group")
if command == ("mr", "list"):
    given, rest = parse(("--repo", "--source-branch", "--output"))
    need(given, "--repo", "--source-branch", "--output")
    print(json.dumps([{"iid": it["number"], "source_project_id": number_of(it["owner"])}
                      for it in book["pulls"] if it["head"] == given["--source-branch"]]))
elif command == ("mr", "create"):
    sys.exit(0)  # as the real one does outside of a clone: nothing at all
elif command == ("mr", "update"):
    given, rest = parse(("--repo", "--description", *MANY))
    asked = given.get("--reviewer", ())
    if not all(who.startswith("+") for who in asked):
        at(rest)["reviewers"] = []
    keep(at(rest), given["--description"], given.get("--label", ()),
         [who.lstrip("+") for who in asked])
elif command == ("mr", "view"):
    given, rest = parse(("--repo", "--output"))
    it = at(rest)
    print(json.dumps({"state": "opened", "draft": it["draft"], "head_pipeline": {"id": 5},
                      "web_url": f"{given['--repo']}/-/merge_requests/{rest[0]}"}))
elif command == ("issue", "view"):
    given, (number,) = parse(("--repo", "--output"))
    it = issue(number, given["--repo"].removeprefix("https://") + "/-/issues/")
    print(json.dumps({"iid": it["number"], "title": it["title"], "description": it["body"],
                      "web_url": it["url"]}))
elif command == ("issue", "list"):
    given, rest = parse(("--repo", "--label", "--per-page", "--page", "--output"))
    need(given, "--repo", "--label", "--per-page", "--output")
    size = min(int(given["--per-page"]), 100)
    begin = (int(given.get("--page", 1)) - 1) * size
    print(json.dumps([{"iid": int(number), "title": it["title"], "description": it["body"]}
                      for number, it in book["issues"].items()
                      if given["--label"][0] in it["labels"]][begin:begin + size]))
elif command[0] == "api":
    words.insert(1, "")
    given, (path,) = parse(("--hostname", "--raw-field"))
    need(given, "--hostname")
    if path.endswith("/merge_requests"):
        told = dict(field.split("=", 1) for field in given["--raw-field"])
        number = len(book["pulls"]) + 7
        owner = path.split("/")[1].replace("%2F", "/")
        book["pulls"].append({
            "number": number, "head": told["source_branch"], "base": told["target_branch"],
            "owner": owner, "title": told["title"].removeprefix("Draft: "),
            "draft": told["title"].startswith("Draft: "), "body": told["description"],
            "labels": [], "reviewers": [], "into": int(told["target_project_id"])})
        at = f"https://{given['--hostname']}/{owner}/-/merge_requests/{number}"
        print(json.dumps({"iid": number, "web_url": at}))
    elif path.endswith("/pipelines/5/jobs?per_page=100"):
        print(json.dumps(book["checks"]))
    elif path.count("/") == 1:
        print(json.dumps({"id": number_of(path.split("/")[1].replace("%2F", "/"))}))
    else:
        print(book["logs"][path.removesuffix("/trace").rpartition("/")[2]])
else:
    fail("unknown command " + " ".join(words[:2]))
BOOK.write_text(json.dumps(book))
"""
BOOK = {"logged_in": True, "pulls": [], "checks": [], "logs": {}, "issues": {}, "labels": []}


class ToyForge:
    """A bare repository behind the address of a forge, and the program that speaks for it."""

    def __init__(self, folder: Path, tool: str | None) -> None:
        self.bin, self.book, self.hub = folder / "bin", folder / "book.json", folder / "hub.git"
        self.bin.mkdir(parents=True)
        self.tell(**BOOK)
        git(folder, "init", "-q", "--bare", str(self.hub))
        if tool:
            head = SHELL.format(python=sys.executable, tool=tool, book=str(self.book))
            (self.bin / tool).write_text(head + {"gh": GH, "glab": GLAB}[tool])
            (self.bin / tool).chmod(0o755)

    def connect(self, root: Path, url: str) -> "ToyForge":
        """Let a repository's origin have this address, and git push to the bare one."""
        git(root, "remote", "add", "origin", url)
        git(root, "config", f"url.{self.hub}.pushInsteadOf", url)
        git(root, "push", "-q", "origin", "HEAD:refs/heads/main")
        return self

    @property
    def known(self) -> dict:
        return json.loads(self.book.read_text())

    def tell(self, **changes: object) -> None:
        before = self.known if self.book.exists() else {}
        self.book.write_text(json.dumps(before | changes))

    def tip(self, name: str) -> str:
        return git(
            self.hub, "rev-parse", "--verify", "-q", f"refs/heads/{name}", check=False
        ).strip()
