"""Stores what users upload through the app, each upload complete and in a folder of its own.

Costs: one reading of an upload, for its hash; a zip is also unpacked.
"""

import hashlib
import re
import shutil
import stat
import struct
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from lzma import LZMAError
from pathlib import Path, PurePosixPath
from typing import IO

from workbench.core import machine, names
from workbench.core.errors import WorkbenchError, listed
from workbench.core.files import open_regular, unwritable
from workbench.core.names import Kind
from workbench.models.references import PARTS

# --- the store of uploads -------------------------------------------------------------------------
#
# Folders of uploads: each is filled as a draft, checked, and then renamed in one step.
#
#     HOME/uploads/models/3f9c…-bert      one folder per content, whatever its earlier names
#     HOME/uploads/corpora/a01b…-dev.conllu
#
# A failed draft leaves nothing; a draft whose process was killed is deleted a day later. Costs: one
# reading of the received files, for their hash.

DRAFT = ".draft-"
OLD = 24 * 3600  # seconds after which a draft is deleted
LONGEST = 80  # maximum bytes of a name
_HASH = 16
_NAMED = re.compile(rf"(?P<hash>[0-9a-f]{{{_HASH}}})-(?P<name>.+)", re.DOTALL)
_UNSAFE = re.compile(r"[^\w.-]+")


@dataclass(frozen=True)
class Upload:
    """One uploaded folder."""

    path: Path
    hash: str
    name: str
    size: int  # bytes
    received: float  # seconds since 1970


def folder(kind: Kind) -> Path:
    """The folder of all uploads of a kind."""
    return machine.home().absolute() / "uploads" / kind


def uploads(kind: Kind) -> list[Upload]:
    """All uploads of a kind, sorted by name."""
    present = []
    with suppress(OSError):
        for path in folder(kind).iterdir():
            match = _NAMED.fullmatch(path.name)
            if match and path.is_dir() and not path.is_symlink():
                with suppress(OSError):  # removed by another process meanwhile
                    size = sum(file.stat().st_size for file in _files(path))
                    received = path.stat().st_mtime
                    name = names.given(kind, str(path)) or match["name"]
                    present.append(Upload(path, match["hash"], name, size, received))
    return sorted(present, key=lambda upload: (upload.name.lower(), upload.hash))


def receive(kind: Kind, name: str, fill: Callable[[Path], object]) -> Upload:
    """Store an upload: `fill` fills and checks a draft; the same content twice is one folder.

    It gets the name, which no other may have. The same content under another name is renamed, but
    not to its own name with a number, which is proposed because it is there already.

    Errors of `fill` are raised again, and the draft is deleted. In a `WorkbenchError`, the path of
    the draft is replaced by the name of the upload.
    """
    root = folder(kind)
    display_name = safe_name(name)
    try:
        root.mkdir(parents=True, exist_ok=True)
        _sweep(root)
        draft = Path(tempfile.mkdtemp(prefix=DRAFT, dir=root))
    except OSError as error:
        raise _unwritable(root, error) from None
    try:
        fill(draft)
        stored = _target(draft, root, display_name)
        proposed_for = re.sub(r" \(\d+\)$", "", name)
        if proposed_for == name or names.known(kind, proposed_for) != str(stored):
            names.give(kind, str(stored), name)
        _move(draft, stored)
    except WorkbenchError as error:
        raise _renamed(error, draft, display_name) from None
    except OSError as error:
        raise _unwritable(root, error) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return next(upload for upload in uploads(kind) if upload.path == stored)


def remove(kind: Kind, name: str) -> None:
    """Remove one upload by its folder name; a missing upload is not an error."""
    for upload in uploads(kind):
        if upload.path.name == name:
            trash = upload.path.with_name(f"{DRAFT}{upload.path.name}")
            try:
                upload.path.replace(trash)
            except FileNotFoundError:
                return
            except OSError as error:
                raise _unwritable(upload.path, error) from None
            shutil.rmtree(trash, ignore_errors=True)
            names.give(kind, str(upload.path), "")


def safe_name(name: str) -> str:
    """A safe file name: the last part of a path, without characters special in shells or paths."""
    last = name.replace("\\", "/").rstrip("/").split("/")[-1]
    whole = _UNSAFE.sub("-", last).strip("-.")
    stem, dot, extension = whole.rpartition(".")
    if not dot or len(extension) > 12:
        stem, extension = whole, ""
    room = LONGEST - len(extension.encode()) - 1
    shortened = stem.encode()[:room].decode(errors="ignore").rstrip("-.")
    return (f"{shortened}.{extension}" if extension else shortened) or "unnamed"


