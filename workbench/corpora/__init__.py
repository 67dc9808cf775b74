"""Read every corpus as spaCy `Doc`s, whatever its format; one corpus with exact gold is built in.

    corpus = read("en_ewt-ud-dev.conllu")      a file, a folder, a prefix of split files, or primer
    for doc in corpus.docs("dev"): ...
    write(corpus.docs("dev"), "dev.spacy")     .spacy, .conllu or .jsonl
    batch = encode(corpus.docs("dev"), ["dependencies"])

Costs: reading is a stream of one Doc at a time; nothing is downloaded and nothing is cached.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeGuard

from workbench.core import names
from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.files import user_path
from workbench.core.public import public
from workbench.corpora.corpus import Corpus, Options, Origin, Reading, Unit
from workbench.corpora.encode import encode
from workbench.corpora.formats import formats, resolve
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

_TEXT = re.compile(r"\s.*[.!?…。！？][\"')\]»”’]*\s*$|\n.*\S", re.DOTALL)
BUILT_IN = {"primer": "workbench.corpora.primer"}
_IN_CONLLU = {"words", "sentences", "pos", "tags", "lemmas", "morphs", "dependencies"} | {
    "entities",
    "coreference",
}


def read(
    ref: "str | os.PathLike[str] | Iterable[Any] | IO[Any] | Corpus",
    *,
    unit: Unit = "sentence",
    pipeline: str | None = None,
    language: str = "en",
    text: Iterable[str] = (),
    labels: Iterable[str] = (),
    layer: str | None = None,
) -> Corpus:
    """Open a corpus by file, folder, prefix of split files, built-in or hub name, or from objects.

    Of a reference, nothing is read until Docs are requested, and at most one Doc is in memory. A
    string is a text if it ends as a sentence does and no file has its name.

    Args:
        ref: A file (.conllu, .spacy, .jsonl, .csv, .tsv, .txt, PTB brackets …), a folder of split
            files, `primer` (built in), `primer/sentiment`, `hub:NAME`, or `local:NAME` (what has
            this name on this machine). Or a text, a list of texts, of lists of words or of Docs, a
            pandas data frame, a `datasets.Dataset`, an open file, or a mapping from splits to
            these.
        unit: Unit of one Doc, `sentence` or `document`, if the format has documents.
        pipeline: spaCy pipeline for raw text (default: an installed one, else a blank one).
        language: Language code of the blank pipeline (default en).
        text: The one or two text columns of a table.
        labels: Label columns of a table.
        layer: Layer name of an edge file (default: from the file name).

    Returns:
        A `Corpus`.

    Raises:
        WorkbenchError: There is no such file, or it is not in a known format.

    Example:
        >>> corpus = wb.read("primer")
        >>> next(corpus.docs("test"))
        Ben walks to the hill.
        >>> wb.read(["The dog saw Mary.", "Mary ran."])
        <Corpus The dog saw Mary. and 1 more: all; Docs in memory>
    """
    options = _options(unit, pipeline, language, text, labels, layer)
    if is_reference(ref):
        return _opened(ref, options, at_once=True)
    made = import_module("workbench.corpora.in_memory").corpus  # which imports spaCy
    return made(ref, options, partial(_opened, at_once=True))  # type: ignore[no-any-return]


def is_reference(source: object) -> TypeGuard[str | os.PathLike[str]]:
    """Whether this names a corpus, and is not one; a text ends as a sentence does."""
    if not isinstance(source, str):
        return isinstance(source, os.PathLike | bytes | int | float | None)  # mistyped names too
    return not _TEXT.search(source) or os.path.lexists(source)


def located(
    ref: str | os.PathLike[str],
    *,
    unit: Unit = "sentence",
    pipeline: str | None = None,
    language: str = "en",
    text: Iterable[str] = (),
    labels: Iterable[str] = (),
    layer: str | None = None,
) -> Corpus:
    """The corpus that `read` opens, without its reader's notes: its reader is not imported yet."""
    return _opened(ref, _options(unit, pipeline, language, text, labels, layer), at_once=False)


def _options(
    unit: Unit,
    pipeline: str | None,
    language: str,
    text: Iterable[str],
    labels: Iterable[str],
    layer: str | None,
) -> Options:
    if unit not in ("sentence", "document"):
        raise WorkbenchError(
            f"unit is {unit!r}.",
            code="setting-invalid",
            remedy="Use 'sentence' or 'document': the unit of one Doc.",
        )
    if not isinstance(language, str):
        raise _not_text("language", language)
    return Options(
        unit,
        _pipeline(_name("pipeline", pipeline)),
        language,
        _names("text", text),
        _names("labels", labels),
        _name("layer", layer),
    )


