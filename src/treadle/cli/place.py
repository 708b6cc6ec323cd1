"""Find the project for a command that must be quick."""

from collections.abc import Mapping

from treadle.project.root import Place, find_place, here

__all__ = ["Place", "find"]


def find(env: Mapping[str, str]) -> Place:
    """Return the project around the current folder."""
    return find_place(here(), env)
