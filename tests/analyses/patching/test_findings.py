"""The findings of patching: each claim and verdict on tables with known content."""

import pandas as pd
import pytest

from tests.findings import OBJECTIVE, Tables, findings_of
from workbench.analyses.patching.figures.patching_corpus import FIGURES
from workbench.core.findings import Finding
from workbench.drawing.sanitize import harmless

Effect = tuple[float, bool]  # and whether it restores part of the difference
CHANGED: tuple[Effect, ...] = ((1.0, True), (0.8, True), (0.3, True))
PREDICTED: tuple[Effect, ...] = ((0.0, False), (0.6, True), (1.0, True))
BETWEEN: tuple[Effect, ...] = ((0.0, False), (0.2, True), (0.0, False))


def columns(effect: float, restores: bool, n: int) -> dict[str, object]:
    bounds = {"lower": effect - 0.05, "upper": effect + 0.05, "random": effect / 2}
    p = 0.001 if restores else 0.8
    return {"effect": effect, **bounds, "nats": effect, "p": p, "restores": restores, "n": n}


def tables(
    stacks: tuple[str, ...] = ("decoder",),
    significant: bool = True,
    exchanges: int = 40,
    n: int = 50,
    places: dict[str, tuple[Effect, ...]] | None = None,
) -> dict[str, pd.DataFrame]:
    places = places or {"changed": CHANGED, "between": BETWEEN, "predicted": PREDICTED}
    pairs = {
        "clean_prefers": 0.9, "corrupt_prefers": 0.8, "clean": 2.0, "corrupt": -1.5,
        "difference": 3.5, "lower": 3.0, "upper": 4.0, "p": 0.001 if significant else 0.4,
        "n": n, "distinguished": n, "with_random": n, "exchanges": exchanges, "left_out": 3,
        "significant": significant,
    }  # fmt: skip
    states = [
        {"stack": stack, "layer": layer, "place": place, **columns(*effect, n)}
        for stack in stacks
        for layer in range(3)
        for place, effects in places.items()
        for effect in [effects[layer]]
    ]
    heads = [
        {"stack": stack, "kind": "causal", "layer": layer, "head": head}
        | columns(0.1 * (layer + head), (layer, head) in ((1, 1), (0, 1)), n)
        for stack in stacks
        for layer in range(2)
        for head in range(2)
    ]
    mlps = [
        {"stack": stack, "layer": layer, **columns(0.9 - layer, not layer, n)}
        for stack in stacks
        for layer in range(2)
    ]
    return {
        "pairs": pd.DataFrame([{"phenomenon": name, **pairs} for name in ("agreement", "all")]),
        "states": pd.DataFrame(states),
        "heads": pd.DataFrame(heads),
        "mlps": pd.DataFrame(mlps),
        "objective": OBJECTIVE,
    }


def claims(found: dict[str, Finding]) -> str:
    return " ".join(each.claim for each in found.values())


def test_where_what_decides_is_first_and_from_where_it_predicts() -> None:
    found = findings_of("patching", tables())
    assert len(found) == 7 and {each.verdict for each in found.values()} == {"supported"}
    changed = found["effect of the exchanged words, in the last layer that carries it"]
    assert "up to layer 1 of 2" in changed.claim and "80 % of the difference" in changed.claim
    assert (changed.value, changed.null) == (pytest.approx(0.8), pytest.approx(0.4))
    assert changed.keys == {"stack": "decoder", "layer": 1, "place": "changed"}
    predicted = found["effect of the place that predicts, in the first layer that carries it"]
    assert "from layer 1 of 2 on" in predicted.claim and predicted.value == pytest.approx(0.6)
    way = found["largest effect of a place between or besides the two"]
    assert "the words between carry" in way.claim and way.value == pytest.approx(0.2)
    count, largest = (
        found["heads that restore part of the difference"],
        found["largest effect of heads"],
    )
    assert count.value == 2 and "2 of 4 heads restore" in count.claim
    assert largest.keys["layer"] == largest.keys["head"] == 1 and "Head 2.2" in largest.claim
    assert "1 of 2 MLPs restores" in found["largest effect of MLPs"].claim
    assert "MLP of layer 1 restores most: 90 %" in found["largest effect of MLPs"].claim


