"""Add one line to a .gitignore, and take it out again without a trace."""

LINE = b"**/.kittify/dossiers/*/snapshot-latest.json"


def has_line(data: bytes | None) -> bool:
    """Tell whether the line is there already."""
    return LINE in [line.strip() for line in (data or b"").splitlines()]


def add(data: bytes | None) -> bytes:
    """Return the file with the line at its end; None stands for no file.

    Each way a file can end gets its own way to add, so that `remove` can tell them apart.
    """
    if data is None:
        return LINE + b"\n"
    if not data:
        return LINE
    newline = b"\r\n" if b"\r\n" in data else b"\n"
    return data + LINE + newline if data.endswith(b"\n") else data + newline + LINE


def remove(data: bytes) -> bytes | None:
    """Return the file as it was before `add`; None means it was not there."""
    size = len(LINE)
    for before in (None, b"", data[: -size - 1], data[: -size - 2]):
        if add(before) == data:
            return before
    return b"".join(line for line in data.splitlines(keepends=True) if line.strip() != LINE)
