"""Models whose answers are known: one copies labels, one prefers a label, random ones know none."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import workbench as wb
from tests.analyses.few_shot.planted import TEMPLATE, copier, names
from tests.judges.odd import run_here
from tests.minis import shared
from workbench.analyses.few_shot.experiments import FEW_SHOT, FewShot
from workbench.analyses.few_shot.figures import FIGURES
from workbench.analyses.few_shot.findings import findings
from workbench.analyses.few_shot.prompting import cochran_p_value, fits
from workbench.experiment import Result
from workbench.models.scoring.prompts import (
    Demonstration,
    PromptDesign,
    label_probabilities,
)

WORDS = {"negative": "sad", "positive": "happy"}
DESIGN = PromptDesign("{text} It was {label}.", WORDS)
SHORT: dict[str, Any] = {
    "max_sentences": 6, "shots": (1,), "seeds": (0, 1), "templates": ("{text} It was {label}.",),
    "label_words": ("negative=sad; positive=happy",), "attributed": 1,
}  # fmt: skip


def planted(model: Any, **settings: Any) -> Result:
    chosen = {
        "shots": (2, 6), "seeds": (0, 1), "max_sentences": 16, "calibration": "none", "heads": 1,
        "attributed": 5,
    }  # fmt: skip
    return run_here("few-shot", model, names(), templates=(TEMPLATE,), **chosen | settings)


@cache
def copied() -> Result:
    return planted(copier())


def gains(result: Result) -> Any:
    return result.tables["gains"].set_index(["shots", "gain", "calibration"])


def claims(result: Result) -> dict[str, wb.Finding]:
    return {each.measure: each for each in FEW_SHOT.findings_of(result.tables)}


def test_a_copier_learns_from_right_labels() -> None:
    scores = copied().tables["scores"].set_index(["shots", "prompt", "calibration"])["accuracy"]
    assert scores[0, "none", "none"] == 0.5
    assert scores[6, "demonstrations", "none"] > scores[2, "demonstrations", "none"] > 0.6
    assert scores[6, "other texts", "none"] == scores[6, "other words", "none"] == 0.5
    found = claims(copied())
    assert found["gain from demonstrations"].verdict == "supported"
    right = found["gain from the right labels"]
    assert right.verdict == "supported" and "the right ones change that by" in right.claim
    assert found["gain from the format"].value == 0
    # every demonstration of a name says the same, in any order
    assert found["texts whose prediction depends on the order"].value == 0


def test_a_copier_decides_by_its_induction_head() -> None:
    layers = copied().tables["layers"].set_index("layer")
    assert layers.loc[1, "accuracy"] == 0.5 and layers.loc[2, "accuracy"] == 1
    heads = copied().tables["heads"].set_index("removed")
    assert heads.loc["induction", "heads"] == "2.2"  # of the planted heads, counted from 1
    assert heads.loc["induction", "accuracy"] == 0.5
    assert claims(copied())["accuracy without induction heads"].verdict == "supported"


def test_a_copier_answers_from_the_demonstration_that_it_copies() -> None:
    """The one with the same name as the text, by far more than its length."""
    found = copied()
    items, origins = found.tables["items"].set_index("text"), found.tables["origins"]
    parts = found.tables["attribution"].query("part == 'text' and said != ''")
    said = dict(zip(parts["demonstration"].astype(int), parts["said"], strict=True))
    tried = 0
    for row in origins.to_dict("records"):
        name = items.loc[row["text"], "said"]
        if name in said.values():
            tried += 1
            assert said[row["demonstration"]] == name and row["label"] == row["chosen"]
            assert row["share"] > 2 * row["by_length"]
    assert tried >= 5
    finding = claims(found)["attribution on the same label rather than another"]
    assert finding.verdict == "supported" and finding.value > 0.9


def test_the_steps_add_up_to_the_gain() -> None:
    table = gains(copied())["difference"]
    parts = ("format", "label words", "texts of the task", "right labels")
    total = sum(table[6, part, "none"] for part in parts)
    assert total == pytest.approx(table[6, "demonstrations", "none"])


def test_the_parts_of_a_prompt_are_those_of_its_text() -> None:
    """Of a pair, of labels that have words, and without the first space of the query."""
    design = PromptDesign(" {first} So, {second} {label}!", {"a": "yes", "b": "no"})
    shown = [Demonstration(("One.", "Two."), "a")]
    before, after = design.stretches(shown, ("Four.", ""))
    parts = [(each.demonstration, each.kind, each.text) for each in before if each.text]
    assert parts == [
        (0, "template", " "), (0, "text", "One."), (0, "template", " So, "), (0, "text", "Two."),
        (0, "template", " "), (0, "label", "yes"), (0, "template", "!"), (0, "template", " "),
        (-1, "text", "Four."), (-1, "template", " So, "), (-1, "template", " "),
    ]  # fmt: skip
    assert "".join(each.text for each in after) == "!"


def test_calibration_repairs_a_preference() -> None:
    # in these draws every name has a demonstration, without which no calibration helps
    more = {"seeds": (0, 2), "max_sentences": 8, "orders": 2, "heads": 0, "attributed": 0}
    found = planted(copier(bias=40.0), shots=(6,), **more)
    row = gains(found).loc[6, "calibration", "contextual"]
    assert row["difference"] > 0.3 and row["lower"] > 0
    assert gains(found).loc[(6, "demonstrations", "none"), "difference"] == 0
    assert claims(found)["gain from contextual calibration"].verdict == "supported"
    assert "not shown to learn" in claims(found)["gain from demonstrations"].claim


@pytest.mark.slow  # by day `test_calibration_repairs_a_preference`
def test_a_random_twin_learns_nothing() -> None:
    """That the order of demonstrations moves its predictions is true of random weights, too."""
    found = claims(
        planted(
            copier().reinitialised(0),
            shots=(6,),
            calibration="contextual",
            seeds=(0, 1),
            attributed=1,
            max_sentences=8,
        )
    )
    found.pop("texts whose prediction depends on the order")
    assert not [each for each in found.values() if each.verdict == "supported"]


@pytest.mark.parametrize(
    ("upper", "above", "verdict"),
    [
        (0.30, 0.30, "undecided"),
        (0.04, 0.30, "not supported"),
        (0.30, 0.04, "not supported"),
    ],
)
def test_a_gain_is_undecided_where_it_may_be_large(
    upper: float, above: float, verdict: str
) -> None:
    """Of demonstrations, over none and over the most frequent label."""
    tables = dict(copied().tables)
    rows = tables["gains"].copy()
    for gain, high in (("demonstrations", upper), ("above majority", above)):
        of_gain = rows["gain"] == gain
        rows.loc[of_gain, ["difference", "lower", "upper", "p"]] = [0.01, -0.02, high, 0.6]
    found = {each.measure: each for each in findings(tables | {"gains": rows})}
    assert found["gain from demonstrations"].verdict == verdict


def test_a_choice_of_an_early_layer_that_is_a_guess_is_not_said_to_be_decided() -> None:
    """The share in the sentence is named: texts whose choice is that of the last layer."""
    tables = dict(copied().tables)
    layers = tables["layers"].copy()
    layers[["agrees", "lower", "upper", "chance"]] = [0.97, 0.94, 0.99, 0.5]
    gains = tables["gains"].copy()
    gains.loc[gains["gain"] == "demonstrations", ["lower", "p"]] = [-0.02, 0.6]
    found = {each.measure: each for each in findings(tables | {"gains": gains, "layers": layers})}
    finding = found["agreement with the last layer where the label is decided"]
    assert finding.verdict == "not supported"
    assert "not shown to be better than a guess" in finding.claim
    assert "90 % of the choices are those of the last layer (97 %;" in finding.claim


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_random_twins_find_nothing(seed: int) -> None:
    model = shared("mini:gpt@random", seed=seed)
    found = run_here(
        "few-shot", model, wb.read("primer/sentiment"), seed=seed, **SHORT | {"max_sentences": 60}
    )
    of_learning = ("gain from demonstrations", "gain from the right labels")
    assert all(claims(found)[each].verdict != "supported" for each in of_learning)


def test_a_model_that_fills_gaps_and_a_finding_of_none() -> None:
    found = run_here("few-shot", shared("mini:bert"), wb.read("primer:size=200"), **SHORT)
    assert "not shown to learn" in claims(found)["gain from demonstrations"].claim
    assert "orders" not in found.tables  # of one demonstration
    assert all(len(draw(found.tables).data) for name, draw in FIGURES.items() if name != "heads")
    assert len(FIGURES["heads"](copied().tables).data)
    assert "same_label" not in found.tables  # of one demonstration
    assert set(found.tables["scores"]["calibration"]) == {"none", "length", "contextual", "domain"}


def test_a_prompt_is_never_cut() -> None:
    model = shared("mini:gpt")
    shown = [Demonstration("The dog saw the old house near the hill.", "positive")] * 8
    with pytest.raises(wb.WorkbenchError, match="8 demonstrations") as error:
        label_probabilities(model, DESIGN, shown, ["Ben runs."])
    assert error.value.code == "prompt-too-long"
    found = run_here(
        "few-shot",
        model,
        wb.read("primer/sentiment:size=400"),
        **SHORT | {"shots": (1, 8), "seeds": (0,), "max_sentences": 2, "heads": 0, "attributed": 0},
    )
    assert any("at most" in each.text for each in found.caveats)
    assert found.tables["scores"]["shots"].max() < 5


def test_a_label_as_the_whole_output_of_a_decoder() -> None:
    model: Any = shared("mini:t5")
    design = PromptDesign("{text} It was {label}.", WORDS, whole_output=True)
    shown = [Demonstration("Ben runs.", "positive")]
    found = label_probabilities(model, design, shown, ["Anna sings."])
    read = model.tokenizer("Ben runs. It was happy. Anna sings. It was", return_tensors="pt")
    for index, word in enumerate(WORDS.values()):
        gold = model.tokenizer(word, return_tensors="pt")["input_ids"]
        scores = model.net(**read, labels=gold).logits[0].log_softmax(-1)
        expected = -scores.gather(1, gold[0][:, None]).sum().item()
        assert found.nats[0, index] == pytest.approx(expected, abs=1e-4)


def test_pairs_and_labels_without_words() -> None:
    design = PromptDesign("{first} So, {second} {label}!", {"a": "yes", "b": "no"}, separator="\n")
    shown = [Demonstration(("One.", "Two."), "a"), Demonstration(("{Three}.", ""), "maybe")]
    before, after = design.prompt(shown, ("Four.", "Five."))
    assert before == "One. So, Two. yes!\n{Three}. So,  maybe!\nFour. So, Five. "
    assert after == "!" and design.prompt([], None) == ("So,  ", "!")
    corpus = wb.read("primer/entailment:size=400")
    words = "contradiction=no; neutral=new; entailment=old"
    small = SHORT | {"label_words": (words,), "seeds": (0,), "max_sentences": 2}
    templates = ("{first} {label}: {second}", "{text} {label}")
    with pytest.raises(wb.WorkbenchError, match="before the label"):
        run_here("few-shot", shared("mini:gpt"), corpus,
                 **small | {"templates": templates[1:], "calibration": "domain"})  # fmt: skip
    fits(corpus, FewShot(**small | {"templates": templates}))


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"templates": ("no gap",)}, "template-invalid"),
        ({"templates": ("{text} {label} {label}",)}, "template-invalid"),
        ({"templates": ("{text {label}",)}, "template-invalid"),
        ({"label_words": ("positive=good",)}, "label-words-invalid"),
        ({"label_words": ("positive=good; negative=good",)}, "label-words-invalid"),
        ({"task": "relatedness"}, "task-not-found"),
    ],
)
def test_mistakes_are_named_before_a_run(settings: dict[str, Any], code: str) -> None:
    with pytest.raises(wb.WorkbenchError) as error:
        fits(wb.read("primer:size=400"), FewShot(**settings))
    assert error.value.code == code and error.value.remedy


def test_cochrans_q_is_that_of_a_textbook() -> None:
    """Of two orders it is McNemar's test; with none that differs there is nothing to test."""
    right = np.zeros((2, 30), dtype=np.bool_)
    right[0, :12] = right[1, 10:14] = True  # 10 and 2 disagree
    assert cochran_p_value(right) == pytest.approx(0.02092, abs=1e-4)  # chi2 = 64 / 12
    assert cochran_p_value(right[:1].repeat(3, 0)) == 1.0


def test_texts_of_several_labels_name_the_one_that_is_used() -> None:
    frame = pd.DataFrame({"text": [f"Ben has {n} hats." for n in range(30)]})
    frame["size"] = ["big" if n % 2 else "small" for n in range(30)]
    frame["tone"] = ["old" if n % 3 else "new" for n in range(30)]
    fits(wb.read(frame), FewShot())
    fits(wb.read(frame), FewShot(task="tone", label_words=("old=old; new=new",)))
