"""Figures of adapting: values where they belong, whatever the names, whatever is missing."""

from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest

from workbench.analyses.transfer.figures.transfer import (
    FINETUNE,
    FROZEN_VS_FINETUNED,
    by_seed,
    cost,
    costs,
    decided,
    delta,
    epochs,
    learning,
    scores,
    way,
    ways,
)
from workbench.drawing.sanitize import harmless
from workbench.drawing.theme import BASELINE, CONTROL, MODEL, NOT_SIGNIFICANT, TUNED

EVIL = "<img/src=x/onerror=window.evil=1>"
WAYS = (("frozen", "plain"), ("fine-tuned", "plain"), ("frozen", "lstm"))
WAYS_IN_WORDS = ("frozen", "fine-tuned", "frozen, LSTM")
WON = {("sentiment", "bert"): 0.2, ("sentiment", "gpt"): 0.01}
WON |= {("relatedness", "bert"): -0.1, ("relatedness", "gpt"): 0.0}


def tables_of(tasks: dict[str, str] | None = None) -> dict[str, pd.DataFrame]:
    """Tables as the experiment leaves them: two models, a grid of two rates, two seeds."""
    tasks = tasks or {"sentiment": "accuracy", "relatedness": "pearson"}
    rows: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("delta", "means", "scores", "learning", "epochs")
    }
    for task, metric in tasks.items():
        for model in ("bert", "gpt"):
            won = WON.get((task, model), 0.2)
            both = {"task": task, "model": model, "metric": metric}
            rows["delta"].append(
                {**both, "method": "fine-tuned", "frozen": 0.5, "tuned": 0.5 + won, "delta": won,
                 "lower": won - 0.05, "upper": won + 0.05,
                 "p_value": 0.002 if abs(won) > 0.05 else 0.5, "strong": 0.6, "converged": True}
            )  # fmt: skip
            for method, head in WAYS:
                key = {"task": task, "model": model, "method": method, "head": head}
                value = 0.5 + (won if method != "frozen" else 0.1 * (head == "lstm"))
                rows["means"].append(
                    {**key, "metric": metric, "value": value, "lower": value - 0.1,
                     "upper": value + 0.1,
                     "baseline": 0.4}
                )  # fmt: skip
                for seed, rate in ((0, 1e-3), (0, 1e-2), (1, 1e-3)):
                    own = {**key, "seed": seed, "learning_rate": rate, "ridge": 0.0}
                    paid = {"trainable": 1000, "peak_memory": 9.0, "seconds": 1.0, "size": 0.1}
                    splits = [("dev", metric), ("test", metric), ("test", "other")]
                    rows["scores"] += [
                        {
                            **own,
                            "split": split,
                            "metric": name,
                            "value": value,
                            "baseline": 0.4,
                            **paid,
                        }
                        for split, name in splits[: 3 if rate < 1e-2 else 0]
                    ]
                    rows["learning"] += [{**own, "step": n, "loss": 1 / (n + 1)} for n in range(4)]
                    rows["epochs"].append({**own, "epoch": 1, "metric": metric, "value": value})
    return {name: pd.DataFrame(found) for name, found in rows.items()}


def one() -> dict[str, pd.DataFrame]:
    """The tables of one method, model and task."""
    tables = tables_of({"sentiment": "accuracy"})
    return {
        name: table.query("model == 'bert' and method == 'fine-tuned'").reset_index(drop=True)
        for name, table in tables.items()
    }


def written(figure: go.Figure) -> str:
    return str(harmless(figure))


def test_a_gain_is_a_dot_with_its_interval_and_grey_if_it_may_be_zero() -> None:
    figure = delta(tables_of())
    bert, gpt = figure.data
    assert list(bert.x) == pytest.approx([20, -10]) and list(bert.y) == ["sentiment", "relatedness"]
    assert list(bert.error_x.array) == pytest.approx([5, 5])
    assert list(bert.marker.color) == [TUNED, TUNED]
    assert list(gpt.marker.color) == [NOT_SIGNIFICANT, NOT_SIGNIFICANT]
    assert list(bert.text) == ["50.0 → 70.0", "50.0 → 40.0"] and "p =" in bert.hovertemplate
    assert [note.text for note in figure.layout.annotations] == ["bert", "gpt"]
    assert figure.layout.xaxis2.matches == "x", "one scale"


