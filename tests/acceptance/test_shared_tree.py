"""Programs that only know files share a tree with treadle: edits, claims and releases by hand."""

import os
import random
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest


@pytest.fixture
def mail(project):
    """Return what treadle says, and where files lie."""

    class Mail:
        root = project.root / ".treadle" / "mail"
        tasks = root / "TASKS"

        def __init__(self):
            self.project = project

        def __call__(self, *words, code=0):
            done = project.treadle(*words, "--json")
            assert done.code == code, done
            return done.json

        def work(self, task_id="B-1", to="all"):
            words = ("--from", "boss", "--to", to, "--intent", "fix_bug", "--task", task_id)
            return os.path.basename(self("mail", "send", *words, "--summary", "Mend it")["file"])

        def task(self, task_id="B-1"):
            return self("task", "show", task_id)

        def shell(self, script):
            subprocess.run(["sh", "-ec", script], cwd=self.root, check=True)

        def where(self, name):
            found = [path.parent.relative_to(self.root) for path in self.root.rglob(name)]
            return [str(path) for path in found]

    return Mail()


def pass_tests(mail, task_id):
    words = ("--from", "qa", "--to", "boss", "--intent", "test_results", "--status", "completed")
    mail("mail", "send", *words, "--task", task_id)


def test_an_edit_in_place_is_seen_by_the_next_command(project, mail):
    mail.work()
    mail("mail", "claim", "--as", "ada")
    status = mail.tasks / "B-1.status"
    folder = mail.tasks.stat().st_mtime_ns
    for words in (("task", "show", "B-1"), ("task", "list"), ("mail", "list")):
        mail.shell("sed 's/claimed/in_progress/' TASKS/B-1.status > s; cat s > TASKS/B-1.status")
        assert mail.tasks.stat().st_mtime_ns == folder
        mail(*words)
        assert mail.task()["lane"] == "in_progress", words
        mail("task", "release", "B-1", "--as", "ada")
        mail("task", "claim", "B-1", "--as", "ada")
        folder = mail.tasks.stat().st_mtime_ns
    assert "status: claimed" in status.read_text()


def test_a_file_moved_over_another_counts_even_if_it_is_older(mail):
    mail.work()
    mail.shell(
        "printf 'status: in_progress\nowner: ada\nnote: mine\n' > /tmp/$$; sleep 0.02;"
        "touch -d 2001-01-01 /tmp/$$; mv /tmp/$$ TASKS/B-1.status"
    )
    assert (mail.task()["lane"], mail.task()["owner"]) == ("in_progress", "ada")
    assert "note: mine\n" in (mail.tasks / "B-1.status").read_text()


def test_completed_by_hand_takes_the_letters_to_the_logs(mail):
    name = mail.work()
    mail("mail", "claim", "--as", "ada")
    mail("mail", "ack", name, "--as", "ada")
    pass_tests(mail, "B-1")
    mail.shell("echo 'status: completed\nowner: ada' > TASKS/B-1.status")
    assert mail.task()["lane"] == "done"
    assert mail.where("*.md") == ["LOGS"] * 2 + ["TASKS"]


def test_completed_by_hand_without_tests_is_put_back_with_an_event(mail):
    mail.work()
    mail("mail", "claim", "--as", "ada")
    mail.shell("echo 'status: completed\nowner: ada\nextra: stays' > TASKS/B-1.status")
    assert mail.task()["lane"] == "claimed"
    assert "tests_passed is false" in mail.task()["moves"][-1]["reason"]
    text = (mail.tasks / "B-1.status").read_text()
    assert text.startswith("status: claimed\nowner: ada\nextra: stays\n")


def test_an_owner_by_hand_claims_a_free_task_and_nothing_else(mail):
    mail.work("B-1")
    mail.work("B-2")
    mail("task", "claim", "B-2", "--as", "ada")
    mail.shell("echo 'owner: bob' > TASKS/B-1.owner; echo 'owner: bob' > TASKS/B-2.owner")
    assert (mail.task("B-1")["owner"], mail.task("B-2")["owner"]) == ("bob", "ada")
    assert "bob cannot own it, ada does" in mail.task("B-2")["moves"][-1]["reason"]
    assert (mail.tasks / "B-2.owner").read_text().startswith("owner: ada\n")
    assert mail("mail", "claim", "--as", "eve")["file"] is None


