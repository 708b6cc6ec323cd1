"""Read the settings that quick commands need, for the few projects that have them."""

from collections.abc import Mapping

from treadle.config.load import load
from treadle.config.schema import Config
from treadle.layout import Layout


def read(layout: Layout, env: Mapping[str, str]) -> Config:
    """Return the whole configuration."""
    return load(layout, env).config
