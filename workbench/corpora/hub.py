"""Datasets of the Hugging Face hub, by `hub:NAME` or `hub:NAME@CONFIG` (`hub:nyu-mll/glue@sst2`).

This is the only reader that uses the network. Rows become Docs like those of a table. Whether a
column holds classes or scores comes from the dataset's declared types, or else from the first 1,000
rows of every split. It needs the package `datasets`; code in a dataset is never run. Costs: rows
are streamed, so one row is in memory at a time.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib import import_module
from itertools import chain, islice
from typing import Any

from spacy.tokens import Doc

from workbench.core.errors import WorkbenchError, missing_package
from workbench.corpora.corpus import Corpus, Options
from workbench.corpora.formats import SPLIT_NAMES
from workbench.corpora.readers.tables import Row, columns_of, survey, task_docs
from workbench.corpora.readers.text import tokenizer

_SURVEYED = 1000  # rows read per split if the dataset declares no types


def corpus(ref: str, options: Options) -> Corpus:
    """Open a dataset of the hub."""
    name, _, config = ref.removeprefix("hub:").partition("@")
    document = f"{name}@{config}" if config else name
    return of_splits(ref, _loaded(ref, name, config), options, document)


def of_splits(ref: str, splits: Mapping[str, Any], options: Options, document: str) -> Corpus:
    """The corpus of datasets by split, of the package `datasets`; `ref` names them in errors."""
    nlp = tokenizer(options.pipeline, options.language)
    features = next((split.features for split in splits.values()), None)
    scores = _declared(features) if features else survey(_first_rows(ref, splits)).scores
    columns = columns_of(scores, options.text, options.labels, ref)

    def docs(split: str) -> Iterator[Doc]:
        return task_docs(_rows(ref, split, splits[split]), columns, document, nlp)

    readings: dict[str, Callable[[], Iterator[Doc]]] = {
        SPLIT_NAMES.get(split, split): partial(docs, split) for split in splits
    }
    return Corpus(document, readings, (columns.describe(),))


def _loaded(ref: str, name: str, config: str) -> Mapping[str, Any]:
    """The streams of rows by split."""
    try:
        datasets = import_module("datasets")
    except ImportError:
        raise missing_package("datasets", "Reading from the hub") from None
    try:
        return datasets.load_dataset(name, config or None, streaming=True)  # type: ignore[no-any-return]
    except Exception as error:  # the network, the hub and the dataset's files can raise anything
        raise _unreachable(ref, error) from None


def _declared(features: Mapping[str, Any]) -> dict[str, bool]:
    """The columns with plain values, and whether each is a score."""
    types = {name: getattr(feature, "dtype", None) for name, feature in features.items()}
    return {name: kind.startswith("float") for name, kind in types.items() if isinstance(kind, str)}


def _first_rows(ref: str, splits: Mapping[str, Any]) -> Iterable[Row]:
    return chain.from_iterable(
        islice(_rows(ref, split, source), _SURVEYED) for split, source in splits.items()
    )


def _rows(ref: str, split: str, source: Any) -> Iterator[Row]:
    classes = {
        name: feature.names
        for name, feature in (source.features or {}).items()
        if isinstance(getattr(feature, "names", None), list)
    }
    try:
        for number, values in enumerate(source, start=1):
            named = {name: _class_name(names, values.get(name)) for name, names in classes.items()}
            yield Row(f"{ref}, {split}, row {number}", {**values, **named})
    except Exception as error:  # as in _loaded: the rows come over the network
        raise _unreachable(ref, error) from None


def _class_name(names: list[str], value: object) -> object:
    """The class name of a number; hidden test labels are -1 and become None (unknown)."""
    if not isinstance(value, int):
        return value
    return names[value] if 0 <= value < len(names) else None


def _unreachable(ref: str, error: Exception) -> WorkbenchError:
    reason = str(error).strip().split("\n")[0] or type(error).__name__
    return WorkbenchError(
        f"the dataset cannot be read from the hub: {reason}",
        code="download-failed",
        where=ref,
        remedy="Check the name; write hub:NAME@CONFIG for a dataset with several configurations. "
        "If this machine is offline, name a file or folder on disk instead.",
    )
