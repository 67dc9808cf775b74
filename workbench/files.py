"""Files that are there whole or not at all.

`written_whole` hands out a temporary path beside the target and moves it into place only when the
block ends without an error; a killed or failed writer leaves the old file, or none. Costs one
rename.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workbench.errors import WorkbenchError


@contextmanager
def written_whole(target: Path) -> Iterator[Path]:
    """A path to write to, renamed onto `target` at the end; its folder is made where missing."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:80]}.", dir=target.parent)
        os.close(handle)
    except OSError as error:
        raise _unwritable(target, error) from None
    draft = Path(name)
    try:
        yield draft
        _flush_to_disk(draft)
        draft.chmod(0o666 & ~_umask())
        draft.replace(target)
    except OSError as error:
        raise _unwritable(target, error) from None
    finally:
        draft.unlink(missing_ok=True)


def _flush_to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    """The process' umask; there is no way to read it but to set it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _unwritable(target: Path, error: OSError) -> WorkbenchError:
    return WorkbenchError(
        f"cannot be written: {error.strerror or error}.",
        where=str(target),
        remedy="Name a folder you may write to, on a disk with space left.",
    )
