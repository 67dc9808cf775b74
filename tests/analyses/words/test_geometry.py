"""The geometry of word states: measures whose answer is known, and the experiment on texts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import ortho_group
from spacy.tokens import Doc

import workbench as wb
from tests.judges.odd import run_here
from tests.minis import shared
from tests.models.bag_of_embeddings import BagOfEmbeddings
from workbench.analyses.words.geometry import (
    Sample,
    explained_variance,
    layer_measures,
    standardised,
    unit,
    without_top,
)
from workbench.corpora.layers import vocabulary
from workbench.experiment.definition import EXPERIMENTS

SMALL = {"random_models": 1, "max_sentences": 40, "min_contexts": 3, "n_permutations": 49}


def sample(n: int, n_forms: int, n_documents: int) -> Sample:
    """Words whose forms take turns, in documents one after another, two words to a sentence."""
    rows, forms = np.arange(n), np.arange(n) % n_forms
    contexts = np.stack([np.flatnonzero(forms == form) for form in range(n_forms)])
    baseline = np.stack([np.arange(contexts.shape[1]) for _ in range(n_forms)])
    return Sample(
        random=rows, random_forms=forms, contexts=contexts, baseline=baseline, sentences=rows,
        sentence_of=rows // 2, documents=rows * n_documents // n, n_documents=n_documents,
    )  # fmt: skip


def values(states: torch.Tensor, words: Sample, n_components: int = 3) -> dict[str, float]:
    layer = layer_measures(states, words, n_components)
    once = np.ones(words.n_documents)
    return {
        "anisotropy": float(layer.raw.mean(once)),
        "standardised": float(layer.standardised.mean(once)),
        "without_top": float(layer.without_top.mean(once)),
        "largest": float(layer.largest.mean(once)),
        "self_similarity": float(layer.forms.similarity().mean()),
        "explained": float(layer.explained.mean()),
        "sentences": float(layer.sentences.mean()),
        "norm": float(layer.norms.mean()),
    }


def gaussian(n: int, width: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, width, generator=torch.Generator().manual_seed(seed))


def test_isotropic_vectors_have_an_anisotropy_of_0_within_the_interval() -> None:
    words = sample(400, 100, 40)
    layer = layer_measures(gaussian(400, 50), words, 3)
    value = float(layer.raw.mean(np.ones(40)))
    draw = np.random.default_rng(0)
    drawn = layer.raw.mean(draw.multinomial(40, np.full(40, 1 / 40), 500).astype(float))
    low, high = np.percentile(drawn, [2.5, 97.5])
    assert low < 0 < high and abs(value) < 0.01


def test_constant_vectors_are_all_alike() -> None:
    found = values(torch.tensor([[3.0, 4.0, 0.0]]).repeat(24, 1), sample(24, 6, 4))
    for measure in ("anisotropy", "self_similarity", "explained", "sentences", "largest"):
        assert found[measure] == pytest.approx(1.0), measure
    assert found["standardised"] == found["without_top"] == 0.0
    assert found["norm"] == pytest.approx(5.0)


def test_static_vectors_do_not_depend_on_the_context() -> None:
    table = gaussian(6, 20)
    found = values(table.repeat(5, 1), sample(30, 6, 3))
    assert found["self_similarity"] == pytest.approx(1.0)
    assert found["explained"] == pytest.approx(1.0)
    cosines = unit(table) @ unit(table).T
    assert found["anisotropy"] == pytest.approx(float(cosines.sum() - cosines.trace()) / (6 * 5))


def test_an_example_by_hand() -> None:
    """Form 0 is [1, 0] and [0, 2], form 1 is [1, 1] and [−1, 1]; sentences are rows 0–1 and 2–3."""
    states = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0], [-1.0, 1.0]])
    found = values(states, sample(4, 2, 2), n_components=1)
    root = 2**-0.5
    pairs = [root, -root, root, root]  # of form 0 with form 1
    assert found["anisotropy"] == pytest.approx(sum(pairs) / 4)
    assert found["self_similarity"] == pytest.approx(0.0)  # both forms' states are orthogonal
    assert found["explained"] == pytest.approx((4 / 5 + 2 / 4) / 2)
    means = [np.array([1.0, 0.5]), np.array([-0.5, 1.5])]
    cosines = [
        float(row @ mean / np.linalg.norm(row) / np.linalg.norm(mean))
        for row, mean in zip(states.numpy(), np.repeat(means, 2, axis=0), strict=True)
    ]
    assert found["sentences"] == pytest.approx(np.mean(cosines))
    # the second dimension contributes (0·√½ + 0·√½ + 1·√½ + 1·√½) / 4, the first 0
    assert found["largest"] == pytest.approx(found["anisotropy"])


def test_measures_do_not_change_with_a_rotation() -> None:
    states, words = gaussian(60, 12, 3) + torch.arange(12), sample(60, 10, 6)
    turned = states.double() @ torch.from_numpy(ortho_group.rvs(12, random_state=1))
    one, other = values(states.double(), words), values(turned, words)
    for measure in set(one) - {"standardised", "largest"}:  # these are of dimensions
        assert one[measure] == pytest.approx(other[measure], abs=1e-9), measure


def test_a_rogue_dimension_makes_the_cosine_and_is_removed() -> None:
    states = gaussian(200, 30)
    states[:, 7] += 40.0
    layer = layer_measures(states, sample(200, 50, 10), 1)
    once = np.ones(10)
    whole = float(layer.raw.mean(once))
    assert whole > 0.9
    ((dimension, part),) = layer.dimensions
    assert dimension == 7 and part / whole > 0.99
    assert float(layer.largest.mean(once)) == pytest.approx(part)
    for pairs in (layer.standardised, layer.without_top):
        assert abs(float(pairs.mean(once))) < 0.02


def test_mean_cosines_equal_the_loop_over_pairs() -> None:
    states, words = gaussian(30, 8, 1), sample(30, 5, 4)
    loop = [
        float(torch.cosine_similarity(states[a], states[b], dim=0))
        for a in range(30)
        for b in range(30)
        if words.random_forms[a] != words.random_forms[b]
    ]
    layer = layer_measures(states, words, 2)
    assert float(layer.raw.mean(np.ones(4))) == pytest.approx(np.mean(loop))


def test_a_bootstrap_sample_is_the_texts_it_drew() -> None:
    """Documents 0 and 2 twice, document 1 never: no context is compared with its own copy."""
    states, words = gaussian(40, 6, 2), sample(40, 4, 4)
    layer = layer_measures(states, words, 2)
    weights = np.array([[2.0, 0.0, 2.0, 0.0]])
    vectors = unit(states).numpy()
    drawn = [row for row in range(40) for _ in range(int(weights[0, words.documents[row]]))]
    pairs = [
        vectors[a] @ vectors[b] for a in drawn for b in drawn if a % 4 != b % 4
    ]  # fmt: skip
    assert layer.raw.mean(weights)[0] == pytest.approx(np.mean(pairs))
    same = [
        np.mean([vectors[a] @ vectors[b] for a in drawn for b in drawn
                 if a != b and a % 4 == b % 4 == form])
        for form in range(4)
    ]  # fmt: skip
    np.testing.assert_allclose(layer.forms.drawn(weights)[0], same, atol=1e-6)


def test_explained_variance_is_that_of_a_singular_value_decomposition() -> None:
    states = gaussian(20, 7, 5)
    rows = np.array([[0, 1, 2, 3], [4, 5, -1, -1], [6, 7, 8, -1]])
    for share, own in zip(explained_variance(states, rows), rows, strict=True):
        squares = np.linalg.svd(states[own[own >= 0]].numpy(), compute_uv=False) ** 2
        assert share == pytest.approx(squares[0] / squares.sum())
    assert not len(explained_variance(states, rows[:0]))


def test_standardised_states_and_those_without_components() -> None:
    states = gaussian(100, 5, 4) * torch.tensor([1.0, 10.0, 3.0, 0.0, 2.0]) + 5
    plain = standardised(states, states)
    np.testing.assert_allclose(plain.mean(0), 0.0, atol=1e-9)
    np.testing.assert_allclose(plain.std(0, correction=0), [1, 1, 1, 0, 1], atol=1e-9)
    left = without_top(states, states, 2)
    assert float(left[:, 1].abs().max()) < 2.0  # the widest dimension is nearly gone
    assert int(torch.linalg.matrix_rank(left, atol=1e-8)) == 2


# --- the experiment -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("mini:bert", marks=pytest.mark.slow),
        pytest.param("mini:gpt", marks=pytest.mark.slow),
        "mini:t5",
        pytest.param("mini:elmo", marks=pytest.mark.slow),
    ],
)
def test_tables_of_every_kind_of_model(name: str) -> None:
    model = shared(name)
    found = run_here("geometry", model, wb.read("primer"), **SMALL)
    declared = EXPERIMENTS["geometry"]
    assert set(found.tables) == set(declared.tables)
    for table, rows in found.tables.items():
        assert not rows.duplicated(list(declared.tables[table].keys)).any(), table
        value = {
            "layers": "value", "frequency": "rho", "groups": "self_similarity",
            "tests": "difference",
        }.get(table)  # fmt: skip
        if value is not None:
            assert (rows["lower"] <= rows[value]).all() and (rows[value] <= rows["upper"]).all()
    layers = found.tables["layers"]
    places = {(stack.name, n) for stack in model.stacks for n in range(stack.layers + 1)}
    assert set(map(tuple, layers[["stack", "layer"]].to_numpy().tolist())) == places
    own = layers[layers["weights"] == "model"].set_index(["measure", "stack", "layer"])["value"]
    for stack, layer in places:
        assert own["self_similarity_corrected", stack, layer] == pytest.approx(
            own["self_similarity", stack, layer] - own["anisotropy", stack, layer]
        )
    if name in ("mini:t5", "mini:elmo"):  # without positions, layer 0 does not know the context
        assert own["self_similarity", model.stacks[0].name, 0] == pytest.approx(1.0)
        assert own["explained_variance", model.stacks[0].name, 0] == pytest.approx(1.0)
    dimensions = found.tables["dimensions"]
    sums = dimensions[dimensions["rank"] != "all"].groupby(["stack", "layer"])["cosine"].sum()
    whole = dimensions[dimensions["rank"] == "all"].set_index(["stack", "layer"])["cosine"]
    np.testing.assert_allclose(sums, whole.loc[sums.index])
    assert 3 <= len(declared.findings_of(found.tables)) <= 7
    for draw in declared.drawings().values():
        assert draw(found.tables).data


def test_a_second_run_gives_the_same_tables() -> None:
    model = shared("mini:elmo")
    few = {**SMALL, "max_sentences": 8}
    one, other = (run_here("geometry", model, wb.read("primer"), **few) for _ in range(2))
    for name, table in one.tables.items():
        assert table.equals(other.tables[name]), name


def test_static_vectors_have_one_layer_and_no_context(tmp_path: Path) -> None:
    words = sorted({token.text for doc in wb.read("primer").docs("test", 60) for token in doc})
    numbers = gaussian(len(words), 12)
    lines = (
        f"{word} {' '.join(f'{each:.4f}' for each in row)}\n"
        for word, row in zip(words[10:], numbers.tolist(), strict=False)
    )
    (tmp_path / "vectors.txt").write_text("".join(lines))
    model = wb.load(f"vectors:{tmp_path / 'vectors.txt'}", device="cpu")
    found = run_here("geometry", model, wb.read("primer"), **SMALL)
    layers = found.tables["layers"].query("weights == 'model'").set_index("measure")["value"]
    assert layers["self_similarity"] == pytest.approx(1.0)
    assert abs(layers["anisotropy"]) < 0.05
    assert "depth" not in set(found.tables["tests"]["comparison"])
    assert set(found.tables["frequency"]["measure"]) == {"norm"}  # self-similarity is constant
    assert any("left out" in caveat.text for caveat in found.caveats)  # words without a vector
    assert EXPERIMENTS["geometry"].findings_of(found.tables)
    for draw in EXPERIMENTS["geometry"].drawings().values():
        draw(found.tables)


def plain(*texts: list[str]) -> wb.Corpus:
    docs = [Doc(vocabulary("en"), words=words) for words in texts]
    return wb.Corpus("plain", {"test": lambda: iter(docs)})


def test_odd_texts() -> None:
    """One sentence without tags: no form has contexts, which a caveat says."""
    model = shared("mini:bert")
    found = run_here(
        "geometry", model, plain(["The", "dog", "walks", "the", "walks"]), random_models=1
    )
    assert set(found.tables["layers"]["measure"]) == {
        "anisotropy", "anisotropy_standardised", "anisotropy_without_top", "intra_sentence",
        "intra_sentence_corrected",
    }  # fmt: skip
    assert found.tables["forms"].empty and found.tables["frequency"].empty
    texts = " ".join(caveat.text for caveat in found.caveats)
    assert "No word form" in texts and "1 sentence" in texts
    assert all(
        each.verdict == "undecided"
        for each in EXPERIMENTS["geometry"].findings_of(found.tables)
        if each.null is not None
    )
    for draw in EXPERIMENTS["geometry"].drawings().values():
        draw(found.tables)
    for words in (["Ben"], ["Ben", "Ben", "."], [".", "!"]):
        with pytest.raises(wb.WorkbenchError, match="word forms") as error:
            run_here("geometry", model, plain(words))
        assert error.value.code == "too-few-words"
    long = run_here("geometry", model, plain(["dog", "cat"] * 300), random_models=0)
    assert any("left out" in caveat.text for caveat in long.caveats)  # beyond its maximum length
    assert set(long.tables["layers"]["weights"]) == {"model"}


def test_equal_sentences_are_one_context() -> None:
    texts = [["The", "dog", "walks"]] * 6 + [["A", "dog", "sleeps"]] * 6
    found = run_here(
        "geometry", shared("mini:bert"), plain(*texts), min_contexts=2,
        random_models=0,
    )  # fmt: skip
    forms = found.tables["forms"].query("layer == 0").set_index("form")
    assert forms.index.tolist() == ["dog"]
    assert forms.loc["dog", "contexts"] == 2 and forms.loc["dog", "count"] == 12


def test_a_model_that_cannot_be_drawn_again_has_no_baseline() -> None:
    found = run_here("geometry", BagOfEmbeddings(), wb.read("primer"), **SMALL)
    assert set(found.tables["layers"]["weights"]) == {"model"}
    assert any("random-weight baseline" in caveat.text for caveat in found.caveats)
    assert not found.tables["tests"]["holds"].any()


@pytest.fixture(scope="module")
def planted() -> Any:
    """Layer 1 of a bag mixes each word with its text: words become context-specific there."""
    return run_here("geometry", BagOfEmbeddings(), wb.read("primer"), **SMALL).tables["layers"]


def test_what_a_layer_mixes_in_from_its_text_is_seen(planted: Any) -> None:
    own = planted.set_index(["measure", "layer"])["value"]
    assert own["self_similarity", 0] == pytest.approx(1.0) and own["self_similarity", 1] < 0.95
    assert own["intra_sentence_corrected", 1] > own["intra_sentence_corrected", 0]
