"""What is in memory is read as a corpus: texts, words, Docs, tables, datasets, open files."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import workbench as wb
from workbench import WorkbenchError
from workbench.corpora.content_hash import content_hash

DOG = "The dog saw Mary."
WORDS = ["The", "dog", "saw", "Mary", "."]


def docs() -> list[Any]:
    return list(wb.read("primer").docs("test", limit=2))


class Dataset:
    """What `datasets.Dataset` offers, as far as it is used."""

    def __init__(self, rows: list[dict[str, Any]], split: str | None = None) -> None:
        self.rows, self.split = rows, split
        self.column_names = list(rows[0])
        self.features = {
            "text": SimpleNamespace(dtype="string"),
            "label": SimpleNamespace(dtype="int64", names=["bad", "good"]),
        }

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


ROWS = [{"text": DOG, "label": 1}, {"text": "Mary ran.", "label": 0}]
FRAME = pd.DataFrame({"text": [DOG, "Mary ran."], "label": ["good", "bad"], "idx": [7, 8]})
READ: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "a text": (lambda: "The dog saw Mary. Mary ran.", [DOG, "Mary ran."]),
    "lines": (lambda: f"{DOG}\n\nMary ran", [DOG, "Mary ran"]),
    "texts": (lambda: [DOG, "Mary  ran.\n"], [DOG, "Mary ran."]),
    "a generator": (lambda: (text for text in (DOG,)), [DOG]),
    "a series": (lambda: pd.Series([DOG, "Mary ran."]), [DOG, "Mary ran."]),
    "an array": (lambda: np.array([DOG]), [DOG]),
    "words": (lambda: [WORDS, ("Mary", "ran")], ["The dog saw Mary .", "Mary ran"]),
    "a Doc": (lambda: docs()[0], [doc.text for doc in docs()[:1]]),
    "Docs": (docs, [doc.text for doc in docs()]),
    "a data frame": (lambda: FRAME, [DOG, "Mary ran."]),
    "a dataset": (lambda: Dataset(ROWS), [DOG, "Mary ran."]),
    "a text file": (lambda: io.StringIO(f"{DOG} Mary ran."), [DOG, "Mary ran."]),
    "bytes": (lambda: io.BytesIO(DOG.encode()), [DOG]),
    "splits": (lambda: {"train": [DOG], "validation": ["Mary ran."]}, [DOG, "Mary ran."]),
}


@pytest.mark.parametrize(("source", "texts"), READ.values(), ids=READ)
def test_each_is_read_and_can_be_read_again(source: Callable[[], Any], texts: list[str]) -> None:
    corpus = wb.read(source())
    assert [doc.text for doc in corpus] == texts == [doc.text for doc in corpus]
    assert content_hash(corpus) == content_hash(wb.read(source()))
    assert wb.read(corpus) is corpus


def test_words_are_taken_as_they_are() -> None:
    (doc,) = wb.read([["do", "n't", "New", "York-based"]])
    assert [token.text for token in doc] == ["do", "n't", "New", "York-based"]
    assert len(list(doc.sents)) == 1


def test_a_table_has_labels_and_a_dataset_its_names() -> None:
    for source in (FRAME, Dataset(ROWS)):
        assert [doc._.labels for doc in wb.read(source)] == [{"label": "good"}, {"label": "bad"}]
    frame = pd.DataFrame({"review": [DOG], "stars": [4.5]})
    (doc,) = wb.read(frame, text="review")
    assert doc._.labels == {"stars": 4.5}


def test_splits_have_their_names() -> None:
    corpus = wb.read({"train": [DOG], "validation": FRAME})
    assert list(corpus.splits) == ["train", "dev"] and len(list(corpus.docs("dev"))) == 2
    assert list(wb.read(Dataset(ROWS, "train")).splits) == ["train"]


def test_an_open_file_is_of_the_format_of_its_name(tmp_path: Path) -> None:
    path = tmp_path / "two.conllu"
    wb.write(wb.read("primer").docs("test", limit=2), path)
    for mode in ("r", "rb"):
        with path.open(mode) as file:
            corpus = wb.read(file)
        assert "dependencies" in corpus.layers()
        assert [doc.text for doc in corpus] == [doc.text for doc in wb.read(path)]


def test_a_name_is_no_text_and_a_text_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("my corpus.conllu", "my corpus", "nothing"):
        with pytest.raises(WorkbenchError, match="corpus-not-found"):
            wb.read(name)
    Path("Mary ran.").write_text("Ben walked.\n")
    with pytest.raises(WorkbenchError, match="file-format"):  # a file without a known ending
        wb.read("Mary ran.")


FAULTS: dict[str, tuple[Any, str]] = {
    "nothing": ([], "corpus-empty"),
    "no rows": (FRAME[:0], "corpus-empty"),
    "no splits": ({}, "corpus-empty"),
    "an empty file": (io.StringIO(""), "corpus-empty"),
    "an empty text": ([DOG, " "], "text-empty"),
    "no words": ([WORDS, []], "text-empty"),
    "white space in a word": ([["New York"]], "file-format"),
    "no text column": (pd.DataFrame({"review": [DOG]}), "column-not-found"),
    "half a pair": (pd.DataFrame({"sentence1": [DOG], "sentence2": [None]}), "file-format"),
    "numbers": ([1, 2], "wrong-type"),
    "a mixture": ([DOG, WORDS], "wrong-type"),
    "a function": (len, "wrong-type"),
}


@pytest.mark.parametrize(("source", "code"), FAULTS.values(), ids=FAULTS)
def test_faults_have_a_remedy(source: Any, code: str) -> None:
    with pytest.raises(WorkbenchError) as error:
        list(wb.read(source))
    assert error.value.code == code and error.value.remedy


def test_a_real_dataset() -> None:
    datasets = pytest.importorskip("datasets")
    corpus = wb.read(datasets.Dataset.from_list(ROWS))
    assert [doc.text for doc in corpus] == [DOG, "Mary ran."]
