"""Read the settings that quick commands need, for the few projects that have them."""

from collections.abc import Mapping

from treadle.config.load import load
from treadle.config.schema import MailConfig
from treadle.layout import Layout


def mail(layout: Layout, env: Mapping[str, str]) -> MailConfig:
    """Return what the configuration says about mail."""
    return load(layout, env).config.mail
