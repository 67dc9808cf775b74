"""Attention that stays within the sentence, in documents of several sentences, against a loop."""

from typing import Any

import numpy as np
import pytest
from spacy.tokens import Doc

from tests.analyses.heads.conftest import random_docs
from tests.analyses.heads.prescribed import HEADS, LAYERS, Prescribed
from workbench import encode
from workbench.analyses.heads.collect import PassSettings, look
from workbench.analyses.heads.gold import gold_of
from workbench.analyses.heads.measures import HEAD
from workbench.engine.batch import NO_WORD

# sentences of each document; the longest are cut
PARTS = (1, 3, 2, 5, 4)
SENTENCES = random_docs(3, sum(PARTS))
STARTS = np.cumsum((0, *PARTS))
DOCS = [
    Doc.from_docs(SENTENCES[start : start + size])
    for start, size in zip(STARTS, PARTS, strict=False)
]


def _by_hand(model: Prescribed, document: int, layer: int) -> Any:
    """Of each word what its own sentence is given of all words are given, added up.  # [heads]"""
    doc = DOCS[document]
    sentence = [number for number, own in enumerate(doc.sents) for _ in own]
    owners = model.encode(encode(DOCS), [document]).words[0].tolist()
    maps = model.maps(document, layer, len(owners)).double().numpy()
    found = np.zeros(HEADS)
    for word in {owner for owner in owners if owner != NO_WORD}:
        row = maps[:, [n for n, owner in enumerate(owners) if owner == word]].mean(1)
        among = [n for n, owner in enumerate(owners) if owner != NO_WORD]
        near = [n for n in among if sentence[owners[n]] == sentence[word]]
        found += row[:, near].sum(-1) / row[:, among].sum(-1).clip(1e-9)
    return found if len(set(sentence)) > 1 else np.zeros(HEADS)


@pytest.mark.parametrize("kind", ["self", "causal"])
@pytest.mark.parametrize("pieces", [1, 90, 2_000])
def test_the_share_of_the_own_sentence_is_that_of_a_loop(kind: Any, pieces: int) -> None:
    model = Prescribed(kind, max_pieces=40)
    assert any(model.encode(encode(DOCS)).cut)
    answers = look(
        model, encode(DOCS), gold_of(DOCS), PassSettings(n_bootstrap=1, n_shuffles=1), pieces=pieces
    )
    for site in model.sites:
        expected = sum(_by_hand(model, document, site.layer) for document in range(len(DOCS)))
        found = answers.heads[site][0, :, HEAD.index("block")].numpy()
        assert found == pytest.approx(expected, rel=1e-5)
        assert (found > 0).all()
    assert len(model.sites) == LAYERS
