"""Models whose attributions are known: a linear one, and one that depends on a single token."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from spacy.tokens import Doc
from torch import Tensor

import workbench as wb
from tests.tiny import tiny_bert
from workbench.analyses.predictions.prediction import Prediction
from workbench.corpora.encode import encode
from workbench.corpora.readers.text import tokenizer
from workbench.engine.batch import Pieces
from workbench.models.huggingface import HuggingFace
from workbench.models.word_models import Vectors

WORDS = ("Ben", "walks", "to", "the", "hill", "lake")
KEY = "zebra"
OTHERS = ("Ben", "walks", "to", "hill")


@dataclass(frozen=True, eq=False)
class Linear(Prediction):
    """The sum of static vectors, and a linear map to two choices."""

    @property
    def weights(self) -> Tensor:
        """# [width, choices]"""
        return torch.randn(5, 2, generator=torch.Generator().manual_seed(1))

    def logits(self, text: Pieces | None = None, target: Pieces | None = None) -> Tensor:
        states = self.model.states(self.text if text is None else text)[0]
        return states.sum(1) @ self.weights


def linear(folder: Path, words: Sequence[str] = WORDS) -> Linear:
    table = torch.randn(len(WORDS), 5, generator=torch.Generator().manual_seed(0))
    Vectors(WORDS, table).save(folder)
    model = wb.load(str(folder), device="cpu")
    doc = Doc(tokenizer(None, "en").vocab, words=list(words))
    return Linear(model, doc, "class", model.encode(encode([doc])))


def planted() -> HuggingFace:
    """A BERT that reads one token only: all other words have the embedding of the mask piece.

    Two layers attend to the token and copy its embedding; everything else is zero. Positions have
    one vector, because without it the norm of the embeddings ignores their scale, and gradient x
    input is zero for every token.
    """
    net, words = tiny_bert([KEY, *OTHERS])
    key = torch.tensor([1.0, 1, -1, -1]).repeat(8)
    other = torch.tensor([1.0, -1, 1, -1]).repeat(8)
    with torch.no_grad():
        for name, weights in net.named_parameters():
            is_norm = "LayerNorm.weight" in name
            weights.fill_(1.0) if is_norm else weights.zero_()
        table = net.bert.embeddings.word_embeddings.weight
        table.normal_(generator=torch.Generator().manual_seed(0))  # of pieces that no text has
        for piece in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *OTHERS):
            table[words.get_vocab()[piece]] = other
        net.bert.embeddings.position_embeddings.weight[:] = torch.tensor([1.0, -1, -1, 1]).repeat(8)
        table[words.get_vocab()[KEY]] = key
        for layer in net.bert.encoder.layer:
            layer.attention.self.query.bias.copy_(key)
            for linear_map in (
                layer.attention.self.key,
                layer.attention.self.value,
                layer.attention.output.dense,
            ):
                linear_map.weight.copy_(torch.eye(32))
        net.cls.predictions.transform.dense.weight.copy_(torch.eye(32))
    return HuggingFace(net, words, "planted")
