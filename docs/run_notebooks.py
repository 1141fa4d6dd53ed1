"""Execute the notebooks; ``python docs/run_notebooks.py [FILE ...]`` also writes their output.

Each runs in an empty folder of its own, with the package from this checkout or as installed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent / "notebooks"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook with its output.

    What goes to standard error is left out: warnings of libraries, with paths of the machine.

    Raises:
        CellExecutionError: if a cell raises.
    """
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        where = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=900, kernel_name="python3", resources=where).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    return notebook


if __name__ == "__main__":
    for file in map(Path, sys.argv[1:] or sorted(map(str, FOLDER.glob("*.ipynb")))):
        nbformat.write(executed(file), file)
        print(file)
