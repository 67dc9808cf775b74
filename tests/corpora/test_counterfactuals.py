"""Counterfactual pairs from the primer, from tables of users, and from minimal pairs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workbench import WorkbenchError
from workbench.corpora import mentions, read, write
from workbench.corpora.counterfactuals import Counterfactual, counterfactual_pairs

pytestmark = pytest.mark.usefixtures("one_pipeline")
HEADER = "clean\tcorrupt\ttarget\tagainst\tphenomenon\n"
Pairs = Callable[..., tuple[list[Counterfactual], dict[str, int]]]


@pytest.fixture
def pairs(tmp_path: Path) -> Pairs:
    """Write a file of that name and read its pairs."""

    def pairs_of(name: str, content: str) -> Any:
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        found, left_out = counterfactual_pairs(read(path).docs())
        return found, dict(left_out)

    return pairs_of


def shown(pair: Counterfactual) -> tuple[str, str, str, str]:
    words = pair.clean[pair.word].text, pair.corrupt[pair.corrupt_word].text
    return pair.clean.text, pair.corrupt.text, *words


def test_pairs_of_the_primer_have_their_words_and_phenomena() -> None:
    found, left_out = counterfactual_pairs(read("primer/counterfactuals").docs("test", 7))
    texts = ("The cat often sees a man.", "The cats often see a man.")
    assert shown(found[0]) == (*texts, "sees", "see")
    assert (found[0].phenomenon, found[0].has_against) == ("agreement", True)
    assert len({pair.phenomenon for pair in found}) == 7 and not left_out


def test_pairs_survive_a_file_of_docs(tmp_path: Path) -> None:
    docs = list(read("primer/counterfactuals").docs("test", 14))
    write(docs, tmp_path / "pairs.spacy")
    again, _ = counterfactual_pairs(read(tmp_path / "pairs.spacy").docs())
    assert [*map(shown, again)] == [*map(shown, counterfactual_pairs(docs)[0])]


ROWS = [
    # the place is marked, or is the end of the text
    ("The girl ___ here.", "The girls ___ here.", "was", "were"),
    ("the girl [MASK], here", "the girls [MASK], here", "was", "were"),
    ("The girl near the  dogs", "The girls near the dogs", "was", "were"),
    ("___ girl", "____ girls", "This", "These"),
]
FILLED = [
    ("The girl was here.", "The girls were here.", "was", "were"),
    ("the girl was, here", "the girls were, here", "was", "were"),
    ("The girl near the dogs was", "The girls near the dogs were", "was", "were"),
    ("This girl", "These girls", "This", "These"),
]


@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl"])
def test_pairs_of_a_table_have_the_words_in_their_place(pairs: Pairs, ending: str) -> None:
    names = ("Clean", "corrupt", "target", "against")
    if ending == "jsonl":
        content = "\n".join(json.dumps(dict(zip(names, row, strict=True))) for row in ROWS)
    else:
        cells = [names, *ROWS]
        if ending == "csv":
            cells = [tuple(f'"{cell}"' for cell in row) for row in cells]
        content = "\n".join((", " if ending == "csv" else "\t")[:1].join(row) for row in cells)
    found, _ = pairs(f"pairs.{ending}", content)
    assert [*map(shown, found)] == FILLED
    assert {pair.phenomenon for pair in found} == {"all"}


def test_other_columns_of_such_a_table_are_labels(tmp_path: Path, pairs: Pairs) -> None:
    found, _ = pairs("a.tsv", f"{HEADER}The girl\tThe girls\twas\twere\tnumber\n")
    assert found[0].phenomenon == "number"
    corpus = read(tmp_path / "a.tsv")
    assert "Predicted words: target, against." in corpus.notes[0]
    (doc,) = corpus.docs()
    assert doc._.labels == {"phenomenon": "number"}
    assert [(doc[m.start].text, m.label) for m in mentions(doc, "predicted")] == [
        ("was", "target"),
        ("were", "against"),
    ]


def test_without_both_words_clean_and_corrupt_are_columns_like_others(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("text\tclean\tcorrupt\nIt rains.\tyes\tno\n")
    (doc,) = read(path).docs()
    assert doc.text == "It rains." and doc._.labels == {"clean": "yes", "corrupt": "no"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("The girl ___\tThe girls\twas\twere\tx", "hidden word"),
        ("A ___ and ___\tThe ___ and ___\twas\twere\tx", "2 gaps"),
        ("The girl\tThe girl\twas\twere\tx", "clean and corrupt are both"),
        ("The girl\tThe girls\twas\twas\tx", "target and against are both"),
        ("The girl\tThe girls\twas\t\tx", "no text in column 'against'"),
        ("\tThe girls\twas\twere\tx", "no text in column 'clean'"),
        ("The girl\tThe girls\tdoes not\tdo not\tx", "does · not"),
        ("The girl ___ly\tThe girls ___ly\twas\twere\tx", "not one word"),
    ],
)
def test_a_wrong_row_is_an_error_at_its_line(pairs: Pairs, row: str, message: str) -> None:
    with pytest.raises(WorkbenchError, match=message) as error:
        pairs("a.tsv", f"{HEADER}The girl\tThe girls\twas\twere\tx\n{row}\n")
    assert error.value.where is not None and error.value.where.endswith("a.tsv:3")
    assert error.value.code == "file-format" and error.value.remedy


# --- minimal pairs --------------------------------------------------------------------------------


def blimp(good: str, bad: str, **more: str) -> str:
    row = {"sentence_good": good, "sentence_bad": bad, "UID": "paradigm", **more}
    return json.dumps(row)


def test_a_minimal_pair_is_used_if_both_sentences_share_the_predicted_word(pairs: Pairs) -> None:
    lines = [
        blimp("Those geese were here.", "That geese were here.", two_prefix_word="geese"),
        blimp("The goose was here.", "The goose were here."),
        blimp("A goose is here.", "The two geese are here.", two_prefix_word="here"),
        blimp("Geese see a fox.", "A fox see geese.", two_prefix_word="fox"),
    ]
    found, left_out = pairs("blimp.jsonl", "\n".join(lines))
    texts = ("Those geese were here.", "That geese were here.")
    assert [*map(shown, found)] == [(*texts, "geese", "geese")]
    assert not found[0].has_against and found[0].phenomenon == "paradigm"
    assert sorted(left_out.values()) == [1, 2]


@pytest.mark.parametrize(
    ("ref", "message"),
    [("primer/acceptability:size=20", "10 are left out"), ("primer:size=20", "no counterfactual")],
)
def test_a_corpus_without_usable_pairs_is_an_error_with_a_remedy(ref: str, message: str) -> None:
    with pytest.raises(WorkbenchError, match=message) as error:
        counterfactual_pairs(read(ref).docs("train"))
    assert error.value.code == "no-minimal-pairs"
    assert "primer/counterfactuals" in (error.value.remedy or "")
    assert " 0 are" not in error.value.what


@pytest.mark.parametrize("missing", ["clean", "corrupt", "target", "against"])
def test_a_table_without_one_of_its_columns_names_the_missing_one(
    pairs: Pairs, missing: str
) -> None:
    with pytest.raises(WorkbenchError, match=f"no column {missing!r}") as error:
        pairs("a.tsv", HEADER.replace(missing, "other") + "The girl\tThe girls\twas\twere\tx\n")
    assert error.value.code == "column-not-found" and "clean, corrupt" in error.value.remedy


def test_a_text_that_is_no_pair_among_pairs_is_an_error() -> None:
    pair = next(read("primer/counterfactuals").docs("test"))
    text = next(read("primer").docs("test"))
    with pytest.raises(WorkbenchError, match="no counterfactual pair"):
        counterfactual_pairs([pair, text])
