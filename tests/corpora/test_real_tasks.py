"""Public edge files and task tables are read whole, and quickly."""

import json
import time
from functools import cache
from pathlib import Path

import pytest
from spacy.tokens import Doc

from tests.night import mostly
from workbench.corpora import Corpus, edges, read

pytestmark = pytest.mark.data

EDGES = {"constituents-gum": "constituents", "srl-ewt": "roles", "spr-ewt": "proto-roles"}
LABELS: dict[str, dict[str, type]] = {
    "cola": {"label": str},
    "mrpc": {"label": str},
    "sick": {"relatedness": float, "entailment": str},
    "sst2": {"label": str},
}
CLASSES = {
    "label": {"0", "1"},
    "entailment": {"CONTRADICTION", "ENTAILMENT", "NEUTRAL"},
}


PARTS = pytest.mark.parametrize(
    "rest", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["small", "rest"]
)


@cache
def _whole(corpus: Corpus, rest: bool) -> dict[str, list[Doc]]:
    """Either the smallest split or all the rest."""
    start = time.perf_counter()
    chosen = [split for split in corpus.splits if (split != _small(corpus)) == rest]
    found = {split: list(corpus.docs(split)) for split in chosen}
    count = sum(len(docs) for docs in found.values())
    seconds = (time.perf_counter() - start) / count * 10_000
    print(f"{corpus.name}: {count:,} Docs, {seconds:.2f} s for 10,000")
    return found


def _small(corpus: Corpus) -> str:
    return "dev" if "dev" in corpus.splits else "test"


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


@PARTS
@pytest.mark.parametrize("name", mostly(EDGES, "spr-ewt"))
def test_an_edge_file_is_read_whole(data: Path, name: str, rest: bool) -> None:
    corpus = read(data / "edges" / name)
    assert list(corpus.splits) == ["train", "dev", "test"]
    found = _whole(corpus, rest)
    assert found
    for split, docs in found.items():
        lines = [json.loads(line) for line in _lines(data / "edges" / f"{name}.{split}.jsonl")]
        assert len(docs) == len(lines)
        for doc, line in zip(docs, lines, strict=True):
            assert doc.text == line["text"]
            assert doc._.sent_ids == (line["info"]["id"],)
            assert _as_written(doc, EDGES[name]) == line["targets"]


def _as_written(doc: Doc, layer: str) -> list[dict[str, object]]:
    found = []
    for span1, span2, labels in edges(doc, layer):
        target: dict[str, object] = {"span1": list(span1)}
        if span2 is not None:
            target["span2"] = list(span2)
        single = layer != "proto-roles"
        found.append({**target, "label": labels[0] if single else list(labels)})
    return found


@cache
def _task(folder: Path) -> Corpus:
    return read(folder)


@PARTS
@pytest.mark.parametrize("name", mostly(LABELS, "sick"))
def test_a_task_is_read_whole(data: Path, name: str, rest: bool) -> None:
    corpus = _task(data / "tasks" / name)
    found = _whole(corpus, rest)
    files = sorted((data / "tasks" / name).iterdir())
    assert sorted(corpus.splits) == sorted(path.stem for path in files)
    files = [path for path in files if (path.stem != _small(corpus)) == rest]
    assert files
    for path in files:
        header, *rows = (line.split("\t") for line in _lines(path))
        docs = found[path.stem]
        assert len(docs) == len(rows)
        for doc, row in zip(docs, rows, strict=True):
            texts = [text for text, column in zip(row, header, strict=True) if "sent" in column]
            assert doc.text == " ".join(" ".join(texts).split())
            assert {key: type(value) for key, value in doc._.labels.items()} == LABELS[name]
            assert len(doc.spans.get("segments", [])) == (2 if len(texts) == 2 else 0)


@PARTS
@pytest.mark.parametrize("name", mostly(LABELS, "sick"))
def test_classes_and_scores_are_those_of_the_task(data: Path, name: str, rest: bool) -> None:
    found = _whole(_task(data / "tasks" / name), rest)
    docs = [doc for part in found.values() for doc in part]
    for label in LABELS[name]:
        values = {doc._.labels[label] for doc in docs}
        if label in CLASSES:
            assert values == CLASSES[label]
        else:
            assert (min(values), max(values)) == (1.0, 5.0)
