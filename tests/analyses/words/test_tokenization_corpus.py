"""The experiment `tokenization` on texts and tokenizers whose answer is known."""

from typing import Any

import numpy as np
import pytest
from spacy.tokens import Doc

import workbench as wb
from tests.judges.odd import run_here
from tests.minis import shared
from tests.models.bag_of_embeddings import BagOfEmbeddings
from tests.tiny import tiny_bert
from workbench.corpora.layers import vocabulary
from workbench.experiment.definition import EXPERIMENTS
from workbench.models.huggingface import HuggingFace


def corpus(*texts: tuple[list[str], list[str] | None]) -> wb.Corpus:
    docs = [Doc(vocabulary("en"), words=words, pos=tags) for words, tags in texts]
    return wb.Corpus("plain", {"test": lambda: iter(docs)})


def model_of(*whole: str) -> HuggingFace:
    """A tokenizer that knows these words; it splits others into characters."""
    return HuggingFace(*tiny_bert(whole), "tiny")


def test_pieces_by_hand() -> None:
    model = model_of("the", "dog", "cat")
    texts = corpus(
        (["the", "dog", "cats"], ["DET", "NOUN", "NOUN"]), (["ad", "\u2603"], ["X", "X"])
    )
    tables = run_here("tokenization", model, texts).tables
    groups = tables["groups"].set_index(["by", "group"])
    everything = groups.loc[("all", "all")]
    # the | dog | c ##a ##t ##s (s is no letter of the vocabulary, so the word is unknown) | a ##d
    assert everything["n"] == 5
    assert groups.loc[("tag", "DET"), "fertility"] == 1.0
    assert everything["unknown"] == pytest.approx(2 / 5)
    assert everything["fertility"] == pytest.approx((1 + 1 + 1 + 2 + 1) / 5)
    # of the three known words, "the" and "dog" are whole; an unknown word is not
    assert everything["whole"] == pytest.approx(2 / 3)
    assert everything["pieces_per_character"] == pytest.approx(6 / (3 + 3 + 4 + 2 + 1))
    assert tables["pieces"].set_index("pieces")["n"].to_dict() == {1: 2, 2: 1}
    (first, *_) = tables["words"].to_dict("records")
    assert (first["word"], first["split"], first["pieces"]) == ("ad", "a ##d", 2)


def test_rare_words_that_are_split_are_found_and_nothing_else() -> None:
    """Of 101 words per text the frequent are whole, the rare are split into five."""
    frequent = [f"{a}{b}" for a in "abcdefghij" for b in "klmnopqrst"]  # 100 words
    rare = [f"u{a}{b}{c}v" for a in "abc" for b in "abc" for c in "abcd"]
    model = model_of(*frequent, "v", "u")
    texts = corpus(*(([*frequent, word], None) for word in rare))
    tables = run_here("tokenization", model, texts).tables
    tests = tables["tests"].set_index("comparison")
    assert tests.index.tolist() == ["rare words"]  # there are no tags
    row = tests.loc["rare words"]
    assert row["ratio"] == pytest.approx(5.0) and row["holds"]
    assert (row["n_first"], row["n_second"]) == (len(rare), 100)
    found = {each.measure: each for each in EXPERIMENTS["tokenization"].findings_of(tables)}
    claim = found["pieces of rare words, ratio to frequent ones"]
    assert claim.verdict == "supported" and "5.00 times as many" in claim.claim


def test_proper_nouns_that_are_split_because_they_are_rare_are_not_found() -> None:
    """Frequent words are whole whatever their tag, rare ones have two pieces."""
    draw = np.random.default_rng(0)
    words = {f"{a}{b}": "PROPN" if draw.random() < 0.5 else "NOUN" for a in "abcdef" for b in "klm"}
    lots = {f"{a}{b}": "NOUN" for a in "abcdef" for b in "no"}
    model = model_of(*lots, "k", "l", "m")
    text = [*lots] * 30 + [*words]
    tags = [*lots.values()] * 30 + [*words.values()]
    row = run_here("tokenization", model, corpus((text, tags))).tables["tests"]
    row = row.set_index("comparison").loc["proper nouns"]
    assert row["ratio"] > 1.3  # more pieces than the other nouns, which are more frequent
    assert row["p"] > 0.05 and not row["holds"]