def test_one_of_many_gains_is_not_coloured_by_chance() -> None:
    table = pd.concat([tables_of()["delta"].query("model == 'gpt'")] * 6, ignore_index=True)
    table.loc[0, ["lower", "p_value"]] = 0.001, 0.04
    assert set(delta({"delta": table}).data[0].marker.color) == {NOT_SIGNIFICANT}


def test_methods_have_their_names_at_the_axis_and_what_is_missing_stays_empty() -> None:
    tables = tables_of()
    more = tables["delta"].query("task == 'sentiment'").assign(method="lora")
    figure = delta({"delta": pd.concat([tables["delta"], more], ignore_index=True)})
    assert list(figure.layout.yaxis.categoryarray) == [
        "sentiment, fine-tuned", "relatedness, fine-tuned", "sentiment, lora",
    ]  # fmt: skip
    assert not figure.layout.showlegend


def test_nothing_won_anywhere_is_drawn() -> None:
    table = tables_of()["delta"].assign(delta=0.0, lower=0.0, upper=0.0, strong=float("nan"))
    assert set(delta({"delta": table}).data[0].marker.color) == {NOT_SIGNIFICANT}


def test_every_way_is_a_dot_with_its_interval_next_to_the_majority() -> None:
    figure = scores(tables_of())
    assert len(figure.data) == 2 * (1 + len(WAYS))
    majority, frozen, tuned, lstm = figure.data[:4]
    assert set(majority.x) == {40} and majority.line.color == BASELINE
    assert (frozen.marker.color, tuned.marker.color, lstm.marker.color) == (MODEL, TUNED, CONTROL)
    assert list(tuned.x) == pytest.approx([70, 51])
    assert list(tuned.error_x.array) == pytest.approx([10, 10])
    assert list(tuned.y) == ["fine-tuned, bert", "fine-tuned, gpt"]
    assert list(figure.layout.yaxis.categoryarray)[:3] == [
        "frozen, bert", "fine-tuned, bert", "frozen, LSTM, bert",
    ]  # fmt: skip
    titles = [note.text for note in figure.layout.annotations]
    assert titles == ["sentiment, accuracy", "relatedness, pearson"]


def test_cost_is_of_the_rate_that_was_chosen_and_the_metric_that_decides() -> None:
    tables = tables_of()
    own = decided(tables)
    assert len(own) == 2 * 2 * 3 * 2 and set(own["metric"]) == {"accuracy", "pearson"}
    assert set(own["learning_rate"]) == {1e-3} and set(own["split"]) == {"test"}
    figure = cost(tables)
    assert figure.layout.xaxis.type == "log" and set(figure.data[0].x) == {1000}
    parts = tables["scores"]["split"].map({"test": "dev", "dev": "part of train"})
    on_dev = decided({**tables, "scores": tables["scores"].assign(split=parts)})
    assert on_dev["value"].tolist() == own["value"].tolist() and set(on_dev["split"]) == {"dev"}


def test_the_table_of_costs_has_whole_weights_and_the_names_of_the_figure() -> None:
    table = costs(tables_of())
    assert table["trained weights"].dtype.kind == "i", "1,064,392 and not 1064000"
    assert set(table["method"]) <= set(WAYS_IN_WORDS) and "head" not in table
    assert (table["score × 100"] > 1).all()


def test_trainings_are_a_mean_over_seeds_with_a_band() -> None:
    tables = tables_of()
    second = tables["learning"]["seed"] == 1
    tables["learning"].loc[second, "loss"] += 0.5
    figure = learning(tables)
    bands = [trace for trace in figure.data if trace.fill == "toself"]
    lines = [trace for trace in figure.data if trace.fill != "toself"]
    used = [trace for trace in lines if trace.name]
    assert len(bands) == len(used) == 2 * 2 * 3, "tasks, models, methods"
    assert list(used[0].y) == pytest.approx([1.25, 0.75, 1 / 3 + 0.25, 0.5])
    assert list(bands[0].y) == pytest.approx([1.5, 1, 1 / 3 + 0.5, 0.75, 0.25, 1 / 3, 0.5, 1])
    assert [trace.name for trace in lines if trace.showlegend] == [
        "frozen", "fine-tuned", "frozen, LSTM",
    ]  # fmt: skip
    tried = [trace for trace in lines if not trace.name]
    assert len(tried) == 2 * 2 * 3 and {trace.opacity for trace in tried} == {0.3}, "not selected"
    alone = [trace for trace in learning(one()).data if trace.fill != "toself"]
    assert [trace.name for trace in alone] == ["learning rate 0.001", "learning rate 0.01"]
    assert len({trace.line.color for trace in alone}) == 2
    assert {trace.line.dash for trace in alone} == {"solid"}, "a dash is a model"


