"""Find the project, and what its configuration says of letters and leases, if it speaks of them."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from treadle.cli import main
from treadle.layout import Layout, MailLayout, user_config
from treadle.project.root import find_root, here, refuse_links

_SPOKEN = ("mail", "task")


class Place(NamedTuple):
    """A project's paths, the intents it adds to the standard ones, how long `next` lends a task."""

    layout: Layout
    extra_intents: tuple[str, ...] = ()
    lease: timedelta = timedelta(hours=4)


def find(env: Mapping[str, str]) -> Place:
    """Return the project around the current folder."""
    layout = Layout(find_root(here(), env))
    files = [path for path in (user_config(env), *layout.config_files()) if path.is_file()]
    if not _in_variables(env) and not any(map(_speaks, files)):
        return Place(layout)
    # Reading a configuration costs as much as all the rest of a quick command.
    found = main.call("settings.read", layout, env)
    layout.mail = MailLayout(layout.root / found.mail.root)
    refuse_links(layout)
    return Place(layout, found.mail.extra_intents, timedelta(seconds=found.task.lease))


def _in_variables(env: Mapping[str, str]) -> bool:
    return any(name.startswith(("TREADLE_MAIL", "TREADLE_TASK")) for name in env)


def _speaks(path: Path) -> bool:
    """Tell whether a file may have a key or table of these; better once too often."""
    text = path.read_bytes().decode("utf-8", "replace")
    if path.suffix == ".json":
        return any(f'"{word}' in text for word in _SPOKEN)
    return any(line.lstrip(" \t[\"'").startswith(_SPOKEN) for line in text.splitlines())
