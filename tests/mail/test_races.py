"""Many processes at once: one owner each, nothing torn, nothing lost."""

import random
import time
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from tests.mail import race
from treadle.errors import BlockedError
from treadle.mail import effect
from treadle.mail.effect import Draft
from treadle.mail.letter import parse
from treadle.store import letters as table
from treadle.store.store import Store
from treadle.store.tasks import TaskRow
from treadle.tasks import claim, task
from treadle.tasks.claim import Holder
from treadle.tasks.task import criteria_from_flags

FEW = pytest.param(4, 40, id="few")
MANY_OF_ONE_SECOND = pytest.param(8, 125, marks=pytest.mark.real)
MANY = pytest.param(16, 200, id="many", marks=pytest.mark.real)


@pytest.mark.parametrize(("processes", "rounds"), [FEW, MANY])
def test_one_task_has_one_owner(layout, store, now, processes, rounds):
    for turn in range(rounds):
        task.add(store, TaskRow(f"R-{turn}", "g", criteria=criteria_from_flags("g", (), ())), now)
    won = race.together("claim_tasks", layout.root, processes, rounds)
    assert Counter(name for names in won for name in names) == Counter(
        f"R-{turn}" for turn in range(rounds)
    )
    owners = {name: f"agent{number}" for number, names in enumerate(won) for name in names}
    assert {row.task_id: row.owner for row in store.tasks()} == owners
    shown = {row.task_id: layout.mail.task(row.task_id, "owner") for row in store.tasks()}
    assert all(f"owner: {owners[id_]}\n" in path.read_text() for id_, path in shown.items())


@pytest.mark.parametrize(("processes", "rounds"), [FEW, MANY])
def test_one_broadcast_letter_has_one_claimant(layout, store, now, processes, rounds):
    for turn in range(rounds):
        effect.send(layout, Draft("boss", "all", "fix_bug", "x", task_id=f"R-{turn}"), now)
    won = race.together("claim_letters", layout.root, processes)
    names = [name for names in won for name in names]
    assert len(set(names)) == len(names) == rounds
    for number, mine in enumerate(won):
        lying = {path.name for path in layout.mail.inbox(f"agent{number}").glob("*.md")}
        assert lying == set(mine)
        tasks = [store.task(name.removesuffix(".md").rpartition("_")[2]) for name in mine]
        assert {row.owner for row in tasks} <= {f"agent{number}"}
    assert list(layout.mail.new.glob("*.md")) == []


@pytest.mark.parametrize(("processes", "count"), [(4, 40), MANY])
def test_senders_killed_at_random_leave_only_whole_letters(layout, store, now, processes, count):
    count = 1000 // 8 if count > 100 else count
    processes = min(processes, 8)
    children = race.shoot(
        [race.start("send", layout.root, number, count) for number in range(processes)]
    )
    told = _kill_some(children)
    effect.refresh(store, layout.mail, now)
    letters = {path.name: path.read_text() for path in layout.mail.new.glob("*.md")}
    assert told <= set(letters)
    assert all(parse(text).body.endswith(" end\n") for text in letters.values())
    assert {row.name for row in table.page(store, "new", 10_000)} == set(letters)


def _kill_some(children):
    """Kill half of the senders in the middle; return the names that any of them told."""
    dice = random.Random(7)
    for child in children[::2]:
        time.sleep(dice.random() * 0.1)
        child.kill()
    told = set()
    for child in children:
        lines = child.communicate(timeout=120)[0].splitlines(keepends=True)
        told |= {line.strip() for line in lines if line.endswith(".md\n")}
    return told


@pytest.mark.parametrize(("processes", "count"), [(4, 50), MANY_OF_ONE_SECOND])
def test_a_thousand_letters_of_one_second_are_a_thousand_files(layout, store, processes, count):
    race.together("send_quietly", layout.root, processes, count)
    names = [path.name for path in layout.mail.new.glob("*.md")]
    assert len(names) == processes * count
    assert {name.partition("_a-b_")[0] for name in names} == {"20260101_000000"}