def _pipeline(name: str | None) -> str | None:
    """A pipeline by its name, or by the absolute path of its folder."""
    if name is None:
        return None
    path = user_path(names.path_of("models", name))
    return str(path.absolute()) if path.is_dir() else name


def _opened(ref: str | os.PathLike[str], options: Options, at_once: bool) -> Corpus:
    name = names.path_of("corpora", _reference(ref))
    if not name:
        raise WorkbenchError(
            "the corpus name is empty.",
            code="corpus-not-found",
            remedy="Name a file, a folder, or primer.",
        )
    head = name.replace(":", "/").split("/")[0]
    if head in BUILT_IN and not os.path.exists(name):  # noqa: PTH110 (never raises)
        return import_module(BUILT_IN[head]).corpus(name, options)  # type: ignore[no-any-return]
    if name.startswith("hub:"):
        return import_module("workbench.corpora.hub").corpus(name, options)  # type: ignore[no-any-return]
    source = resolve(Path(name))
    paths = [path for files in source.splits.values() for path in files]
    reading = cache(partial(_reading, source.format, paths, options))
    path = str(Path(name).expanduser().absolute())
    return Corpus(
        names.given("corpora", path) or source.name,
        {split: partial(_chained, reading, files) for split, files in source.splits.items()},
        (*source.notes, *(reading().notes if at_once else ())),
        Origin(
            path,
            options,
            tuple((split, path) for split, files in source.splits.items() for path in files),
        ),
    )


def _reading(module: str, paths: list[Path], options: Options) -> Reading:
    reading: Reading = import_module(module).reader(paths, options)
    return reading


def _chained(reading: Callable[[], Reading], files: list[Path]) -> "Iterator[Doc]":
    return chain.from_iterable(reading().docs(path) for path in files)


def _reference(ref: str | os.PathLike[str]) -> str:
    try:
        name = os.fspath(ref)
    except TypeError:
        name = None
    if not isinstance(name, str):
        raise _not_text("the corpus", ref)
    return name


def _names(option: str, value: Iterable[str]) -> tuple[str, ...]:
    """The names as a tuple, from one string or from several."""
    if not isinstance(value, str | Iterable):
        raise _not_text(option, value)
    names = (value,) if isinstance(value, str) else tuple(value)
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise _not_text(option, wrong[0])
    return names


def _name(option: str, value: str | None) -> str | None:
    if not isinstance(value, str | None):
        raise _not_text(option, value)
    return value


def _not_text(option: str, value: object) -> WorkbenchError:
    return WorkbenchError(
        f"{option} is {value!r:.80}, which is not text.",
        code="setting-invalid",
        remedy="Write a name as text.",
    )


@public
def write(docs: "Iterable[Doc]", path: str | os.PathLike[str], *, layer: str | None = None) -> int:
    """Write Docs to a file; after an error, no partial file is left.

    Args:
        docs: A corpus, or Docs.
        path: A .spacy file keeps every layer; .conllu the words, trees, entities and coreference;
            .jsonl one layer of edges. Layers that the format cannot hold are left out
            (`workbench.corpora.left_out` lists them).
        layer: Layer of a .jsonl file.

    Returns:
        The number of Docs written.

    Raises:
        WorkbenchError: The file extension is unknown, or the file cannot be written.

    Example:
        >>> wb.write(wb.read("primer").docs("dev", limit=3), "three.conllu")
        3
    """
    target = user_path(path)
    if target.suffix not in (known := formats("WRITES")):
        raise WorkbenchError(
            f"cannot write {target.suffix or 'a file without an extension'}.",
            code="file-format",
            where=str(target),
            remedy=did_you_mean(target.suffix, known),
        )
    module = import_module(known[target.suffix])
    return module.write(docs, target, layer)  # type: ignore[no-any-return]


def left_out(
    present: Iterable[str], path: str | os.PathLike[str], layer: str | None = None
) -> set[str]:
    """The layers of Docs (see `layers`) that a file with this extension cannot hold."""
    match user_path(path).suffix:
        case ".conllu":
            return set(present) - _IN_CONLLU
        case ".jsonl":
            return set(present) - {"words", layer}
    return set()
