"""`treadle pr`: real pushes to a bare repository, with stand-ins for the forges' own programs."""

import os
import shlex
import shutil

import pytest

from tests.acceptance.forges import ToyForge
from tests.acceptance.site import Site
from tests.builder import PATH, git
from treadle.engine.landing import forge
from treadle.errors import BlockedError

GITHUB = "https://github.com/me/toy.git"
RED = {
    "__typename": "CheckRun",
    "name": "test (3.12)",
    "status": "COMPLETED",
    "conclusion": "FAILURE",
    "detailsUrl": "https://github.com/me/toy/actions/runs/5/job/77",
}
GREEN = {"context": "ci/lint", "state": "SUCCESS", "targetUrl": "https://ci.example/1"}


@pytest.mark.parametrize(
    ("url", "kind", "name"),
    [
        ("git@github.com:me/toy.git", "github", "github.com/me/toy"),
        ("git@github.com-work:me/toy.git", "github", "github.com/me/toy"),
        ("gitlab_work:me/toy.git", "gitlab", "gitlab.com/me/toy"),
        ("git@gitlab:me/toy.git", "gitlab", "gitlab/me/toy"),
        ("https://user:pw@github.com/me/toy", "github", "github.com/me/toy"),
        ("ssh://git@gitlab.example.org:2222/a/b/toy.git", "gitlab", "gitlab.example.org/a/b/toy"),
        ("https://gitea.local:3000/me/toy/", "gitea", "gitea.local:3000/me/toy"),
        ("codeberg.org:me/toy.git", "gitea", "codeberg.org/me/toy"),
        ("https://example.org/me/github.git", "plain", "example.org/me/github"),
        ("/srv/git/github.com/toy.git", "plain", "/"),
        ("../toy.git", "plain", "/"),
        ("file:///srv/toy.git", "plain", "/"),
    ],
)
def test_a_forge_is_recognised_by_its_address(url, kind, name):
    assert (forge.recognise(url).kind, forge.recognise(url).name) == (kind, name)
    assert forge.recognise(url, "gitlab").kind == ("gitlab" if name != "/" else "plain")


@pytest.mark.parametrize(
    ("url", "page"),
    [
        ("git@github.com:me/toy.git", "https://github.com/me/toy/compare/main...treadle/x"),
        ("codeberg.org:me/toy.git", "https://codeberg.org/me/toy/compare/main...treadle/x"),
        (
            "git@gitlab.com:me/toy.git",
            "https://gitlab.com/me/toy/-/merge_requests/new?merge_request%5Bsource_branch%5D=treadle/x"
            "&merge_request%5Btarget_branch%5D=main",
        ),
        ("/srv/toy.git", None),
    ],
)
def test_a_person_opens_it_at_a_page(url, page):
    assert forge.recognise(url).page("treadle/x", "main") == page


@pytest.mark.parametrize("tool", ["gh", "glab"])
def test_both_programs_open_update_and_read_back(tool, tmp_path):
    toy = ToyForge(tmp_path, tool)
    host = {"gh": "github.com", "glab": "gitlab.com"}[tool]
    here, body = forge.recognise(f"git@{host}:me/toy.git"), tmp_path / "body.md"
    body.write_text("text")
    speaker = forge.tool_for(here, {"PATH": f"{toy.bin}:{PATH}"})
    asked = forge.Proposal("b", "main", "A title", "text", body, here, ("agent",), ("ann",), True)
    assert speaker.find("b", here) is None
    number = forge.number_of(speaker.create(asked))
    assert speaker.find("b", here) == number
    body.write_text("new text")
    fork = forge.recognise(f"git@{host}:bob/toy.git")
    speaker.create(asked._replace(branch="c", source=fork))
    assert toy.known["pulls"][-1]["owner"] in ("bob", "bob/toy")
    assert toy.known["pulls"][-1].get("into", sum(b"me/toy")) == sum(b"me/toy")
    # A branch of the same name in somebody else's fork is no business of ours.
    assert (speaker.find("c", here), speaker.find("c", fork)) == (None, number + 1)
    # Whom people have asked for a review meanwhile stays asked.
    toy.tell(pulls=[toy.known["pulls"][0] | {"reviewers": ["ann", "cy"]}])
    speaker.update(number, asked._replace(body="new text"))
    (kept,) = toy.known["pulls"]
    assert (kept["body"], kept["labels"]) == ("new text", ["agent"])
    assert kept["reviewers"] == ["ann", "cy"]
    assert toy.known["labels"] == (["agent"] if tool == "gh" else [])
    asks = {"title": "Ask", "body": "Please", "labels": ["agent"]}
    toy.tell(issues={"9": asks, "8": asks | {"labels": []}})
    assert speaker.issue(8)[:3] == (8, "Ask", "Please")
    assert [it.number for it in speaker.issues("agent")] == [9]
    jobs = [
        {"id": 77, "name": "test (3.12)", "status": "failed"},
        {"id": 8, "name": "x", "status": "success"},
    ]
    toy.tell(checks=[RED, GREEN] if tool == "gh" else jobs, logs={"77": "it broke"})
    state = speaker.look(number)
    assert (state.state, state.draft, state.colour) == ("open", True, "red")
    assert speaker.log(state.checks[0]).strip() == "it broke"


