"""What becomes of messages: decided once, shown and performed alike."""

import hashlib
import os
import zlib
from datetime import UTC, datetime
from itertools import product
from types import SimpleNamespace

import pytest

from treadle.config.load import load
from treadle.engine.run import memory
from treadle.errors import BlockedError, LockedError
from treadle.files import atomic, sync
from treadle.inbox import box, decide, plan, specs
from treadle.inbox.known import Bury, InboxView, Proceed, Try, Wait
from treadle.proc import identity
from treadle.project.context import open_context
from treadle.store.messages import waiting
from treadle.store.runs import RunRow
from treadle.store.store import Store
from treadle.tasks import questions
from treadle.web.pages import inbox as page
from treadle.web.site import WebRequest

AT = "2026-01-01T00:00:00Z"
REFUSED = {"what": "land", "code": None, "message": "no"}
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CHAIN = "20260101000000"
SPEC = "---\nroutine: noop\n---\n# Do nothing\n"
EXPECTED = {
    "run": {"done"},
    "land": {"done"},
    "dead letter": {"dead"},
    "duplicate": {"duplicate"},
    "ask": {"held"},
    "nothing": {"held", "stopped", "refused", "queued", "dead"},
}


RUN, LAND, RESUME = Proceed("run"), Proceed("land", "r0"), Proceed("resume", "r0")


def follow(status, *states):
    row = waiting(CHAIN, 0, AT)._replace(status=status, reason="as it was")
    tries = tuple(Try(f"r{number}", state, "why") for number, state in enumerate(states))
    return decide.follow(row, tries, 3, "noop")


@pytest.mark.parametrize(
    ("status", "states", "expected"),
    [
        ("waiting", (), RUN),
        ("waiting", ("failed",), RUN),
        ("waiting", ("failed", "failed"), RUN),
        ("waiting", ("passed",), LAND),
        ("waiting", ("refused",), LAND),
        ("waiting", ("cut off",), RESUME),
        ("waiting", ("stopped",), Wait("stopped", "why")),
        ("waiting", ("running",), Wait("held", "another process drives its run r0")),
        ("held", (), RUN),
        ("held", ("passed",), LAND),
        ("stopped", ("stopped",), Wait("stopped", "why")),
        ("stopped", ("cut off",), Wait("stopped", "as it was")),
        ("stopped", ("passed",), LAND),
        ("stopped", ("failed", "failed"), RUN),
        ("refused", ("refused",), Wait("refused", "as it was")),
        ("refused", ("passed",), LAND),
    ],
    ids=str,
)
def test_what_is_next_depends_on_the_row_and_its_runs(status, states, expected):
    assert follow(status, *states) == expected


def test_what_has_failed_as_often_as_it_may_is_dead():
    found = follow("waiting", *["failed"] * 3)
    assert isinstance(found, Bury)
    assert found.error.code == "routine_failed"


@pytest.mark.parametrize(("state", "expected"), [("refused", Wait), ("passed", Bury)])
def test_what_waits_is_not_asked_what_it_would_run(inbox, state, expected):
    with Store.open(inbox.layout) as store:
        message = add(inbox, store, CHAIN, status="refused", reason="as it was")
        ran(store, message, state)
        view = InboxView(inbox.layout, load(inbox.layout, os.environ).config, store, AT)
        known = decide.read(view, inbox.layout.inbox / f"{message}.md")
        assert isinstance(decide.decide(view, known, None).action, expected)


@pytest.fixture
def crowd(inbox):
    """An inbox in which about a hundred messages and specs are in as many situations."""
    inbox.settings('sandbox = "off"\ndefault_routine = "usual"\n')
    for name in ("noop", "usual"):
        inbox.routine(name, ":", about="Do nothing\n# workspace: project")
    with Store.open(inbox.layout) as store:
        tried(inbox, store)
        delivered(inbox, store)
        wished(inbox, store)
        listed(inbox, store)
    dropped(inbox)
    return inbox


def add(inbox, store, name, **row):
    """Put a message into the inbox that the store knows."""
    found = store.add_message(waiting(name, 0, AT))
    store.save_message(found._replace(**row))
    inbox.drop(f"{name}-0.md", "---\nroutine: noop\n---\nDo nothing\n")
    return found.message_id


