"""What users hand over through the app: received whole into folders of its own, or not at all."""

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
from typing import IO, Literal

from workbench.core import machine
from workbench.core.errors import WorkbenchError, listed
from workbench.core.files import open_regular, unwritable

# --- the store of uploads -------------------------------------------------------------------------
#
# Folders of what was uploaded: filled as a draft, checked, and then given their name at once.
#
#     HOME/uploads/models/3f9c…-bert      one folder for each content, whatever it was called before
#     HOME/uploads/corpora/a01b…-dev.conllu
#
# A draft that fails leaves nothing, and one that was killed is swept away a day later. Costs one
# reading of what was received, for its hash.

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
    return machine.home().absolute() / "uploads" / kind


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
    for draft in root.glob(f"{DRAFT}*"):
        with suppress(OSError):
            if time.time() - draft.stat().st_mtime > OLD:
                shutil.rmtree(draft, ignore_errors=True)


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


# --- archives -------------------------------------------------------------------------------------
#
# A model in a zip, unpacked with bounds: no path leads out, no bomb goes off, no pickle gets in.
#
# What a zip's own headers say of sizes is believed by nobody: bytes are counted as they come out.
# Costs the unpacking; a megabyte is held at a time.

ENTRIES = 1_000
LARGEST = 2 << 30  # bytes, unpacked
RATIO = 100  # unpacked to packed; weights come nowhere near
ALWAYS = 64 << 20  # bytes that any zip may unpack to
KINDS = frozenset(
    ".json .jsonl .txt .safetensors .model .hdf5 .vocab .jinja .tiktoken .npy".split()
)
PICKLED = frozenset(".bin .pt .pth .ckpt .pkl .pickle .joblib .msgpack .h5".split())
_PASSED_OVER = frozenset(["", ".md", ".rst", ".gitattributes", ".gitignore"])  # words about it
_CHUNK = 1 << 20
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    LZMAError,
    struct.error,
    EOFError,
    NotImplementedError,  # a compression that Python does not know
    RuntimeError,  # a password
    ValueError,
    OverflowError,
    LookupError,
)


def unpack(archive: IO[bytes], folder: Path) -> None:
    """The files of a model's folder, out of a zip that holds them, or one folder of them."""
    packed = archive.seek(0, 2)
    archive.seek(0)
    try:
        with zipfile.ZipFile(archive) as opened:
            members = _checked(opened.infolist())
            left = min(LARGEST, max(ALWAYS, RATIO * packed))
            for name, member in members:
                for chunk in _chunks(opened, member, folder / name):
                    left -= chunk
                    if left < 0:
                        raise _too_large(packed)
    except _BROKEN as error:
        reason = str(error).rstrip(".") or type(error).__name__
        raise WorkbenchError(
            f"this is no sound zip file: {reason}.",
            remedy="Zip the model's folder anew, without a password, for example: "
            "zip -r model.zip FOLDER",
        ) from None


def _chunks(opened: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> Iterator[int]:
    """Write one file, telling how many bytes came out each time, before they are written."""
    with opened.open(member) as source, target.open("xb") as out:
        while chunk := source.read(_CHUNK):
            yield len(chunk)
            out.write(chunk)


def _checked(members: list[zipfile.ZipInfo]) -> list[tuple[str, zipfile.ZipInfo]]:
    """The files to unpack, each under its bare name."""
    if len(members) > ENTRIES:
        raise WorkbenchError(
            f"this zip has {len(members):,} entries; a model's folder has a few.",
            remedy=f"Zip the model's own files alone; {ENTRIES:,} are taken.",
        )
    files: dict[str, zipfile.ZipInfo] = {}
    tops = set()
    for member in members:
        parts = _parts(member)
        if member.is_dir() or parts[0] == "__MACOSX" or parts[-1].startswith("."):
            continue
        if len(parts) > 2:
            raise WorkbenchError(
                "this zip has folders within folders.",
                where=_shown(member),
                remedy="Zip the one folder that holds config.json, without those inside it.",
            )
        name = parts[-1]
        if not _is_wanted(name, member):
            continue
        tops.add(parts[:-1])
        if len(tops) > 1:
            raise WorkbenchError(
                "this zip has more than one folder.",
                where=_shown(member),
                remedy="One zip holds one model: zip the folder that holds config.json.",
            )
        if name.lower() in {known.lower() for known in files}:
            raise WorkbenchError(
                "this file is in the zip twice.",
                where=_shown(member),
                remedy="Zip the folder anew, with each file once; AB.json and ab.json are the same "
                "name on some disks.",
            )
        files[name] = member
    if not files:
        raise WorkbenchError(
            "this zip holds no model.",
            remedy="A model's folder has config.json, model.safetensors and the tokenizer's files.",
        )
    return list(files.items())


def _parts(member: zipfile.ZipInfo) -> tuple[str, ...]:
    """Where an entry wants to lie; refused where that is anywhere but within one folder."""
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
            where=_shown(member),
            remedy="Nothing was unpacked. A model's zip holds plain file names.",
        )
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise WorkbenchError(
            "this entry is a link, or no regular file.",
            where=_shown(member),
            remedy="Zip the files themselves, for example: zip -r model.zip FOLDER",
        )
    return parts


def _is_wanted(name: str, member: zipfile.ZipInfo) -> bool:
    ending = PurePosixPath(name).suffix.lower()
    if ending in PICKLED:
        raise WorkbenchError(
            "this file may be pickled, and a pickle can run any code when it is opened.",
            where=_shown(member),
            remedy="Upload safetensors. To convert: "
            "AutoModelForMaskedLM.from_pretrained(FOLDER).save_pretrained(NEW), with the class "
            "that fits the model, then save the tokenizer beside it.",
        )
    if ending in KINDS:
        return True
    if ending in _PASSED_OVER:
        return False
    raise WorkbenchError(
        "this is no kind of file that a model's folder has.",
        where=_shown(member),
        remedy=f"These are taken: {listed(sorted(KINDS))}.",
    )


def _shown(member: zipfile.ZipInfo) -> str:
    return "".join(c if c.isprintable() else "?" for c in member.filename[:120])


def _too_large(packed: int) -> WorkbenchError:
    return WorkbenchError(
        f"this zip unpacks to more than {LARGEST >> 30} GB, or to more than {RATIO} times its own "
        f"{packed:,} bytes: no model does.",
        remedy="For a larger model, name the folder that it lies in; nothing is copied then.",
    )
