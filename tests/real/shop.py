"""A small shop in which real runs have passed, failed, landed and wait, for every page."""

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.builder import Project, make_home, wait_for
from tests.real.browser import PATIENCE
from tests.web import world
from treadle.ids import utc
from treadle.layout import Layout
from treadle.store import fleet
from treadle.store.fleet import WorkerRow
from treadle.store.store import Store

CART = '''"""The cart: what was chosen, and what it costs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    name: str
    price: float
    count: int = 1


def total(items):
    result = 0
    for item in items:
        result += item.price * item.count
    return result
'''
TEST = """import sys

import cart

found = cart.total([cart.Item("tea", 2.5, 2)])
print("two packs of tea cost", found)
if found != 5:
    sys.exit("FAIL: they should cost 5")
"""
TAX_CHECK = """import sys

import cart

for number in range(1, 41):
    print(f"price {number:03}: {cart.total([cart.Item('tea', number)]):.2f}")
found = cart.total([cart.Item("tea", 100)])
if round(found, 2) != 119:
    sys.exit(f"FAIL: 100 cost {found:.2f} with the tax, expected 119.00")
"""
COUNT, TAX, CENTS = "Count the items of a cart", "Add the tax to the total", "Round totals to cents"
DISCOUNT, SHORTEN = "Take a discount off the total", "Make the tests of the cart shorter"
IMPORT = "Import the orders of last year"
EDITS = f"""
import time
cart, goal = repo / "cart.py", request["goal"]
text = cart.read_text()
sys.stderr.write(f"\\x1b[1mreading\\x1b[0m {{cart.name}}, {{len(text.splitlines())}} lines\\n")
if goal == {COUNT!r} and "def count" not in text:
    cart.write_text(text + "\\n\\ndef count(items):\\n    return sum(it.count for it in items)\\n")
if goal == {TAX!r}:
    cart.write_text(text.replace("return result", f"return result * 1.0{{iteration}}", 1))
if goal == {CENTS!r}:
    cart.write_text(text.replace("    return result\\n", "    return round(result, 2)\\n"))
    (repo / "übersetzungen").mkdir(exist_ok=True)
    (repo / "übersetzungen/日本語.txt").write_text("合計\\n小計\\n")
    (repo / "cents.py").write_text("def cents(price):\\n    return round(price * 100)\\n")
if goal == {DISCOUNT!r}:
    new = "def total(items, discount=0.0):\\n    \\"\\"\\"Sum up, less a discount.\\"\\"\\"\\n"
    text = text.replace("def total(items):\\n", new)
    cart.write_text(text.replace("    return result\\n", "    return result * (1 - discount)\\n"))
if goal == {SHORTEN!r}:
    (repo / "test_cart.py").write_text("print('fine')\\n")
    cart.write_text(text.replace("item.price * item.count", "item.price"))
if goal == {IMPORT!r}:
    for n in range(100_000):
        print(f"order {{n + 1:06}} of 100000 \\x1b[32mread\\x1b[0m", file=sys.stderr, flush=True)
        if pathlib.Path(RELEASE).exists(): break
        time.sleep(0.3)
sys.stderr.write("\\x1b[32mdone\\x1b[0m\\n")
ok(goal.lower())
"""
PLAN = """
write("plan.md", "# Plan\\n\\n1. Read the cart\\n2. Change what the goal names\\n")
ok("read the cart, then change it")
"""
CHECK = """
ids = [it["id"] for it in request["norma"]["acceptance_criteria"]]
verdict("PASS", **{id_: True for id_ in ids}); ok("everything holds")
"""
TESTED, TAXED = "python3 -B test_cart.py", "python3 -B tax.py"
FILES = {
    "cart.py": CART,
    "test_cart.py": TEST,
    "tax.py": TAX_CHECK,
    "README.md": "# Shop\n",
    ".gitignore": "__pycache__/\n",
}
_MODELS = {"codex": "gpt-5", "claude": "sonnet"}
_MORE = """UPDATE kv_run SET value_json = json_set(value_json, '$.cost_usd',
    coalesce(json_extract(value_json, '$.cost_usd'), 0) + ?) WHERE run_id = ? AND key = 'spent'"""


_DAILY = "INSERT INTO costs VALUES (?, ?, ?, 3, 40000, 20000, 3000, ?, 300)"
# What today's steps cost is what their runs have spent.
_TODAY = """INSERT INTO costs SELECT ?, agent, model, count(*), sum(input_tokens),
    sum(cached_tokens), sum(output_tokens), sum(cost_usd), sum(seconds) FROM usage
    GROUP BY agent, model"""


