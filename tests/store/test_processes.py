"""Many processes write at once: nobody is locked out, nobody starves, a kill loses nothing."""

import signal

from tests.store.rows import RUN, child, output, run_row
from treadle.store.store import Reader, Store

PROCESSES = 8
SHARE = 40

# Whoever is ready goes on: one that starved would keep all of them from coming to an end.
COMMIT_UNTIL_ALL_HAVE = """
    import sys, time
    from pathlib import Path
    from tests.store.rows import commit, run_row
    from treadle.layout import Layout
    from treadle.store.store import Store
    run_id = f"20260123-145501-{int(sys.argv[2]):06x}"
    with Store.open(Layout(Path(sys.argv[1]))) as store:
        store.insert_run(run_row(run_id), (), {})
        while len(store.runs(limit=99)) < int(sys.argv[3]):
            time.sleep(0.01)
        index = 0
        while min(run.current_step_index for run in store.runs(limit=99)) < int(sys.argv[4]):
            index += 1
            commit(store, index, run_id)
    print(index)
"""

COMMIT_UNTIL_KILLED = """
    import sys
    from pathlib import Path
    from tests.store.rows import commit
    from treadle.layout import Layout
    from treadle.store.store import Store
    store = Store.open(Layout(Path(sys.argv[1])))
    for index in range(1, 10**6):
        commit(store, index)
        print(index, flush=True)
"""


def test_eight_processes_write_at_once_and_each_gets_its_share(layout):
    words = (PROCESSES, SHARE)
    children = [
        child(COMMIT_UNTIL_ALL_HAVE, layout.root, number, *words) for number in range(PROCESSES)
    ]
    counts = [int(output(process)) for process in children]
    with Reader.open(layout) as reader:
        assert sum(map(len, reader.step_names().values())) == sum(counts)
    assert min(counts) >= SHARE


def test_what_a_killed_process_acknowledged_is_there(layout):
    with Store.open(layout) as store:
        store.insert_run(run_row(), (), {})
    with child(COMMIT_UNTIL_KILLED, layout.root) as process:
        acknowledged = [int(process.stdout.readline()) for _ in range(20)]
        process.send_signal(signal.SIGKILL)
        # Not `communicate`, which forgets what was read ahead with the lines above.
        acknowledged += [int(line) for line in process.stdout if line.strip()]
    with Reader.open(layout) as reader:
        steps = [step.step_index for step in reader.steps(RUN)]
        assert steps[: len(acknowledged)] == acknowledged
        assert reader.run(RUN).current_step_index == steps[-1]
