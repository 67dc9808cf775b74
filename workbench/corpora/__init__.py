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

from spacy.tokens import Doc

from workbench.corpora.corpus import Corpus, Options, Reading, Unit
from workbench.corpora.encode import encode
from workbench.corpora.layers import Edge, Mention, edges, layers, mentions
from workbench.corpora.references import resolve
from workbench.errors import WorkbenchError, did_you_mean

__all__ = [
    "BUILT_IN",
    "Corpus",
    "Edge",
    "Mention",
    "Options",
    "edges",
    "encode",
    "layers",
    "mentions",
    "read",
    "write",
]

BUILT_IN = {"primer": "workbench.corpora.primer"}
_WRITERS = {".spacy": "docbin", ".conllu": "conllu", ".jsonl": "jsonlines"}


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
    """Open a corpus by file, folder, common name of a trio, or built-in name (`primer`)."""
    if unit not in ("sentence", "document"):
        raise WorkbenchError(
            f"unit is {unit!r}.", remedy="A Doc is a 'sentence' or a whole 'document'."
        )
    options = Options(unit, pipeline, language, _names(text), _names(labels), layer)
    name = os.fspath(ref)
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
        reading.notes,
    )


def _chained(reading: Reading, files: list[Path]) -> Iterator[Doc]:
    return chain.from_iterable(reading.docs(path) for path in files)


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def write(docs: Iterable[Doc], path: str | os.PathLike[str], *, layer: str | None = None) -> int:
    """Write Docs to a .spacy, .conllu or .jsonl file, whole or not at all; say how many.

    A .spacy file keeps every layer, CoNLL-U the words, trees, entities and coreference, and .jsonl
    one layer of edges, which must be named.
    """
    target = Path(path).expanduser()
    if target.suffix not in _WRITERS:
        raise WorkbenchError(
            f"cannot write {target.suffix or 'a file without an ending'}.",
            where=str(target),
            remedy=did_you_mean(target.suffix, _WRITERS),
        )
    module = import_module(f"workbench.corpora.{_WRITERS[target.suffix]}")
    return module.write(docs, target, layer)  # type: ignore[no-any-return]
