"""Maps and clusters of a word's occurrences: planted senses are found, and none where are none."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.metrics import silhouette_score, v_measure_score

import workbench as wb
from tests.planted.senses import doc_of, planted_corpus, planted_model
from workbench.analyses.words.nearest import Rows
from workbench.analyses.words.occurrences import Occurrences
from workbench.analyses.words.senses import permutations, separation, v_measures
from workbench.drawing.sanitize import harmless

EVIL = "<img/src=x/onerror=window.evil=1>"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))


def planted_index(gap: float, size: int = 40, width: int = 12, form: str = "play") -> Occurrences:
    """A word of two senses, `gap` apart, in sentences of their own, and another word."""
    random = np.random.default_rng(1)
    senses = np.arange(2 * size) % 2
    states = random.normal(size=(2 * size, width))
    states[:, 0] += 20
    states[:, 1] += gap * senses
    sentences = pd.DataFrame({"split": "test", "document": "a",
                              "text": [f"{form} {n}" for n in range(2 * size)]})  # fmt: skip
    table = pd.DataFrame({
        "doc": 0, "word": 0, "sentence": np.arange(2 * size), "position": 0, "start": 0,
        "end": len(form), "form": pd.Categorical([form] * (2 * size)),
        "lemma": pd.Categorical([form] * (2 * size)),
        "tag": pd.Categorical(np.array(["NOUN", "VERB"])[senses]),
        "relation": pd.Categorical([""] * (2 * size)),
        "sense": pd.Categorical(np.array(["one", "two"])[senses]),
    })  # fmt: skip
    tensor = torch.from_numpy(states.astype(np.float32))
    return Occurrences("planted", "hand-made", table, sentences, {"encoder": (tensor,)})


def test_planted_senses_are_found_and_are_the_labels() -> None:
    found = wb.senses(planted_model(), planted_index(30.0), "Play", labels=["sense"])
    assert found.n_clusters == 2
    assert found.measures["gold"].tolist() == ["tag", "sense"]
    assert found.measures["v_measure"].tolist() == pytest.approx([1, 1])
    assert found.measures["accuracy"].tolist() == pytest.approx([1, 1])
    assert (found.measures[["p", "v_p"]] < 0.01).all(axis=None)
    assert (abs(found.measures["chance"] - 0.5) < 0.05).all()
    by_tag = found.table.groupby("tag")["x"]
    assert by_tag.min().max() > by_tag.max().min()  # apart on the first axis
    assert "V-measure 1.00" in repr(found) and "cluster 1: 40" in repr(found)


@pytest.mark.parametrize("form", ["play", "walk"])
def test_senses_of_a_planted_model_are_found_where_context_is_read(form: str) -> None:
    model, corpus = planted_model(), planted_corpus()
    found = wb.senses(model, corpus, form)
    assert found.layer == 1 and found.n_clusters == 2
    assert found.measures["v_measure"].tolist() == pytest.approx([1])
    static = wb.senses(model, corpus, form, layer=0)
    assert static.n_clusters == 1 and "static" in static.notes[0]
    row = static.measures.iloc[0]
    assert row["v_measure"] == 0 and row["accuracy"] == pytest.approx(row["chance"], abs=0.02)
    assert row["p"] > 0.1 and not static.table[["x", "y"]].to_numpy().any()


def test_where_are_no_senses_none_are_claimed() -> None:
    found = wb.senses(planted_model(), planted_index(0.0), "play")
    row = found.measures.iloc[0]
    assert row["v_measure"] < 0.1 and row["v_p"] > 0.01 and row["p"] > 0.01
    assert any("not well separated" in note for note in found.notes)


@pytest.mark.slow  # by day `test_where_are_no_senses_none_are_claimed`
def test_p_values_of_unrelated_labels_are_uniform() -> None:
    random = np.random.default_rng(0)
    p, v_p = [], []
    for seed in range(60):
        rows = Rows.of(torch.from_numpy(random.normal(size=(30, 6)).astype(np.float32)))
        gold, clusters = random.integers(0, 2, 30), random.integers(0, 3, 30)
        found = separation(rows, clusters, gold, np.arange(30), permutations(gold, 99, seed))
        p.append(found.p)
        v_p.append(found.v_p)
    for values in (p, v_p):
        assert 0.35 < np.mean(values) < 0.65 and np.mean(np.array(values) <= 0.05) < 0.17


def test_map_clusters_and_measures_are_those_of_scikit_learn() -> None:
    index = planted_index(4.0)
    found = wb.senses(planted_model(), index, "play", n_clusters=3)
    unit = torch.nn.functional.normalize(index.stacks["encoder"][0]).numpy()
    placed = PCA(2, svd_solver="full").fit_transform(unit.astype(np.float64))
    np.testing.assert_allclose(found.table[["x", "y"]], placed, atol=1e-5)
    clusters = found.table["cluster"]
    assert clusters.value_counts().sort_index().is_monotonic_decreasing and found.n_clusters == 3
    silhouette = silhouette_score(unit, clusters, metric="cosine")
    assert found.silhouettes["silhouette"].tolist() == pytest.approx([silhouette])
    expected = v_measure_score(found.table["tag"], clusters)
    assert found.measures["v_measure"].tolist() == pytest.approx([expected])
    again = wb.senses(planted_model(), index, "play", n_clusters=3)
    assert again.table.equals(found.table)


def test_many_v_measures_at_once_are_those_of_scikit_learn() -> None:
    random = np.random.default_rng(2)
    gold, clusters = random.integers(0, 3, (20, 50)), random.integers(0, 4, 50)
    expected = [v_measure_score(row, clusters) for row in gold]
    np.testing.assert_allclose(v_measures(gold, clusters), expected, atol=1e-9)
    one = np.zeros((1, 9), dtype=np.int64)
    assert v_measures(one, one[0]).tolist() == [1] == [v_measure_score(one[0], one[0])]
    assert v_measures(one, np.arange(9)) == pytest.approx(v_measure_score(one[0], np.arange(9)))


def test_the_number_of_clusters_has_the_largest_silhouette() -> None:
    found = wb.senses(planted_model(), planted_index(30.0), "play")
    best = found.silhouettes.loc[found.silhouettes["silhouette"].idxmax(), "clusters"]
    assert best == found.n_clusters
    assert found.silhouettes["clusters"].tolist() == [*range(2, 9)]


def test_a_sample_is_drawn_of_a_frequent_word() -> None:
    found = wb.senses(planted_model(), planted_index(30.0), "play", most=20, seed=1)
    other = wb.senses(planted_model(), planted_index(30.0), "play", most=20, seed=2)
    assert len(found.table) == 20 and found.table["occurrence"].is_monotonic_increasing
    assert found.table["occurrence"].tolist() != other.table["occurrence"].tolist()


def test_mistakes_have_a_code_and_a_remedy() -> None:
    model, corpus = planted_model(), planted_corpus(3)  # each word three times
    for change, code in (
        ({"word": "plai"}, "word-unknown"),
        ({"word": "dog", "split": "test"}, "too-few-words"),
        ({"layer": 2}, "layer-missing"),
        ({"stack": "decoder"}, "setting-invalid"),
        ({"most": 0}, "setting-invalid"),
        ({"most": 3}, "setting-invalid"),
        ({"seed": -1}, "seed-invalid"),
        ({"max_occurrences": 0}, "setting-invalid"),
        ({"n_clusters": 0}, "setting-invalid"),
        ({"labels": ["senses"]}, "layer-missing"),
        ({"corpus": planted_index(1.0), "labels": ["senses"]}, "layer-missing"),
    ):
        given = {"corpus": corpus, "word": "play", **change}
        with pytest.raises(wb.WorkbenchError) as error:
            wb.senses(model, **given)  # type: ignore[arg-type]
        assert error.value.code == code and error.value.remedy, change


def test_frequent_words_are_named_where_a_word_is_unknown() -> None:
    texts = [doc_of(["(", "the", "zebra", "3"], ["X", "DET", "NOUN", "X"], str(n)) for n in (1, 2)]
    texts.append(doc_of(["the", "a", "'s"], ["DET", "DET", "X"], "3"))
    corpus = wb.Corpus("plain", {"test": lambda: iter(texts)})
    with pytest.raises(wb.WorkbenchError) as error:
        wb.senses(planted_model(), corpus, "absent")
    assert "Known: the, zebra, a, (, 3, 's." in error.value.remedy


def test_the_figure_has_each_sentence_on_hover_and_no_markup_of_the_corpus() -> None:
    found = wb.senses(planted_model(), planted_index(30.0, form=EVIL), EVIL)
    figure = found.figure()
    assert [trace.name for trace in figure.data] == ["NOUN", "VERB"]
    drawn = harmless(figure)
    shown = [text for trace in drawn["data"] for text in trace["customdata"]]
    assert len(shown) == 80 and all(text.startswith("[&lt;img") for text in shown)
    assert {len(set(trace.marker.symbol)) for trace in figure.data} == {1}
    assert "V-measure 1.00 with the tag" in figure.layout.title.text
    assert "<img" not in str(drawn)
    assert len(found.figure("sense").data) == 2
    with pytest.raises(wb.WorkbenchError, match="column") as error:
        found.figure("colour")
    assert error.value.code == "column-not-found"
