"""A judge of `lens` for task heads: one text and one layer at a time, in plain Python.

The states of a text come from the model, what a head reads of them from a loop over layers, and
shares, ranks and final layers are counted one by one. Every text of the corpus is predicted.
"""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

import workbench as wb
from tests.analyses.predictions.task_folders import NAMES, with_head
from tests.judges.odd import run_here
from tests.night import mostly
from workbench.analyses.predictions.prediction import labelled
from workbench.engine.task import Labelling as Kind

SIZE = 6  # texts


def judged(model: Any, docs: list[Any], kind: Kind) -> list[dict[str, Any]]:
    """For each prediction the log-probabilities of every layer, and the true choice."""
    found = []
    for number, doc in enumerate(docs):
        for prediction in labelled(model, doc):
            if prediction.kind == "end":
                continue
            states = model.states(prediction.text)
            logs = []
            for layer in range(len(states)):
                seen = [*states[: layer + 1], *[states[layer]] * (len(states) - 1 - layer)]
                logits = prediction.head_logits(lambda _, s=seen: s, prediction.text)[0]
                logs.append(logits.double().log_softmax(-1).tolist())
            word = prediction.position
            if kind == "class":
                gold = NAMES[kind].index(doc._.labels["sentiment"])
            elif kind == "tags":
                if doc[word].pos_ not in NAMES[kind]:
                    continue
                gold = NAMES[kind].index(doc[word].pos_)
            else:
                spans = list(doc.spans.get("answers", ()))
                gold = spans[0].start if spans else len(doc)
            found.append({"logs": logs, "gold": gold, "tag": doc[word].pos_, "text": number})
    return found


CASES = [
    ("mini:bert", "class", "primer/sentiment"),
    ("mini:bert", "tags", "primer"),
    ("mini:bert", "answers", "primer/questions"),
    ("mini:elmo", "class", "primer/sentiment"),
]


@pytest.mark.parametrize(
    ("name", "kind", "corpus"),
    mostly(CASES, CASES[0]),
)
@torch.no_grad()
def test_tables_are_those_of_a_plain_loop(
    name: str, kind: Kind, corpus: str, tmp_path: Path
) -> None:
    model = with_head(
        wb.load(name, device="cpu"), tmp_path, kind, pairs=kind == "answers", lstm=False
    )
    read = wb.read(f"{corpus}:size=200")
    found = run_here(
        "lens", model, read, max_sentences=SIZE, max_predictions=10_000, random_models=1
    )
    docs = list(read.docs("test", SIZE))
    rows = judged(model, docs, kind)
    layers = found.tables["layers"].query("weights == 'model'")
    assert (layers["n"] == len(rows)).all()
    value = layers.set_index(["layer", "measure"])["value"]
    final = []
    for layer in range(5 if name == "mini:bert" else 3):
        sums: dict[str, float] = {}
        for row in rows:
            logs, last = row["logs"][layer], row["logs"][-1]
            own, top = last.index(max(last)), logs.index(max(logs))
            measures = {
                "agreement": top == own,
                "accuracy": top == row["gold"],
                "p_final": math.exp(logs[own]),
                "rank_gold": 1 + sum(each > logs[row["gold"]] for each in logs),
                "nats": -logs[row["gold"]],
                "kl": sum(math.exp(p) * (p - q) for p, q in zip(last, logs, strict=True)),
                "entropy": -sum(math.exp(q) * q for q in logs),
            }
            for measure, each in measures.items():
                sums[measure] = sums.get(measure, 0.0) + float(each) / len(rows)
        for measure, mean in sums.items():
            assert value[layer, measure] == pytest.approx(mean, abs=2e-3), (layer, measure)
    for row in rows:
        tops = [logs.index(max(logs)) for logs in row["logs"]]
        layer = len(tops) - 1
        while layer and tops[layer - 1] == tops[-1]:
            layer -= 1
        final.append(layer)
    groups = found.tables["groups"].set_index(["by", "group"])
    assert groups.loc[("all", "all"), "mean_layer"] == pytest.approx(sum(final) / len(final))
    by, names = ("tag", "tag") if kind == "tags" else ("label", "gold")
    if kind != "answers":
        for group, row in groups.xs(by).iterrows():
            inside = [
                layer
                for layer, each in zip(final, rows, strict=True)
                if (each[names] if by == "tag" else NAMES[kind][each[names]]) == group
            ]
            assert row["mean_layer"] == pytest.approx(sum(inside) / len(inside))
            assert row["n"] == len(inside)