def test_several_models_are_compared_on_the_same_words() -> None:
    models = [shared(name) for name in ("mini:bert", "mini:elmo", "mini:bert")]
    result = run_here("tokenization", models, wb.read("primer:size=500"), max_sentences=50)
    tables = result.tables
    names = ["mini:bert", "mini:elmo", "mini:bert (2)"]
    assert list(tables["groups"]["model"].unique()) == names
    tests = tables["tests"].set_index(["model", "comparison"])
    elmo, same = tests.loc[("mini:elmo", "mini:bert")], tests.loc[("mini:bert (2)", "mini:bert")]
    assert elmo["ratio"] < 1 and elmo["holds"]
    assert same["ratio"] == 1 and same["p"] == 1 and not same["holds"]
    whole = tables["groups"].query("model == 'mini:elmo' and by == 'all'")
    assert whole["fertility"].item() == whole["whole"].item() == 1
    again = run_here("tokenization", models, wb.read("primer:size=500"), max_sentences=50).tables
    for name, table in tables.items():
        keys = list(EXPERIMENTS["tokenization"].tables[name].keys)
        assert not table.duplicated(keys).any() and table.equals(again[name])
    assert EXPERIMENTS["tokenization"].findings_of(tables)
    for draw in EXPERIMENTS["tokenization"].drawings().values():
        assert draw(tables).data


def test_unknown_words_are_neither_whole_nor_compared() -> None:
    texts = corpus((["the", "dog", "\u2603", "\u2603\u2603"], None))
    few = model_of("the", "dog")
    tables = run_here("tokenization", few, texts).tables
    claims = [each.claim for each in EXPERIMENTS["tokenization"].findings_of(tables)]
    assert "100 % of 2 known words stay whole; 2 of 4 words are unknown" in claims[0]
    both: list[Any] = [few, HuggingFace(*tiny_bert(["the", "\u2603"]), "other")]
    test = run_here("tokenization", both, texts).tables["tests"]
    row = test[test["comparison"] == "tiny"].iloc[0]
    assert row["n_first"] == 1  # only "the" is known to both
    claim = EXPERIMENTS["tokenization"].findings_of(run_here("tokenization", both, texts).tables)
    assert any("of 1 word that both know" in each.claim for each in claim)


def test_a_tokenizer_that_knows_nothing() -> None:
    found = run_here("tokenization", model_of("the"), corpus((["\u2603", "\u2602"], None)))
    claims = [each.claim for each in EXPERIMENTS["tokenization"].findings_of(found.tables)]
    assert "no word is known; both words are unknown" in claims[0]
    for draw in EXPERIMENTS["tokenization"].drawings().values():
        draw(found.tables)


def test_words_beyond_the_maximum_length_are_left_out() -> None:
    model = model_of("dog")
    found = run_here("tokenization", model, corpus((["dog"] * 600, None)))
    assert found.tables["groups"]["n"].max() == 510  # of 512 pieces
    assert any("left out" in caveat.text for caveat in found.caveats)


def test_odd_texts() -> None:
    bag: Any = BagOfEmbeddings()
    found = run_here("tokenization", bag, corpus((["Ben"], None)))
    assert found.tables["tests"].empty
    assert {"parts of speech", "1 sentence"} <= {
        text for caveat in found.caveats for text in ("parts of speech", "1 sentence")
        if text in caveat.text
    }  # fmt: skip
    assert EXPERIMENTS["tokenization"].findings_of(found.tables)
    for draw in EXPERIMENTS["tokenization"].drawings().values():
        assert draw(found.tables).data
    with pytest.raises(wb.WorkbenchError, match="no word") as error:
        run_here("tokenization", bag, corpus(([" "], None)))
    assert error.value.code == "too-few-words"