@pytest.mark.parametrize("tool", ["gh", "glab"])
@pytest.mark.parametrize("said", ["null", "7", '[{"number": null, "iid": []}]'])
def test_an_answer_of_another_shape_is_named(tool, said, tmp_path):
    (tmp_path / tool).write_text(f"#!/bin/sh\necho '{said}'\n")
    (tmp_path / tool).chmod(0o755)
    here = forge.recognise(f"git@{ {'gh': 'github.com', 'glab': 'gitlab.com'}[tool] }:me/toy.git")
    speaker = forge.tool_for(here, {"PATH": f"{tmp_path}:{PATH}"})
    asks = [lambda: speaker.look(1), lambda: speaker.issue(1), lambda: speaker.issues("a")]
    for ask in asks + [lambda: speaker.find("b", here)] * (said != "null" or tool == "gh"):
        with pytest.raises(BlockedError) as refused:
            ask()
        assert refused.value.code == "forge_failed"
        assert [*refused.value.fix] == [f"{tool} --version"]


@pytest.fixture
def hub(project, tmp_path, monkeypatch):
    toy = ToyForge(tmp_path / "forge", "gh").connect(project.root, GITHUB)
    monkeypatch.setenv("PATH", f"{toy.bin}:{os.environ['PATH']}")
    return toy


def offer(site, *words):
    return site.project.treadle("pr", *words, "--json")


