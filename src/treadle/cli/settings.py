"""Read the settings that quick commands need, for the few projects that have them."""

from collections.abc import Mapping

from treadle.config import trusted
from treadle.config.load import load
from treadle.config.schema import Config
from treadle.errors import BlockedError
from treadle.layout import Layout


def read(layout: Layout, env: Mapping[str, str]) -> Config:
    """Return the whole configuration; letters leave the repository only where it is trusted."""
    found = load(layout, env)
    letters = (layout.root / found.config.mail.root).resolve()
    is_outside = not letters.is_relative_to(layout.root.resolve())
    is_theirs = found.origins["mail.root"].kind == "project"
    if is_outside and is_theirs and not trusted.has(env, layout.root):
        raise BlockedError(
            f"{layout.root} is not trusted, and its configuration puts letters into {letters}",
            code="untrusted",
            fix=["treadle trust"],
        )
    return found.config