@pytest.mark.real
def test_a_claim_sees_an_owner_that_was_written_just_before(mail):
    mail.work()
    mail("mail", "list")
    mail.shell("echo 'owner: bob' > TASKS/B-1.owner")
    assert mail("mail", "claim", "--as", "ada")["file"] is None
    assert mail.task()["owner"] == "bob"


@pytest.mark.real
@pytest.mark.parametrize("acknowledged", [False, True])
def test_a_released_letter_can_be_claimed_again(mail, acknowledged):
    name = mail.work()
    mail("mail", "claim", "--as", "ada")
    if acknowledged:
        mail("mail", "ack", name, "--as", "ada")
    mail("task", "release", "B-1", "--as", "ada")
    assert mail.where(name) == ["NEW_MESSAGES"]
    assert mail("mail", "claim", "--as", "bob")["file"].endswith(name)
    assert (mail.where(name), mail.task()["owner"]) == (["AGENTS/bob/INBOX"], "bob")


@pytest.mark.real
def test_a_letter_that_releases_brings_the_work_letter_back(mail):
    name = mail.work()
    mail("mail", "claim", "--as", "ada")
    words = ("--from", "ada", "--to", "boss", "--intent", "release_task", "--task", "B-1")
    mail("mail", "send", *words)
    assert (mail.where(name), mail.task()["lane"]) == (["NEW_MESSAGES"], "planned")


@pytest.mark.real
def test_a_status_by_hand_releases_the_letter_too(mail):
    name = mail.work()
    mail("mail", "claim", "--as", "ada")
    mail.shell("echo 'status: new\nowner: ada' > TASKS/B-1.status")
    assert (mail.task()["owner"], mail.where(name)) == (None, ["NEW_MESSAGES"])
    assert mail("mail", "claim", "--as", "bob")["file"].endswith(name)


@pytest.mark.real
def test_letters_moved_by_hand_claim_and_release_their_task(mail):
    name = mail.work()
    mail.shell(f"mkdir -p AGENTS/ada/INBOX; mv NEW_MESSAGES/{name} AGENTS/ada/INBOX/")
    assert (mail.task()["owner"], mail.task()["lane"]) == ("ada", "claimed")
    mail.shell(f"mv AGENTS/ada/INBOX/{name} NEW_MESSAGES/")
    assert (mail.task()["owner"], mail.task()["lane"]) == (None, "planned")
    assert mail.where(name) == ["NEW_MESSAGES"]
    mail("mail", "claim", "--as", "bob")
    mail.shell(f"mv AGENTS/bob/INBOX/{name} NEW_MESSAGES/")
    assert (mail.task()["owner"], mail.where(name)) == (None, ["NEW_MESSAGES"])
    mail.shell(f"mv NEW_MESSAGES/{name} AGENTS/ada/INBOX/")
    mail("task", "release", "B-1", "--as", "ada")
    assert mail.where(name) == ["NEW_MESSAGES"]


@pytest.mark.real
def test_hostile_files_are_named_and_nothing_hangs(project, mail):
    mail.work()
    mail("mail", "claim", "--as", "ada")
    secret = project.root.parent / "secret"
    secret.write_text("status: completed\nowner: ada\n")
    mail.shell(
        f"rm TASKS/B-1.status; ln -s {secret} TASKS/B-1.status; rm TASKS/B-1.owner;"
        "mkfifo TASKS/B-1.owner; head -c 2000000 /dev/zero | tr '\\0' x > TASKS/B-1.checks;"
        "printf 'status: comp\\0leted' > TASKS/C-1.status; mkdir TASKS/D-1.status"
    )
    shown = project.treadle("task", "list")
    for name in ("B-1.status", "B-1.owner", "B-1.checks", "C-1.status", "D-1.status"):
        assert f"TASKS/{name} " in shown.err, shown.err
    assert mail.task()["lane"] == "claimed"
    mail("task", "move", "B-1", "--to", "in_progress", "--as", "ada")
    assert secret.read_text() == "status: completed\nowner: ada\n"
    assert (mail.tasks / "B-1.status").is_symlink()
    assert (mail.tasks / "B-1.checks").stat().st_size == 2_000_000
    assert {row["task_id"] for row in mail("task", "list")["tasks"]} == {"B-1"}


