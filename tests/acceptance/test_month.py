"""A month in one test: twelve everyday situations, driven only by commands that treadle proposes.

A lead who knows nothing but what treadle prints leaves twelve specs to an agent. She decides what
only a person can decide, edits files as people do, and otherwise takes commands word for word.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builder import Project, make_home, wait_for

pytestmark = pytest.mark.real

SPECS = {
    "01-slug.spec.md": """
# Slugs

Names become slugs.

## Acceptance Criteria
- a name is lowered and joined `$ python3 -c "import lib.slug as s; assert s.slug('A b') == 'a-b'"`
""",
    "02-title.spec.md": """
---
depends_on: 01-slug
---
# Titles with slugs

## Acceptance Criteria
- built on slugs `$ python3 -c "import lib.title as t; assert t.link('A b') == '#a-b'"`
""",
    "03-impossible.spec.md": """
---
budgets:
  max_iterations: 2
---
# Square the circle

## Acceptance Criteria
- it is square `$ test -f lib/square.py && false`
""",
    "04-flaky.spec.md": """
# Waves

## Acceptance Criteria
- waves come `$ test -f lib/waves.py && { test -f {dir}/calm || { touch {dir}/calm; false; }; }`
""",
    "05-already.spec.md": """
# A readme

## Acceptance Criteria
- there is one `$ test -f README.md`
""",
    "06-huge.spec.md": """
---
budgets:
  max_patch_kb: 16
---
# A table of primes

## Acceptance Criteria
- it is there `$ test -s lib/primes.txt`
""",
    "07-workflow.spec.md": """
# Continuous integration

## Acceptance Criteria
- it tests `$ grep -q unittest .github/workflows/ci.yml`
""",
    "08-greeting.spec.md": """
# Greet in another way

## Acceptance Criteria
- it greets `$ grep -q Servus lib/greeting.py`
""",
    "09-edited.spec.md": """
---
budgets:
  max_iterations: 1
---
# Count to three

## Acceptance Criteria
- three lines `$ test "$(wc -l < lib/count.txt)" = 4`
""",
    "10-undone.spec.md": """
# A banner

## Acceptance Criteria
- it is there `$ test -f lib/banner.txt`
""",
    "11-killed.spec.md": """
# A long night

## Acceptance Criteria
- it ends `$ test -f lib/night.txt`
""",
    "12-tool.spec.md": """
# Measure

## Acceptance Criteria
- it is measured `$ measure-it lib/measure.txt`
""",
}

AGENT = """
goal = request["goal"]
lib = repo / "lib"
if goal == "Slugs":
    (lib / "slug.py").write_text("def slug(name):\\n    return '-'.join(name.lower().split())\\n")
elif goal == "Titles with slugs":
    from_slug = "from lib.slug import slug\\n\\n\\ndef link(name):\\n    return '#' + slug(name)\\n"
    (lib / "title.py").write_text(from_slug)
elif goal == "Square the circle":
    (lib / "square.py").write_text(f"SIDES = {3 + request['step']['index']}\\n")
elif goal == "Waves":
    (lib / "waves.py").write_text("WAVES = 'sea'\\n")
elif goal == "A table of primes":
    primes = [n for n in range(2, 30000) if all(n % d for d in range(2, int(n**0.5) + 1))]
    (lib / "primes.txt").write_text("".join(f"prime {n}\\n" for n in primes))
elif goal == "Continuous integration":
    ci = repo / ".github/workflows/ci.yml"
    ci.parent.mkdir(parents=True, exist_ok=True)
    ci.write_text("on: push\\njobs: {test: {steps: [{run: python3 -m unittest}]}}\\n")
elif goal == "Greet in another way":
    waiting = pathlib.Path(FOLDER, "greet")
    while not waiting.exists():
        time.sleep(0.05)
    text = (lib / "greeting.py").read_text()
    found = "Hello" if "Hello" in text else "Good day"
    import re
    text = re.sub(r"(?s)<<<<<<<.*?=======\\n(.*?)>>>>>>>[^\\n]*\\n", r"\\1", text)
    (lib / "greeting.py").write_text(text.replace("Hello", "Servus").replace("Good day", "Servus"))
