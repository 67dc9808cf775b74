"""The experiment `neighbours` on planted and on odd texts and models."""

from typing import Any

import numpy as np
import pytest
import torch
from spacy.tokens import Doc

import workbench as wb
from tests.judges.odd import Quiet, run_here
from tests.minis import shared
from tests.planted.senses import doc_of, planted_corpus, planted_model
from workbench.analyses.words.neighbours_corpus import exchanged_rows
from workbench.corpora.layers import Edge, vocabulary
from workbench.experiment import Inputs
from workbench.experiment.definition import EXPERIMENTS

SMALL = {"random_models": 1, "n_permutations": 19, "min_count": 4, "max_sentences": 80}
VALUES = {"neighbours": "share", "separation": "value", "tests": "difference"}


def checked(tables: Any) -> None:
    """Keys are unique, shares are shares, and intervals contain their values."""
    declared = EXPERIMENTS["neighbours"].tables
    for name, found in tables.items():
        assert not found.duplicated(list(declared[name].keys)).any()
        if name in VALUES and len(found):
            assert (found["lower"] <= found[VALUES[name]] + 1e-9).all()
            assert (found[VALUES[name]] <= found["upper"] + 1e-9).all()
    assert tables["neighbours"]["share"].between(0, 1).all()
    assert tables["senses"][["v_measure", "accuracy"]].stack().between(0, 1).all()


@pytest.mark.parametrize(
    "name",
    [
        "mini:t5",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("mini:gpt", "mini:elmo")),
    ],
)
def test_tables_of_every_kind_of_model(name: str) -> None:
    model = shared(name)
    result = run_here("neighbours", model, wb.read("primer:size=800"), max_queries=20, **SMALL)
    tables = result.tables
    checked(tables)
    assert list(tables["neighbours"]["stack"].unique()) == [stack.name for stack in model.stacks]
    for stack in model.stacks:
        layers = tables["neighbours"].query(f"stack == '{stack.name}'")["layer"]
        assert sorted(set(layers)) == [*range(stack.layers + 1)]
    assert tables["neighbours"]["random"].notna().all()
    declared = EXPERIMENTS["neighbours"]
    assert 3 <= len(declared.findings_of(tables)) <= 7
    for draw in declared.drawings().values():
        assert draw(tables).data


def test_the_same_request_has_the_same_tables() -> None:
    request = {**SMALL, "max_queries": 30, "max_occurrences": 60}
    first, again = (run_here("neighbours", planted_model(), planted_corpus(5), **request)
                    for _ in range(2))  # fmt: skip
    for name, table in first.tables.items():
        assert table.equals(again.tables[name]), name
    assert any("a random sample" in caveat.text for caveat in first.caveats)


def test_planted_senses_are_found_at_layer_1_and_nothing_at_layer_0() -> None:
    result = run_here(
        "neighbours", planted_model(), planted_corpus(), k=5, random_models=5, n_permutations=99
    )
    tables = result.tables
    checked(tables)
    shares = tables["neighbours"].set_index(["layer", "candidates", "property"])["share"]
    assert shares[1, "other forms", "tag"] > 0.9 > 0.7 > shares[0, "other forms", "tag"]
    separation = tables["separation"].set_index(["layer", "measure"])
    assert separation.loc[1, "v_measure"]["value"] == pytest.approx(1)
    assert separation.loc[1, "accuracy"]["value"] == pytest.approx(1)
    assert separation.loc[0, "v_measure"]["value"] == 0
    static = separation.loc[0, "accuracy"]
    assert static["value"] == pytest.approx(static["chance"], abs=0.02)  # as static vectors
    assert set(tables["senses"]["form"]) == {"play", "walk", "call", "run"}
    assert (tables["senses"].query("layer == 1")[["p", "v_p"]] < 0.02).all(axis=None)
    assert (tables["senses"].query("layer == 0")["p"] > 0.05).all()
    tests = tables["tests"].set_index("comparison")
    assert tests["holds"].all() and set(tests["layer"]) == {1}
    assert set(tables["map"]["layer"]) == {1}
    found = {each.measure: each for each in EXPERIMENTS["neighbours"].findings_of(tables)}
    assert all(each.verdict == "supported" for each in found.values())


@pytest.mark.slow  # by day `test_planted_senses_are_found_at_layer_1_and_nothing_at_layer_0`
def test_random_vectors_of_words_share_no_labels_beyond_chance() -> None:
    """Forms are exchanged as wholes, so that few lists of neighbours are not many cases."""
    draw, p = np.random.default_rng(0), []
    for seed in range(6):
        docs = [
            doc_of(["w", f"f{n % 25}", "x"], ["DET", ("NOUN", "VERB")[draw.integers(2)], "X"], "a")
            for n in range(120)
        ]
        corpus = wb.Corpus("random", {"test": lambda docs=docs: iter(docs)})
        tables = run_here(
            "neighbours", planted_model(seed, 0.0), corpus, seed=seed, random_models=0,
            n_permutations=39, max_forms=0, max_queries=100,
        ).tables  # fmt: skip
        own = tables["neighbours"].query("property == 'tag' and layer == 0")
        p += own["p"].tolist()
    assert 0.3 < np.mean(p) < 0.7 and min(p) < 0.4


