"""The planted heads as the engine shows them: loaded from disk, over a corpus, head by head."""

from pathlib import Path

import pytest
import torch
from spacy.tokens import Doc

from tests.planted.model import Planted
from workbench import Capture, Gate, Model, encode, forward, load
from workbench.engine.batch import Pieces
from workbench.engine.model import Output


@pytest.fixture
def model(planted: Planted, tmp_path: Path) -> Model:
    planted.save(tmp_path)
    return load(tmp_path, "cpu")


def test_every_planted_head_looks_where_it_must(
    planted: Planted, model: Model, docs: list[Doc]
) -> None:
    docs = docs[:60]
    batch, capture = encode(docs), Capture()
    texts: list[Pieces] = []

    def keep(text: Pieces, output: Output) -> None:
        texts.append(text)

    forward(model, batch, keep, taps=[capture], hidden=False, pieces=600)
    assert sum(map(len, texts)) == len(docs)
    for name, (layer, head) in planted.heads.items():
        if name not in planted.rules:
            continue
        (site,) = (s for s in model.sites if s.layer == layer)
        for text, maps in zip(texts, capture.maps[site], strict=True):
            for row, document in enumerate(text.order.tolist()):
                length = int(text.mask[row].sum())
                expected = torch.tensor(planted.expected(name, docs[document]))
                weights = maps[row, head, :length]  # [queries, keys]
                assert len(expected) == length
                on_target = weights.gather(1, expected[:, None])
                assert on_target.min() > 0.999, (name, docs[document].text)


def test_a_gated_head_takes_its_answer_with_it(
    planted: Planted, model: Model, docs: list[Doc]
) -> None:
    """BERT's `previous` and GPT-2's `induction` make the logits; no other head does."""
    speaking = "induction" if planted.causal else "previous"
    words = encode(docs[:20])
    text = model.encode(words)
    if planted.causal:  # induction has something to say where the text repeats itself
        twice = torch.cat([text.ids, text.ids], 1), torch.cat([text.mask, text.mask], 1)
        words_twice = torch.cat([text.words, text.words], 1)
        special = torch.cat([text.special, text.special], 1)
        text = Pieces(*twice, words_twice, special, None, text.word_counts, text.kept, text.order)
    with torch.no_grad():
        before = model.forward(text, logits=True).logits
        assert before is not None
        assert before.abs().max() > 1
        for name, (layer, head) in planted.heads.items():
            gates = torch.ones(len(model.sites), 4)
            gates[layer, head] = 0
            after = model.forward(text, taps=[Gate(gates)], logits=True).logits
            assert after is not None
            silent = bool((after[text.mask] == 0).all())
            if name == speaking:
                assert silent
            elif not planted.causal:
                assert torch.equal(after, before), name