def test_of_one_method_every_metric_of_every_seed_is_shown() -> None:
    figure = by_seed(one())
    *seeds, majority, mean = figure.data
    assert all(list(trace.y) == ["accuracy", "other"] for trace in seeds)
    assert {trace.marker.color for trace in (*seeds, mean)} == {TUNED}
    assert majority.marker.color == BASELINE and not figure.layout.showlegend
    assert list(mean.y) == ["accuracy"] and list(mean.error_x.array) == pytest.approx([10])


def test_a_frozen_model_without_epochs_is_left_out_next_to_trained_ones() -> None:
    table = tables_of()["epochs"]
    frozen = (table["method"] == "frozen") & (table["head"] == "plain")
    table.loc[frozen, "learning_rate"] = 0.0
    names = {trace.name for trace in epochs({"epochs": table}).data if trace.name}
    assert names == {"fine-tuned", "frozen, LSTM"}
    alone = epochs({"epochs": table[frozen]}).data
    assert alone and {trace.mode for trace in alone} == {"markers"}


def test_objectives_that_do_not_differ_from_the_first_are_grey() -> None:
    from workbench.analyses.transfer.figures.pretraining import scores as arms

    rows = [("mlm", 0.6, None, 1.0), ("ltr", 0.8, 0.2, 0.002), ("lstm", 0.6, 0.0, 0.9)]
    table = pd.DataFrame(rows, columns=["arm", "value", "delta", "p_value"]).astype(
        {"delta": float}
    )
    table = table.assign(
        size="tiny", task="mood", metric="accuracy", lower=table["value"] - 0.1,
        upper=table["value"] + 0.1, delta_lower=table["delta"] - 0.1,
        delta_upper=table["delta"] + 0.1,
    )  # fmt: skip
    scores = pd.DataFrame({"task": ["mood"], "metric": ["accuracy"], "baseline": [0.5]})
    majority, dots = arms({"table": table, "scores": scores}).data
    assert majority.line.color == BASELINE
    assert list(dots.marker.color) == [MODEL, TUNED, NOT_SIGNIFICANT]


def test_a_layer_whose_reset_changes_nothing_significantly_is_grey() -> None:
    from workbench.analyses.transfer.figures.drift import rewound

    table = pd.DataFrame(
        {"stack": ["none", "encoder", "encoder", "all"], "layer": [-1, 0, 1, -1],
         "metric": "accuracy", "value": [0.9, 0.89, 0.6, 0.5], "change": [0, -0.01, -0.3, -0.4],
         "lower": [0, -0.02, -0.4, -0.5], "upper": [0, 0.01, -0.2, -0.3],
         "p_value": [1.0, 0.4, 0.002, 0.002]}
    )  # fmt: skip
    bars, whole, before = rewound({"rewound": table}).data
    assert list(bars.marker.color) == [NOT_SIGNIFICANT, TUNED]
    assert list(bars.y) == pytest.approx([89, 60])
    assert (whole.y[0], before.y[0]) == pytest.approx((90, 50))


def test_ways_have_the_same_colour_in_every_figure() -> None:
    table = tables_of()["means"]
    some = ways(table[table["method"] == "fine-tuned"])
    assert some["fine-tuned"]["color"] == ways(table)["fine-tuned"]["color"]
    others = pd.DataFrame({"method": ["lora", "bitfit", "top"], "head": "plain"})
    assert len({looks["color"] for looks in ways(others).values()}) == 3
    assert way({"method": "fine-tuned", "head": "text"}) == "fine-tuned, text"


def test_an_attempt_that_broke_off_leaves_no_epochs() -> None:
    tables = one()
    assert epochs({"epochs": tables["epochs"].iloc[:0]}) is not None
    broken = tables["learning"].assign(loss=float("nan"))
    assert learning({"learning": broken}) is not None


@pytest.mark.parametrize("name", [*FROZEN_VS_FINETUNED, *FINETUNE])
def test_names_that_are_markup_stay_text(name: str) -> None:
    tables = {
        key: table.replace({"sentiment": EVIL, "bert": EVIL, "lora": EVIL, "accuracy": EVIL})
        for key, table in tables_of().items()
    }
    tables["means"] = tables["means"].replace({"frozen": EVIL})
    draw = {**FINETUNE, **FROZEN_VS_FINETUNED}[name]
    assert "<img" not in written(draw(tables))
