"""Write configurations for tests."""

import pytest

from treadle.layout import Layout


@pytest.fixture
def layout(tmp_path):
    """Return the layout of a project without a configuration yet."""
    layout = Layout(tmp_path / "project")
    layout.home.mkdir(parents=True)
    return layout


@pytest.fixture
def write(layout):
    """Return a function that writes the project's config.toml."""

    def write_text(text: str) -> Layout:
        layout.config_toml.write_text(text)
        return layout

    return write_text
