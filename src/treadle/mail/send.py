"""Send a letter with everything it brings about."""

from collections.abc import Sequence
from datetime import datetime

from treadle.layout import Layout
from treadle.mail import effect, intent, kind, post, sync
from treadle.mail.letter import Letter
from treadle.mail.post import Draft, Sent
from treadle.store.store import Reader, Store


def send(layout: Layout, draft: Draft, now: datetime, extra: Sequence[str] = ()) -> Sent:
    """Deliver a letter durably; an effect that is refused refuses the letter with it."""
    return deliver(layout, post.compose(draft, now, extra), now)


def deliver(layout: Layout, letter: Letter, now: datetime) -> Sent:
    """Put a letter into NEW_MESSAGES and make its effect."""
    if letter.intent in ("claim_task", "release_task"):
        with Store.open(layout) as store:
            effect.try_out(store, letter, now)
            sent = post.post(layout.mail, letter)
            return sent._replace(said=sync.see(store, layout.mail, sent.name, letter, now))
    sent = post.post(layout.mail, letter)
    if not _has_effect(layout, letter):
        return sent
    with Store.open(layout) as store:
        return sent._replace(said=sync.see(store, layout.mail, sent.name, letter, now))


def _has_effect(layout: Layout, letter: Letter) -> bool:
    """Tell whether the store must hear of it now; a known task need not be made."""
    if not kind.has_effect(letter):
        return False
    if letter.intent not in intent.WORK:
        return True
    with Reader.open(layout) as store:
        return store.task(letter.task_id or "") is None
