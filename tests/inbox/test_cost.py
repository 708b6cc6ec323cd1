"""What one more message costs, counted: calls and commits depend on no machine's mood."""

import cProfile
import pstats

ROUTINE = "# workspace: project"


def test_a_message_costs_four_commits_and_few_calls(inbox):
    inbox.settings('sandbox = "off"\n')
    inbox.routine("noop", ":", about=f"Do nothing\n{ROUTINE}")
    write(inbox, range(2))
    inbox.process()  # the store is made once
    few = profiled(inbox, range(2, 5))
    many = profiled(inbox, range(5, 18))
    assert (commits(many) - commits(few)) / 10 == 4
    # Waiting for a child costs calls too: some more where the machine is busy.
    assert (many.total_calls - few.total_calls) / 10 <= 7500


def write(inbox, numbers):
    for number in numbers:
        inbox.spec(f"{number:03d}.spec.md", "---\nroutine: noop\n---\n# Do nothing\n")


def profiled(inbox, numbers):
    write(inbox, numbers)
    profile = cProfile.Profile()
    profile.enable()
    outcomes = inbox.statuses()
    profile.disable()
    assert len(outcomes) == len(numbers)
    return pstats.Stats(profile)


def commits(stats):
    return sum(
        row[1]
        for (file, _, name), row in stats.stats.items()
        if file.endswith("store/sqlite.py") and name == "commit"
    )
