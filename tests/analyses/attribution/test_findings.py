"""The findings of `attribution`, from tables with known content."""

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

import workbench as wb
from tests.findings import OBJECTIVE, Tables, findings_of
from tests.judges.odd import run_here
from tests.minis import shared
from workbench.analyses.attribution.attribution_corpus import COLUMNS
from workbench.analyses.attribution.experiments import AttributionOverCorpus
from workbench.analyses.attribution.findings import attribution, which_words
from workbench.experiment.definition import EXPERIMENTS
from workbench.runs.builtin import builtin_run

BEST = "gain of the most faithful method over random orders"
FAITHFUL = "methods faithful beyond random orders"
ATTENTION = "gain of the most faithful method over attention"
RANDOM = "highest rank correlation with maps of random weights"
TAGS = "tags with more or less attribution than words as near and of as many pieces"
RELATED = "attribution to words related to the predicted word, over words as near"
NEAR = "share of attribution within 2 words"
NONE = float("nan")


def method(name: str, gain: float, faithful: str = "yes", **more: Any) -> dict[str, Any]:
    return {
        "method": name, "n": 40, "documents": 40,
        "comprehensiveness": 0.3, "comprehensiveness_lower": 0.2, "comprehensiveness_upper": 0.4,
        "random_comprehensiveness": 0.1, "sufficiency": 0.1, "sufficiency_lower": 0.0,
        "sufficiency_upper": 0.2, "random_sufficiency": 0.25, "gain": gain, "lower": gain - 0.1,
        "upper": gain + 0.1, "p": 0.001 if faithful == "yes" else 0.4, "faithful": faithful,
        "over_attention": gain - 0.1, "over_attention_lower": gain - 0.2,
        "over_attention_upper": gain, "p_attention": 0.001, "behind": 0.2, "behind_lower": 0.1,
        "behind_upper": 0.3, "randomised": 0.05,
        "randomised_lower": -0.1, "randomised_upper": 0.2, "chance": 0.14, "n_randomised": 12,
        "check": "destroyed", "delta": NONE, "delta_worst": NONE, **more,
    }  # fmt: skip


def tables(*methods: dict[str, Any], **others: list[dict[str, Any]]) -> Tables:
    parts = {name: pd.DataFrame(others.get(name, []), columns=COLUMNS[name]) for name in COLUMNS}
    examples = pd.DataFrame([{"text": 0, "method": "occlusion", "position": 0}])
    return {
        "methods": pd.DataFrame([*methods]), "examples": examples, "objective": OBJECTIVE, **parts,
    }  # fmt: skip


ATTENDED = method("attention", 0.1, over_attention=NONE, p_attention=NONE)
CONTROL = method("random", 0.0, "no", over_attention=NONE, p_attention=NONE, check="")


def tag(name: str, lift: float, p: float, types: int = 20) -> dict[str, Any]:
    return {
        "method": "occlusion", "tag": name, "n": 40, "types": types, "attribution": 0.2,
        "words": 0.1, "lift": lift, "lower": lift - 0.2, "upper": lift + 0.2,
        "expected": 1.0, "p": p,
    }  # fmt: skip


def relation(name: str, difference: float, p: float, types: int = 20) -> dict[str, Any]:
    return {
        "method": "occlusion", "direction": "dependent-to-head", "relation": name, "n": 30,
        "types": types, "attribution": 1 + difference, "expected": 1.0,
        "difference": difference, "lower": difference - 0.3, "upper": difference + 0.3,
        "p_shuffled": p, "p_types": p, "p": p,
    }  # fmt: skip


def position(offset: int, share: float) -> dict[str, Any]:
    return {
        "method": "occlusion", "origin": "predicted word", "offset": offset, "n": 9,
        "attribution": share, "lower": share, "upper": share, "words": 0.25,
    }  # fmt: skip