@pytest.mark.real
def test_a_second_pr_updates_the_first_and_red_checks_go_back(project, hub):
    site = Site(project)
    labels = '[pr]\nlabels = ["agent", "{task}"]\nreviewers = ["ann", "{task}"]\n'
    run_id = site.passed(
        "echo done >> done.txt", extra=f'{labels}body = "By treadle\\n\\n{{report}}"\n'
    )
    main = site.tip("main")
    (made,) = offer(site, run_id, "--draft").json["pull_requests"]
    assert (made["url"], made["is_new"]) == ("https://github.com/me/toy/pull/12", True)
    assert hub.tip("treadle/make-done") == made["commit"] == site.tip("treadle/make-done")
    assert site.tip("main") == main
    (pull,) = hub.known["pulls"]
    assert (pull["title"], pull["base"], pull["draft"]) == ("Make done", "main", True)
    assert (pull["labels"], pull["reviewers"]) == (["agent"], ["ann"])
    assert pull["body"].startswith("By treadle\n\n# Make done")

    # A person goes on in the branch: it is pushed, and the text made anew.
    git(site.root, "worktree", "add", "-q", str(project.folder / "wt"), "treadle/make-done")
    (project.folder / "wt" / "more.txt").write_text("by hand\n")
    git(project.folder / "wt", "add", ".")
    git(project.folder / "wt", "commit", "-qm", "By hand")
    git(site.root, "worktree", "remove", "--force", str(project.folder / "wt"))
    (again,) = offer(site, run_id).json["pull_requests"]
    assert (again["is_new"], again["number"]) == (False, 12)
    assert hub.tip("treadle/make-done") == site.tip("treadle/make-done") != made["commit"]

    early = site.project.treadle("run", "--resume", run_id, "--note", "@ci", "--json")
    assert early.json["error"]["code"] == "checks_not_red"
    hub.tell(checks=[RED, GREEN], logs={"77": "\x1b[31mE  assert done == DONE\x1b[0m\n# Goal"})
    status = site.project.treadle("pr", "status", "--json")
    (shown,) = status.json["pull_requests"]
    assert (status.code, shown["colour"]) == (1, "red")
    assert shown["next"] == f"treadle run --resume {run_id} --note @ci"
    done = site.project.treadle(*shlex.split(shown["next"])[1:], "--json")
    assert (done.json["status"], done.json["landed"]) == ("passed", None), done
    (note,) = (project.run_dir(run_id) / "comments.jsonl").read_text().splitlines()
    assert "assert done == DONE" in note
    assert "\\\\x1b" in note
    assert "\\n> # Goal" in note  # what a log says is no heading of the prompt

    (third,) = offer(site, run_id).json["pull_requests"]
    assert (third["number"], third["is_new"]) == (12, False)
    assert git(site.root, "log", "--format=%s", "main..treadle/make-done").splitlines() == [
        "Make done",
        "By hand",
        "Make done",
    ]
    assert git(hub.hub, "show", "treadle/make-done:done.txt") == "done\ndone\n"
    assert git(hub.hub, "show", "treadle/make-done:more.txt") == "by hand\n"

    # Undone work can be offered once more.
    assert site.undo(run_id).code == 0
    assert "done.txt" not in site.files("treadle/make-done")
    (fourth,) = offer(site, run_id).json["pull_requests"]
    assert fourth["number"] == 12
    assert git(hub.hub, "show", "treadle/make-done:done.txt") == "done\ndone\n"


@pytest.mark.real
def test_what_stands_in_the_way_is_named_with_a_command_that_works(project, hub, monkeypatch):
    site = Site(project)
    git(site.root, "push", "-q", "origin", "HEAD:refs/heads/treadle/make-done")
    site.commit("else.txt", "x")
    git(site.root, "push", "-q", "origin", "+HEAD:refs/heads/treadle/make-done")
    git(site.root, "reset", "-q", "--hard", "HEAD~1")
    run_id = site.passed()
    hub.tell(logged_in=False)
    error = offer(site, run_id)
    assert (error.code, error.json["error"]["code"]) == (3, "forge_login")
    assert error.json["error"]["fix"] == ["gh auth login --hostname github.com"]
    hub.tell(logged_in=True, leak=True)
    secret = {"GH_TOKEN": "ghp_0123456789abcdefghijABCDEFGHIJ012345"}
    leaked = site.project.treadle("pr", run_id, "--json", env=secret)
    assert "403" in leaked.json["error"]["message"]
    assert secret["GH_TOKEN"] not in leaked.out + leaked.err
    hub.tell(leak=False)
    # The name was taken by somebody else's branch: theirs stays, ours gets the next one.
    (made,) = offer(site, run_id).json["pull_requests"]
    assert made["branch"] == "treadle/make-done-2"
    assert hub.tip("treadle/make-done") != hub.tip("treadle/make-done-2") == made["commit"]

    # Somebody pushes there: nothing of theirs is overwritten, and the printed command brings it.
    other = project.folder / "other"
    git(project.folder, "clone", "-q", "-b", made["branch"], str(hub.hub), str(other))
    git(other, "commit", "-q", "--allow-empty", "-m", "Theirs")
    git(other, "push", "-q", "origin", "HEAD")
    git(site.root, "config", "--unset", f"url.{hub.hub}.pushInsteadOf")
    git(site.root, "config", "remote.origin.pushurl", str(hub.hub))
    moved = offer(site, run_id).json["error"]
    assert moved["code"] == "push_stale", moved
    git(site.root, "fetch", "-q", str(hub.hub), moved["fix"][0].split()[-1])
    assert offer(site, run_id).json["pull_requests"][0]["commit"] == hub.tip(made["branch"])

    # The remote refuses: what it says is told, and how to go through a fork.
    hook = hub.hub / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho 'you have no rights here' >&2\nexit 1\n")
    hook.chmod(0o755)
    second = site.passed("echo 2 > two.txt; echo done > done.txt", goal="Make two")
    refused = offer(site, second).json["error"]
    assert refused["code"] == "push_refused"
    assert "gh repo fork --remote --remote-name fork" in refused["fix"]
    hook.unlink()
    again = shlex.split(refused["fix"][0])
    git(site.root, *again[1:])  # the run's work, whatever is checked out
    assert hub.tip("treadle/make-two") == site.tip("treadle/make-two")
    git(site.root, *again[1:3], ":refs/heads/treadle/make-two")

    # Without the tool: a push command that works as it is printed, and the text in a file.
    (hub.bin / "gh").unlink()
    monkeypatch.setenv("PATH", PATH)
    alone = offer(site, second)
    told = alone.json["error"]
    assert (alone.code, told["code"]) == (3, "no_forge_tool")
    assert told["page"] == "https://github.com/me/toy/compare/main...treadle/make-two"
    assert (site.root / told["body"]).read_text().startswith("# Make two")
    git(site.root, *shlex.split(told["fix"][0])[1:])
    assert hub.tip("treadle/make-two") == site.tip("treadle/make-two")


