"""Neighbours of a word in a text, on planted states, on every kind of model, and after mistakes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

import workbench as wb
from tests.judges.odd import run_here
from tests.minis import shared
from tests.night import mostly
from tests.planted.senses import doc_of, planted_corpus, planted_model


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))


def test_neighbours_of_a_noun_are_nouns_where_its_context_is_read() -> None:
    model = planted_model()
    index = wb.occurrences(model, planted_corpus())
    for text, tag in (("the play ends", "NOUN"), ("we play there", "VERB")):
        found = wb.neighbours(model, index, text, "play", layers=[0, 1], k=8)
        by_layer = dict([*found.table.groupby("layer")])
        assert set(by_layer[0]["tag"]) == {"NOUN", "VERB"}  # a static vector has both
        assert set(by_layer[1]["tag"]) == {tag} and set(by_layer[1]["form"]) == {"play"}
        assert by_layer[1]["similarity"].tolist() == pytest.approx([1] * 8)
        assert by_layer[0]["rank"].tolist() == [*range(1, 9)]
        assert all(tag in line for line in repr(found).split("layer 1")[1].splitlines()[1:])


def test_one_neighbour_of_each_form_or_only_of_the_same_word() -> None:
    model, corpus = planted_model(), planted_corpus()
    distinct = wb.neighbours(model, corpus, "the play ends", "play", layers=1, k=7, distinct=True)
    forms = distinct.table["form"].tolist()
    assert forms[0] == "play" and len(set(forms)) == 7
    nouns = {"play", "walk", "call", "run", "dog", "house", "river", "song"}
    assert set(distinct.table["tag"]) == {"NOUN"} and {*forms} < nouns
    same = wb.neighbours(model, corpus, "the play ends", 1, layers=1, k=20, same_word="form")
    assert set(same.table["form"]) == {"play"}
    assert same.table["tag"].tolist() == ["NOUN"] * 12 + ["VERB"] * 8


def test_the_lemma_is_any_lemma_that_the_form_has_in_the_corpus() -> None:
    docs = [doc_of(["the", form, str(n)], ["DET", "NOUN", "X"], "a")
            for n, form in enumerate(["play", "Plays", "dog", "plays"])]  # fmt: skip
    for doc in docs:
        doc[1].lemma_ = "dog" if doc[1].text == "dog" else "play"
    corpus = wb.Corpus("lemmas", {"test": lambda: iter(docs)})
    found = wb.neighbours(planted_model(), corpus, "a play", 1, layers=0, same_word="lemma")
    assert sorted(found.table["form"]) == ["Plays", "play", "plays"]
    assert any("only 3" in note for note in found.notes) and "Note:" in repr(found)


def test_the_text_itself_is_no_neighbour() -> None:
    model, corpus = planted_model(), planted_corpus(3)
    text = next(corpus.docs("test")).text
    found = wb.neighbours(model, corpus, text, 1, layers=1, k=100)
    assert text not in set(found.table["sentence"])


@pytest.mark.parametrize(
    "name", mostly(("mini:bert", "mini:gpt", "mini:t5", "mini:elmo"), "mini:t5", "mini:elmo")
)
def test_every_kind_of_model_has_the_neighbours_of_brute_force(name: str) -> None:
    model, corpus = shared(name), wb.read("primer:size=60")
    index = wb.occurrences(model, corpus)
    text = "They play a song near the house."
    for stack in index.stacks:
        found = wb.neighbours(model, index, text, "song", k=6, stack=stack)
        last = len(index.stacks[stack]) - 1
        assert sorted(set(found.table["layer"])) == sorted({0, last // 2, last})
        with torch.no_grad():
            pieces = model.encode(_batch(text))
            output = model.forward(pieces)
        owned = output.texts[stack].words[0] == 3
        for layer, own in found.table.groupby("layer"):
            state = output.hidden[stack][layer][0][owned].mean(0)
            search = NearestNeighbors(algorithm="brute", metric="cosine")
            search.fit(index.stacks[stack][layer].double().numpy())
            far, rows = search.kneighbors(state.double().numpy()[None], 6)
            np.testing.assert_allclose(own["similarity"], 1 - far[0], atol=1e-5)
            assert len({*own["occurrence"]} & {*rows[0]}) >= 5  # of equal ones, others may be first


def _batch(text: str) -> Any:
    from workbench.corpora.encode import doc_of as split

    return wb.encode([split(text)])


def test_a_model_that_was_loaded_again_fits_the_index_and_another_does_not() -> None:
    corpus = planted_corpus(1)
    index = wb.occurrences(planted_model(0), corpus)
    assert len(wb.neighbours(planted_model(0), index, "a play", "play", k=1, layers=1).table) == 1
    with pytest.raises(wb.WorkbenchError, match="planted-1") as error:
        wb.neighbours(planted_model(1), index, "a play", "play")
    assert error.value.code == "model-mismatch"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"word": "dance"}, "word-unknown"),
        ({"word": 9}, "word-unknown"),
        ({"text": " "}, "text-empty"),
        ({"layers": 2}, "layer-missing"),
        ({"layers": [-1]}, "layer-missing"),
        ({"layers": []}, "setting-invalid"),
        ({"stack": "decoder"}, "setting-invalid"),
        ({"k": 0}, "setting-invalid"),
        ({"max_occurrences": 0}, "setting-invalid"),
        ({"seed": -1}, "seed-invalid"),
        ({"seed": 2**70}, "seed-invalid"),
        ({"same_word": "stem"}, "setting-invalid"),
        ({"same_word": "form", "distinct": True}, "setting-invalid"),
        ({"text": "a zebra", "word": "zebra", "same_word": "form"}, "word-unknown"),
        ({"split": "dev"}, "split-not-found"),
        ({"corpus": wb.Corpus("none", {"test": lambda: iter(())})}, "corpus-empty"),
    ],
)
def test_mistakes_have_a_code_and_a_remedy(change: dict[str, Any], code: str) -> None:
    given: dict[str, Any] = {
        "corpus": planted_corpus(1), "text": "the play", "word": "play", **change,
    }  # fmt: skip
    with pytest.raises(wb.WorkbenchError) as error:
        wb.neighbours(planted_model(), **given)
    assert error.value.code == code and error.value.remedy


def test_arguments_are_checked_as_well_where_an_index_is_given() -> None:
    model = planted_model()
    index = wb.occurrences(model, planted_corpus(1))
    for change, code in (
        ({"max_occurrences": -5}, "setting-invalid"),
        ({"split": "nope"}, "split-not-found"),
        ({"seed": -1}, "seed-invalid"),
    ):
        with pytest.raises(wb.WorkbenchError) as error:
            wb.neighbours(model, index, "the play", "play", **change)  # type: ignore[arg-type]
        assert error.value.code == code
        with pytest.raises(wb.WorkbenchError) as error:
            wb.senses(model, index, "play", **change)  # type: ignore[arg-type]
        assert error.value.code == code


def test_a_word_that_the_tokenizer_does_not_know_is_noted() -> None:
    model, corpus = shared("mini:bert"), wb.read("primer:size=40")
    known, unknown = (
        wb.neighbours(model, corpus, "Ben sees \u2603.", word, k=1, split="test").notes
        for word in ("Ben", "\u2603")
    )
    assert not known and "“\u2603” has an unknown piece: it" in unknown[0]
    elmo = shared("mini:elmo")  # reads every word by its characters
    found = wb.neighbours(elmo, corpus, "Ben sees \u2603.", "\u2603", k=1, split="test")
    assert not found.notes


def test_states_that_are_not_numbers_are_an_error() -> None:
    bert = shared("mini:bert")
    broken = bert.copy()
    with torch.no_grad():
        broken.net.bert.encoder.layer[1].output.dense.weight.fill_(float("nan"))
    corpus = wb.read("primer:size=40")
    for ask in (
        lambda: wb.neighbours(broken, corpus, "Ben walks.", "walks", layers=4, split="test"),
        lambda: wb.senses(broken, corpus, "to", split="train"),
        lambda: run_here("geometry", broken, corpus, random_models=0),
    ):
        with pytest.raises(wb.WorkbenchError, match="not a number") as error:
            ask()
        assert error.value.code == "model-unreadable"


def test_a_word_without_a_state_is_an_error() -> None:
    model = shared("mini:bert")
    index = wb.occurrences(model, wb.read("primer:size=40"), split="test")
    with pytest.raises(wb.WorkbenchError, match="no state") as error:
        wb.neighbours(model, index, "dog " * 600, 599)
    assert error.value.code == "word-unknown"


def test_a_sample_and_words_without_a_state_are_noted() -> None:
    model, corpus = shared("mini:bert"), planted_corpus(3)
    found = wb.neighbours(model, corpus, "a play", "play", max_occurrences=20, k=2)
    assert found.notes == ("20 of 96 words are searched, drawn at random.",)
    long = wb.Corpus("long", {"test": lambda: iter([doc_of(["dog"] * 600, ["NOUN"] * 600, "a")])})
    (note,) = wb.neighbours(model, long, "a dog", "dog", k=2).notes
    assert "of 600 words have no state" in note


def test_the_rows_are_json() -> None:
    found = wb.neighbours(planted_model(), planted_corpus(1), "the play", "play", k=2)
    data = json.loads(json.dumps(found.as_dict()))
    assert data["word"] == "play" and data["index"] == 1 and len(data["neighbours"]) == 4
    assert data["neighbours"][0].keys() == {*found.table.columns}
