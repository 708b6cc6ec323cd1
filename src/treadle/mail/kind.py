"""Tell letters that only lie there to be read from those that bring something about."""

from treadle.mail import address, intent
from treadle.mail.letter import Letter

# A letter about a run's end: the run itself has had its effects.
RUN_HEADER = "run_id"

_EFFECTIVE = ("claim_task", "release_task", "test_results", "answer", "escalate")


def has_effect(letter: Letter) -> bool:
    """Tell whether a letter does more than lie there."""
    if letter.header(RUN_HEADER):
        return False
    asks = letter.to == address.HUMAN and letter.intent in intent.ASKING
    works = letter.intent in intent.WORK and letter.task_id is not None
    return asks or works or letter.intent in _EFFECTIVE or is_broadcast(letter)


def is_broadcast(letter: Letter) -> bool:
    """Tell whether everybody gets a copy: letters to all, unless they ask for work."""
    return letter.to == address.ALL and letter.intent not in intent.WORK
