"""Processes that claim and send at the same time, each waiting for the starting shot."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tests.mail.conftest import claim_next
from treadle.errors import TreadleError
from treadle.layout import Layout
from treadle.mail import effect
from treadle.mail.effect import Draft
from treadle.store.store import Store
from treadle.tasks import claim

ROOT = Path(__file__).parents[2]


def start(role: str, root: Path, *words: object, module: str = __spec__.name) -> subprocess.Popen:
    """Start one child; it says when it is ready and waits for its input to close."""
    env = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    argv = [sys.executable, "-m", module, role, str(root), *map(str, words)]
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, env=env, cwd=ROOT, text=True, stdin=pipe, stdout=pipe)


def together(
    role: str, root: Path, count: int, *words: object, module: str = __spec__.name
) -> list[object]:
    """Let children do the same at once and return what each found."""
    children = [start(role, root, number, *words, module=module) for number in range(count)]
    return [finish(child) for child in shoot(children)]


def shoot(children: list[subprocess.Popen]) -> list[subprocess.Popen]:
    """Wait until all are ready, then let them go."""
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    return children


def finish(child: subprocess.Popen) -> object:
    """Return what a child found."""
    out, _ = child.communicate(timeout=300)
    assert child.returncode == 0
    return json.loads(out)


def claim_tasks(store: Store, layout: Layout, number: str, rounds: str) -> list[str]:
    """Claim one task after the other; return those that were had."""
    won = []
    for turn in range(int(rounds)):
        try:
            claim.claim(store, f"R-{turn}", f"agent{number}", datetime.now(UTC))
            won.append(f"R-{turn}")
        except TreadleError:
            pass
    return won


def claim_letters(store: Store, layout: Layout, number: str) -> list[str]:
    """Claim letters until none is left."""
    won = []
    mail = layout.mail
    while taken := claim_next(store, mail, f"agent{number}", datetime.now(UTC)):
        won.append(taken.row.name)
    return won


def send_many(store: Store, layout: Layout, number: str, count: str) -> list[str]:
    """Send letters of one name and size, telling of each after it is delivered."""
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    for turn in range(int(count)):
        body = f"{number}-{turn} " + "x" * 3000 + " end"
        sent = effect.send(layout, Draft("a", "b", "inform", body), moment)
        print(sent.name, flush=True)
    return []


def send_quietly(store: Store, layout: Layout, number: str, count: str) -> int:
    """Send letters of one name; return how many."""
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    for _ in range(int(count)):
        effect.send(layout, Draft("a", "b", "inform", "x"), moment)
    return int(count)


def main(roles: dict[str, Callable[..., object]]) -> None:
    """Do one role's part."""
    role, root, *words = sys.argv[1:]
    layout = Layout(Path(root))
    with Store.open(layout) as store:
        if role != "take_in":
            effect.refresh(store, layout.mail, datetime.now(UTC))
        print("ready", flush=True)
        sys.stdin.readline()
        found = roles[role](store, layout, *words)
        print(json.dumps(found), flush=True)


def take_in(store: Store, layout: Layout, number: str) -> int:
    """Take in what came, with all its effects."""
    effect.refresh(store, layout.mail, datetime.now(UTC))
    return 0


ROLES = {
    "take_in": take_in,
    "claim_tasks": claim_tasks,
    "claim_letters": claim_letters,
    "send": send_many,
    "send_quietly": send_quietly,
}

if __name__ == "__main__":
    main(ROLES)
