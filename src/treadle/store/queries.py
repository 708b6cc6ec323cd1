"""Load the named queries; each gets the columns of its records when it is asked for."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from treadle.store import codec

_MARK = "-- name: "


class Queries(Mapping[str, str]):
    """The named blocks of a file: a command asks for a few of them, so only these are filled."""

    def __init__(self, path: Path) -> None:
        blocks = (block.partition("\n") for block in path.read_text("utf-8").split(_MARK)[1:])
        self._blocks = {name: text for name, _, text in blocks}
        self._filled: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self._filled:
            self._filled[name] = self._blocks[name].format_map(_COLUMNS).strip()
        return self._filled[name]

    def name_of(self, sql: str) -> str | None:
        """Return the name of a query that was asked for; None for any other text."""
        return next((name for name, text in self._filled.items() if text == sql), None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._blocks)

    def __len__(self) -> int:
        return len(self._blocks)


class _Columns(dict[str, str]):
    """What stands for the columns of a table, one parameter each, or an upsert's assignments."""

    def __missing__(self, key: str) -> str:
        table, is_values = key.removesuffix("_values"), key.endswith("_values")
        if is_values or table in codec.FIELDS:
            names = codec.columns(codec.FIELDS[table])
            self[key] = ", ".join(["?"] * len(names) if is_values else names)
        else:
            names = codec.columns(codec.FIELDS[key.removesuffix("_updates")])
            self[key] = ", ".join(f"{name} = excluded.{name}" for name in names)
        return self[key]


_COLUMNS = _Columns()
SQL = Queries(Path(__file__).with_name("queries.sql"))
