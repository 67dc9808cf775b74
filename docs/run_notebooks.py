"""Execute the notebooks of `docs/examples/`, so that the site has their outputs.

    python docs/run_notebooks.py                     # all seven, at most three minutes each
    python docs/run_notebooks.py look-at-attention

The executed copies are in `build/notebooks/`, which is never committed; `mkdocs build` shows those
whose cells are still those of the notebook (`docs/hooks.py`). Costs: some minutes.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.ipynb"))
EXECUTED = ROOT / "build" / "notebooks"
LIMIT = 600  # seconds of a cell


def executed(path: Path, folder: Path, limit: float = LIMIT) -> Any:
    """A notebook with its outputs; its runs are in `folder`, as are files that its cells write."""
    book = nbformat.read(path, as_version=4)
    names = {"WORKBENCH_RUNS": str(folder / "runs"), "PYTHONPATH": str(ROOT)}
    before = dict(os.environ)
    os.environ.update(names)  # the kernel inherits them
    try:
        client = NotebookClient(book, timeout=limit, resources={"metadata": {"path": folder}})
        client.execute()
    finally:
        os.environ.clear()
        os.environ.update(before)
    return book


def main() -> None:
    """Execute the notebooks that are named, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = [path.stem for path in EXAMPLES]
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    chosen = parser.parse_args().names
    if unknown := set(chosen) - {*names}:
        parser.error(f"no notebook {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    EXECUTED.mkdir(parents=True, exist_ok=True)
    for path in EXAMPLES:
        if not chosen or path.stem in chosen:
            start = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                nbformat.write(executed(path, Path(folder)), EXECUTED / path.name)
            print(f"{path.stem}: {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
