"""Uploads of models and corpora: zips changed at random, and names that try to lead out.

They go through the functions that the pages hand files to; opening a model is left to `configs`.
Afterwards nothing lies outside the folder of uploads, and no draft is left. Costs milliseconds.
"""

import io
import random
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from tests.attack.mutations import ODD_TEXTS, SNIPPETS, changed

_samples: dict[str, bytes] = {}
_home: list[Path] = []
NAMES = (
    *("config.json", "model.safetensors", "tokenizer.json", "vocab.txt", "README.md", "bert/"),
    *("bert/config.json", "bert/model.safetensors", "a/b/config.json", "../config.json", "/etc/x"),
    *("..\\x.json", "C:\\x.json", "con.json", ".hidden.json", "__MACOSX/._x.json", "x.pkl"),
    *("x.bin", "CONFIG.JSON", "a" * 250 + ".json", "é.json", "x\0.json", "x\n.json"),
    *("\u202ex.json", "~/.bashrc.json", "./config.json", "bert//x.json"),
    *("bert/./x.json", "model.zip", ".json"),
)  # fmt: skip


class File(io.BytesIO):
    """What Streamlit hands a page: bytes with a name."""

    def __init__(self, name: str, content: bytes) -> None:
        super().__init__(content)
        self.name = name


def prepare(folder: Path) -> None:
    """Sound corpus files."""
    from tests.corpora.test_byte_soup import sample
    from workbench.corpora.formats import formats

    _samples.update({suffix: sample(suffix) for suffix in formats()})
    _home.append(folder)


def case(draw: random.Random, folder: Path) -> tuple[str, Callable[[], object]]:
    """A model's zip, or files of a corpus."""
    before = _everything()
    if draw.random() < 0.6:
        name = _name(draw, ".zip")
        content = _zip(draw)
        if draw.random() < 0.5:
            content = changed(draw, content, 3)
        return "model zip", lambda: _checked(before, lambda: _model(File(name, content)))
    files = []
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        suffix = draw.choice(list(_samples))
        content = _samples[suffix]
        content = changed(draw, content, 2) if draw.random() < 0.5 else content
        files.append(File(_name(draw, suffix), content))
    columns = draw.choice([((), ()), ((), ()), (("sentence",), ("label",)), (("x",), ())])
    return "corpus files", lambda: _checked(before, lambda: _corpus(files, *columns))


def _name(draw: random.Random, ending: str) -> str:
    kind = draw.random()
    if kind < 0.3:
        return f"x{ending}"
    if kind < 0.6:
        return draw.choice(NAMES)
    return draw.choice(ODD_TEXTS) + draw.choice(["", ending, ending.upper(), f"{ending}.gz"])


def _zip(draw: random.Random) -> bytes:
    """A zip of a few entries, sound or with names, links, bombs and passwords of all kinds."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for _ in range(draw.choice([1, 2, 3, 4, 4, 1_100 if draw.random() < 0.02 else 5])):
            name = draw.choice(NAMES[:8]) if draw.random() < 0.7 else draw.choice(NAMES)
            member = zipfile.ZipInfo(name)
            if draw.random() < 0.1:
                kind = draw.choice([stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFDIR])
                member.external_attr = (kind | 0o777) << 16
            member.compress_type = draw.choice(
                [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
            )
            content = b"{}" + draw.choice(SNIPPETS)
            if draw.random() < 0.02:
                content = bytes(70 << 20)
            import warnings

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of names that come twice
                archive.writestr(member, content)
    return packed.getvalue()


def _model(file: File) -> None:
    from workbench.app.library.uploads import receive_model

    with patch("workbench.runs.isolated.look"):
        receive_model(file, file.name)  # type: ignore[arg-type]


def _corpus(files: list[File], text: tuple[str, ...], labels: tuple[str, ...]) -> None:
    from workbench import WorkbenchError
    from workbench.app.library.uploads import FaultyError, name_of_files, receive_corpus

    name = name_of_files([file.name for file in files])
    try:
        receive_corpus(files, name, text, labels)  # type: ignore[arg-type]
    except FaultyError as error:
        raise WorkbenchError(
            error.faults[0].what, where=error.name, remedy="As the page."
        ) from None


def _checked(before: set[Path], received: Callable[[], None]) -> None:
    """Try it; what is there afterwards lies in a folder of uploads under a name of its own."""
    from workbench.core import names

    try:
        received()
    finally:
        new = _everything() - before
        uploads = _home[0] / "home" / "uploads"
        for path in new:
            if path.is_relative_to(_home[0] / "case"):
                continue
            shared = (_home[0] / "home", _home[0] / "home" / names.FILE)
            assert path.is_relative_to(uploads) or path in shared, f"left: {path}"
            assert not path.is_symlink(), f"a link: {path}"
            assert ".draft-" not in str(path), f"a draft is left: {path}"


def _everything() -> set[Path]:
    return set(_home[0].rglob("*"))