def _target(draft: Path, root: Path, display_name: str) -> Path:
    """The folder for the content of a draft, whatever the name of one that is there."""
    digest = content_hash(draft)
    same = (path for path in root.glob(f"{digest}-*") if path.is_dir())
    return next(same, root / f"{digest}-{display_name}")


def _move(draft: Path, target: Path) -> None:
    """Rename a filled draft to its final name, unless that folder is there."""
    if target.is_dir():
        return
    draft.chmod(0o755)
    try:
        draft.rename(target)
    except OSError:
        if not target.is_dir():  # otherwise another upload of the same content was faster
            raise


def content_hash(path: Path) -> str:
    """A hash of the names and the bytes of a folder's files."""
    whole = hashlib.sha256()
    for file in _files(path):
        with open_regular(file) as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        whole.update(f"{file.relative_to(path).as_posix()}\0{digest}\n".encode())
    return whole.hexdigest()[:_HASH]


def _files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file() and not file.is_symlink())


def _sweep(root: Path) -> None:
    for draft in root.glob(f"{DRAFT}*"):
        with suppress(OSError):
            if time.time() - draft.stat().st_mtime > OLD:
                shutil.rmtree(draft, ignore_errors=True)


def _renamed(error: WorkbenchError, draft: Path, name: str) -> WorkbenchError:
    """The same error with the user's file name; errors of a subclass stay unchanged."""
    if type(error) is not WorkbenchError:
        return error
    what, where, remedy = (
        part.replace(f"{draft}/", "").replace(str(draft), name)
        for part in (error.what, error.where, error.remedy)
    )
    return WorkbenchError(what, code=error.code, where=where, remedy=remedy)


def _unwritable(path: Path, error: OSError) -> WorkbenchError:
    return unwritable(
        path,
        error,
        "Set WORKBENCH_HOME to a folder you may write to, on a disk with free space.",
    )


# --- archives -------------------------------------------------------------------------------------
#
# A model in a zip, unpacked with limits: no path outside the folder, no zip bomb, no pickle.
#
# Sizes in a zip's headers are not trusted: bytes are counted as they are unpacked. Costs: the
# unpacking; one megabyte is in memory at a time.

ENTRIES = 1_000  # maximum number of entries
LARGEST = 2 << 30  # maximum bytes, unpacked
RATIO = 100  # maximum ratio of unpacked to packed bytes; weights are far below it
ALWAYS = 64 << 20  # bytes that any zip may unpack to, whatever its ratio
KINDS = frozenset(
    ".json .jsonl .txt .safetensors .model .hdf5 .vocab .jinja .tiktoken .npy".split()
)
PICKLED = frozenset(".bin .pt .pth .ckpt .pkl .pickle .joblib .msgpack .h5".split())
_SKIPPED = frozenset(["", ".md", ".rst", ".gitattributes", ".gitignore"])  # documentation
_CHUNK = 1 << 20
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    LZMAError,
    struct.error,
    EOFError,
    NotImplementedError,  # a compression method unknown to Python
    RuntimeError,  # a zip with a password
    ValueError,
    OverflowError,
    LookupError,
)


def unpack(archive: IO[bytes], folder: Path) -> None:
    """Unpack a model from a zip that holds its files, or one folder of them, into `folder`."""
    n_packed = archive.seek(0, 2)
    archive.seek(0)
    try:
        with zipfile.ZipFile(archive) as opened:
            members = _checked(opened.infolist())
            n_allowed = min(LARGEST, max(ALWAYS, RATIO * n_packed))
            for name, member in members:
                (folder / name).parent.mkdir(exist_ok=True)
                for n_bytes in _chunks(opened, member, folder / name):
                    n_allowed -= n_bytes
                    if n_allowed < 0:
                        raise _too_large(n_packed)
    except _BROKEN as error:
        reason = str(error).rstrip(".") or type(error).__name__
        raise WorkbenchError(
            f"this is not a valid zip file: {reason}.",
            code="file-format",
            remedy="Zip the model's folder again, without a password, for example: "
            "zip -r model.zip FOLDER",
        ) from None


