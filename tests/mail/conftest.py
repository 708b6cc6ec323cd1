"""Give each test a store, a tree of letters and a way to write some."""

from datetime import UTC, datetime

import pytest

from treadle.layout import Layout
from treadle.mail import claim, effect
from treadle.mail.effect import Draft
from treadle.store.store import Store


def claim_next(store, mail, agent, now):
    """Claim the next letter; what others wrote is found first."""
    return claim.claim_next(store, agent, now, lambda: effect.refresh(store, mail, now))


@pytest.fixture
def now():
    """Return the moment the tests live in."""
    return datetime(2025, 11, 21, 17, tzinfo=UTC)


@pytest.fixture
def layout(tmp_path):
    """Return the paths of an empty project."""
    return Layout(tmp_path / "project")


@pytest.fixture
def mail(layout):
    return layout.mail


@pytest.fixture
def store(layout):
    """Return an open store."""
    with Store.open(layout) as opened:
        yield opened


@pytest.fixture
def post(layout, store, now):
    """Send a letter and return its name."""

    def deliver(sender, to, intent, body="", at=now, **fields):
        sent = effect.send(layout, Draft(sender, to, intent, body, **fields), at)
        effect.refresh(store, layout.mail, at)
        return sent.name

    return deliver


@pytest.fixture
def drop(mail, store, now):
    """Write a file as another program would, and let it be found."""

    def write(name, text, folder="NEW_MESSAGES"):
        path = mail.root / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return effect.refresh(store, mail, now)

    return write


@pytest.fixture
def tree(mail):
    """Return where every letter lies."""

    def look():
        files = [path for path in mail.root.rglob("*.md") if path.parent != mail.tasks]
        return sorted(path.relative_to(mail.root).as_posix() for path in files)

    return look
