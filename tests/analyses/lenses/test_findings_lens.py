"""The findings of the lens: each claim and verdict on tables with known content."""

import pandas as pd
import pytest

from tests.findings import OBJECTIVE, Tables, findings_of

# --- lens -----------------------------------------------------------------------------------------

COMPARISONS = {  # first, second, lower, upper, random, p, holds
    "accuracy": (0.5, 0.1, 0.35, 0.45, -0.1, 0.004, True),
    "function words": (1.5, 2.5, -1.2, -0.8, -0.1, 0.01, True),
    "frequent words": (2.0, 2.1, -0.3, 0.1, 0.0, 0.6, False),
}


def lens_tables(
    random_models: int = 5, n: int = 100, stacks: tuple[str, ...] = ("encoder",), **tests: object
) -> dict[str, pd.DataFrame]:
    compared = pd.DataFrame(
        [(name, *tests.get(name.split()[0], row)) for name, row in COMPARISONS.items()],
        columns=["comparison", "first", "second", "lower", "upper", "random", "p", "holds"],
    )
    compared["difference"] = compared["first"] - compared["second"]
    shares = {"all": (0.2, 0.5, 1.0), "NOUN": (0.0, 0.2, 1.0), "DET": (0.4, 0.9, 1.0)}
    final, groups = [], []
    for stack in stacks:
        for group, cumulative in shares.items():
            by = "all" if group == "all" else "tag"
            mean = sum(1 - share for share in cumulative)
            groups.append((stack, by, group, mean, mean - 0.1, mean + 0.1, 0.5, 0.6, n))
            for layer, share in enumerate(cumulative):
                before = cumulative[layer - 1] if layer else 0.0
                row = (share - before, share, max(0, share - 0.1), min(1, share + 0.1), 0.9, n)
                final.append((stack, by, group, layer, *row))
    states = [(0, "embeddings", 0.1), (1, "attention", 0.2), (1, "mlp", 0.3),
              (2, "attention", 0.9), (2, "mlp", 1.0)]  # fmt: skip
    layers = [
        ("model", stack, layer, sublayer, "agreement", value, value - 0.05, value, n)
        for stack in stacks
        for layer, sublayer, value in states
    ]
    return {
        "tests": compared.assign(n_first=n, n_second=n, random_models=random_models),
        "final": pd.DataFrame(final, columns=[
            "stack", "by", "group", "layer", "share", "cumulative", "lower", "upper", "random", "n",
        ]),
        "groups": pd.DataFrame(groups, columns=[
            "stack", "by", "group", "mean_layer", "lower", "upper", "random", "accuracy", "n",
        ]),
        "layers": pd.DataFrame(layers, columns=[
            "weights", "stack", "layer", "sublayer", "measure", "value", "lower", "upper", "n",
        ]),
        "objective": OBJECTIVE,
    }  # fmt: skip


FUNCTION = "mean final layer of function words, difference to content words"
FREQUENT = "mean final layer of frequent words, difference to rarer words"
GAIN = "gain in accuracy on masked pieces over the most frequent choice"


def test_a_model_that_decides_function_words_early_is_said_to() -> None:
    found = findings_of("lens", lens_tables())
    first = next(iter(found.values()))
    assert first.measure == GAIN and first.verdict == "supported"
    assert "50 % against 10 % of 100 predictions" in first.claim
    earlier = found[FUNCTION]
    assert earlier.verdict == "supported" and earlier.null == pytest.approx(-0.1)
    assert "1.50 against 2.50" in earlier.claim and "with random weights −0.10" in earlier.claim
    assert found[FREQUENT].verdict == "not supported"
    assert "are not shown to" in found[FREQUENT].claim
    settled = found["predictions final before the last layer"]
    assert (
        settled.value == pytest.approx(0.5)
        and "Half of all predictions are final from layer 1 of 2 on" in settled.claim
    )
    assert "random weights 90 %" in settled.claim and settled.null is None
    tags = found["mean final layer of the earliest part of speech"]
    assert "speech with 20 words or more, predictions of `DET`" in tags.claim  # the figure has more
    assert tags.keys["group"] == "DET"
    step = found["agreement after its largest step"]
    assert "after the attention of layer 2: from 30 % to 90 %" in step.claim


def test_without_random_models_or_with_few_words_nothing_is_decided() -> None:
    found = findings_of("lens", lens_tables(random_models=0))
    assert found[FUNCTION].verdict == "undecided"
    assert "random_models" in found[FUNCTION].decided_by
    assert "max_predictions" not in found[FUNCTION].decided_by
    two = findings_of("lens", lens_tables(random_models=2))
    assert two[FREQUENT].verdict == "undecided"
    assert "more random-weight models" in two[FREQUENT].decided_by
    few = findings_of("lens", lens_tables(n=12))
    assert {few[GAIN].verdict, few[FUNCTION].verdict} == {"undecided"}
    assert "max_predictions" in few[FUNCTION].decided_by


def test_a_model_that_knows_nothing_is_not_supported() -> None:
    tables = lens_tables(accuracy=(0.0, 0.1, -0.12, -0.08, -0.1, 0.004, False))
    gain = findings_of("lens", tables)[GAIN]
    assert gain.verdict == "not supported" and "does not beat" in gain.claim


def test_both_stacks_of_an_encoder_decoder_are_named() -> None:
    found = findings_of("lens", lens_tables(stacks=("encoder", "decoder")))
    names = [name for name in found if name.startswith("predictions final")]
    assert names == [
        "predictions final before the last layer of the decoder",
        "predictions final before the last layer of the encoder",
    ]
    assert len(found) == 7


def test_a_corpus_without_tags_has_no_findings_of_tags() -> None:
    tables: Tables = lens_tables()
    no_tags = {
        **tables,
        "tests": tables["tests"].query("comparison == 'accuracy'"),
        "final": tables["final"].query("by == 'all'"),
        "groups": tables["groups"].query("by == 'all'"),
    }
    found = findings_of("lens", no_tags)
    assert len(found) == 3
