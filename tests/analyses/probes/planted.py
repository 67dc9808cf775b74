"""A model whose layers encode chosen labels, and a corpus that only it can read.

Tags and arcs are random for each word, so no word predicts them; from layer 2 on the states encode
the tag, from layer 4 on the relation of the word to its head.
"""

from collections.abc import Sequence
from functools import cache
from random import Random

import torch
from spacy.tokens import Doc
from torch import Tensor

from workbench import Corpus
from workbench.corpora.layers import vocabulary
from workbench.models.word_models import WordModel

TAGS = "NOUN VERB ADJ ADV".split()
RELATIONS = "nsubj obj amod advmod".split()
LAYERS, WIDTH, TAG_AT, ARC_AT = 5, 24, 2, 4


def corpus(sizes: dict[str, int], length: int = 6, seed: int = 0) -> Corpus:
    """Sentences of words that are all different, with random tags and trees."""
    random = Random(seed)
    splits = {}
    for split, size in sizes.items():
        splits[split] = [_doc(random, f"{split}{number}x", length) for number in range(size)]
    return Corpus(
        "planted", {split: (lambda docs=docs: iter(docs)) for split, docs in splits.items()}
    )


def _doc(random: Random, name: str, length: int) -> Doc:
    words = [f"{name}{place}" for place in range(length)]
    root = random.randrange(length)
    heads = [root] * length
    deps = [random.choice(RELATIONS) for _ in words]
    deps[root] = "ROOT"
    return Doc(
        vocabulary("en"),
        words=words,
        pos=[random.choice(TAGS) for _ in words],
        heads=heads,
        deps=deps,
    )


def model(read: Corpus, seed: int = 0) -> WordModel:
    """The model that knows this corpus; with random weights it knows nothing."""
    tag = {t.text: TAGS.index(t.pos_) for doc in read for t in doc}
    arc = {t.text: RELATIONS.index(t.dep_) for doc in read for t in doc if t.dep_ in RELATIONS}
    return _model(tag, arc, "planted", seed)


def _model(tag: dict[str, int], arc: dict[str, int], name: str, seed: int) -> WordModel:
    def states(sentences: Sequence[Sequence[str]]) -> Sequence[Tensor]:
        longest = max(map(len, sentences))
        out = torch.zeros(LAYERS + 1, len(sentences), longest, WIDTH)
        for row, words in enumerate(sentences):
            for place, word in enumerate(words):
                out[:, row, place] = _noise(word, seed)
                if word in tag:
                    out[TAG_AT:, row, place, tag[word]] += 4
                if word in arc:
                    out[ARC_AT:, row, place, 8 + arc[word]] += 4
        return list(out)

    return WordModel(
        name,
        "planted",
        LAYERS,
        WIDTH,
        {"seed": torch.tensor([float(seed)])},
        states,
        tag,
        make_random=lambda drawn: _model({}, {}, f"{name}@random", drawn + 1),
    )


@cache
def _noise(word: str, seed: int) -> Tensor:
    """Of a word in every layer.  # [layers, width]"""
    drawn = torch.Generator().manual_seed(hash_of(word, seed))
    return torch.randn(LAYERS + 1, WIDTH, generator=drawn) / 3


def hash_of(word: str, seed: int) -> int:
    return Random(f"{seed} {word}").getrandbits(40)