@pytest.mark.real
def test_runs_become_pull_requests_by_themselves(project, hub):
    site = Site(project)
    hook = hub.hub / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    run_id = site.passed(extra='[land]\nrun = "pr"\n')
    (item,) = site.project.treadle("desk", "--json").json["items"]
    assert [it["action"] for it in item["actions"]] == ["pr", "leave"]
    hook.unlink()
    answer = site.project.treadle("answer", item["item_id"], "pr", "--json")
    assert answer.code == 0, answer
    assert site.project.treadle("desk", "--json").json["items"] == []
    assert "pull_request" in project.event_types(run_id)
    second = site.passed(
        "echo 2 > two.txt; echo done > done.txt", goal="Two", extra='[land]\nrun = "pr"\n'
    )
    assert [pull["head"] for pull in hub.known["pulls"]] == ["treadle/make-done", "treadle/two"]
    assert site.project.treadle("pr", "--all").code == 0
    hub.tell(pulls=hub.known["pulls"][1:])  # somebody deleted one: the other is shown all the same
    status = site.project.treadle("pr", "status", "--json")
    assert [it["run_id"] for it in status.json["pull_requests"]] == [second]
    assert [it["run_id"] for it in status.json["left"]] == [run_id]
    assert status.code == 3
    assert (
        "offered as https://github.com/me/toy/pull/13"
        in site.project.treadle("runs", "show", second).out
    )


@pytest.mark.real
def test_a_merge_request_is_opened_updated_and_read_back(project, tmp_path, monkeypatch):
    toy = ToyForge(tmp_path / "forge", "glab").connect(project.root, "git@gitlab.com:me/toy.git")
    monkeypatch.setenv("PATH", f"{toy.bin}:{PATH}")
    site = Site(project)
    run_id = site.passed(extra='[pr]\nlabels = ["agent"]\nreviewers = ["ann"]\ndraft = true\n')
    for is_new in (True, False):
        (told,) = offer(site, run_id).json["pull_requests"]
        assert (told["url"], told["is_new"]) == (
            "https://gitlab.com/me/toy/-/merge_requests/7",
            is_new,
        )
    (pull,) = toy.known["pulls"]
    assert (pull["head"], pull["draft"], pull["labels"]) == ("treadle/make-done", True, ["agent"])
    assert toy.tip("treadle/make-done") == site.tip("treadle/make-done")
    toy.tell(checks=[{"id": 77, "name": "test", "status": "failed"}], logs={"77": "it broke"})
    (state,) = site.project.treadle("pr", "status", "--json").json["pull_requests"]
    assert (state["colour"], state["next"]) == ("red", f"treadle run --resume {run_id} --note @ci")
    assert site.project.treadle(*shlex.split(state["next"])[1:], "--json").code == 0
    assert "it broke" in (project.run_dir(run_id) / "comments.jsonl").read_text()


