"""The findings of `neighbours`: each claim and verdict on tables with known content."""

import pandas as pd
import pytest

from tests.findings import findings_of

TAG = "neighbours that share the part of speech, minus chance"
ABOVE = "neighbours that share the part of speech, minus the embeddings"
RELATION = "neighbours that share the dependency relation, minus chance"
FORM = "neighbours of the same form at the last layer"
ACCURACY = "accuracy of senses, minus permuted senses"
V = "V-measure of senses, minus permuted senses"
EXTREMES = "accuracy of the form whose senses are separated best"
TESTS = {  # first, second, lower, upper, random, p, holds
    "tag": (0.9, 0.3, 0.55, 0.65, 0.05, 0.001, True),
    "tag above layer 0": (0.9, 0.6, 0.25, 0.35, 0.01, 0.004, True),
    "relation": (0.4, 0.38, -0.01, 0.05, 0.03, 0.7, False),
    "sense accuracy": (0.95, 0.6, 0.3, 0.4, 0.1, 0.001, True),
    "sense v-measure": (0.8, 0.02, 0.7, 0.85, 0.04, 0.001, True),
}


def tables_of(
    random_models: int = 5, n: int = 200, n_forms: int = 8, layers: int = 3, **tests: object
) -> dict[str, pd.DataFrame]:
    rows = [
        ("encoder", name, layers - 1, *tests.get(name.replace(" ", "_"), row),
         n_forms if name.startswith("sense") else n)
        for name, row in TESTS.items()
        if layers > 1 or "layer 0" not in name
    ]  # fmt: skip
    columns = ["stack", "comparison", "layer", "first", "second", "lower", "upper", "random", "p",
               "holds", "n"]  # fmt: skip
    compared = pd.DataFrame(rows, columns=columns).assign(random_models=random_models)
    compared["difference"] = compared["first"] - compared["second"]
    shares = [
        ("encoder", layer, "all words", name, value, value - 0.05, value + 0.05, 0.1, 0.01, 0.2, n)
        for layer in range(layers)
        for name, value in (("form", 0.8 - 0.2 * layer), ("position", 0.3), ("document", 0.05))
    ]
    shares += [("encoder", layer, "other forms", "position", 0.9, 0.9, 0.9, 0.1, 0.01, 0.2, n)
               for layer in range(layers)]  # fmt: skip
    senses = [
        (form, "encoder", layer, "NOUN 9, VERB 5", 14, 0.5, 0.0, 0.01, 0.1, accuracy, 0.6, 0.01,
         0.65)
        for form, accuracy in (("play", 1.0), ("that", 0.7), ("to", 0.9))
        for layer in range(layers)
    ]  # fmt: skip
    return {
        "tests": compared,
        "neighbours": pd.DataFrame(shares, columns=[
            "stack", "layer", "candidates", "property", "share", "lower", "upper", "chance", "p",
            "random", "n",
        ]),
        "senses": pd.DataFrame(senses, columns=[
            "form", "stack", "layer", "senses", "n", "v_measure", "v_chance", "v_p", "v_random",
            "accuracy", "chance", "p", "random",
        ]),
    }  # fmt: skip


def test_a_model_whose_neighbours_share_tags_and_senses_is_said_to() -> None:
    found = findings_of("neighbours", tables_of())
    assert [*found] == [TAG, ABOVE, RELATION, FORM, ACCURACY, V, EXTREMES]
    tag = found[TAG]
    assert tag.verdict == "supported" and tag.null == pytest.approx(0.05)
    assert "layer 2 of 2: 90 % against 30 % by chance" in tag.claim
    assert "+60.0 points" in tag.claim and "with random weights +5.0" in tag.claim
    assert "90 % against 60 %" in found[ABOVE].claim and found[ABOVE].verdict == "supported"
    assert found[RELATION].verdict == "not supported"
    assert "are not shown to share" in found[RELATION].claim
    assert (
        "80 % of the nearest neighbours have the same form at the embeddings" in found[FORM].claim
    )
    assert "40 % at the last layer" in found[FORM].claim and found[FORM].null is None
    assert "the same sense in 95 %, with static vectors in 60 %" in found[ACCURACY].claim
    assert found[V].unit == "" and "V-measure is 0.80, with permuted senses 0.02" in found[V].claim
    assert "“play” (NOUN 9, VERB 5) are separated best" in found[EXTREMES].claim
    assert "“that”" in found[EXTREMES].claim


def test_one_random_model_is_no_test_and_no_p_value_is_said() -> None:
    one, five = (findings_of("neighbours", tables_of(random_models=n))[TAG] for n in (1, 5))
    assert one.verdict == "undecided" and "random_models" in one.decided_by
    assert "p =" not in one.claim and "p <" not in one.claim
    assert "p =" in five.claim or "p <" in five.claim


def test_without_random_models_or_with_little_data_nothing_is_decided() -> None:
    found = findings_of("neighbours", tables_of(random_models=0))
    assert {found[TAG].verdict, found[ACCURACY].verdict} == {"undecided"}
    assert "random_models" in found[TAG].decided_by and "no random-weight" in found[TAG].claim
    few = findings_of("neighbours", tables_of(n=12, n_forms=2))
    assert {few[TAG].verdict, few[ABOVE].verdict, few[V].verdict} == {"undecided"}
    assert "max_queries" in few[TAG].decided_by and "min_count" in few[ACCURACY].decided_by


def test_a_model_that_knows_nothing_is_not_supported() -> None:
    tables = tables_of(sense_accuracy=(0.62, 0.6, -0.02, 0.05, 0.1, 0.9, False))
    found = findings_of("neighbours", tables)[ACCURACY]
    assert found.verdict == "not supported" and "are not shown to be separated" in found.claim


def test_static_vectors_have_one_layer() -> None:
    found = findings_of("neighbours", tables_of(layers=1))
    assert ABOVE not in found and "most at the embeddings:" in found[TAG].claim
    assert found[FORM].claim.startswith("80 % of the nearest neighbours have the same form (")


def test_a_corpus_without_tags_or_senses_has_findings_of_forms_and_places() -> None:
    tables = tables_of()
    tables["tests"], tables["senses"] = tables["tests"].head(0), tables["senses"].head(0)
    found = findings_of("neighbours", tables)
    assert [*found] == [f"neighbours of the same {name} at the last layer"
                        for name in ("form", "position", "document")]  # fmt: skip
    tables["neighbours"] = tables["neighbours"].head(0)
    assert not findings_of("neighbours", tables)


def test_forms_that_are_separated_equally_well_are_not_ranked() -> None:
    tables = tables_of()
    tables["senses"]["accuracy"] = 1.0
    assert "all 3 forms" in findings_of("neighbours", tables)[EXTREMES].claim
