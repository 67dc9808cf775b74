"""A copy of the model that a run left, in a new folder: complete, or not at all.

Costs: a copy of the weights.
"""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.core.errors import WorkbenchError
from workbench.core.files import drafted, require_regular, unwritable
from workbench.models.references import TRAINED

if TYPE_CHECKING:
    from workbench.runs.run import Run


def copied(run: "Run", out: Path | None) -> Path:
    """Return the folder of a run's model, or of a complete copy of it."""
    folder = run.path / TRAINED
    if out is None:
        return folder
    draft = drafted(out)
    try:
        shutil.rmtree(draft, ignore_errors=True)
        shutil.copytree(
            folder, draft, copy_function=lambda a, b: shutil.copy2(require_regular(Path(a)), b)
        )
        draft.rename(out)
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise unwritable(out, error, f"Copy {folder} to a disk with free space.") from None
    return out


def require_new(out: Path | None) -> None:
    """Raise an error now if the folder could not be written at the end."""
    if out is None:
        return
    if out.exists():
        raise WorkbenchError(
            "it exists already.",
            code="folder-exists",
            where=str(out),
            remedy="Name a new folder.",
        )
    if not out.absolute().parent.is_dir():
        raise WorkbenchError(
            "there is no such folder.",
            code="folder-not-found",
            where=str(out.parent),
            remedy="Create it first.",
        )
    draft = drafted(out)
    try:
        draft.mkdir(exist_ok=True)
        draft.rmdir()
    except OSError as error:
        raise unwritable(out, error, "Name a folder you may write to.") from None