def test_the_most_faithful_method_is_named_and_controls_are_not() -> None:
    found = findings_of(
        "attribution",
        tables(
            method("occlusion", 0.4), method("gradient-x-input", 0.1, "no"),
            {**ATTENDED, "gain": 0.9}, CONTROL,
        ),
    )  # fmt: skip
    best = found[BEST]
    assert "occlusion are the most faithful of 2 methods" in best.claim
    assert best.verdict == "supported" and best.keys == {"method": "occlusion"}
    assert "1 of 2 methods" in found[FAITHFUL].claim
    assert "occlusion; not gradient-x-input" in found[FAITHFUL].claim
    assert found[ATTENTION].verdict == "supported"


def test_methods_that_do_not_differ_are_named_together() -> None:
    def claim(*others: dict[str, Any]) -> str:
        best = method("occlusion", 0.4, behind=NONE, behind_lower=NONE, behind_upper=NONE)
        return findings_of("attribution", tables(*others, best, ATTENDED, CONTROL))[BEST].claim

    near = method("deeplift", 0.39, behind=0.01, behind_lower=-0.02, behind_upper=0.03)
    far = method("gradient-x-input", 0.1)
    found = claim(near, far)
    assert "occlusion and deeplift are the most faithful of 3 methods" in found
    assert "do not differ significantly (gain +0.010 over deeplift" in found
    assert "without the occlusion top words" in found
    assert "scores of occlusion are the most faithful of 2 methods" in claim(far)
    assert "The 2 methods do not differ significantly" in claim(near)
    few = {**far, "documents": 9}
    best = method("occlusion", 0.4, behind=NONE, documents=9)
    found = findings_of("attribution", tables(few, best, ATTENDED, CONTROL))[BEST].claim
    assert "too few documents" in found and "most faithful" not in found


def test_methods_are_compared_on_the_same_texts() -> None:
    """The gain of the best method minus that of another, by document, with a plain bootstrap."""
    found = run_here(
        "attribution", shared("mini:bert"), wb.read("primer:size=200"),
        max_predictions=6, methods=("gradient-x-input", "occlusion"), random_models=0,
        n_shuffles=100,
    ).tables["methods"].set_index("method")  # fmt: skip
    chosen = found.loc[["gradient-x-input", "occlusion"]]
    best, other = chosen["gain"].idxmax(), chosen["gain"].idxmin()
    row = found.loc[other]
    assert row["behind"] == pytest.approx(found.loc[best, "gain"] - row["gain"])
    assert row["behind_lower"] < row["behind"] < row["behind_upper"]
    assert found.drop(other)["behind"].isna().all()


def test_figures_begin_with_the_method_of_the_findings() -> None:
    rows = [{**tag("NOUN", 1.6, 0.01), "method": "deeplift"}, tag("NOUN", 1.2, 0.01)]
    given = tables(method("deeplift", 0.1), method("occlusion", 0.4), CONTROL, tags=rows)
    figure = EXPERIMENTS["attribution"].drawings()["tags"](given)
    assert figure.layout.updatemenus[0].buttons[0].label == "occlusion"
    assert figure.data[0].x[0] == 1.2 and figure.data[0].visible
    menu, legend = figure.layout.updatemenus[0].y, figure.layout.legend.y
    assert 24 * (legend - menu) > 33, "the legend is above the menu, where it may have two rows"


def test_no_faithful_method_and_too_few_texts() -> None:
    none = findings_of("attribution", tables(method("occlusion", 0.0, "no"), CONTROL))
    assert none[BEST].verdict == "not supported" and FAITHFUL not in none
    few = findings_of(
        "attribution",
        tables(
            method("occlusion", 0.1, "undecided"), method("deeplift", 0.1, "undecided"), CONTROL
        ),
    )
    assert few[BEST].verdict == few[FAITHFUL].verdict == "undecided"


def test_a_model_without_attention_is_not_compared_with_it() -> None:
    alone = method("occlusion", 0.4, over_attention=NONE, p_attention=NONE)
    assert ATTENTION not in findings_of("attribution", tables(alone, CONTROL))


