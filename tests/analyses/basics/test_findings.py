"""The findings of the basic analyses: each claim and verdict on tables with known content."""

import math

import pandas as pd
import pytest

from tests.findings import Tables, findings_of
from workbench import WorkbenchError
from workbench.experiment.definition import EXPERIMENTS

# --- minimal-pairs --------------------------------------------------------------------------------


def pairs(*rows: tuple[str, float, int, float]) -> dict[str, pd.DataFrame]:
    """A table from (phenomenon, accuracy, exchanges, p)."""
    table = pd.DataFrame(rows, columns=["phenomenon", "accuracy", "exchanges", "p"])
    return {
        "pairs": table.assign(
            lower=table["accuracy"] - 0.1, upper=table["accuracy"] + 0.1, n=20, gap=1.0,
            fewer_pieces=0.6, above_chance=table["p"] < 0.05,
        )
    }  # fmt: skip


def test_a_model_above_chance_is_supported_with_its_number_and_its_baseline() -> None:
    found = findings_of("minimal-pairs", pairs(("case", 0.9, 8, 0.001), ("all", 0.9, 8, 0.001)))
    first = found["accuracy over all pairs"]
    assert "90 % of 20 pairs" in first.claim and "60 %" in first.claim
    assert (first.verdict, first.null) == ("supported", 0.6)


def test_a_random_model_is_not_supported() -> None:
    found = findings_of("minimal-pairs", pairs(("all", 0.52, 40, 0.4)))
    assert found["accuracy over all pairs"].verdict == "not supported"


def test_a_high_accuracy_on_few_exchanges_is_undecided() -> None:
    tables = pairs(("case", 1.0, 3, 0.25), ("word-order", 0.5, 30, 0.6), ("all", 0.75, 33, 0.2))
    found = findings_of("minimal-pairs", tables)
    assert found["phenomena above chance and choosing fewer pieces"].verdict == "undecided"
    assert found["accuracy on the hardest phenomenon"].keys == {"phenomenon": "word-order"}
    assert found["accuracy on the hardest phenomenon"].verdict == "not supported"


def test_a_missing_number_is_an_error() -> None:
    with pytest.raises(WorkbenchError, match="missing"):
        findings_of("minimal-pairs", pairs(("all", float("nan"), 8, 0.001)))


# --- describe -------------------------------------------------------------------------------------


def frame(columns: str, *rows: tuple[object, ...]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=columns.split())


