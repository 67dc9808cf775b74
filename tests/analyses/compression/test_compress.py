"""A model with neurons, weights and a layer that it does not need: the experiment says so."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import workbench as wb
from tests.findings import findings_of
from tests.judges.odd import Quiet, run_here
from tests.minis import shared
from tests.models import headed
from tests.models.compression.test_planted import useless
from tests.night import mostly
from workbench.analyses.compression import cost
from workbench.analyses.compression.experiments import COMPRESS, Compress
from workbench.analyses.compression.figures import FIGURES
from workbench.analyses.compression.findings import verdict_of_speedup
from workbench.analyses.pruning.evaluation import build_evaluation
from workbench.engine import batch as batches
from workbench.experiment import Inputs
from workbench.models.compression.neurons import cut_neurons
from workbench.runs.model_card import size_on_disk

SMALL: dict[str, Any] = {
    "max_sentences": 24, "amounts": (0.5,), "random_orders": 0, "rounds": 0, "max_pairs": 0,
    "methods": ("weights", "neurons"),
}  # fmt: skip


@pytest.fixture(scope="module")
def corpus() -> wb.Corpus:
    return wb.read("primer:size=300")


@pytest.fixture(scope="module")
def mini(corpus: wb.Corpus) -> Any:
    """The result of `mini:bert`, cut in four ways."""
    settings = {
        **SMALL, "random_orders": 2, "max_pairs": 6, "max_sentences": 20,
        "methods": ("weights", "neurons", "layers", "vocabulary"),
    }  # fmt: skip
    return run_here("compress", shared("mini:bert"), corpus, **settings)


def rows(tables: Any, order: str = "best") -> Any:
    points = tables["points"]
    return points[points["order"] == order].set_index(["method", "amount"])


@pytest.mark.parametrize("part", mostly(("weights", "neurons"), "neurons"))
def test_what_a_model_does_not_need_is_cut_without_loss(part: str, corpus: wb.Corpus) -> None:
    model = headed.made("bert", "BertForMaskedLM")
    settings = {**SMALL, "methods": (part,), "amounts": (0.45,)}
    tables = run_here("compress", useless(model, part), corpus, **settings).tables
    assert rows(tables).loc[(part, "45 %"), "change"] == pytest.approx(0, abs=1e-4)
    assert abs(rows(tables, "reversed").loc[(part, "45 %"), "change"]) > 1e-2
    twin = run_here("compress", model, corpus, **{**settings, "random_orders": 3}).tables
    assert abs(rows(twin).loc[(part, "45 %"), "change"]) > 1e-3
    # random weights know no order
    assert all(each.verdict != "supported" for each in findings_of("compress", twin).values())


def test_values_are_those_of_the_cut_model(mini: Any, corpus: wb.Corpus) -> None:
    model: Any = shared("mini:bert")
    docs = list(corpus.docs("test", 20))
    small = cut_neurons(model, 0.5)
    evaluation = build_evaluation(small, docs, "", 0, "")
    row = rows(mini.tables).loc[("neurons", "50 %")]
    assert row["value"] == pytest.approx(evaluation.scored().value("loss"), rel=1e-5)
    assert row["parameters"] == small.parameters and row["disk"] < 0.8 * 4.14
    whole = rows(mini.tables).loc[("original", "all")]
    assert row["change"] == pytest.approx(row["value"] - whole["value"])
    assert row["kept"] == pytest.approx(whole["value"] / row["value"])
    assert row["lower"] <= row["change"] <= row["upper"]
    # half of the neurons: what a feed-forward layer computes is halved
    layers, width, neurons = 4, 128, 512
    words = np.mean([len(model.encode(wb.encode([doc])).ids[0]) for doc in docs[:32]])
    halved = 2 * 2 * layers * width * neurons / 2 * words / 1e6
    assert 0.9 * halved < whole["operations"] - row["operations"] < 2.5 * halved  # padding counts


def test_the_front_is_what_nothing_beats(mini: Any) -> None:
    saved = mini.tables["points"].dropna(subset="disk")
    for row in saved.itertuples():
        beaten = any(
            other.disk <= row.disk and other.value <= row.value
            and (other.disk < row.disk or other.value < row.value)
            for other in saved.itertuples()
        )  # fmt: skip
        assert row.front is not beaten


def test_findings_and_figures_of_a_run(mini: Any) -> None:
    found = findings_of("compress", mini.tables)
    assert {
        "loss on masked pieces of the smallest model",
        "fell further",
        "order against random orders",
    } <= set(found)
    order = found["order against random orders"]
    assert order.verdict == "supported" and "weights" in order.claim
    for name in ("front", "lost", "orders"):
        assert len(FIGURES[name](mini.tables).data)
    # pieces of the texts are removed too, so losses of masked pieces do not compare
    assert "vocabulary, 50 %" in set(mini.tables["left_out"]["method"])


def test_an_order_that_no_random_one_was_compared_with_is_called_untested(mini: Any) -> None:
    orders = mini.tables["orders"].assign(random=np.nan, random_orders=0, p=1.0)
    order = findings_of("compress", {**mini.tables, "orders": orders})[
        "order against random orders"
    ]
    assert order.verdict == "undecided" and "not tested" in order.claim
    assert "better" not in order.claim
    assert not any("heads are removed" in each.text for each in mini.caveats)
    one = Compress(**{**SMALL, "random_orders": 1}).in_prose()
    assert "compared with 1 random one and its reverse, on" in one
    assert "compared with its reverse, on" in Compress(**SMALL).in_prose()


@pytest.mark.slow  # by day `test_what_a_model_does_not_need_is_cut_without_loss`
def test_random_weights_know_no_order(corpus: wb.Corpus) -> None:
    model = shared("mini:bert@random")
    tables = run_here("compress", model, corpus, **{**SMALL, "random_orders": 3}).tables
    found = findings_of("compress", tables).values()
    assert all(each.verdict != "supported" for each in found)


def test_the_smallest_model_that_keeps_enough_is_saved(corpus: wb.Corpus, tmp_path: Path) -> None:
    planted = useless(headed.made("bert", "BertForMaskedLM"), "neurons")
    inputs = Inputs((planted,), (corpus,), "test", limit=12, keep=tmp_path / "kept")
    settings = Compress(**{**SMALL, "random_orders": 0, "amounts": (0.2, 0.4)})
    result = COMPRESS.import_code()(inputs, settings, Quiet())
    opened: Any = wb.load(tmp_path / "kept", device="cpu")
    assert opened.net.config.intermediate_size == round(64 * 0.6)
    row = rows(result.tables).loc[("neurons", "40 %")]
    assert opened.parameters == row["parameters"] and row["kept"] == pytest.approx(1)


def test_methods_that_train_are_compared_at_equal_amounts(corpus: wb.Corpus) -> None:
    model = headed.made("bert", "BertForMaskedLM")
    methods = (
        "packed bits", "weights before training", "weights while training",
        "weights after training", "movement while training", "bits while training",
        "bits after training", "neurons",
    )  # fmt: skip
    settings = {
        **SMALL, "methods": methods, "amounts": (0.4,), "bits": ("8 with activations", "4"),
        "training_steps": 2, "max_sentences": 8,
    }  # fmt: skip
    result = run_here("compress", model, corpus, **settings)
    tables, points = result.tables, rows(result.tables)
    assert "left_out" not in tables
    pairs = {(row.method, row.amount): row for row in tables["training"].itertuples()}
    assert set(pairs) == {
        *((f"{name} training", "40 %") for name in (
            "weights before", "weights while", "movement while")),
        *(("bits while training", f"{bits}") for bits in ("8 bits with activations", "4 bits")),
    }  # fmt: skip
    for (method, amount), row in pairs.items():
        own, other = points.loc[(method, amount)], points.loc[(row.against, amount)]
        assert row.difference == pytest.approx(own["value"] - other["value"])
        assert row.lower <= row.difference <= row.upper
        assert row.better == (row.difference < 0)
    whole, trained = points.loc[("original", "all")], points.loc[("training", "all")]
    assert trained["value"] != whole["value"] and trained["disk"] == whole["disk"]
    assert points.loc[("weights while training", "40 %"), "nonzero"] < whole["nonzero"]
    for method in ("packed bits", "bits while training", "neurons and bits while training"):
        amount = "40 %, 4 bits" if " and " in method else "4 bits"
        assert points.loc[(method, amount), "disk"] < 0.5 * whole["disk"]
    assert len(tables["layers"]) == model.stacks[0].layers  # without torchao
    found = findings_of("compress", tables)
    assert "methods that train" in found
    assert len(FIGURES["training"](tables).data) and len(FIGURES["layers"](tables).data)
    assert not Compress(methods=("weights", "packed bits")).trains


def test_faster_needs_an_interval_above_one() -> None:
    random = np.random.default_rng(0)
    alike = [
        cost.speedup(random.lognormal(sigma=0.1, size=(15, 2)).tolist(), n) for n in range(200)
    ]
    assert 0 < sum(each["lower"] > 1 for each in alike) <= 14  # 2.5 % of 200, and what chance adds
    assert not any(each["faster"] for each in cost.judged_together(alike))
    pairs = random.lognormal(sigma=0.1, size=(15, 2)) * [2.0, 1.0]
    twice = cost.judged_together([*alike[:20], cost.speedup(pairs.tolist(), 0)])[-1]
    assert twice["faster"] and twice["lower"] < twice["speedup"] < twice["upper"]
    assert twice["speedup"] == pytest.approx(2, rel=0.1)
    assert verdict_of_speedup(twice) == "supported"
    few = cost.judged_together([*alike[:20], cost.speedup(pairs[:5].tolist(), 0)])[-1]
    assert verdict_of_speedup(few) == "undecided", "five rounds cannot show it in 21 measurements"
    assert verdict_of_speedup({**few, "lower": 0.9}) == "not supported"


def test_both_models_are_measured_in_one_process(
    corpus: wb.Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    model = headed.made("bert", "BertForMaskedLM")
    model.save(tmp_path / "whole")
    cut_neurons(model, 0.5).save(tmp_path / "small")
    assert size_on_disk(tmp_path / "small") < size_on_disk(tmp_path / "whole")
    batches.save(wb.encode(list(corpus.docs("test", 5))), tmp_path / "texts")
    words = [str(tmp_path / name) for name in ("whole", "small", "texts")]
    monkeypatch.setattr(sys, "argv", ["cost", *words, "2", "cpu"])
    monkeypatch.setattr(cost, "LEAST", 0.001)
    assert cost.main() == 0
    found = json.loads(capsys.readouterr().out)
    assert [len(pairs) for pairs in found["seconds"].values()] == [2, 2]


@pytest.mark.slow
def test_a_new_process_measures_saved_models(corpus: wb.Corpus, tmp_path: Path) -> None:
    model = headed.made("bert", "BertForMaskedLM")
    model.save(tmp_path)
    texts = wb.encode(list(corpus.docs("test", 5)))
    found = cost.costs(tmp_path, tmp_path, texts, 3, "cpu")
    assert found["memory"] > 0 and set(found["seconds"]) == {"1", "32"}
    with pytest.raises(wb.WorkbenchError, match="process"):
        cost.costs(tmp_path, tmp_path / "missing", texts, 3, "cpu")


def test_classes_of_a_fine_tuned_model_are_compared() -> None:
    """A class that fell further is named, unless the model has learnt nothing."""
    rows_: list[dict[str, Any]] = [
        {"method": "neurons", "amount": "50 %", "kind": "class", "group": group, "n": 40,
         "fall": fall, "rest": 0.1 - fall, "difference": 2 * fall - 0.1, "lower": 0.1,
         "upper": 0.6, "p": p}
        for group, fall, p in (("yes", 0.3, 0.001), ("no", 0.01, 1.0))
    ]  # fmt: skip
    points = pd.DataFrame([{"method": "original", "amount": "all", "order": "best", "disk": 4.0,
                            "metric": "accuracy"}])  # fmt: skip
    objective = pd.DataFrame({"objective": ["class"], "name": ["answer"], "metric": ["accuracy"]})
    baseline = pd.DataFrame({"metric": ["accuracy"], "better": [True]})
    tables = {
        "lost": pd.DataFrame(rows_), "points": points, "objective": objective,
        "baseline": baseline,
    }  # fmt: skip
    found = findings_of("compress", tables)["fell further"]
    assert (
        found.verdict == "supported" and "“yes” (class)" in found.claim and "no" not in found.keys
    )
    assert found.value == pytest.approx(0.5)
    shown = FIGURES["lost"](tables)  # one model: its name stands once, in the title
    assert list(shown.data[0].y) == ["yes (class)", "no (class)"]
    equal = {**tables, "lost": tables["lost"].assign(p=1.0)}
    assert "“yes” (class)" in findings_of("compress", equal)["fell further"].claim
    untrained = {**tables, "baseline": baseline.assign(better=False)}
    assert findings_of("compress", untrained)["fell further"].verdict == "not supported"