@pytest.mark.real
def test_broken_state_files_never_hand_out_the_work(mail):
    mail.tasks.mkdir(parents=True)
    mail.shell(
        "echo 'status: verified' > TASKS/A-1.status; echo 'owner: Bob Smith' > TASKS/A-2.owner;"
        "echo ':::' > TASKS/A-3.status; touch -d 2001-01-01 TASKS/A-3.status;"
        "echo 'status: done' > TASKS/A-4.status"
    )
    lanes = {row["task_id"]: row["lane"] for row in mail("task", "list")["tasks"]}
    assert lanes == {"A-1": "blocked", "A-2": "claimed", "A-3": "planned", "A-4": "done"}
    assert "there is no status 'verified'" in mail.task("A-1")["moves"][-1]["reason"]
    assert "'Bob Smith' is not an agent's name" in mail.task("A-2")["moves"][-1]["reason"]
    assert (mail.tasks / "A-1.status").read_text() == "status: verified\n"


@pytest.mark.real
def test_a_run_takes_no_task_that_somebody_holds_by_hand(project, mail):
    mail("task", "add", "Mend it", "--id", "B-1", "--verify", "AC1=false")
    project.good_agents()
    mail("task", "list")
    mail.shell("echo 'owner: bob' > TASKS/B-1.owner")
    refused = project.treadle("run", "B-1", "--json")
    assert refused.code == 3, refused
    assert "held by bob" in refused.out
    assert mail.task()["owner"] == "bob"


@pytest.mark.real
def test_next_sees_a_task_that_was_taken_by_hand(tasked):
    first = tasked.project.treadle("next", "--agent", "eve", "--json").json
    assert first["task_id"].endswith(".WP01")
    tasked.project.treadle("task", "release", first["task_id"], "--as", "eve")
    root = tasked.project.root / ".treadle" / "mail" / "TASKS"
    (root / f"{first['task_id']}.owner").write_text("owner: ada\n")
    after = tasked.project.treadle("next", "--agent", "eve", "--json").json
    assert (after["kind"], "held by ada" in after["reason"]) == ("blocked", True)


class _Shell:
    """An agent that knows files and nothing else: it moves letters and writes states."""

    def __init__(self, mail, name):
        self.mail, self.name = mail, name

    def run(self, script):
        return subprocess.run(
            ["sh", "-c", script], cwd=self.mail.root, capture_output=True, check=False
        ).returncode

    def state(self, task_id, status):
        text = f"task_id: {task_id}\\nstatus: {status}\\nowner: {self.name}\\nby: {self.name}\\n"
        return self.run(f"printf '{text}' > TASKS/{task_id}.status")

    def claim(self, name, task_id):
        box = f"AGENTS/{self.name}/INBOX"
        if self.run(f"mkdir -p {box} && mv NEW_MESSAGES/{name} {box}/") == 0:
            self.state(task_id, "claimed")

    def begin(self, name, task_id):
        self.state(task_id, "in_progress")

    def release(self, name, task_id):
        self.run(f"mv AGENTS/{self.name}/INBOX/{name} NEW_MESSAGES/")

    def give_up(self, name, task_id):
        self.state(task_id, "new")

    def finish(self, name, task_id):
        self.state(task_id, "completed")


class _Treadle:
    """An agent that only uses the command."""

    def __init__(self, mail, name):
        self.mail, self.name = mail, name

    def run(self, *words):
        return self.mail.project.treadle(*words, "--as", self.name, "--json")

    def claim(self, name, task_id):
        assert self.run("mail", "claim", "--task", task_id).code in (0, 3)

    def begin(self, name, task_id):
        self.run("task", "move", task_id, "--to", "in_progress")

    def release(self, name, task_id):
        self.run("task", "release", task_id)

    give_up = release

    def finish(self, name, task_id):
        self.run("task", "done", task_id)


def _agents(mail):
    shells = [_Shell(mail, name) for name in ("sam", "sue")]
    return [*shells, *(_Treadle(mail, name) for name in ("tom", "tia"))]


