"""The findings of steering and erasure, and their figures, on tables with known content."""

from typing import Any

import pandas as pd
import pytest

from tests.findings import OBJECTIVE, Tables, findings_of
from workbench.drawing.sanitize import harmless
from workbench.experiment.definition import EXPERIMENTS

LAYERS = 4


def row_of(excess: float, significant: bool) -> dict[str, Any]:
    return {
        "effect": excess + 0.1, "random": 0.1, "random_high": 0.3, "excess": excess,
        "lower": excess - 0.2, "upper": excess + 0.2, "p": 0.01 if significant else 0.6,
        "significant": significant,
    }  # fmt: skip


def steered(significant: bool = True, exchanges: int = 9) -> Tables:
    rows, curves = [], []
    for words, scale in (("was / were", 1.0), ("him / her", 0.0)):
        for layer in range(LAYERS):
            is_moved = significant and scale > 0 and layer > 1
            rows.append(
                {
                    "words": words, "stack": "decoder", "layer": layer,
                    **row_of(scale * layer, is_moved), "gap": 4.0, "share": scale * layer / 4,
                    "norm": 2.0, "divergence": 0.2, "random_divergence": 0.5, "n": 20,
                    "exchanges": exchanges,
                }
            )  # fmt: skip
            curves += [
                {
                    "words": words, "stack": "decoder", "layer": layer, "strength": strength,
                    "effect": scale * layer * strength, "random": 0.0, "random_low": -0.1,
                    "random_high": 0.1,
                }
                for strength in (-1.0, 0.5, 1.0, 2.0)
            ]  # fmt: skip
    return {
        "directions": pd.DataFrame(rows), "strengths": pd.DataFrame(curves), "objective": OBJECTIVE,
    }  # fmt: skip


def erased(significant: bool = True, documents: int = 30, injected: float = 0.2) -> Tables:
    rows = [
        {
            "stack": "encoder", "layer": layer, **row_of(0.5 * layer, significant and layer > 0),
            "injected": injected, "probe": 0.8, "probe_erased": 0.2, "majority": 0.19, "rank": 9,
            "n": 50, "documents": documents,
        }
        for layer in range(LAYERS)
    ]  # fmt: skip
    labels = pd.DataFrame({"label": ["NOUN"], "fitted": [20], "measured": [5]})
    return {"layers": pd.DataFrame(rows), "labels": labels, "objective": OBJECTIVE}


def test_the_words_that_are_moved_are_named_and_where_most() -> None:
    found = findings_of("steering", steered())
    count = found["pairs of words that the difference of their texts moves"]
    assert count.value == 1 and count.verdict == "supported" and "was / were" in count.claim
    largest = found["largest effect of a difference, beyond random directions"]
    assert largest.value == 3.0 and largest.keys["layer"] == 3 and "75 %" in largest.claim
    assert largest.interval == (2.8, 3.2) and largest.verdict == "supported"
    broken = found["divergence of unrelated predictions where the effect is largest"]
    assert broken.value == 0.2 and "not more than random" in broken.claim


def test_small_numbers_keep_their_digits() -> None:
    tables = steered()
    small = {
        "excess": 0.0267,
        "lower": 0.0257,
        "divergence": 0.000895,
        "random_divergence": 0.00019,
    }
    table = tables["directions"].assign(**small)
    found = findings_of("steering", {**tables, "directions": table})
    largest = found["largest effect of a difference, beyond random directions"]
    assert "+0.0267 nats" in largest.claim and "95 % 0.0257 to" in largest.claim
    broken = found["divergence of unrelated predictions where the effect is largest"]
    assert "0.000895 nats" in broken.claim and "(0.000190 nats)" in broken.claim


def test_sets_that_the_model_does_not_tell_apart_are_the_reason_of_no_verdict() -> None:
    tables = steered(significant=False)
    table = tables["directions"].assign(gap=0.02, share=float("nan"), p=0.01)
    found = findings_of("steering", {**tables, "directions": table})
    largest = found["largest effect of a difference, beyond random directions"]
    assert largest.verdict == "not supported"
    assert "but the model hardly tells the two sets apart" in largest.claim


def test_no_more_than_random_directions_is_not_supported_and_few_exchanges_are_undecided() -> None:
    for tables, verdict in ((steered(False), "not supported"), (steered(True, 3), "undecided")):
        found = list(findings_of("steering", tables).values())
        assert [each.verdict for each in found[:2]] == [verdict] * 2


def test_where_the_label_is_used_and_that_it_is_all_that_was_lost() -> None:
    found = findings_of("erasure", erased())
    assert found["layers whose label is used"].value == 3
    cost = found["largest cost of erasing the label, beyond random subspaces"]
    assert cost.value == 1.5 and cost.keys["layer"] == 3 and cost.verdict == "supported"
    back = found["log-probability lost with the label injected again"]
    assert back.verdict == "supported" and "88 %" in back.claim  # 1 - 0.2 / 1.6
    probed = found["accuracy of a probe after the erasure"].claim
    assert "20 %" in probed and "most frequent among the words it was fitted on: 19 %" in probed
    other = findings_of("erasure", erased(injected=1.4))
    assert other["log-probability lost with the label injected again"].verdict == "not supported"


def test_a_label_that_is_not_used_and_too_few_documents() -> None:
    found = findings_of("erasure", erased(significant=False))
    assert found["layers whose label is used"].verdict == "not supported"
    assert "log-probability lost with the label injected again" not in found
    few = findings_of("erasure", erased(documents=4))
    assert few["layers whose label is used"].verdict == "undecided"


@pytest.mark.parametrize(("experiment", "tables"), [("steering", steered()), ("erasure", erased())])
def test_every_figure_is_drawn(experiment: str, tables: Tables) -> None:
    for draw in EXPERIMENTS[experiment].drawings().values():
        assert harmless(draw(tables)) and len(draw(tables).data) > 2
