"""A stranger who knows nothing but what `init` wrote takes a mission from nothing to complete."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.builder import Project

WORK = {"hello.txt": "hello\n", "bye.txt": "bye\n"}
TASKS = """- WP01: Say hello (files: hello.txt)
  - It is said: `$ grep -q hello hello.txt`
- WP02: Say goodbye (files: bye.txt)
  - It is said: `$ grep -q bye bye.txt`"""


class Stranger:
    """An agent that can read, fill in what stands in brackets, and run what it is told."""

    def __init__(self, project: Project, name: str):
        self.project, self.name, self.place = project, name, project.root
        self.did: list[tuple[str, str | None]] = []
        pages = [project.root / "AGENTS.md", *project.root.glob(".claude/skills/*/SKILL.md")]
        told = "\n".join(page.read_text() for page in pages)
        self.told = re.findall(r"`(treadle [^`]+)`", " ".join(told.split()))
        self.known = self.run("treadle describe --json")["commands"]

    def command(self, beginning: str) -> str:
        """Return the first command it was told that begins like this, under its own name."""
        found = next(line for line in self.told if line.startswith(beginning))
        return found.replace("ada", self.name)

    def run(self, line: str, *, may_wait: bool = False) -> dict:
        """Run a line as it stands; every one must work, and be one that `describe` tells of."""
        words = shlex.split(line)
        if words[0] != "treadle":
            done = subprocess.run(
                words, cwd=self.place, env=self.project.environment(), capture_output=True
            )
            assert done.returncode == 0, (line, done.stderr)
            return {}
        if hasattr(self, "known"):
            name = next(n for n in (" ".join(words[1:3]), words[1]) if n in self.known)
            usage = self.known[name]["usage"] + " --json"
            assert [w for w in words if w.startswith("--") and w not in usage] == [], line
        done = self.project.treadle(*words[1:], cwd=self.place)
        assert done.code in ((0, 3) if may_wait else (0,)), (line, done)
        return json.loads(done.out) if "--json" in words else {}

    def ask(self, *words: str) -> dict:
        """Ask, and go where the answer says that the work is."""
        self.place = self.project.root
        line = " ".join(["treadle next --json --agent ada", *words])
        found = self.run(self.command(line))
        self.place = Path(found.get("workspace_path") or self.place)
        return found

    def follow(self, decision: dict) -> dict:
        """Do a step as its prompt says, and return what the report is answered with."""
        self.did.append((decision["phase"], decision["task_id"]))
        prompt = Path(decision["prompt_file"]).read_text()
        for line in re.findall(r"(?:Run |^)`(treadle [^`]+)`", prompt, re.MULTILINE):
            self.run(line, may_wait=True)  # for what is to be filled in
        getattr(self, decision["phase"])(prompt)
        lines = re.findall(r"^    ((?:git|treadle) .+)$", prompt, re.MULTILINE)
        reports = [line for line in lines if "--result" in line]
        for line in lines:
            if line not in reports:
                self.run(line)
        return self.run(next(line for line in reports if line.endswith("--result success")))

    def specify(self, prompt: str) -> None:
        path = self.project.root / re.search(r"Write `(\S+)`", prompt)[1]
        path.write_text(re.sub(r"\[[^]]+\]", "Who comes in is greeted", path.read_text()))

    def plan(self, prompt: str) -> None:
        path = self.project.root / re.search(r"scaffold of `(\S+)`", prompt)[1]
        text = re.sub(r"^- \[WP01.*\]$", TASKS, path.read_text(), flags=re.MULTILINE)
        path.write_text(re.sub(r"\[e\.g\., [^]]+\]", "POSIX sh", text))

    def tasks(self, prompt: str) -> None:
        """Leave the files as they were written from the plan."""

    def implement(self, prompt: str) -> None:
        name = next(name for name in WORK if f"`{name}`" in prompt)
        (self.place / name).write_text(WORK[name])
        self.run(f"git add {name}")
        self.run(f'git commit -q -m "Write {name}"')

    def review(self, prompt: str) -> None:
        """Look only: the commands of the prompt show what there is to see."""

    def accept(self, prompt: str) -> None:
        """Look only."""


@pytest.fixture
def strangers(repo, tmp_path):
    (tmp_path / "agents").mkdir()
    project = Project(repo, tmp_path / "agents")
    assert project.treadle("init", "--agents-md", "--skills", "--commit").code == 0
    return [Stranger(project, name) for name in ("ada", "bob")]


def test_what_was_written_goes_again_and_what_was_edited_stays(strangers):
    project = strangers[0].project
    for home in (".agents", ".claude"):
        assert len(list(project.root.glob(f"{home}/skills/treadle-*/SKILL.md"))) == 5
    mine = project.root / ".claude/skills/treadle-mail/SKILL.md"
    mine.write_text("---\nname: treadle-mail\n---\nWe write no letters.\n")
    assert project.treadle("init", "--agents-md", "--skills").code == 0
    assert "We write no letters." in mine.read_text()
    said = project.treadle("uninstall", "--json").json
    assert said["kept"] == [
        {"path": ".claude/skills/treadle-mail/SKILL.md", "reason": "changed since init wrote it"}
    ]
    left = [path for path in project.root.rglob("*") if "treadle" in path.name]
    assert sorted(left) == sorted([mine.parent])
    assert not (project.root / "AGENTS.md").exists()


def test_a_task_by_the_skill_alone(strangers):
    """Add it, run it, see why it passed, land it, undo that, look at the desk."""
    ada = strangers[0]
    ada.project.git("rm", "-q", "README.md")
    ada.project.git("commit", "-q", "-m", "No readme")
    ada.project.config["do"] = 'type = "builtin"\nrun = ["sh", "-c", "echo hello > README.md"]'
    ada.project.save()
    ada.project.git("commit", "-q", "-a", "-m", "Let sh do it")
    ada.project.treadle("trust")
    ada.run(ada.command("treadle task add"))
    assert ada.run(ada.command("treadle run --json"))["status"] == "passed"
    for beginning in ("treadle why", "treadle land"):
        ada.run(ada.command(beginning))
    assert ada.project.git("show", "HEAD:README.md") == "hello\n"
    ada.run(ada.command("treadle undo"))
    assert ada.project.git("ls-files", "README.md") == ""
    ada.run(ada.command("treadle desk --json"))


def test_letters_by_the_skill_alone(strangers):
    """One writes; the other lists, claims, reads, answers and puts the letter away."""
    ada, bob = strangers
    ada.run(ada.command("treadle mail send --from ada --to bob"))
    assert len(bob.run(bob.command("treadle mail list"))["letters"]) == 1
    file = bob.run(bob.command("treadle mail claim"))["file"]
    for verb in ("read", "reply", "ack"):
        bob.run(bob.command(f"treadle mail {verb} FILE").replace("FILE", shlex.quote(file)))
    assert bob.run(bob.command("treadle mail claim"))["file"] is None
    (answer,) = ada.run(ada.command("treadle mail list"))["letters"]
    assert (answer["from"], answer["to"]) == ("bob", "ada")


def begin(agent: Stranger) -> None:
    """Take a new mission to where its tasks can be handed out."""
    assert agent.ask()["reason_code"] == "no_mission"
    agent.run(agent.command("treadle mission create"))
    for phase in ("specify", "plan", "tasks"):
        decision = agent.ask()
        assert (decision["kind"], decision["phase"]) == ("step", phase)
        agent.follow(decision)


def require_reviewed_by_the_other(strangers) -> None:
    did = {step: agent.name for agent in strangers for step in agent.did}
    for id_ in ("add-login.WP01", "add-login.WP02"):
        assert {did["implement", id_], did["review", id_]} == {"ada", "bob"}
    assert ("accept", None) in did
    project = strangers[0].project
    assert project.git("show", "HEAD:bye.txt") == "bye\n"
    assert project.git("status", "--porcelain") == ""


@pytest.mark.real
def test_a_mission_from_nothing_to_complete(strangers):
    """They create, specify, plan, make tasks, implement, review each other's work, accept."""
    begin(strangers[0])
    for _ in range(6):
        for agent in strangers:
            decision = agent.ask()
            if decision["kind"] == "step":
                agent.follow(decision)
    assert {agent.ask()["kind"] for agent in strangers} == {"complete"}
    require_reviewed_by_the_other(strangers)


@pytest.mark.real
def test_two_at_once_in_worktrees_of_their_own(strangers):
    """Both have a task before either has begun; what blocks them names what they may do."""
    ada, bob = strangers
    begin(ada)
    given = [agent.ask("--worktree") for agent in strangers]
    assert [item["task_id"] for item in given] == ["add-login.WP01", "add-login.WP02"]
    assert len({ada.place, bob.place, ada.project.root}) == 3
    for agent, decision in zip(strangers, given, strict=True):
        agent.follow(decision)
    for _ in range(6):
        for agent in strangers:
            decision = agent.ask("--worktree")
            if decision["kind"] == "step":
                agent.follow(decision)
            elif decision["reason_code"] == "tasks_unmerged":
                agent.run(decision["unblock"][0])
    assert {agent.ask()["kind"] for agent in strangers} == {"complete"}
    require_reviewed_by_the_other(strangers)
