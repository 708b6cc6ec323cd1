"""Execute a notebook routine in a process of its own: its path, and the request on stdin."""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError


def run() -> None:
    """Execute the notebook that the command line names, and leave."""
    request = json.load(sys.stdin)
    with tempfile.TemporaryDirectory(prefix="treadle-notebook-") as folder:
        for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
            os.environ[name] = str(Path(folder) / name.lower())
        code = main(Path(sys.argv[1]), Path(request["paths"]["step_dir"]), dict(os.environ))
    asyncio.set_event_loop(None)
    sys.exit(code)


def main(path: Path, step_dir: Path, env: dict[str, str]) -> int:
    """Run every cell in order; the executed notebook is kept in the step's folder."""
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]  # untyped
    _set_parameters(notebook, env)
    client = NotebookClient(notebook, timeout=None, kernel_name=_kernel(notebook))
    try:
        client.execute()
    except (CellExecutionError, DeadKernelError) as error:
        sys.stderr.write(f"{_complaint(notebook, path, error)}\n")
        return 1
    finally:
        (step_dir / "files").mkdir(exist_ok=True)
        nbformat.write(notebook, step_dir / "files" / path.name)  # type: ignore[no-untyped-call]  # untyped
    return 0


def _kernel(notebook: nbformat.NotebookNode) -> str:
    return str(notebook.metadata.get("kernelspec", {}).get("name", "python3"))


def _set_parameters(notebook: nbformat.NotebookNode, env: dict[str, str]) -> None:
    """Put a cell behind the one tagged `parameters` that sets what the message gives."""
    for number, cell in enumerate(notebook.cells):
        if "parameters" in cell.metadata.get("tags", []):
            names = [
                line.partition("=")[0].partition(":")[0].strip() for line in cell.source.split("\n")
            ]
            lines = [
                f"{name} = {env[name]!r}" for name in names if name.isidentifier() and name in env
            ]
            if lines:
                added = nbformat.v4.new_code_cell("\n".join(lines))  # type: ignore[no-untyped-call]  # untyped
                added.metadata["tags"] = ["injected-parameters"]
                notebook.cells.insert(number + 1, added)
            return


def _complaint(notebook: nbformat.NotebookNode, path: Path, error: Exception) -> str:
    """Name the cell, as people count them, and show what it said."""
    for number, cell in enumerate(notebook.cells, 1):
        for output in cell.get("outputs", []):
            if output.get("output_type") == "error":
                return f"{path.name}: cell {number}: {output.ename}: {output.evalue}"
    return f"{path.name}: {error}"