def test_labels_are_exchanged_between_forms_of_about_the_same_frequency() -> None:
    forms = np.repeat([0, 1, 2, 3, 4], [1, 8, 9, 10, 100])
    rows = exchanged_rows(forms, 50, np.random.default_rng(0))
    assert rows.shape == (50, 128)
    for draw in rows:
        of = forms[draw]
        assert (of[forms == 0] == 0).all() and (of[forms == 4] == 4).all()  # alone in their group
        assert all(len(set(of[forms == form])) == 1 for form in range(5))  # as a whole
        assert {of[forms == form][0] for form in (1, 2, 3)} == {1, 2, 3}


def test_chance_of_static_neighbours_is_what_sharing_the_form_gives() -> None:
    """Among all words, neighbours of the same form share its label: that is no finding."""
    docs = [
        doc_of(["x", f"f{n % 10}"], ["X", "NOUN" if n % 10 < 5 else "VERB"], "a")
        for n in range(120)
    ]
    corpus = wb.Corpus("static", {"test": lambda: iter(docs)})
    tables = run_here(
        "neighbours", planted_model(0, 0.0), corpus, random_models=0, k=5, n_permutations=19
    ).tables
    row = tables["neighbours"].query("property == 'tag' and candidates == 'all words'").iloc[0]
    assert row["share"] == 1 and row["chance"] == pytest.approx(1) and row["p"] == 1


def test_texts_without_labels_are_read_and_said_to_have_none() -> None:
    texts = [["The", "dog", "walks", "to", "the", "house", "."]] * 3
    docs = [Doc(vocabulary("en"), words=words) for words in texts]
    corpus = wb.Corpus("untagged", {"test": lambda: iter(docs)})
    model = shared("mini:bert")
    result = run_here("neighbours", model, corpus, random_models=0)
    assert set(result.tables["neighbours"]["property"]) == {"form", "position"}
    assert result.tables["senses"].empty and result.tables["tests"].empty
    texts_of = " ".join(caveat.text for caveat in result.caveats)
    assert "parts of speech" in texts_of and "3 sentences" in texts_of and "No form" in texts_of
    declared = EXPERIMENTS["neighbours"]
    assert declared.findings_of(result.tables)
    for name in ("forms",):
        assert declared.drawings()[name](result.tables).data
    for name in ("shares", "separation", "forms_with_senses", "sense_map"):
        with pytest.raises(KeyError):
            declared.drawings()[name](result.tables)


def test_words_without_states_are_left_out_and_counted() -> None:
    long = [Doc(vocabulary("en"), words=["dog"] * 300, pos=["NOUN"] * 300) for _ in range(2)]
    corpus = wb.Corpus("long", {"test": lambda: iter(long)})
    result = run_here("neighbours", shared("mini:bert"), corpus, random_models=0, max_queries=20)
    assert any("have no state" in caveat.text for caveat in result.caveats)


def test_senses_may_be_spans_of_a_layer() -> None:
    docs = [doc_of(["the", "play", f"x{n}"], ["DET", "NOUN", "X"], f"d{n}") for n in range(40)]
    for number, doc in enumerate(docs):
        doc._.edges = {"wordnet": [Edge((1, 2), None, (f"play.{number % 2}",))]}
    corpus = wb.Corpus("senses", {"test": lambda: iter(docs)})
    tables = run_here(
        "neighbours", planted_model(), corpus, random_models=0, senses="wordnet"
    ).tables
    assert tables["senses"]["senses"].tolist() == ["play.0 20, play.1 20"] * 2
    experiment = EXPERIMENTS["neighbours"]
    assert experiment.layers_for(experiment.settings(senses="wordnet")) == ("wordnet",)
    assert experiment.layers_for(experiment.settings()) == ()


def test_a_model_without_random_weights_has_no_baseline() -> None:
    model = planted_model()
    model._make_random = None
    result = run_here("neighbours", model, planted_corpus(3), **{**SMALL, "min_count": 4})
    assert any("no random-weight baseline" in caveat.text for caveat in result.caveats)
    assert result.tables["neighbours"]["random"].isna().all()
    assert not result.tables["tests"]["holds"].any()


def test_progress_counts_the_layers_of_all_models() -> None:
    seen: list[tuple[int, int | None]] = []

    class Counted(Quiet):
        def __call__(self, done: int, total: int | None = None, doing: str = "") -> None:
            seen.append((done, total))

    experiment = EXPERIMENTS["neighbours"]
    inputs = Inputs((planted_model(),), (planted_corpus(3),), split="test")
    experiment.run(inputs, experiment.settings(random_models=2, n_permutations=19), Counted())
    counted = [done for done, total in seen if total]
    assert counted == [*range(7)] and {total for _, total in seen} == {None, 6}
    assert torch.get_num_threads()
