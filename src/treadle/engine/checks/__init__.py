"""See for ourselves: run the criteria's commands on a clean checkout that nothing can fool."""

import tomllib
from pathlib import Path
from typing import Any

WORDS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))
