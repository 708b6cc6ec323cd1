"""Add a block to AGENTS.md that tells agents how to use treadle, and take it out again."""

BEGIN = b"<!-- treadle:begin -->"
END = b"<!-- treadle:end -->"
BLOCK = b"""\
<!-- treadle:begin -->
## treadle

- Ask what to do now with `treadle next --json`. For `kind: step`, do what the file `prompt_file`
  says; it ends with the commands that report the result. Other kinds say why in `reason`, and in
  `unblock` which commands help.
- `treadle describe --json` lists every command. Add `--json` to any of them for one JSON document.
- Commit your work before you report. Leave `.treadle/treadle.db` and `.treadle/runs/` alone.
<!-- treadle:end -->
"""


def has_block(data: bytes | None) -> bool:
    """Tell whether a block is there already, of this treadle or another."""
    return BEGIN in (data or b"")


def add(data: bytes | None) -> bytes:
    """Return the file with the block at its end; None stands for no file.

    Each way a file can end gets its own way to add, so that `remove` can tell them apart.
    """
    if data is None:
        return BLOCK
    newline = b"\r\n" if b"\r\n" in data else b"\n"
    block = BLOCK.replace(b"\n", newline)
    if data.endswith(b"\n"):
        return data + newline + block
    return data + (newline * 2 if data else b"") + block.removesuffix(newline)


def remove(data: bytes) -> bytes | None:
    """Return the file as it was before `add`; None means it was not there."""
    begin, end = data.find(BEGIN), data.find(END)
    if begin < 0 or end < begin:
        return data
    for before in (None, *(data[: max(begin - length, 0)] for length in (0, 1, 2, 4))):
        if add(before) == data:
            return before
    return data[:begin] + data[end + len(END) :].lstrip(b"\r\n")