@pytest.mark.parametrize("to", ["all", ", ".join(f"agent{number}" for number in range(20))])
def test_everybody_gets_one_copy_however_many_look_at_once(layout, mail, to):
    for number in range(20):
        mail.inbox(f"agent{number}").mkdir(parents=True)
    text = (
        f"# MESSAGE\nfrom: a\nto: {to}\nintent: inform\nstatus: new\n"
        "created_at: 2026-01-01T00:00:00Z\n\nHello\n"
    )
    mail.new.mkdir()
    for number in range(3):
        (mail.new / f"{number}.md").write_text(text)
    race.together("take_in", layout.root, 4)
    lying = [path.name for path in mail.root.rglob("*.md")]
    assert len(lying) == len(set(lying)) == 3 + 20 * 3


def test_letters_to_several_made_before_a_kill_are_not_made_again(post, store, mail, now):
    name = post("boss", "ada, bob", "inform", "Lunch")
    (known,) = table.named(store, name)
    (mail.root / known.folder / name).rename(mail.new / name)
    table.forget(store, [known, *table.copies(store, name)])
    effect.rebuild(store, mail, now)
    assert sorted(row.recipient for row in table.copies(store, name)) == ["ada", "bob"]
    assert sorted(path.name for path in mail.root.rglob("*.md")) == sorted(
        (name, name.replace("ada+bob", "ada"), name.replace("ada+bob", "bob"))
    )
    assert (mail.logs / name).exists()


def test_a_copy_made_before_a_kill_is_not_made_again(post, drop, store, mail, now):
    mail.inbox("ada").mkdir(parents=True)
    name = post("boss", "all", "inform", "Lunch")
    table.forget(store, table.copies(store, name))
    (known,) = table.named(store, name)
    effect.make_effect(store, mail, known, now)
    assert len(list(mail.inbox("ada").iterdir())) == 1
    effect.rebuild(store, mail, now)
    assert [row.agent for row in table.copies(store, name)] == ["ada"]


def test_a_holder_killed_mid_claim_leaves_the_task_claimable_after_its_lease(layout, store, now):
    ids = [f"R-{number}" for number in range(40)]
    for id_ in ids:
        task.add(store, TaskRow(id_, "g", criteria=criteria_from_flags("g", (), ())), now)
    (child,) = race.shoot([race.start("claim_tasks", layout.root, 0, len(ids))])
    while store.task(ids[2]).owner is None:
        time.sleep(0.001)
    child.kill()
    child.communicate()
    held = [row for id_ in ids if (row := store.task(id_)).claim_id]
    assert len(held) >= 3
    with pytest.raises(BlockedError, match="held by agent0"):
        claim.claim(store, ids[0], "ada", datetime.now(UTC))
    later = datetime.now(UTC) + timedelta(minutes=31)
    assert {claim.claim(store, id_, "ada", later).owner for id_ in ids} == {"ada"}
    for row in held:
        with pytest.raises(BlockedError, match="not by this claim of agent0"):
            claim.release(store, row.task_id, Holder("agent0", row.claim_id), later)
        assert not claim.renew(store, row.task_id, row.claim_id, later)


@pytest.mark.real
def test_on_a_shared_database_too_one_letter_and_one_task_have_one_owner(pg_store, layout, now):
    """Several letters are about each task, so that whoever loses one may try the next."""
    with Store.open(layout) as store:
        for turn in range(60):
            to, task_id = ("all", "agent0", "agent1")[turn % 3], f"R-{turn % 20}"
            effect.send(layout, Draft("boss", to, "fix_bug", "x", task_id=task_id), now)
        won = race.together("claim_letters", layout.root, 4)
        names = [name for names in won for name in names]
        assert len(set(names)) == len(names)
        held = [set[str]() for _ in won]
        for number, mine in enumerate(won):
            lying = {path.name for path in layout.mail.inbox(f"agent{number}").glob("*.md")}
            assert lying == set(mine)
            held[number] = {table.named(store, name)[0].task_id for name in mine}
            assert {store.task(task_id).owner for task_id in held[number]} <= {f"agent{number}"}
        assert Counter(task_id for mine in held for task_id in mine) == Counter(
            f"R-{turn}" for turn in range(20)
        )
