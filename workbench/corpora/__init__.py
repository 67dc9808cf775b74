"""Text in: every corpus as spaCy `Doc`s, whatever its format, and a built-in one with exact gold.

    corpus = read("en_ewt-ud-dev.conllu")      a file, a folder, a trio's common name, or primer
    for doc in corpus.docs("dev"): ...
    write(corpus.docs("dev"), "dev.spacy")     .spacy, .conllu or .jsonl
    batch = encode(corpus.docs("dev"), ["dependencies"])

Reading is a stream: one Doc at a time, nothing fetched, nothing kept.
"""

import os
from collections.abc import Iterable, Iterator
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.files import user_path
from workbench.core.public import public
from workbench.corpora.corpus import Corpus, Options, Origin, Reading, Unit
from workbench.corpora.encode import encode
from workbench.corpora.formats import resolve
from workbench.corpora.layers import Edge, Mention, edges, layers, mentions

if TYPE_CHECKING:
    from spacy.tokens import Doc

__all__ = [
    "BUILT_IN",
    "Corpus",
    "Edge",
    "Mention",
    "Options",
    "edges",
    "encode",
    "layers",
    "left_out",
    "mentions",
    "read",
    "write",
]

BUILT_IN = {"primer": "workbench.corpora.primer"}
_WRITERS = {".spacy": "docbin", ".conllu": "conllu", ".jsonl": "jsonlines"}
_IN_CONLLU = {"words", "sentences", "pos", "tags", "lemmas", "morphs", "dependencies"} | {
    "entities",
    "coreference",
}


def read(
    ref: str | os.PathLike[str],
    *,
    unit: Unit = "sentence",
    pipeline: str | None = None,
    language: str = "en",
    text: Iterable[str] = (),
    labels: Iterable[str] = (),
    layer: str | None = None,
) -> Corpus:
    """Open a corpus by file, folder, common name of a trio, built-in name or hub name.

    Nothing is read until Docs are asked for, and no more than one Doc is held.

    Args:
        ref: A file (.conllu, .spacy, .jsonl, .csv, .tsv, .txt, PTB brackets …), a folder of split
            files, `primer` (built in), `primer/sentiment`, or `hub:NAME`.
        unit: What one Doc is where the format knows documents: `sentence` or `document`.
        pipeline: spaCy pipeline for raw text (default: an installed one, else a blank one).
        language: Language of the blank pipeline.
        text: Columns of a table that hold the one or two texts.
        labels: Columns of a table that hold what is to be predicted.
        layer: Name of an edge file's layer (default: from the file's name).

    Returns:
        A `Corpus`.

    Raises:
        WorkbenchError: There is no such file, or it is not in a known format.

    Example:
        >>> corpus = wb.read("primer")
        >>> next(corpus.docs("test"))
        Ben walks to the hill.
    """
    if unit not in ("sentence", "document"):
        raise WorkbenchError(
            f"unit is {unit!r}.", remedy="A Doc is a 'sentence' or a whole 'document'."
        )
    if not isinstance(language, str):
        raise _not_text("language", language)
    options = Options(
        unit,
        _name("pipeline", pipeline),
        language,
        _names("text", text),
        _names("labels", labels),
        _name("layer", layer),
    )
    name = _reference(ref)
    if not name:
        raise WorkbenchError("the corpus has no name.", remedy="Name a file, a folder, or primer.")
    head = name.replace(":", "/").split("/")[0]
    if head in BUILT_IN and not os.path.exists(name):  # noqa: PTH110 (never raises)
        return import_module(BUILT_IN[head]).corpus(name, options)  # type: ignore[no-any-return]
    if name.startswith("hub:"):
        return import_module("workbench.corpora.hub").corpus(name, options)  # type: ignore[no-any-return]
    source = resolve(Path(name))
    paths = [path for files in source.splits.values() for path in files]
    reading: Reading = import_module(source.format).reader(paths, options)
    return Corpus(
        source.name,
        {split: partial(_chained, reading, files) for split, files in source.splits.items()},
        (*source.notes, *reading.notes),
        Origin(
            str(Path(name).expanduser().absolute()),
            options,
            tuple((split, path) for split, files in source.splits.items() for path in files),
        ),
    )


def _chained(reading: Reading, files: list[Path]) -> "Iterator[Doc]":
    return chain.from_iterable(reading.docs(path) for path in files)


def _reference(ref: str | os.PathLike[str]) -> str:
    try:
        name = os.fspath(ref)
    except TypeError:
        name = None
    if not isinstance(name, str):
        raise _not_text("the corpus", ref)
    return name


def _names(what: str, given: Iterable[str]) -> tuple[str, ...]:
    """Names given as one or as several."""
    if not isinstance(given, str | Iterable):
        raise _not_text(what, given)
    names = (given,) if isinstance(given, str) else tuple(given)
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise _not_text(what, wrong[0])
    return names


def _name(what: str, given: str | None) -> str | None:
    if not isinstance(given, str | None):
        raise _not_text(what, given)
    return given


def _not_text(what: str, given: object) -> WorkbenchError:
    return WorkbenchError(f"{what} is {given!r:.80}, but is named by text.", remedy="Write a name.")


@public
def write(docs: "Iterable[Doc]", path: str | os.PathLike[str], *, layer: str | None = None) -> int:
    """Write Docs to a file, whole or not at all.

    Args:
        docs: A corpus, or Docs.
        path: A .spacy file keeps every layer; .conllu the words, trees, entities and coreference;
            .jsonl one layer of edges. What a format has no place for is left out (`left_out` in
            `workbench.corpora` tells which layers those are).
        layer: The layer that a .jsonl file holds.

    Returns:
        The number of Docs written.

    Raises:
        WorkbenchError: The ending is not known, or the file cannot be written.

    Example:
        >>> wb.write(wb.read("primer").docs("dev", limit=3), "three.conllu")
        3
    """
    target = user_path(path)
    if target.suffix not in _WRITERS:
        raise WorkbenchError(
            f"cannot write {target.suffix or 'a file without an ending'}.",
            where=str(target),
            remedy=did_you_mean(target.suffix, _WRITERS),
        )
    module = import_module(f"workbench.corpora.{_WRITERS[target.suffix]}")
    return module.write(docs, target, layer)  # type: ignore[no-any-return]


def left_out(
    present: Iterable[str], path: str | os.PathLike[str], layer: str | None = None
) -> set[str]:
    """Which of the layers that Docs have (see `layers`) a file of this ending has no place for."""
    match user_path(path).suffix:
        case ".conllu":
            return set(present) - _IN_CONLLU
        case ".jsonl":
            return set(present) - {"words", layer}
    return set()