def test_the_method_in_prose_counts_the_models_with_random_weights() -> None:
    for count, words in ((1, "those of 1 model with"), (3, "those of 3 models with")):
        assert words in AttributionOverCorpus(random_models=count).in_prose()


def test_the_method_that_random_weights_keep_is_named() -> None:
    kept = method("attention-rollout", 0.2, randomised=0.7, randomised_upper=0.8, check="kept")
    found = findings_of("attribution", tables(method("occlusion", 0.4), kept, CONTROL))[RANDOM]
    assert "Random weights keep the maps of attention-rollout" in found.claim
    assert "destroy the maps of occlusion" in found.claim
    assert found.value == 0.7 and found.keys == {"method": "attention-rollout"}
    unchecked = method("occlusion", 0.4, check="", randomised=NONE)
    assert RANDOM not in findings_of("attribution", tables(unchecked, CONTROL))


def test_tags_are_supported_by_their_test_and_open_with_few_words() -> None:
    def verdict(*rows: dict[str, Any]) -> Any:
        return findings_of("attribution", tables(method("occlusion", 0.4), CONTROL, tags=[*rows]))[
            TAGS
        ]

    found = verdict(tag("NOUN", 1.6, 0.01), tag("DET", 0.8, 0.5))
    assert found.verdict == "supported" and "`NOUN` (1.6 times" in found.claim
    assert verdict(tag("NOUN", 1.6, 0.2), tag("DET", 0.8, 0.5)).verdict == "not supported"
    assert verdict(tag("NOUN", 1.6, 0.2, 3), tag("DET", 0.8, 0.5, 2)).verdict == "undecided"


def test_related_words_are_compared_with_words_as_near() -> None:
    def finding(*rows: dict[str, Any]) -> Any:
        given = tables(method("occlusion", 0.4), CONTROL, relations=[*rows])
        return findings_of("attribution", given)[RELATED]

    found = finding(relation("all", 0.8, 0.01), relation("obj", 1.2, 0.02))
    assert found.verdict == "supported" and found.value == 0.8
    assert "`obj` (dependent-to-head)" in found.claim
    assert finding(relation("all", 0.1, 0.5)).verdict == "not supported"
    assert finding(relation("all", 0.1, 0.5, 2)).verdict == "undecided"


def test_near_words_are_summed_and_classes_have_none() -> None:
    rows = [position(-3, 0.1), position(-1, 0.5), position(1, 0.3), position(4, 0.1)]
    given = tables(method("occlusion", 0.4), CONTROL, positions=rows)
    found = findings_of("attribution", given)[NEAR]
    assert "80 % of the attribution" in found.claim and "50 % of the words" in found.claim
    for row in rows:
        row["origin"] = "text start"
    of_class = tables(method("occlusion", 0.4), CONTROL, positions=rows)
    assert NEAR not in findings_of("attribution", of_class)


def test_the_question_which_words_decide_has_words_first_and_methods_last() -> None:
    run = builtin_run("attribution-mini-bert")
    found = list(which_words([run], {}))
    assert [each.table for each in found] == ["tags"] * 2 + ["relations", "positions"] + [
        "methods"
    ] * 4
    tags = run.tables["tags"].query("method == 'integrated-gradients' and n >= 10").set_index("tag")
    more, less = found[0].claim.split("; ", 1)
    assert {tag for tag in tags.index if f"`{tag}`" in more} == {*tags.index[tags["lower"] > 1]}
    assert {tag for tag in tags.index if f"`{tag}`" in less} == {*tags.index[tags["upper"] < 1]}
    assert all(each in attribution(run.tables) for each in found[2:])


def test_the_answer_names_no_tag_of_few_words() -> None:
    rare = tag("NUM", 0.1, 0.5) | {"n": 1}
    given = tables(method("occlusion", 0.4), CONTROL, tags=[tag("NOUN", 1.6, 0.2), rare])
    run: Any = SimpleNamespace(tables=given)
    claim = next(which_words([run], {})).claim
    assert "`NOUN`" in claim and "`NUM`" not in claim and "1 tag of 10 words or more" in claim