def _chunks(opened: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> Iterator[int]:
    """Write one file in chunks; yield the number of bytes of each chunk before it is written."""
    with opened.open(member) as source, target.open("xb") as out:
        while chunk := source.read(_CHUNK):
            yield len(chunk)
            out.write(chunk)


def _checked(members: list[zipfile.ZipInfo]) -> list[tuple[str, zipfile.ZipInfo]]:
    """The files to unpack, each with its name in the folder of the model, or in a part of it."""
    if len(members) > ENTRIES:
        raise WorkbenchError(
            f"this zip has {len(members):,} entries; the maximum is {ENTRIES:,}.",
            code="upload-too-large",
            remedy="Zip only the model's own files.",
        )
    files: dict[str, zipfile.ZipInfo] = {}
    folders = set()
    for member in members:
        parts = _parts(member)
        if member.is_dir() or parts[0] == "__MACOSX" or parts[-1].startswith("."):
            continue
        part = parts[-2:-1] if len(parts) > 1 and parts[-2] in PARTS else ()
        if len(parts) > 2 + len(part):
            raise WorkbenchError(
                "this zip has folders within folders.",
                code="file-format",
                where=_shown(member),
                remedy="Zip only the folder that holds config.json, without its subfolders.",
            )
        name = "/".join((*part, parts[-1]))
        if not _is_model_file(name, member):
            continue
        folders.add(parts[: -1 - len(part)])
        if len(folders) > 1:
            raise WorkbenchError(
                "this zip has more than one folder.",
                code="file-format",
                where=_shown(member),
                remedy="Zip one model: the folder that holds config.json.",
            )
        if name.lower() in {known.lower() for known in files}:
            raise WorkbenchError(
                "this file is in the zip twice.",
                code="file-format",
                where=_shown(member),
                remedy="Zip the folder again, with each file once. AB.json and ab.json are the "
                "same name on some disks.",
            )
        files[name] = member
    if not files:
        raise WorkbenchError(
            "this zip holds no model.",
            code="model-not-found",
            remedy="Zip a model's folder with config.json, model.safetensors and the tokenizer "
            "files.",
        )
    return list(files.items())


def _parts(member: zipfile.ZipInfo) -> tuple[str, ...]:
    """The parts of an entry's path; an error if the path leaves the folder."""
    name = member.filename
    parts = PurePosixPath(name).parts
    if (
        not parts
        or name.startswith("/")
        or "\\" in name
        or "\0" in member.orig_filename
        or ":" in parts[0]
        or ".." in parts
        or not all(part.isprintable() and len(part.encode()) < 200 for part in parts)
    ):
        raise WorkbenchError(
            "this entry would leave the folder it is unpacked to.",
            code="unsafe-path",
            where=_shown(member),
            remedy="Use only plain file names in the zip. Nothing was unpacked.",
        )
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise WorkbenchError(
            "this entry is a link or another special file, not a regular file.",
            code="unsafe-path",
            where=_shown(member),
            remedy="Zip the files themselves, for example: zip -r model.zip FOLDER",
        )
    return parts


def _is_model_file(name: str, member: zipfile.ZipInfo) -> bool:
    extension = PurePosixPath(name).suffix.lower()
    if extension in PICKLED:
        raise WorkbenchError(
            "this file may be a pickle, which can run any code when it is opened.",
            code="pickle-refused",
            where=_shown(member),
            remedy="Upload safetensors. To convert: "
            "AutoModelForMaskedLM.from_pretrained(FOLDER).save_pretrained(NEW), with the class "
            "that fits the model; then save the tokenizer in the same folder.",
        )
    if extension in KINDS:
        return True
    if extension in _SKIPPED:
        return False
    raise WorkbenchError(
        "a model's folder does not have files of this type.",
        code="file-format",
        where=_shown(member),
        remedy=f"Accepted file extensions: {listed(sorted(KINDS))}.",
    )


def _shown(member: zipfile.ZipInfo) -> str:
    return "".join(c if c.isprintable() else "?" for c in member.filename[:120])


def _too_large(n_packed: int) -> WorkbenchError:
    return WorkbenchError(
        f"this zip unpacks to more than {LARGEST >> 30} GB, or to more than {RATIO} times its own "
        f"{n_packed:,} bytes.",
        code="upload-too-large",
        remedy="For a larger model, name its folder instead; then nothing is copied.",
    )