SIZES = frame(
    "split docs documents sentences words types",
    ("train", 3, 0, 3, 30, 12), ("test", 1, 0, 1, 10, 9),
)  # fmt: skip
COUNTED: Tables = {
    "sizes": SIZES,
    "lengths": frame("first last count", (1, 5, 1), (6, 10, 2), (11, 15, 1), (16, 20, 0)),
    "tags": frame(
        "layer tag count", ("upos", "NOUN", 30), ("upos", "VERB", 10), ("xpos", "NN", 40)
    ),
    "relations": frame("relation count offset share", ("det", 30, 1, 0.9), ("obj", 10, -2, 0.3)),
    "words": frame("word count rank", *((f"w{n}", 3000 // n, n) for n in range(1, 21))),
}


def test_the_size_of_a_corpus_is_that_of_its_splits() -> None:
    claim = findings_of("describe", COUNTED)["number of words"].claim
    assert "40 words in 4 sentences: train 30 (12 distinct) and test 10 (9 distinct)" in claim


def test_half_of_the_sentences_are_at_most_as_long_as_the_median() -> None:
    claim = findings_of("describe", COUNTED)["mean length of sentences"].claim
    assert "10.0 words on average" in claim
    assert "half of the sentences have at most 10, all at most 15" in claim


def test_a_single_sentence_has_no_median() -> None:
    one = {"sizes": SIZES, "lengths": frame("first last count", (1, 1, 0), (10, 10, 4))}
    claim = findings_of("describe", one)["mean length of sentences"].claim
    assert "10.0 words on average, at most 10." in claim


def test_the_share_at_a_fixed_offset_is_weighted_by_the_counts_of_relations() -> None:
    found = findings_of("describe", COUNTED)
    offset = found["share of governors at the most frequent offset of their relation"]
    assert offset.value == pytest.approx(0.75) and "75 % of governors" in offset.claim
    assert "`det`: 90 % at +1" in offset.claim


def test_words_by_zipfs_law_have_its_power() -> None:
    found = findings_of("describe", COUNTED)["share of the 10 most frequent words"]
    assert "to the power −1.00" in found.claim


def test_layers_are_named_and_plain_text_has_none() -> None:
    assert (
        "3 annotation layers: upos, xpos and dependencies"
        in findings_of("describe", COUNTED)["number of annotation layers"].claim
    )
    plain = findings_of("describe", {"sizes": SIZES})["number of annotation layers"]
    assert "no annotation layers" in plain.claim and plain.value == 0


def test_the_majority_baseline_of_a_label_is_stated() -> None:
    classes = frame("label value count", ("mood", "good", 60), ("mood", "bad", 40))
    scores = frame("label count min mean max", ("age", 100, 1.0, 2.5, 5.0))
    found = findings_of("describe", {"sizes": SIZES, "classes": classes, "scores": scores})
    assert (
        "`good` is right for 60 % of 100 texts" in found["share of the most frequent class"].claim
    )
    assert "a mean of 2.50 (from 1.00 to 5.00)" in found["mean of the first numeric label"].claim


def test_an_empty_corpus_has_a_size_and_no_shares() -> None:
    empty = frame("split docs documents sentences words types", ("all", 0, 0, 0, 0, 0))
    found = findings_of("describe", {"sizes": empty})
    assert "0 words in 0 sentences" in found["number of words"].claim and len(found) == 2


# --- profile --------------------------------------------------------------------------------------


def of_a_model(*losses: tuple[object, ...]) -> dict[str, pd.DataFrame]:
    """The tables of a model of 1,000 parameters, with losses."""
    return {
        "facts": frame("fact value", ("family", "gpt2"), ("parameters", "1000"), ("width", "8")),
        "stacks": frame("stack layers heads kinds", ("decoder", 2, 4, "causal")),
        "modules": frame(
            "module parameters",
            ("embeddings", 200), ("decoder layer 0", 400), ("decoder layer 1", 396), ("head", 4),
        ),
        "losses": frame("split objective metric value n", *losses),
    }  # fmt: skip


def losses(nats: float, n: int) -> tuple[tuple[object, ...], ...]:
    perplexity = math.inf if nats > 700 else math.exp(nats)
    return tuple(
        ("test", "causal", metric, value, n)
        for metric, value in (
            ("loss", nats), ("perplexity", perplexity), ("accuracy", 0.25),
            ("perplexity_per_word", 9.0), ("bits_per_byte", 1.5),
        )
    )  # fmt: skip


def test_a_loss_is_stated_with_its_perplexity_and_number_of_pieces() -> None:
    found = findings_of("profile", of_a_model(*losses(2.0, 120)))
    assert next(iter(found)) == "loss on next pieces"
    claim = found["loss on next pieces"].claim
    assert "On test" in claim and "2.00 nats (perplexity 7.39; n = 120)" in claim
    assert "25 % of 120" in found["accuracy on next pieces"].claim
    assert "1.50 bits" in found["bits per byte of next pieces"].claim


def test_a_loss_of_two_directions_counts_the_predictions_of_both() -> None:
    rows = tuple(
        ("test", "bidirectional", f"bidirectional_{metric}", value, 2 * n if "acc" in metric else n)
        for _, _, metric, value, n in losses(2.0, 120)
    )
    found = findings_of("profile", of_a_model(*rows))
    assert "n = 240)" in found["loss on next and previous words"].claim
    assert "25 % of 240" in found["accuracy on next and previous words"].claim


def test_a_perplexity_too_large_for_a_number_is_left_out() -> None:
    claim = findings_of("profile", of_a_model(*losses(800.0, 120)))["loss on next pieces"].claim
    assert "800 nats (n = 120)" in claim


def test_without_a_piece_to_score_the_loss_is_undecided() -> None:
    found = findings_of("profile", of_a_model(*losses(math.nan, 0)))
    assert found["loss on next pieces"].verdict == "undecided"
    assert "accuracy on next pieces" not in found


def test_parameters_are_summed_over_layers() -> None:
    found = findings_of("profile", of_a_model(*losses(2.0, 120)))
    assert "1,000 parameters: decoder of 2 layers with 4 heads" in (
        found["number of parameters"].claim
    )
    parts = found["share of the largest kind of part"]
    assert "layers (80 %) and embeddings (20 %)." in parts.claim


def test_a_missing_loss_is_an_error() -> None:
    with pytest.raises(WorkbenchError, match="missing"):
        findings_of("profile", of_a_model(*losses(math.nan, 120)))


# --- trigram --------------------------------------------------------------------------------------


def gains(gain: float, spread: float, p: float, n: int = 500) -> dict[str, pd.DataFrame]:
    """The same gain in accuracy and in nats; the trigrams have an accuracy of 0.5."""
    ends = gain, gain - spread, gain + spread, p, gain > spread and p < 0.05
    return {
        "scores": frame(
            "measure model trigram n gain lower upper p better",
            ("accuracy", 0.5 + gain, 0.5, n, *ends),
            ("perplexity", 8.0 * math.exp(-gain), 8.0, n, *ends),
        )
    }


def test_a_model_better_than_trigrams_is_supported_with_its_gain() -> None:
    found = findings_of("trigram", gains(0.1, 0.02, 0.004))
    nats, accuracy = found.values()
    assert "is better than trigrams: perplexity 7.24 against 8.00 on 500 pieces" in nats.claim
    assert "gain +10.0 points, 95 % 8.0 to 12.0; p < 0.01" in accuracy.claim
    assert [each.verdict for each in (nats, accuracy)] == ["supported", "supported"]


def test_random_weights_are_worse_than_trigrams() -> None:
    for each in findings_of("trigram", gains(-0.4, 0.02, 0.004)).values():
        assert (
            "does not beat trigrams, and is worse" in each.claim and each.verdict == "not supported"
        )


def test_a_gain_that_is_not_significant_is_no_claim() -> None:
    for each in findings_of("trigram", gains(0.01, 0.02, 0.3)).values():
        assert "does not beat trigrams" in each.claim and each.verdict == "not supported"


@pytest.mark.parametrize(("spread", "n"), [(0.02, 12), (0.0, 500)])
def test_few_pieces_or_a_single_document_are_undecided(spread: float, n: int) -> None:
    for each in findings_of("trigram", gains(0.1, spread, 0.004, n)).values():
        assert each.verdict == "undecided"


def test_a_missing_gain_is_an_error() -> None:
    with pytest.raises(WorkbenchError, match="missing"):
        findings_of("trigram", gains(math.nan, 0.02, 0.3))


# --- methods --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("experiment", "settings", "words"),
    [
        ("describe", {"max_words": 1234}, "1,234 most frequent words"),
        ("profile", {"pseudo_likelihood": True}, "Salazar"),
        ("minimal-pairs", {"pseudo_likelihood": "original"}, "one piece at a time"),
        ("trigram", {"max_sentences": 321}, "321 texts"),
    ],
)
def test_the_method_in_prose_has_the_settings(
    experiment: str, settings: dict[str, object], words: str
) -> None:
    kind = EXPERIMENTS[experiment].settings
    assert words in kind(**settings).in_prose() and words not in kind().in_prose()
