"""Task metrics are those of scikit-learn, scipy and SQuAD's script, and are made of sums."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from workbench import WorkbenchError
from workbench.core.bio import Span, spans_of
from workbench.core.metrics import (
    Metric,
    answer_metrics,
    answer_scores,
    class_metrics,
    entity_metrics,
    score_metrics,
    tag_metrics,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def values(metrics: dict[str, Metric]) -> dict[str, float]:
    return {name: metric.value() for name, metric in metrics.items()}


def draw_classes(seed: int, classes: int, texts: int, often: float) -> tuple[Ints, Ints]:
    """Gold classes, of which the first has the share `often`, and predictions mostly right."""
    random = np.random.default_rng([seed, classes])
    shares = np.full(classes, (1 - often) / (classes - 1))
    shares[0] = often
    gold = random.choice(classes, size=texts, p=shares)
    return gold, np.where(random.random(texts) < 0.7, gold, random.integers(0, classes, texts))


def draw_scores(seed: int, texts: int) -> tuple[Floats, Floats]:
    """Gold in steps, as raters give them, and predictions that go with it."""
    random = np.random.default_rng(seed)
    gold = random.integers(0, 11, texts) / 2
    return gold, gold + random.normal(0, 2, texts)


# --- classes --------------------------------------------------------------------------------------


def agrees_with_sklearn(gold: Ints, predicted: Ints, classes: int) -> None:
    binary = {"average": "binary", "pos_label": 1} if classes == 2 else {"average": "macro"}
    wanted = {
        "accuracy": accuracy_score(gold, predicted),
        "f1": f1_score(gold, predicted, zero_division=0, **binary),
        "matthews": matthews_corrcoef(gold, predicted),
    }
    assert values(class_metrics(gold, predicted, classes)) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("often", [0.3, 0.95, 1.0])
@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("seed", range(3))
def test_class_metrics_are_scikit_learns(seed: int, classes: int, often: float) -> None:
    agrees_with_sklearn(*draw_classes(seed, classes, 60, often), classes)


@pytest.mark.filterwarnings("ignore:A single label was found")
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12))
def test_small_sets_in_which_classes_are_missing_too(pairs: list[tuple[int, int]]) -> None:
    gold, predicted = np.array(pairs).T
    agrees_with_sklearn(gold, predicted, 4)
    agrees_with_sklearn(gold // 2, predicted // 2, 2)


@pytest.mark.parametrize(
    ("gold", "predicted", "wanted"),
    [
        ([0, 1, 1, 0], [0, 1, 1, 0], {"accuracy": 1, "f1": 1, "matthews": 1}),
        ([0, 1, 1, 0], [1, 0, 0, 1], {"accuracy": 0, "f1": 0, "matthews": -1}),
        ([0, 1, 1, 0], [0, 0, 0, 0], {"accuracy": 0.5, "f1": 0, "matthews": 0}),
        ([0, 1, 1, 0], [1, 1, 1, 1], {"accuracy": 0.5, "f1": 2 / 3, "matthews": 0}),
        ([0, 0, 0, 0], [0, 0, 0, 0], {"accuracy": 1, "f1": 0, "matthews": 0}),
    ],
)
def test_perfect_reversed_and_constant_predictions(
    gold: list[int], predicted: list[int], wanted: dict[str, float]
) -> None:
    assert values(class_metrics(np.array(gold), np.array(predicted), 2)) == pytest.approx(wanted)


def test_f1_is_that_of_the_class_called_positive() -> None:
    gold, predicted = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])
    assert class_metrics(gold, predicted, 2)["f1"].value() == pytest.approx(2 / 3)
    assert class_metrics(gold, predicted, 2, positive=0)["f1"].value() == pytest.approx(4 / 5)


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_a_prediction_of_no_class_is_one_of_a_class_of_its_own(seed: int, classes: int) -> None:
    gold, predicted = draw_classes(seed, classes, 80, 0.5)
    unread = np.random.default_rng(seed).random(len(gold)) < 0.4
    predicted[unread] = -1
    found = values(class_metrics(gold, predicted, classes))
    assert found["accuracy"] == pytest.approx(accuracy_score(gold, predicted))
    assert found["matthews"] == pytest.approx(matthews_corrcoef(gold, predicted))
    named = [1] if classes == 2 else sorted({*gold, *predicted} - {-1})
    of_named = f1_score(gold, predicted, labels=named, average="macro", zero_division=0)
    assert found["f1"] == pytest.approx(of_named)


def test_answers_that_are_all_unreadable_tell_nothing() -> None:
    gold = np.array([0, 1, 0, 1])
    found = values(class_metrics(gold, np.full(4, -1), 2))
    assert found == {"accuracy": 0, "f1": 0, "matthews": 0}


@pytest.mark.parametrize(
    ("gold", "predicted"), [([0, -1], [0, 1]), ([0, 1], [0, 2]), ([0, 1], [0, -2])]
)
def test_a_class_that_is_none_is_refused(gold: list[int], predicted: list[int]) -> None:
    with pytest.raises(WorkbenchError, match="class-unknown"):
        class_metrics(np.array(gold), np.array(predicted), 2)


# --- scores ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1.0), (1e6, 1.0), (-3.0, 1e-6), (1e6, 1e6)])
@pytest.mark.parametrize("seed", range(3))
def test_correlations_are_scipys_wherever_the_scores_lie(
    seed: int, shift: float, scale: float
) -> None:
    gold, predicted = draw_scores(seed, 50)
    moved = predicted * scale + shift
    found = values(score_metrics(gold, moved))
    assert found["pearson"] == pytest.approx(pearsonr(gold, moved).statistic, abs=1e-9)
    assert found["spearman"] == pytest.approx(spearmanr(gold, moved).statistic, abs=1e-12)
    assert found["mse"] == pytest.approx(np.mean((gold - moved) ** 2))


def test_correlations_of_the_same_and_of_the_reversed() -> None:
    gold = np.array([0.0, 1.0, 2.5, 5.0])
    same, back = values(score_metrics(gold, gold)), values(score_metrics(gold, -gold))
    assert same == pytest.approx({"pearson": 1, "spearman": 1, "mse": 0})
    assert (back["pearson"], back["spearman"]) == pytest.approx((-1, -1))


def test_spearman_is_one_of_what_only_rises_but_pearson_is_less() -> None:
    gold = np.arange(6.0)
    found = values(score_metrics(gold, np.exp(gold)))
    assert found["spearman"] == pytest.approx(1)
    assert found["pearson"] < 0.9


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e9])
def test_a_correlation_with_a_constant_is_undefined(constant: float) -> None:
    gold, _ = draw_scores(0, 30)
    same = np.full(30, constant)
    for found in (values(score_metrics(gold, same)), values(score_metrics(same, gold))):
        assert np.isnan(found["pearson"]) and np.isnan(found["spearman"])
        assert found["mse"] == pytest.approx(np.mean((gold - constant) ** 2))


def test_a_draw_of_one_text_again_and_again_has_no_correlation() -> None:
    metric = score_metrics(*draw_scores(1, 30))["pearson"]
    often = np.arange(2, 60)[:, None, None]  # some of whose products are rounded
    assert np.isnan(metric.measure(metric.counts * often)).all()


def test_pearson_of_a_draw_is_scipys_of_the_drawn_texts() -> None:
    gold, predicted = draw_scores(2, 40)
    drawn = np.random.default_rng(0).integers(0, 40, 40)
    metric = score_metrics(gold, predicted)["pearson"]
    wanted = pearsonr(gold[drawn], predicted[drawn]).statistic
    assert float(metric.measure(metric.counts[drawn].sum(0))) == pytest.approx(wanted)


# --- tags and entities ----------------------------------------------------------------------------


def test_tag_accuracy_is_a_share_of_words_not_a_mean_over_texts() -> None:
    found = tag_metrics([["DET", "NOUN", "VERB"], ["NOUN"]], [["DET", "NOUN", "NOUN"], ["VERB"]])
    assert values(found) == {"accuracy": 0.5}


def test_as_many_tags_must_be_predicted_as_there_are_words() -> None:
    with pytest.raises(ValueError, match="shorter"):
        tag_metrics([[1, 2]], [[1]])


@pytest.mark.parametrize(
    ("gold", "predicted", "precision", "recall", "f1"),
    [
        ("B-A I-A O B-B", "B-A I-A O B-B", 1, 1, 1),
        ("B-A I-A O B-B", "B-B I-B O B-B", 1 / 2, 1 / 2, 1 / 2),  # wrong label
        ("B-A I-A O B-B", "B-A O O B-B", 1 / 2, 1 / 2, 1 / 2),  # wrong end
        ("B-A B-A O O", "B-A I-A O O", 0, 0, 0),  # two adjacent ones taken for one
        ("B-A B-A O O", "B-A B-A O O", 1, 1, 1),
        ("B-A I-A O B-B", "I-A I-A O O", 1, 1 / 2, 2 / 3),  # I- without B- starts one
        ("B-A O O O", "B-A B-A O B-A", 1 / 3, 1, 1 / 2),
        ("B-A I-A O B-B", "O O O O", 0, 0, 0),
        ("O O O O", "B-A O O O", 0, 0, 0),
        ("O O O O", "O O O O", 0, 0, 0),
    ],
)
def test_an_entity_is_right_when_its_label_and_both_ends_are(
    gold: str, predicted: str, precision: float, recall: float, f1: float
) -> None:
    found = entity_metrics([spans_of(gold.split())], [spans_of(predicted.split())])
    wanted = {"precision": precision, "recall": recall, "f1": f1}
    assert values(found) == pytest.approx(wanted)


def test_entity_f1_is_of_all_texts_together_and_spans_of_another_text_do_not_count() -> None:
    gold: list[set[Span]] = [{(0, 1, "A")}, {(0, 1, "B"), (2, 3, "B")}, set()]
    predicted: list[set[Span]] = [{(0, 1, "A")}, {(0, 1, "A")}, {(2, 3, "B")}]
    wanted = {"precision": 1 / 3, "recall": 1 / 3, "f1": 1 / 3}
    assert values(entity_metrics(gold, predicted)) == pytest.approx(wanted)


# --- answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gold", "predicted", "exact", "f1"),
    [
        (["Eiffel Tower"], "Eiffel Tower", 1, 1),
        (["The Eiffel Tower!"], "an eiffel  tower", 1, 1),  # articles, case, punctuation, space
        (["St. John's"], "st johns", 1, 1),
        (["Anna"], "na", 0, 0),  # an article is a whole word
        (["in the year 1066"], "1066", 0, 1 / 2),  # 1 of 1 and of 3
        (["Paris"], "London", 0, 0),
        (["1066", "the year 1066"], "year 1066", 1, 1),  # the best of several
        (["Paris", "city of Paris"], "old city of Paris", 0, 6 / 7),
        (["cat cat dog"], "cat cat cat", 0, 2 / 3),  # a word counts as often as it is in both
        (["cat"], "cat cat", 0, 2 / 3),
        ([], "", 1, 1),  # unanswerable, and said so
        ([], "Paris", 0, 0),
        (["Paris"], "", 0, 0),  # the answer was cut off with its text, say
        (["Paris", "the"], "", 0, 0),  # a gold answer of nothing but an article is none
        (["%"], "", 1, 1),
    ],
)
def test_an_answer_scores_as_in_squads_script(
    gold: list[str], predicted: str, exact: float, f1: float
) -> None:
    assert answer_scores(gold, predicted) == pytest.approx((exact, f1))


def test_each_text_counts_once_however_many_answers_it_has() -> None:
    found = answer_metrics([["a cat"], ["dog", "big dog", "hound"], []], ["cat", "red dog", "fox"])
    assert values(found) == pytest.approx({"exact_match": 1 / 3, "f1": (1 + 2 / 3 + 0) / 3})


# --- sums -----------------------------------------------------------------------------------------

TAGS = ["B-A I-A O", "O B-B O", "O O O", "B-A B-A I-B", "I-B O B-A", "B-B I-B I-B"]
WORDS = ["", "cat", "the cat", "a black cat", "dog", "black dog"]


def of_every_kind(texts: list[int]) -> dict[str, Metric]:
    """All metrics, of some of six texts."""
    gold, predicted = np.array([0, 1, 2, 1, 0, 2])[texts], np.array([0, 1, 1, 1, 2, 0])[texts]
    tags = [TAGS[text].split() for text in texts]
    said = [TAGS[(text * 5 + 2) % 6].split() for text in texts]
    answers = [[WORDS[text]] for text in texts]
    kinds = {
        "binary": class_metrics(gold // 2, predicted // 2, 2),
        "classes": class_metrics(gold, predicted, 3),
        "scores": score_metrics(gold.astype(float), predicted * 1.5 + np.array(texts) / 7),
        "tags": tag_metrics(tags, said),
        "entities": entity_metrics([spans_of(row) for row in tags], [spans_of(r) for r in said]),
        "answers": answer_metrics(answers, [WORDS[(text + 1) % 6] for text in texts]),
    }
    return {f"{kind} {name}": m for kind, own in kinds.items() for name, m in own.items()}


ALL = of_every_kind(list(range(6)))


def test_there_are_six_texts_and_numbers_of_each() -> None:
    assert {len(metric.counts) for metric in ALL.values()} == {6}
    assert {metric.counts.dtype for metric in ALL.values()} == {np.dtype(np.float64)}


@pytest.mark.parametrize("name", [name for name in ALL if name != "scores spearman"])
def test_sums_of_parts_make_the_metric_of_the_union(name: str) -> None:
    metric = ALL[name]
    for left, right in ([0, 1, 2], [3, 4, 5]), ([5], [0, 2, 3]), ([1, 1, 4], [3, 0]):
        sums = metric.counts[left].sum(0) + metric.counts[right].sum(0)
        union = of_every_kind(left + right)[name].value()
        assert float(metric.measure(sums)) == pytest.approx(union, nan_ok=True)


@pytest.mark.parametrize("texts", [[0, 1, 2], [3, 4, 5]])
@pytest.mark.parametrize(
    "name", [name for name in ALL if "scores" not in name or name.endswith("mse")]
)
def test_numbers_of_a_text_do_not_depend_on_the_other_texts(name: str, texts: list[int]) -> None:
    np.testing.assert_array_equal(ALL[name].counts[texts], of_every_kind(texts)[name].counts)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ALL)
def test_all_draws_at_once_are_the_draws_one_by_one(name: str) -> None:
    metric = ALL[name]
    often = np.random.default_rng(0).multinomial(6, np.full(6, 1 / 6), size=(4, 25))
    often[0, 0] = [6, 0, 0, 0, 0, 0]
    often[0, 1] = 0  # of nothing
    sums = often.astype(np.float64) @ metric.counts  # [4, 25, numbers]
    one_by_one = [[float(metric.measure(sums[i, j])) for j in range(25)] for i in range(4)]
    np.testing.assert_allclose(metric.measure(sums), one_by_one, rtol=1e-12)


def test_metrics_travel_to_another_process() -> None:
    for metric in ALL.values():
        again: Metric = pickle.loads(pickle.dumps(metric))
        assert again.value() == metric.value()