def tried(inbox, store):
    """Add messages with every status whose runs stand in every state."""
    states = ("", "failed", "failed failed", "failed failed failed", "stopped", "queued")
    states += ("refused", "passed", "failed passed", "failed stopped", "failed queued")
    states += (
        "failed failed refused",
        "failed failed stopped",
        "failed refused",
        "failed failed passed",
    )
    for status, runs in product(("waiting", "stopped", "refused", "held"), states):
        name = f"t-{status}-{runs.replace(' ', '.')}x"
        message = add(inbox, store, name, status=status, reason="as it was")
        for number, state in enumerate(runs.split()):
            ran(store, message, state, number)


def ran(store, message, state, number=0):
    run_id = f"20260101-00000{number}-{zlib.crc32(message.encode()) & 0xFFFFFF:06x}"
    kv = {"reason": "why"}
    kv |= {"queued": {memory.FLEET: {}}, "refused": {"land_refused": REFUSED}}.get(state, {})
    status = {"refused": "passed", "queued": "running"}.get(state, state)
    owner = identity._of_pid(os.getppid()).encode() if state == "running" else None
    if state == "queued":
        owner = "worker:w"
    row = RunRow(run_id, AT, "g", status, 1, 0, None, f".treadle/runs/{run_id}", owner=owner)
    store.insert_run(row._replace(message_id=message, ended_at=AT), (), kv)


def delivered(inbox, store):
    """Add second deliveries of what is done or dead, and other bytes under their names."""
    for status, word in product(("done", "dead"), ("same", "other")):
        name = f"d-{status}-{word}"
        add(inbox, store, name, status=status)
        data = (inbox.layout.inbox / f"{name}-0.md").read_bytes()
        row = store.message(f"{name}-0")
        digest = hashlib.sha256(data).hexdigest() if word == "same" else "other"
        store.save_message(row._replace(digest=digest))


def wished(inbox, store):
    """Add follow-ups of an agent's message: unasked, asked, approved, refused, tried again."""
    parent = store.add_message(waiting("w-parent", 0, AT)._replace(routine="develop"))
    store.save_message(parent._replace(status="done"))
    for number, answer in enumerate((None, "open", "approve", "drop it", "stale")):
        message = add(inbox, store, f"w-{number}", parent=parent.message_id, depth=1)
        row = store.message(message)
        store.save_message(row._replace(updated_at="2026-01-02T00:00:00Z"))
        if answer is None:
            continue
        view = InboxView(inbox.layout, load(inbox.layout, os.environ).config, store, AT)
        known = decide.read(view, inbox.layout.inbox / f"{message}.md")
        asked = decide.decide(view, known, None).action.question
        id_ = questions.ask(store, asked, NOW)
        if answer != "open":
            verb = "approve" if answer == "approve" else "reject"
            day = 1 if answer == "stale" else 3
            store.answer(id_, verb, "human", datetime(2026, 1, day, tzinfo=UTC), verb)


def listed(inbox, store):
    """Add specs whose messages have got as far as they can."""
    digests = {}
    for status in ("none", "done", "dead", "edited", "waiting", "stopped", "held"):
        name = f"{status}.spec.md"
        inbox.spec(name, SPEC)
        digests[status] = specs.glance(inbox.layout, name).digest
        if status == "none":
            continue
        digest = "other" if status == "edited" else digests[status]
        row = waiting("", 0, AT)._replace(spec=name, spec_digest=digest)
        real = "dead" if status == "edited" else status
        store.save_message(store.add_message(row)._replace(status=real, reason="as it was"))
    inbox.spec("gone-routine.spec.md", SPEC.replace("noop", "gone"))
    inbox.spec("broken.spec.md", "---\na: [\n---\n")
    inbox.spec("bytes.spec.md").write_bytes(b"\xff")


