"""A planted model whose class rests on one attention head, and whose language model on another.

The planted BERT of `tests.planted` with one more copying head: `next` writes the code of the piece
after into the field that the classifier reads, and `previous` that of the piece before into the
field that the language-model head reads. All other heads change nothing. In three forms: a
standard head of transformers, a head on a mix of layers, and either as an object or in a folder.
"""

from functools import cache
from pathlib import Path

import torch
from spacy.tokens import Doc

import workbench as wb
from tests.planted import bert, scores
from tests.planted.model import Planted
from tests.planted.signs import HEADS, Head, attention, bit
from workbench import Corpus
from workbench.corpora.layers import vocabulary
from workbench.engine.task import Task
from workbench.models.huggingface import HuggingFace
from workbench.models.output_heads.standard_heads import with_standard_head
from workbench.models.output_heads.task_heads import MixHead, Scale

OF_CLASS, OF_PIECES = bert.HEADS["next"], bert.HEADS["previous"]  # layer and head
FIRST = OF_CLASS[0] * HEADS + OF_CLASS[1]
TASK = Task("parity", "class", "parity", ("even", "odd"), False, "accuracy")
STRONG = 4.0  # a logit of the classifier
REPEATS = 6  # of a word, so that the piece before is mostly right


def language_model() -> tuple[Planted, HuggingFace]:
    """The planted language model with the second copying head."""
    planted = bert.build()
    layer = {**bert._layers()[0], OF_CLASS[1]: Head(scores.near(+1), copies=("code", "unread"))}
    query, key, value, output = attention(layer)
    block = planted.model.bert.encoder.layer[0].attention
    with torch.no_grad():
        for module, weights in (
            (block.self.query, query), (block.self.key, key), (block.self.value, value),
            (block.output.dense, output),
        ):  # fmt: skip
            module.weight.copy_(weights)
    return planted, HuggingFace(planted.model, planted.tokenizer, "two heads")


def standard() -> HuggingFace:
    """With a standard head: the class is the first bit of the code of the first piece."""
    _, model = language_model()
    tuned = with_standard_head(model, TASK, 0)
    net = tuned.net
    with torch.no_grad():
        for weights in (*net.bert.pooler.parameters(), *net.classifier.parameters()):
            weights.zero_()
        net.bert.pooler.dense.weight[0] = STRONG * bit("unread", 0)
        net.classifier.weight[0, 0], net.classifier.weight[1, 0] = -STRONG, STRONG
    return tuned


def mixing() -> HuggingFace:
    """With a head on the mean of all layers: the same bit of the pieces after each word."""
    _, model = language_model()
    layers = model.stacks[0].layers
    head = MixHead(TASK, layers, model.width, False, Scale())
    with torch.no_grad():
        head.outer.weight[0, : model.width] = -STRONG * bit("unread", 0)
        head.outer.weight[1, : model.width] = STRONG * bit("unread", 0)
    found = model.with_task_head(head.eval())
    assert isinstance(found, HuggingFace)
    return found


FORMS = {"standard": standard, "mixing": mixing}


def saved(form: str, folder: Path) -> str:
    """A form in a folder."""
    FORMS[form]().save(folder)
    return str(folder)


@cache
def texts(number: int = 24) -> Corpus:
    """Words, each repeated; a text's class is the bit that the classifier reads of its first."""
    planted = bert.build()
    index = list(planted.facts)
    place = {piece: n for n, piece in enumerate(index)}
    known = [piece for piece in index if piece.isalpha() and planted.facts[piece].rank]
    sides = [[piece for piece in known if place[piece] % 2 == side] for side in (0, 1)]
    docs = []
    for n in range(number):
        words = [sides[n % 2][n]] * REPEATS + [sides[n % 2][n + 40]] * REPEATS
        doc = Doc(vocabulary("en"), words=words)
        doc._.labels = {"parity": TASK.names[n % 2]}
        docs.append(doc)
    return Corpus("repeats", {"train": lambda: iter(docs), "test": lambda: iter(docs)})


def pair() -> tuple[str, str]:
    """Two texts of different classes, and of different first words."""
    corpus = texts(2)
    one, other = corpus.docs("test")
    return one.text, other.text


def loaded(form: str, folder: Path, objective: str) -> wb.Model:
    """A form from a folder, as it is used for an objective."""
    return wb.load(saved(form, folder), device="cpu", objective=objective)
