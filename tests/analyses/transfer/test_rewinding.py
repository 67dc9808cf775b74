"""A layer put back: where one layer alone was changed, it alone brings the score back."""

from pathlib import Path
from typing import Any

import pytest
import torch

import workbench as wb
from tests.analyses.heads.conftest import Silent
from tests.minis import shared
from workbench import experiments, read
from workbench.analyses.transfer.drift import head_for, rewound
from workbench.corpora.tasks import scored_of
from workbench.experiment import Inputs


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("bert", 2),
        pytest.param("gpt", 4, marks=pytest.mark.slow),
        pytest.param("elmo", 1, marks=pytest.mark.slow),
        pytest.param("t5", 0, marks=pytest.mark.slow),
    ],
)
def test_only_the_layer_that_was_changed_brings_the_score_back(
    name: str, layer: int, tmp_path: Path
) -> None:
    before, corpus = shared(f"mini:{name}"), read("primer/sentiment:size=600")
    kind = experiments()["finetune"]
    how: dict[str, Any] = {
        "method": "frozen",
        "max_train": 200,
        "max_dev": 40,
        "max_test": 60,
        "seeds": [0],
    }
    found = kind.run(
        Inputs((before,), (corpus,), keep=tmp_path), kind.settings(**how), Silent()
    ).tables["scores"]
    score = found.query("split == 'test' and metric == 'accuracy'")["value"].item()
    after = before.copy()
    places = after.weight_places()
    changed = {
        n: w for n, w in after.named_weights().items() if n in places and places[n].layer == layer
    }
    torch.manual_seed(0)
    with torch.no_grad():
        for weights in changed.values():
            weights.add_(torch.randn_like(weights))
    docs = list(corpus.docs("test", 60))
    after = after.with_task_head(wb.load(str(tmp_path)).task_head)
    head = head_for(docs, after)
    assert head is not None
    state = {n: w.clone() for n, w in after.named_weights().items()}
    scored, _ = scored_of(corpus, head.task, "test", 0, 60)
    table = rewound(before, after, head, scored, lambda done, all_: None)
    values = table.set_index("layer")["value"].drop(-1)
    broken, whole = table["value"].iloc[0], table["value"].iloc[-1]
    assert (table["stack"].iloc[0], table["stack"].iloc[-1]) == ("none", "all")
    assert whole == score > broken
    assert values[layer] == score and (values.drop(layer) == broken).all()
    assert (table["change"] == table["value"] - broken).all()
    assert all(torch.equal(state[n], w) for n, w in after.named_weights().items()), (
        "nothing is kept"
    )


def test_without_a_head_or_a_label_nothing_is_put_back() -> None:
    model = shared("mini:bert")
    docs = list(read("primer").docs("test", 5))
    assert head_for(docs, model) is None