elif goal.startswith("Count to"):
    lines = 4 if goal == "Count to four" else 3
    (lib / "count.txt").write_text("".join(f"{n}\\n" for n in range(lines)))
elif goal == "A banner":
    (lib / "banner.txt").write_text("***\\n")
elif goal == "A long night":
    dawn = pathlib.Path(FOLDER, "dawn")
    while not dawn.exists():
        time.sleep(0.05)
    (lib / "night.txt").write_text("over\\n")
elif goal == "Measure":
    (lib / "measure.txt").write_text("42\\n")
ok()
"""

# What only looks: every such command is run as soon as it is proposed, and must work.
LOOKS = re.compile(
    r"(treadle (status|desk|why|log(?! -f)|report|doctor|config show|spec (list|show)|dead show"
    r"|runs (list|show)|task (list|show)|compare|route|routine (list|show|check))"
    r"|git (diff|show|log|status)|cat)\b"
)
PROPOSED = re.compile(
    r"(?m)^\s*(?:next|try|fix|or)(?: for \S+)?: (.+)$|^ {2,}((?:treadle|git|cat) .+)$"
)
# Which of several specs or runs a command names; a command on the desk stands for itself.
NAMES = re.compile(r"\b(\d{8}-\d{6}-)?[0-9a-f]{6}\b|\d\d-\w+\.spec\.md")
GOES_ON = re.compile(r"treadle (answer Q-\d+ (land|resume|reject)|land|run --resume) ?")
PLACEHOLDER = re.compile(r"…|\.\.\.|(?<![\w=/-])[A-Z]{3,}(?![\w-])")
KEYS = ("fix", "next", "unblock", "command", "commands", "look")


class Lead:
    """Somebody who works with treadle by nothing but what it says."""

    def __init__(self, project: Project, programs: Path):
        self.project = project
        self.env = project.environment({"PATH": f"{programs}:{os.environ['PATH']}"})
        self.told: set[str] = set()
        self.taken: list[tuple[str, int, str]] = []

    def look(self, line: str) -> str:
        """Run a command that anybody would try first, and listen."""
        return self._run(line)[1]

    def json(self, line: str) -> dict:
        return json.loads(self.look(f"{line} --json"))

    def take(self, line: str) -> int:
        """Run a command that treadle has proposed."""
        assert line in self.told, (line, sorted(self.told))
        return self._run(line)[0]

    def try_all(self, folder: Path) -> int:
        """Take every command that is proposed now; put all below `folder` back after each."""
        before, self.told = (self.told, list(self.taken)), set()
        for item in self.json("treadle desk")["items"]:
            self.look(f"treadle desk show {item['item_id']}")
        for spec in self.json("treadle spec list")["specs"]:
            self.look(f"treadle spec show {spec['name']}")
        for run in self.json("treadle runs list")["runs"]:
            self.look(f"treadle why {run['run_id']}")
        shapes = {NAMES.sub("", line): line for line in sorted(self.told) if not LOOKS.match(line)}
        kept = Path(f"{folder}-kept")
        put(folder, kept)
        for line in shapes.values():
            self.told = set()
            code, _ = self._run(line)
            # What goes on with nothing decided or mended waits again, and says what for.
            waits = code in (3, 4) and self.told and GOES_ON.match(line)
            assert code == 0 or waits, self.taken[-1]
            put(kept, folder)
        shutil.rmtree(kept)
        self.told, self.taken = before
        return len(shapes)

    def _run(self, line: str) -> tuple[int, str]:
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=self.project.root,
            env=self.env,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=300,
            check=False,
        )
        said = done.stdout + done.stderr
        self.taken.append((line, done.returncode, said))
        assert "Traceback" not in said, said
        assert done.returncode != 2, (line, said)
        self._listen(said)
        return done.returncode, done.stdout

    def _listen(self, said: str) -> None:
        proposed = {one or other for one, other in PROPOSED.findall(said)}
        if said.startswith("{"):
            proposed |= set(_commands(json.loads(said.splitlines()[0])))
        for line in sorted(proposed - self.told):
            assert not PLACEHOLDER.search(line), f"{line!r} cannot be taken as it stands"
            self.told.add(line)
            if LOOKS.match(line):
                code, said = self._run(line)
                assert code == 0, (line, code, said)


def put(source: Path, target: Path) -> None:
    """Make a folder what another one is; what is alike already stays."""
    for folder, inner, names in os.walk(target, topdown=False):
        for path in (Path(folder, name) for name in (*inner, *names)):
            other = source / path.relative_to(target)
            if path.is_dir() and not path.is_symlink():
                if not other.is_dir() or other.is_symlink():
                    path.rmdir()
            elif path.is_symlink() or _differ(path, other):
                path.unlink()
    shutil.copytree(source, target, symlinks=True, copy_function=_copy, dirs_exist_ok=True)


def _differ(path: Path, other: Path) -> bool:
    if not other.is_file():
        return True
    one, two = path.stat(), other.stat()
    return (one.st_size, one.st_mtime_ns) != (two.st_size, two.st_mtime_ns)


def _copy(source: str, target: str) -> None:
    if not os.path.exists(target):
        shutil.copy2(source, target)


def _commands(found: object) -> list[str]:
    """Return every command in a document."""
    if isinstance(found, list):
        return [line for item in found for line in _commands(item)]
    if not isinstance(found, dict):
        return []
    named = [value for key, value in found.items() if key in KEYS and value]
    texts = [it for value in named for it in (value if isinstance(value, list) else [value])]
    inner = [line for value in found.values() for line in _commands(value)]
    return [text for text in texts if isinstance(text, str)] + inner


@pytest.fixture
def project(tmp_path):
    files = {
        "README.md": "# Library\n",
        "lib/__init__.py": "",
        "lib/greeting.py": 'GREETING = "Hello"\n',
    }
    made = Project.make(
        tmp_path / "library", tmp_path / "agents", files, env=make_home(tmp_path / "home")
    )
    for role in ("do", "act"):
        made.agent(role, f"FOLDER = {str(tmp_path)!r}\n{AGENT}", edits=True)
    made.settings(f'[checks]\nwritable = ["{tmp_path}"]\n[night]\nmax_runs = 11\n')
    for name, text in SPECS.items():
        text = text.strip().replace("{dir}", str(tmp_path)) + "\n"
        (made.root / "specs" / name).write_text(text)
    made.git("add", "-A")
    made.git("commit", "-q", "-m", "Specs for a month")
    return made


@pytest.fixture
def lead(project, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "treadle").write_text(f'#!/bin/sh\nexec {sys.executable} -m treadle "$@"\n')
    (programs / "treadle").chmod(0o755)
    return Lead(project, programs)


class Month:
    """What happens to the lead's project, and what she decides."""

    def __init__(self, lead: Lead, folder: Path):
        self.lead = lead
        self.project = lead.project
        self.folder = folder
        self.decided: list[tuple[str, str]] = []
        # By what an item on the desk says: what she does first, and the answer she gives.
        self.choices = {
            "Square the circle": (self.give_up, None),
            "A table of primes": (self.read_the_diff, "approve"),
            "Continuous integration": (self.read_the_diff, "approve"),
            "Greet in another way": (None, "rebase"),
            "Count to three": (self.edit_the_spec, None),
            "A banner: not landed": (None, "land"),
            "A long night: not landed": (None, "land"),
            "10-undone": (None, "again"),
            "Measure": (self.install_the_tool, "resume"),
        }

    def give_up(self, _: dict) -> None:
        self.lead.look("treadle spec show 03-impossible")
        self.lead.take("treadle spec drop 03-impossible.spec.md")

    def read_the_diff(self, item: dict) -> None:
        shown = self.lead.look(f"treadle desk show {item['item_id']}")
        assert "+prime 2\n" in shown or "unittest" in shown, shown

    def edit_the_spec(self, _: dict) -> None:
        path = self.project.root / "specs" / "09-edited.spec.md"
        path.write_text(path.read_text().replace("three", "four"))

    def install_the_tool(self, _: dict) -> None:
        tool = self.folder / "bin" / "measure-it"
        tool.write_text('#!/bin/sh\ngrep -q 42 "$1"\n')
        tool.chmod(0o755)

    def answer(self, item: dict) -> None:
        """Decide about one item, by one of the commands that it names."""
        words = next((it for it in self.choices if it in item["summary"]), None)
        assert words, item
        before, verb = self.choices[words]
        if before:
            before(item)
        if verb is None:
            return
        self.decided.append((words, verb))
        self.lead.take(f"treadle answer {item['item_id']} {verb}")

    def go_on(self) -> bool:
        """Do what waits; return whether anything did."""
        items = self.lead.json("treadle desk")["items"]
        for item in items:
            self.answer(item)
        waiting = [it for it in self.specs() if it["state"] not in ("done", "dropped")]
        for command in dict.fromkeys(it["next"] for it in waiting if it["next"]):
            self.lead.take(command)
        return bool(items or waiting)

    def until_nothing_waits(self) -> None:
        for _ in range(12):
            if not self.go_on():
                return
        raise AssertionError((self.decided, self.specs()))

    def specs(self) -> list[dict]:
        return self.lead.json("treadle spec list")["specs"]

    def kill_in(self, goal: str) -> None:
        """Kill a pass while the agent of this goal works."""
        working = subprocess.Popen(
            ["treadle", "process"],
            cwd=self.project.root,
            env=self.lead.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

        def is_at_it() -> bool:
            assert working.poll() is None, "the pass ended too early"
            rows = json.loads(self.project.treadle("runs", "list", "--json").out)["runs"]
            run = next((it for it in rows if it["goal"] == goal), None)
            return bool(run) and bool(list(self.project.run_dir(run["run_id"]).glob("live/*do*")))

        wait_for(is_at_it)
        os.kill(working.pid, signal.SIGKILL)
        working.wait()


def landings(project: Project, name: str) -> int:
    """Count the commits that brought a spec's work, undone or not."""
    found = project.git("log", "--format=%s", f"--grep=Treadle-Spec: {name}")
    return len([subject for subject in found.splitlines() if not subject.startswith("Undo")])


def test_a_month_ends_with_every_spec_done_or_dropped(lead, tmp_path):
    month, project = Month(lead, tmp_path), lead.project
    lead.look("treadle")
    month.kill_in("Greet in another way")
    (project.root / "lib" / "greeting.py").write_text('GREETING = "Good day"\n')
    project.git("commit", "-q", "-am", "Greet by day")
    (tmp_path / "greet").touch()
    month.kill_in("A long night")
    (tmp_path / "dawn").touch()
    assert lead.take("treadle process") == 4  # the limit of the night
    lead.take(next(it for it in lead.told if it.startswith("TREADLE_NIGHT_MAX_RUNS=")))
    lead.env["TREADLE_NIGHT_MAX_RUNS"] = "100"
    assert lead.try_all(tmp_path) > 20
    month.until_nothing_waits()
    undone = lead.json("treadle why 10-undone")["run_id"]
    lead.take(f"treadle undo {undone}")
    assert lead.try_all(tmp_path) > 3
    month.until_nothing_waits()

    states = {it["name"]: it["state"] for it in month.specs()}
    assert states == dict.fromkeys(SPECS, "done") | {"03-impossible.spec.md": "dropped"}
    decided = " ".join(verb for _, verb in month.decided)
    assert decided == "approve approve rebase land land resume again"
    once = {name: landings(project, name) for name in SPECS}
    assert once == dict.fromkeys(SPECS, 1) | {"03-impossible.spec.md": 0, "10-undone.spec.md": 2}
    assert "check_flaky" in project.event_types("04-flaky")
    assert project.show("05-already")["reason_code"] == "already_true"
    assert "Servus" in (project.root / "lib" / "greeting.py").read_text()
    assert (
        project.git("status", "--porcelain", "--untracked-files=no")
        == " M specs/09-edited.spec.md\n"
    )
    # Only a pass over specs of which some wait for her ends with another code than 0.
    assert {line for line, code, _ in lead.taken if code} <= {
        "treadle process",
        "TREADLE_NIGHT_MAX_RUNS=22 treadle process",
    }
