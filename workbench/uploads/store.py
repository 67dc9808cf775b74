"""Folders of what was uploaded: filled as a draft, checked, and then given their name at once.

    HOME/uploads/models/3f9c…-bert      one folder for each content, whatever it was called before
    HOME/uploads/corpora/a01b…-dev.conllu

A draft that fails leaves nothing, and one that was killed is swept away a day later. Costs one
reading of what was received, for its hash.
"""

import hashlib
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from workbench import places
from workbench.errors import WorkbenchError
from workbench.files import open_regular, unwritable

Kind = Literal["models", "corpora"]
DRAFT = ".draft-"
OLD = 24 * 3600  # seconds after which a draft is nobody's
LONGEST = 80  # bytes of a name
_HASH = 16
_NAMED = re.compile(rf"(?P<hash>[0-9a-f]{{{_HASH}}})-(?P<name>.+)", re.DOTALL)
_UNSAFE = re.compile(r"[^\w.-]+")


@dataclass(frozen=True)
class Upload:
    """One folder of what was uploaded."""

    path: Path
    hash: str
    name: str
    size: int  # bytes
    received: float  # seconds since 1970


def folder(kind: Kind) -> Path:
    """Where uploads of a kind lie."""
    return places.home().absolute() / "uploads" / kind


def uploads(kind: Kind) -> list[Upload]:
    """All that is there, in the order of their names."""
    found = []
    with suppress(OSError):
        for path in folder(kind).iterdir():
            match = _NAMED.fullmatch(path.name)
            if match and path.is_dir() and not path.is_symlink():
                with suppress(OSError):  # removed by somebody else meanwhile
                    size = sum(file.stat().st_size for file in _files(path))
                    when = path.stat().st_mtime
                    found.append(Upload(path, match["hash"], match["name"], size, when))
    return sorted(found, key=lambda upload: (upload.name.lower(), upload.hash))


def receive(kind: Kind, name: str, fill: Callable[[Path], object]) -> Upload:
    """Have a draft filled and checked, then keep it; the same content twice is one folder.

    Whatever `fill` raises is handed on, and nothing is left. A `WorkbenchError` that names the
    draft names the upload instead.
    """
    root = folder(kind)
    shown = safe_name(name)
    try:
        root.mkdir(parents=True, exist_ok=True)
        _sweep(root)
        draft = Path(tempfile.mkdtemp(prefix=DRAFT, dir=root))
    except OSError as error:
        raise _unwritable(root, error) from None
    try:
        fill(draft)
        kept = _named(draft, root, shown)
    except WorkbenchError as error:
        raise _renamed(error, draft, shown) from None
    except OSError as error:
        raise _unwritable(root, error) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return next(upload for upload in uploads(kind) if upload.path == kept)


def remove(kind: Kind, name: str) -> None:
    """Remove one upload by its folder's name; one that is gone already is no error."""
    for upload in uploads(kind):
        if upload.path.name == name:
            grave = upload.path.with_name(f"{DRAFT}{upload.path.name}")
            try:
                upload.path.replace(grave)
            except FileNotFoundError:
                return
            except OSError as error:
                raise _unwritable(upload.path, error) from None
            shutil.rmtree(grave, ignore_errors=True)


def safe_name(name: str) -> str:
    """A file name that leads nowhere: its last part, without what a shell or a path would read."""
    last = name.replace("\\", "/").rstrip("/").split("/")[-1]
    whole = _UNSAFE.sub("-", last).strip("-.")
    stem, dot, ending = whole.rpartition(".")
    if not dot or len(ending) > 12:
        stem, ending = whole, ""
    room = LONGEST - len(ending.encode()) - 1
    cut = stem.encode()[:room].decode(errors="ignore").rstrip("-.")
    return (f"{cut}.{ending}" if ending else cut) or "unnamed"


def _named(draft: Path, root: Path, shown: str) -> Path:
    """Give a filled draft its name, if there is no folder of this content yet."""
    digest = content_hash(draft)
    draft.chmod(0o755)
    target = root / f"{digest}-{shown}"
    if same := [path for path in root.glob(f"{digest}-*") if path.is_dir()]:
        return same[0]
    try:
        draft.rename(target)
    except OSError:
        if not target.is_dir():  # else somebody else's draft of the same was quicker
            raise
    return target


def content_hash(path: Path) -> str:
    """Of the names and the bytes of a folder's files."""
    whole = hashlib.sha256()
    for file in _files(path):
        with open_regular(file) as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        whole.update(f"{file.relative_to(path).as_posix()}\0{digest}\n".encode())
    return whole.hexdigest()[:_HASH]


def _files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file() and not file.is_symlink())


def _sweep(root: Path) -> None:
    for draft in _drafts(root):
        with suppress(OSError):
            if time.time() - draft.stat().st_mtime > OLD:
                shutil.rmtree(draft, ignore_errors=True)


def _drafts(root: Path) -> Iterator[Path]:
    return root.glob(f"{DRAFT}*")


def _renamed(error: WorkbenchError, draft: Path, name: str) -> WorkbenchError:
    """The same error as the user knows the file; an error of a kind of its own stays as it is."""
    if type(error) is not WorkbenchError:
        return error
    told = [
        part.replace(f"{draft}/", "").replace(str(draft), name)
        for part in (error.what, error.where, error.remedy)
    ]
    return WorkbenchError(told[0], where=told[1], remedy=told[2])


def _unwritable(path: Path, error: OSError) -> WorkbenchError:
    return unwritable(
        path,
        error,
        "Name a folder you may write to, on a disk with space left, in WORKBENCH_HOME.",
    )