@pytest.mark.real
@pytest.mark.parametrize(
    ("url", "page"),
    [
        ("https://codeberg.org/me/toy.git", "https://codeberg.org/me/toy/compare/main..."),
        ("ssh://git@code.example.org/me/toy.git", None),
        ("gitlab.com:me/toy.git", "https://gitlab.com/me/toy/-/merge_requests/new?"),
    ],
)
def test_without_a_tool_the_printed_push_and_the_text_are_enough(
    project, tmp_path, monkeypatch, url, page
):
    toy = ToyForge(tmp_path / "forge", "gh").connect(project.root, url)
    git(toy.hub, "config", "receive.advertisePushOptions", "true")
    monkeypatch.setenv("PATH", PATH)
    site = Site(project)
    run_id = site.passed()
    done = offer(site, run_id)
    told = done.json["error"]
    assert (done.code, told["code"]) == (3, "no_forge_tool")
    assert (told["page"] or "").startswith(page or "")
    assert (site.root / told["body"]).read_text().startswith("# Make done")
    git(site.root, *shlex.split(told["fix"][0])[1:])
    assert toy.tip("treadle/make-done") == site.tip("treadle/make-done")
    assert offer(site, run_id).json["error"]["code"] == "no_forge_tool"  # and once more


def test_no_remote_and_nothing_to_offer(project, hub):
    site = Site(project)
    git(site.root, "remote", "remove", "origin")
    assert offer(site, "--all").json == {"pull_requests": [], "left": []}
    assert offer(site).json["error"]["code"] == "usage"
    assert shutil.which("gh") == str(hub.bin / "gh")


@pytest.mark.real
def test_what_others_pushed_meanwhile_is_merged_by_the_printed_commands(project, hub):
    site = Site(project)
    run_id = site.passed("echo done >> done.txt")
    (made,) = offer(site, run_id).json["pull_requests"]
    git(site.root, "config", "--unset", f"url.{hub.hub}.pushInsteadOf")
    git(site.root, "config", "remote.origin.pushurl", str(hub.hub))
    other = project.folder / "other"
    git(project.folder, "clone", "-q", "-b", made["branch"], str(hub.hub), str(other))
    (other / "theirs.txt").write_text("theirs\n")
    git(other, "add", ".")
    git(other, "commit", "-qm", "Theirs")
    git(other, "push", "-q", "origin", "HEAD")
    # Meanwhile the run has mended red checks, so that both sides have a commit of their own.
    hub.tell(checks=[RED], logs={"77": "it broke"})
    assert site.project.treadle("run", "--resume", run_id, "--note", "@ci", "--json").code == 0
    moved = offer(site, run_id).json["error"]
    assert moved["code"] == "push_stale", moved
    for command in moved["fix"][:-1]:
        git(site.root, *shlex.split(command.replace("origin", str(hub.hub)))[1:])
    assert git(site.root, "branch", "--show-current").strip() == "main"
    (again,) = offer(site, run_id).json["pull_requests"]
    assert again["commit"] == hub.tip(made["branch"])
    assert git(hub.hub, "show", f"{made['branch']}:theirs.txt") == "theirs\n"
    assert git(hub.hub, "show", f"{made['branch']}:done.txt") == "done\ndone\n"

    # The same while somebody has the branch checked out, which no fetch may move.
    git(other, "pull", "-q")
    git(other, "commit", "-q", "--allow-empty", "-m", "More")
    git(other, "push", "-q", "origin", "HEAD")
    git(site.root, "switch", "-q", made["branch"])
    moved = offer(site, run_id).json["error"]
    git("/", *shlex.split(moved["fix"][0].replace("origin", str(hub.hub)))[1:])
    assert offer(site, run_id).json["pull_requests"][0]["commit"] == hub.tip(made["branch"])