def test_a_place_that_never_carries_it_is_not_supported() -> None:
    never = ((1.0, False), (0.2, False), (0.1, False))
    places = {"changed": never, "predicted": PREDICTED}
    found = findings_of("patching", tables(places=places))
    changed = found["effect of the exchanged words, in the last layer that carries it"]
    assert changed.verdict == "not supported" and "are not shown to carry" in changed.claim
    assert "largest effect of a place between or besides the two" not in found


def test_few_exchanges_or_few_distinguished_pairs_decide_nothing() -> None:
    for few in (tables(exchanges=5), tables(n=9)):
        found = findings_of("patching", few)
        later = [each for name, each in found.items() if "clean and corrupt" not in name]
        assert {each.verdict for each in later} == {"undecided"}
        assert all("more pairs" in each.decided_by for each in later)


def test_a_phenomenon_with_too_few_exchanges_is_not_called_absent() -> None:
    found = tables(significant=False)
    row, whole = found["pairs"].to_dict("records")
    names = {"known": 7, "absent": 7, "few": 6, "fewer": 2}
    rows = [
        {**row, "phenomenon": name, "exchanges": n, "significant": name == "known"}
        for name, n in names.items()
    ]
    found["pairs"] = pd.DataFrame([*rows, whole])
    # of three tests that remain, 3 · 2⁻⁶ = 0.047 can be significant, 3 · 2⁻⁵ = 0.094 cannot
    claim = next(iter(findings_of("patching", found).values())).claim
    assert "By phenomenon: known; not absent; too few exchanges to tell: few and fewer." in claim


def test_a_model_that_distinguishes_no_pair_has_no_numbers() -> None:
    none: Tables = tables(significant=False)
    for name in ("states", "heads", "mlps"):
        none[name][["effect", "lower", "upper", "random"]] = float("nan")
        none[name]["restores"] = False
    none["pairs"]["distinguished"] = 0
    found = findings_of("patching", none)
    first, *others = found.values()
    assert first.verdict == "not supported" and "is not shown to prefer" in first.claim
    assert {each.verdict for each in others} == {"undecided"}
    assert "the exchanged words decide is not known" in claims(found)
    assert "the place that predicts decides is not known" in claims(found)
    assert "the model distinguishes no pair" in claims(found)
    assert "aligned" not in claims(found)
    with pytest.raises(KeyError):
        FIGURES["states"](none)
    assert FIGURES["pairs"](none).data


def test_pairs_that_are_distinguished_and_not_aligned_are_said_to_be_so() -> None:
    none: Tables = tables()
    none["states"]["random"] = float("nan")
    found = findings_of("patching", none)
    assert claims(found).count("is not known: no two pairs are aligned") == 3
    assert "distinguishes no pair" not in claims(found)


def test_stacks_and_kinds_are_named_if_there_are_several() -> None:
    found = findings_of("patching", tables(("encoder", "decoder")))
    text = claims(found)
    assert "exchanged words of the encoder carry" in text
    assert "place that predicts of the decoder carries" in text
    assert "Encoder head 2.2" in text and "MLP of encoder layer 1" in text


def test_what_is_not_restored_has_no_findings() -> None:
    there = ("pairs", "mlps", "objective")
    only = {name: table for name, table in tables().items() if name in there}
    assert len(findings_of("patching", only)) == 2


@pytest.mark.parametrize("stacks", [("decoder",), ("encoder", "decoder")])
@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn(name: str, stacks: tuple[str, ...]) -> None:
    assert harmless(FIGURES[name](tables(stacks)))["data"]


def test_cells_beyond_unrelated_texts_have_colour_and_others_are_grey() -> None:
    grey, coloured = FIGURES["states"](tables()).data
    assert list(coloured.y) == ["layer 2", "layer 1", "embeddings"]  # the last layer on top
    column = list(coloured.x).index("changed")
    assert coloured.z[2][column] == 1 and grey.z[2][column] != 1
    assert grey.z[2][list(grey.x).index("predicted")] == 0