def _look(mail, letters):
    """Return what treadle and the files say of each task, after one command."""
    rows = {row["task_id"]: row for row in mail("task", "list")["tasks"]}
    for name, task_id in letters.items():
        row, (folder,) = rows[task_id], mail.where(name)
        status = dict(
            line.split(": ", 1)
            for line in (mail.tasks / f"{task_id}.status").read_text().splitlines()
        )
        owner = mail.tasks / f"{task_id}.owner"
        told = owner.read_text().split()[1] if owner.exists() else None
        assert (status["status"], status.get("owner")) == (row["status"], row["owner"]), row
        assert told == row["owner"], (row, told)
        if row["lane"] == "planned":
            assert (folder, row["owner"]) == ("NEW_MESSAGES", None), row
        elif row["lane"] == "done":
            assert folder == "LOGS", row
        else:
            # Who takes a task by its files alone leaves the letter where it lies.
            assert folder.startswith(("NEW_MESSAGES", f"AGENTS/{row['owner']}/")), (row, folder)
    return {task_id: rows[task_id]["owner"] for task_id in letters.values()}


@pytest.mark.real
@pytest.mark.timeout(900)
@pytest.mark.parametrize("moves", [100, pytest.param(500, marks=pytest.mark.all)])
def test_shells_and_treadle_share_a_tree_for_random_moves(mail, moves):
    choose = random.Random(1)
    agents = _agents(mail)
    letters = {}
    for number in range(6):
        letters[mail.work(f"M-{number}")] = f"M-{number}"
        pass_tests(mail, f"M-{number}")
    owners, number = _look(mail, letters), len(letters)
    for _ in range(moves):
        agent = choose.choice(agents)
        move = choose.choice(["claim"] * 4 + ["begin"] * 3 + ["release", "give_up", "finish"])
        mine = [name for name, task in letters.items() if owners.get(task) == agent.name]
        free = [name for name, task in letters.items() if owners.get(task) is None]
        names = free if move == "claim" else mine
        # Now and then somebody takes what is not theirs.
        name = choose.choice(names if names and choose.random() < 0.9 else list(letters))
        before = owners[letters[name]]
        getattr(agent, move)(name, letters[name])
        owners = _look(mail, letters)
        after = owners[letters[name]]
        assert after in (None, agent.name) or after == before, (agent.name, move, name)
        if move == "claim" and before is None and not mail.where(name)[0].startswith("LOGS"):
            assert after == agent.name, (agent.name, name)
        if sum(not mail.where(it)[0].startswith("LOGS") for it in letters) < 4:
            number += 1
            letters[mail.work(f"M-{number}")] = f"M-{number}"
            pass_tests(mail, f"M-{number}")
            owners = _look(mail, letters)


@pytest.mark.real
def test_shells_and_treadle_share_a_tree_at_the_same_time(mail):
    agents = _agents(mail)
    letters = {mail.work(f"M-{number}"): f"M-{number}" for number in range(8)}
    for task_id in letters.values():
        pass_tests(mail, task_id)
    _look(mail, letters)

    def work(agent):
        choose = random.Random(agent.name)
        for _ in range(25):
            name = choose.choice(list(letters))
            move = choose.choice(["claim"] * 3 + ["begin", "release", "give_up"])
            if move != "claim" and isinstance(agent, _Shell):
                # Whoever only knows files looks whose the task is before it writes.
                try:
                    owner = (mail.tasks / f"{letters[name]}.owner").read_text()
                except FileNotFoundError:  # the others are at work
                    continue
                if agent.name not in owner:
                    continue
            getattr(agent, move)(name, letters[name])

    with ThreadPoolExecutor(len(agents)) as pool:
        list(pool.map(work, agents))
    mail("task", "list")
    _look(mail, letters)


@pytest.mark.real
def test_commands_killed_at_any_moment_lose_no_letter_and_double_no_owner(project, mail):
    choose = random.Random(7)
    letters = {mail.work(f"M-{number}"): f"M-{number}" for number in range(3)}
    for _ in range(60):
        task_id = choose.choice(list(letters.values()))
        owner = mail.task(task_id)["owner"]
        words = ("task", "release", task_id) if owner else ("mail", "claim", "--task", task_id)
        child = project.start(*words, "--as", owner or choose.choice(["tom", "tia"]))
        time.sleep(choose.uniform(0.05, 0.4))
        child.kill()
        child.communicate()
        _look(mail, letters)
