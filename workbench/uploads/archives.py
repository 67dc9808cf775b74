"""A model in a zip, unpacked with bounds: no path leads out, no bomb goes off, no pickle gets in.

What a zip's own headers say of sizes is believed by nobody: bytes are counted as they come out.
Costs the unpacking; a megabyte is held at a time.
"""

import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from lzma import LZMAError
from pathlib import Path, PurePosixPath
from typing import IO

from workbench.errors import WorkbenchError, listed

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
