"""Find the project and its letters without reading the configuration, unless it speaks of them."""

from collections.abc import Mapping
from typing import NamedTuple

from treadle.cli import main
from treadle.layout import Layout, MailLayout, user_config
from treadle.project.root import find_root, here


class Place(NamedTuple):
    """A project's paths, and the intents it adds to the standard ones."""

    layout: Layout
    extra_intents: tuple[str, ...] = ()


def find(env: Mapping[str, str]) -> Place:
    """Return the project around the current folder."""
    layout = Layout(find_root(here(), env))
    if not _speaks_of_mail(layout, env):
        return Place(layout)
    # Reading a configuration costs as much as all the rest of a quick command.
    found = main.load("settings").mail(layout, env)
    layout.mail = MailLayout(layout.root / found.root)
    return Place(layout, found.extra_intents)


def _speaks_of_mail(layout: Layout, env: Mapping[str, str]) -> bool:
    if any(name.startswith("TREADLE_MAIL") for name in env):
        return True
    files = [path for path in (user_config(env), *layout.config_files()) if path.is_file()]
    lines = (line for path in files for line in path.read_bytes().splitlines())
    return any(b"mail" in line and not line.lstrip().startswith(b"#") for line in lines)
