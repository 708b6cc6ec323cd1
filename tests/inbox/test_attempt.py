"""What routines send: chains, numbers, depth, order."""

from treadle.inbox import box
from treadle.store.store import Store

CHAIN = "2025022514320000"
SEND = (
    'echo "$message_id" >> log.txt',
    '[ "$seq" != 0 ] || for n in 1 2; do echo "$n" > "$TREADLE_OUTBOX/$n.md"; done',
)
PROJECT_INBOX = '"$TREADLE_PROJECT/.treadle/inbox/more.md"'


def test_what_lies_in_the_outbox_follows_in_the_same_chain(inbox):
    inbox.routine("log", *SEND)
    inbox.drop(f"{CHAIN}-0.md", "x\n")
    inbox.process()
    assert inbox.read("log.txt").split() == [f"{CHAIN}-0", f"{CHAIN}-1", f"{CHAIN}-2"]
    with inbox.reader() as store:
        rows = store.chain_messages(CHAIN)
    assert [(row.parent, row.depth) for row in rows[1:]] == [(f"{CHAIN}-0", 1)] * 2


def test_a_chain_is_drained_depth_first_before_the_next(inbox):
    lines = (
        'echo "$message_id" >> log.txt',
        'case "$seq" in 0) for n in 1 2; do echo x > "$TREADLE_OUTBOX/$n.md"; done;;',
        '1) echo child > "$TREADLE_OUTBOX/child.md";; esac',
    )
    inbox.routine("log", *lines)
    inbox.drop(f"{CHAIN}-0.md", "x\n")
    inbox.drop("2025022514320001-9.md", "other\n")
    inbox.process()
    found = [line.removeprefix(f"{CHAIN}-") for line in inbox.read("log.txt").split()]
    assert found == ["0", "1", "3", "2", "2025022514320001-9"]


def test_a_file_in_the_inbox_with_the_running_chain_follows_too(inbox):
    drop = f'printf -- "---\\nchain: $chain\\n---\\nmore\\n" > {PROJECT_INBOX}'
    inbox.routine("log", 'echo "$message_id" >> log.txt', f'[ "$seq" != 0 ] || {drop}')
    inbox.drop(f"{CHAIN}-0.md", "x\n")
    inbox.process()
    assert inbox.read("log.txt").split() == [f"{CHAIN}-0", f"{CHAIN}-1"]
    with inbox.reader() as store:
        assert store.message(f"{CHAIN}-1").parent == f"{CHAIN}-0"


def test_any_other_new_file_begins_a_chain_of_its_own(inbox):
    drop = f"echo more > {PROJECT_INBOX}"
    inbox.routine("log", f'[ "$seq$chain" != "0{CHAIN}" ] || {drop}')
    inbox.drop(f"{CHAIN}-0.md", "x\n")
    first, second = inbox.process().outcomes
    assert (first.row.message_id, second.status) == (f"{CHAIN}-0", "done")
    assert not second.row.message_id.startswith(CHAIN)


def test_an_explicit_free_number_is_kept(inbox):
    send = 'printf -- "---\\nseq: 7\\n---\\nmore\\n" > "$TREADLE_OUTBOX/more.md"'
    inbox.routine("log", f'[ "$seq" != 0 ] || {send}')
    inbox.drop(f"{CHAIN}-0.md", "x\n")
    assert [item.row.message_id for item in inbox.process().outcomes] == [
        f"{CHAIN}-0",
        f"{CHAIN}-7",
    ]


def test_follow_ups_without_end_are_ended(inbox):
    inbox.routine("log", 'echo again > "$TREADLE_OUTBOX/a.md"')
    inbox.drop(f"{CHAIN}-0.md", "x\n")
    found = inbox.process()
    assert [item.status for item in found.outcomes] == ["done"] * 10 + ["dead"]
    assert (found.exit_code, inbox.reasons().popitem()[1]["code"]) == (1, "too_deep")


def test_a_dead_follow_up_makes_its_chain_partial(inbox):
    inbox.routine("bad", "exit 1")
    inbox.settings('default_routine = "log"\nmax_retries = 1\n')
    send = 'printf -- "---\\nroutine: bad\\n---\\nx\\n" > "$TREADLE_OUTBOX/more.md"'
    inbox.routine("log", send)
    inbox.spec("01-a.spec.md", "---\nroutine: log\n---\n# B\n")
    found = inbox.process()
    assert [item.status for item in found.outcomes] == ["done", "dead"]
    assert (found.exit_code, inbox.tracker()) == (1, ["01-a.spec.md"])
    with inbox.reader() as store:
        chain = found.outcomes[0].row.message_id.rpartition("-")[0]
        assert store.chain_status(chain) == "partial"


def test_what_a_retried_message_sends_counts_its_own_attempts(inbox, now):
    inbox.settings('default_routine = "log"\nmax_retries = 1\n')
    inbox.routine("log", "exit 7")
    inbox.drop(f"{CHAIN}-0.md", "x\n")
    inbox.process()
    with Store.open(inbox.layout) as store:
        box.retry_dead(inbox.layout, store, box.find_dead(inbox.layout, f"{CHAIN}-0"), now)
    inbox.routine("log", *SEND)
    assert [status for _, status in inbox.statuses()] == ["done"] * 3
    first, *rest = [run.run_id for run in inbox.runs()]
    with inbox.reader() as store:
        rows = store.chain_messages(CHAIN)
    assert [row.after_run for row in rows] == [first, None, None]
    assert [row.run_ids for row in rows] == [(run_id,) for run_id in rest]