def dropped(inbox):
    """Add files of every kind that somebody may leave there."""
    heads = {
        "named": "routine: noop",
        "gone": "routine: gone",
        "chain": f"routine: noop\nchain: {CHAIN}",
        "placed": f"routine: noop\nchain: {CHAIN}\nseq: 7",
        "seq": "routine: noop\nseq: many",
        "type": "routine: noop\ntype: letter",
        "unsafe": "chain: ../x",
        "twice": "chain: a\nchain: b",
        "open": "a: [",
        "anchor": "a: &x 1",
        "list": "routine: [noop]",
        "spec": "routine: noop\ninput_file: specs/none.spec.md",
        "nospec": "type: spec",
        "outside": "input_file: ../x",
        "missing": "input_file: specs/missing.spec.md",
        "field": "routine: noop\ncolor: red",
        "extension": "routine: noop.sh",
        "notebook": "routine: noop.ipynb",
    }
    for name, head in heads.items():
        inbox.drop(f"f-{name}.md", f"---\n{head}\n---\nDo nothing\n")
    inbox.drop(f"{CHAIN}-3.md", "---\nroutine: noop\n---\n")
    inbox.drop("f-crlf.md", "---\r\nroutine: noop\r\n---\r\nDo\r\n")
    inbox.drop("f-bytes.md", b"\xff")
    inbox.drop("f-large.md", b"x" * (box.MAX_BYTES + 1))
    inbox.drop("f-\u202e.md", "---\nroutine: noop\n---\n")
    (inbox.root / "log.txt").touch()
    (inbox.layout.inbox / "f-link.md").symlink_to("/etc/hostname")
    (inbox.layout.inbox / "f-hard.md").hardlink_to(inbox.root / "log.txt")
    os.mkfifo(inbox.layout.inbox / "f-pipe.md")
    (inbox.layout.inbox / "f-folder.md").mkdir()


@pytest.mark.timeout(240)
def test_the_dry_run_the_page_and_the_pass_agree(crowd):
    config = load(crowd.layout, os.environ).config
    with crowd.reader() as store:
        planned = plan.plan(crowd.layout, config, store)
    project = open_context(crowd.root, os.environ)
    site = SimpleNamespace(project=project, store=crowd.reader)
    shown = page.inbox_document(site, WebRequest({}, {}))
    left = tuple(specs.not_taken(crowd.layout))
    assert shown.items() >= plan.plan_document(planned, left).items()
    outcomes = crowd.process().outcomes
    assert len(planned) >= 100
    for item, outcome in zip(planned, outcomes, strict=True):
        assert outcome.status in EXPECTED[item.would], (item, outcome)
        assert item.message_id in (None, outcome.row and outcome.row.message_id)
        if item.would != "run":
            assert outcome.reason in (item.reason, "")
        elif item.routine:
            assert item.routine == outcome.row.routine


class Killed(BaseException):
    """A kill, as far as anything that handles errors can tell."""


@pytest.mark.parametrize(("module", "name"), [(sync, "rename_new"), (atomic, "write")])
@pytest.mark.parametrize("text", ["---\nroutine: broken\n---\n", "---\na: [\n---\n"])
def test_a_kill_while_a_message_is_buried_loses_nothing(inbox, monkeypatch, module, name, text):
    inbox.settings("max_retries = 1\n")
    inbox.routine("broken", "exit 1")
    inbox.drop(f"{CHAIN}-0.md", text)
    with monkeypatch.context() as patch:
        real = getattr(module, name)

        def die(path, *args, **options):
            if "/dead/" in f"{path}{args}":
                raise Killed
            return real(path, *args, **options)

        patch.setattr(module, name, die)
        with pytest.raises(Killed):
            inbox.process()
    assert (inbox.layout.inbox / f"{CHAIN}-0.md").exists()
    assert [item.status for item in inbox.process().outcomes] == ["dead"]
    assert list(inbox.reasons()) == [f"{CHAIN}-0.md"]
    assert (inbox.layout.inbox_dead / f"{CHAIN}-0.md").exists()
    with inbox.reader() as store:
        assert len(store.questions()) == 1
        assert [row.status for row in store.messages("waiting")] == []
    assert inbox.process().outcomes == ()


def test_a_message_whose_run_another_process_drives_is_left_alone(inbox):
    with Store.open(inbox.layout) as store:
        message = add(inbox, store, CHAIN, status="waiting")
        ran(store, message, "running")
        (planned,) = plan.plan(inbox.layout, load(inbox.layout, os.environ).config, store)
    assert (planned.would, planned.reason[:15]) == ("nothing", "another process")
    with pytest.raises(LockedError):
        inbox.process()
    assert (inbox.layout.inbox / f"{CHAIN}-0.md").exists()


@pytest.mark.parametrize("kind", ["link", "repository"])
def test_specs_that_could_never_land_are_refused_before_any_work(inbox, kind):
    inbox.drop("x.md", "work")
    if kind == "link":
        inbox.layout.specs.rename(inbox.root / "elsewhere")
        inbox.layout.specs.symlink_to("elsewhere")
    else:
        (inbox.layout.specs / ".git").write_text("gitdir: ../.git/modules/specs\n")
    with pytest.raises(BlockedError, match=r"specs is a .* cannot be landed"):
        inbox.process()
    assert inbox.runs() == []
