"""See for ourselves: run the criteria's commands on a clean checkout that nothing can fool."""

import tomllib
from importlib import resources
from typing import Any

WORDS: dict[str, Any] = tomllib.loads(
    resources.files(__name__).joinpath("words.toml").read_text(encoding="utf-8")
)