class Shop:
    """The project, and its runs by their goals."""

    def __init__(self, folder: Path) -> None:
        self.release = folder / "release"
        env = make_home(folder / "home") | {"TREADLE_RETRY_WAIT": "0"}
        self.project = Project.make(folder / "shop", folder / "agents", FILES, env)
        self.root, self.env, self.layout = self.project.root, env, Layout(self.project.root)
        edits = EDITS.replace("RELEASE", repr(str(self.release)))
        self.project.settings("[night]\nmax_cost_usd = 50\n")
        self.project.agent("plan", PLAN)
        self.project.agent("do", edits, edits=True)
        self.project.agent("check", CHECK)
        self.project.agent("act", edits, edits=True)
        self.runs: dict[str, str] = {}
        self.working = None

    def run(self, goal: str, *more: str, verify: str = TESTED) -> str:
        """Carry out a goal and return the run."""
        words = ("run", "--goal", goal, "--ac", f"{goal} and nothing else breaks", "--anyway")
        done = self.project.treadle(
            *words, "--verify", f"AC1={verify}", "--json", *more, timeout=PATIENCE
        )
        self.runs[goal] = done.json["run_id"]
        return self.runs[goal]

    def fill(self) -> "Shop":
        """Let every page have something to show."""
        now, texts = datetime.now(UTC), (COUNT, "Send the receipt by mail", "Show prices in yen")
        with Store.open(self.layout) as store:
            world.tasks(store, now, texts)
            world.messages(self.layout, store, now, texts[1:])
        world.letters(self.layout, now, texts[1:])
        world.mission(self.layout, texts[1:])
        self.run(COUNT)
        self.project.treadle("land", self.runs[COUNT])
        self.run(TAX, "--ac=100 cost 119", f"--verify=AC2={TAXED}", "--budget=max_iterations=3")
        self.run(CENTS)
        self.run(DISCOUNT)
        self.run(SHORTEN)
        for _ in range(2):
            self.project.treadle("run", "T-2", "--anyway", "--budget=max_iterations=1")
        self.spend(now)
        self.employ(now)
        return self

    def work(self) -> "Shop":
        """Let a run be under way until it is released."""
        self.working = self.project.start(
            "run", "--goal", IMPORT, "--verify", "AC1=true", "--anyway"
        )
        self.runs[IMPORT] = wait_for(lambda: self._running())
        wait_for(lambda: (self.layout.run(self.runs[IMPORT]).live / "stderr.txt").stat().st_size)
        return self

    def _running(self) -> str | None:
        found = self.project.treadle("runs", "list", "--status", "running", "--json").json["runs"]
        return found[0]["run_id"] if found else None

    def item(self, kind: str) -> str:
        """Return the newest thing on the desk that is of this kind."""
        items = self.project.treadle("desk", "--json").json["items"]
        return [it["item_id"] for it in items if it["kind"] == kind][-1]

    def letter(self, task: str) -> str:
        """Return the newest letter about a task."""
        found = self.project.treadle("mail", "list", "--task", task, "--json").json["letters"]
        return found[-1]["file"].rpartition("/")[2]

    def spend(self, now: datetime) -> None:
        """Let every step have cost something: scripted agents do not tell."""
        with sqlite3.connect(self.layout.database) as database:
            steps = database.execute("SELECT run_id, step_index, role FROM steps").fetchall()
            for number, (run, index, role) in enumerate(steps, 1):
                name = "codex" if role in ("do", "act") else "claude"
                row = (
                    run,
                    index,
                    name,
                    _MODELS[name],
                    9_000 + 731 * number,
                    4_000,
                    600,
                    0.031 * number,
                    41,
                )
                database.execute(_MORE, (0.031 * number, run))
                database.execute("INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            database.execute("DELETE FROM costs")
            database.execute(_TODAY, (now.date().isoformat(),))
            for ago in range(1, 14):
                day = (now - timedelta(days=ago)).date().isoformat()
                for name, cost in (("claude", 0.9 + ago % 4), ("codex", 0.4 + ago % 5 * 0.7)):
                    database.execute(_DAILY, (day, name, _MODELS[name], cost))

    def employ(self, now: datetime) -> None:
        """Let two workers be known: one is busy, one takes no runs."""
        beat = utc(now)
        rows = (
            WorkerRow("tower-4711", "tower", 4711, 4, 3, "alive", beat, beat),
            WorkerRow("attic-815", "attic", 815, 2, 0, "alive", beat, beat, "its disk is full"),
        )
        with Store.open(self.layout) as store:
            for row in rows:
                fleet.register(store, row, "2000")

    def close(self) -> None:
        """Let what works end."""
        self.release.touch()
        if self.working:
            self.working.communicate(timeout=120)
