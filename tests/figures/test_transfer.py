"""Figures of adapting: values where they belong, whatever the names, whatever is missing."""

from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest

from workbench.figures.sanitize import harmless
from workbench.figures.transfer import (
    FINETUNE,
    FROZEN_VS_FINETUNED,
    by_seed,
    cost,
    decided,
    delta,
    epochs,
    learning,
    scores,
    way,
    ways,
)

EVIL = "<img/src=x/onerror=window.evil=1>"
WAYS = (("frozen", "plain"), ("fine-tuned", "plain"), ("frozen", "lstm"))
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
                 "lower": won - 0.05, "upper": won + 0.05, "p_value": 0.04, "strong": 0.6}
            )  # fmt: skip
            for method, head in WAYS:
                key = {"task": task, "model": model, "method": method, "head": head}
                value = 0.5 + (won if method != "frozen" else 0.1 * (head == "lstm"))
                rows["means"].append(
                    {**key, "metric": metric, "value": value, "lower": value - 0.1,
                     "upper": value + 0.1}
                )  # fmt: skip
                for seed, rate in ((0, 1e-3), (0, 1e-2), (1, 1e-3)):
                    own = {**key, "seed": seed, "learning_rate": rate, "ridge": 0.0}
                    paid = {"trainable": 1000, "peak_memory": 9.0, "seconds": 1.0, "size": 0.1}
                    splits = [("dev", metric), ("test", metric), ("test", "other")]
                    rows["scores"] += [
                        {**own, "split": split, "metric": name, "value": value, **paid}
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


def test_cells_show_the_gain_and_mark_gains_that_may_be_zero() -> None:
    figure = delta(tables_of())
    heat, sure, unsure = figure.data
    assert heat.z.tolist() == [[0.2, 0.01], [-0.1, 0.0]]
    assert list(heat.y) == ["sentiment", "relatedness"] and list(heat.x) == ["bert", "gpt"]
    assert heat.zmin == -heat.zmax and heat.zmax > 0.2, "zero in the middle, no cell too dark"
    assert list(zip(sure.y, sure.x, strict=True)) == [
        ("sentiment", "bert"), ("relatedness", "bert"),
    ]  # fmt: skip
    assert list(unsure.x) == ["gpt", "gpt"]
    assert "<b>Δ" in sure.texttemplate and "<b>" not in unsure.texttemplate
    assert "·" in unsure.texttemplate
    assert sure.customdata[0][:3].tolist() == [0.5, 0.7, 0.2] and "p =" in sure.hovertemplate


def test_each_method_has_a_panel_and_what_is_missing_stays_empty() -> None:
    tables = tables_of()
    more = tables["delta"].query("task == 'sentiment'").assign(method="lora")
    figure = delta({"delta": pd.concat([tables["delta"], more])})
    heats = [trace for trace in figure.data if isinstance(trace, go.Heatmap)]
    assert len(heats) == 2 and pd.isna(heats[1].z[1]).all()
    assert [note.text for note in figure.layout.annotations] == ["fine-tuned", "lora"]


def test_many_models_have_room_for_the_change_alone() -> None:
    table = tables_of()["delta"].query("model == 'bert'")
    wide = pd.concat([table.assign(model=f"model {n}") for n in range(9)])
    assert "customdata[0]" not in delta({"delta": wide}).data[1].texttemplate


def test_nothing_won_anywhere_is_drawn() -> None:
    table = tables_of()["delta"].assign(delta=0.0, lower=0.0, upper=0.0, strong=float("nan"))
    heat = delta({"delta": table}).data[0]
    assert heat.zmax > 0


def test_every_way_is_a_dot_with_its_interval() -> None:
    figure = scores(tables_of())
    assert len(figure.data) == 2 * len(WAYS)
    assert [trace.name for trace in figure.data[:3]] == ["frozen", "fine-tuned", "frozen, LSTM"]
    tuned = figure.data[1]
    assert list(tuned.x) == pytest.approx([0.7, 0.51])
    assert list(tuned.error_x.array) == pytest.approx([0.1, 0.1])
    places = [trace.y[0] for trace in figure.data[:3]]
    assert places == sorted(places) and max(map(abs, places)) < 0.5, "beside its model's name"
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


def test_an_attempt_is_a_line_as_it_was() -> None:
    figure = learning(tables_of())
    attempts = [trace for trace in figure.data if trace.x[0] is not None]
    assert len(attempts) == 2 * 2 * 3 * 3
    assert list(figure.data[0].y) == [1, 1 / 2, 1 / 3, 1 / 4]
    assert [trace.name for trace in attempts if trace.showlegend] == [
        "frozen", "fine-tuned", "frozen, LSTM",
    ]  # fmt: skip
    seeds = [trace.line.dash for trace in figure.data if str(trace.name).startswith("seed ")]
    assert len(set(seeds)) == len(seeds) and set(seeds) == {each.line.dash for each in attempts}
    alone = [trace for trace in learning(one()).data if trace.x[0] is not None]
    assert [trace.name for trace in alone if trace.showlegend] == [
        "learning rate 0.001",
        "learning rate 0.01",
    ]
    assert len({trace.line.color for trace in alone}) == 2
    assert len({trace.line.dash for trace in alone}) == 2, "a dash a seed"
    assert len([trace for trace in epochs(one()).data if trace.x[0] is not None]) == 3


def test_of_one_method_every_metric_of_every_seed_is_shown() -> None:
    figure = by_seed(one())
    assert [trace.name for trace in figure.data] == ["seed 0", "seed 1"]
    assert list(figure.data[0].y) == ["accuracy", "other"]


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
