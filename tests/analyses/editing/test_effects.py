"""What a head writes and what an edit costs: against what they stand on, on an odd model too."""

from typing import Any

import pytest

import workbench as wb
from tests.judges.odd import odd_corpus, odd_model
from tests.minis import shared
from tests.night import mostly
from workbench.analyses.editing.effects import changes, written
from workbench.analyses.predictions.prediction import following, of_word
from workbench.analyses.predictions.target import Target
from workbench.corpora.encode import doc_of, encode
from workbench.engine.model import Model

DOC = doc_of("Ben walks to the hill .")


@pytest.mark.parametrize("name", mostly(("mini:bert", "mini:gpt"), "mini:gpt"))
def test_what_a_head_writes_is_its_direct_contribution(name: str) -> None:
    """Of several choices in one pass, as `wb.contributions` has them one by one."""
    model = shared(name)
    prediction = following(model, DOC) if name == "mini:gpt" else of_word(model, DOC, 1)
    choices = prediction.logits()[0].topk(3).indices.tolist()
    kind = "causal" if name == "mini:gpt" else "self"
    head = (str(model.sites[0].stack), kind, 2, 1)
    found = written(model, prediction, choices, head)
    for choice, row in zip(choices, found.to_dict("records"), strict=True):
        table = wb.contributions(model, prediction, target=Target(choice)).table
        heads = table[table["part"] == "head"]
        own = heads[(heads["layer"] == 2) & (heads["head"] == 1)]["contribution"].item()
        assert row["contribution"] == pytest.approx(own, rel=1e-5, abs=1e-6)
        assert row["rank"] == 1 + int((heads["contribution"].abs() > abs(own) + 1e-9).sum())
        assert row["heads"] == len(heads)


def test_a_head_of_the_encoder_writes_nothing_to_the_decoder() -> None:
    model = shared("mini:t5")
    prediction = of_word(model, DOC, 1)
    assert written(model, prediction, [5], ("encoder", "self", 0, 0)).empty
    assert len(written(model, prediction, [5], ("decoder", "cross", 0, 0))) == 1


def _models() -> dict[str, tuple[Model, Any]]:
    corpus = odd_corpus()
    return {
        "mini:bert": (shared("mini:bert"), [*wb.read("primer").docs("test", 12)]),
        "odd": (odd_model(corpus), [*corpus.docs("test", 12)]),
    }


def test_the_loss_with_an_edit_is_that_of_the_ablated_head() -> None:
    """On two shapes, against a loop over the texts; an edit that changes nothing costs nothing."""
    for name, (model, docs) in _models().items():
        loss, _ = changes(model, model.edited("2.1=0"), docs)
        same, _ = changes(model, model.edited("2.1=1"), docs)
        assert (same.before, same.lower, same.upper) == (same.after, 0, 0), name
        assert loss.before == same.before and loss.n == len(docs)
        assert loss.after != loss.before and loss.lower <= loss.after - loss.before <= loss.upper


def test_the_loss_of_a_decoder_is_that_of_a_plain_loop() -> None:
    model = shared("mini:gpt").edited("3.2=0")
    docs = [*wb.read("primer").docs("test", 5)]
    nats, number = 0.0, 0
    for doc in docs:
        ids = model.encode(encode([doc])).ids  # [1, pieces]
        logits = model.net(ids).logits[0, :-1].log_softmax(-1)
        nats -= logits.gather(1, ids[0, 1:, None]).sum().item()
        number += ids.shape[1] - 1
    loss, _ = changes(shared("mini:gpt"), model, docs)
    assert loss.after == pytest.approx(nats / number, abs=1e-5)
