"""A model and a corpus in which senses are known: a word's meaning is the word before it.

Layer 0 is a vector of the word alone; those of determiners are alike, and those of pronouns. Layer
1 adds the vector of the word before, which is one vector for all determiners and another for all
pronouns: *play* after a determiner is a noun, after a pronoun a verb, and its states at layer 1 are
two points. Random weights read no context.
"""

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import torch
from spacy.tokens import Doc
from torch import Tensor

from workbench import Corpus
from workbench.corpora.layers import vocabulary
from workbench.models.word_models import WordModel

WIDTH = 24
FORMS = ("play", "walk", "call", "run")  # nouns and verbs
NOUNS = ("dog", "house", "river", "song")
VERBS = ("sing", "see", "go", "make")
BEFORE = {"the": "DET", "a": "DET", "they": "PRON", "we": "PRON"}


def planted_model(seed: int = 0, context: float = 1.5) -> WordModel:
    """A model whose layer 1 adds `context` times the vector of the word before."""

    def vector(name: str) -> Tensor:
        drawn = torch.Generator().manual_seed(seed + crc32(name.encode()))
        return torch.nn.functional.normalize(torch.randn(WIDTH, generator=drawn), dim=0)

    def states(sentences: Sequence[Sequence[str]], given: Any = None) -> Sequence[Tensor]:
        layers = torch.zeros(2, len(sentences), max(map(len, sentences)), WIDTH)
        for row, words in enumerate(sentences):
            for place, word in enumerate(words):
                before = BEFORE.get(words[place - 1], "") if place else ""
                layers[0, row, place] = vector(word.lower())
                if word in BEFORE:
                    layers[0, row, place] = 3 * vector(f"a {BEFORE[word]}") + vector(word)
                layers[1, row, place] = layers[0, row, place] + context * (
                    vector(before) if before else torch.zeros(WIDTH)
                )
        return list(layers)

    weights = {"seed": torch.tensor([float(seed), context])}
    return WordModel(
        f"planted-{seed}", "planted", 1, WIDTH, weights, states,
        make_random=lambda other: planted_model(1000 + other, 0.0),
    )  # fmt: skip


def doc_of(words: Sequence[str], tags: Sequence[str], document: str) -> Doc:
    """A sentence of a document; lemmas are forms, and relations go with tags."""
    doc = Doc(
        vocabulary("en"), words=list(words), pos=list(tags), lemmas=list(words),
        heads=[0] * len(words), deps=[f"of-{tag.lower()}" for tag in tags],
    )  # fmt: skip
    doc._.document = document
    return doc


def planted_corpus(repeats: int = 12) -> Corpus:
    """Each form after a determiner and after a pronoun, and words that are nouns or verbs only."""
    docs = []
    for number in range(repeats):
        for place, form in enumerate((*FORMS, *NOUNS, *VERBS)):
            for before, tag in (("the", "NOUN"), ("they", "VERB")):
                if form in (VERBS if tag == "NOUN" else NOUNS):
                    continue
                first = {"the": "a", "they": "we"}[before] if (number + place) % 2 else before
                docs.append(doc_of([first, form], [BEFORE[first], tag], f"document {number}"))
    return Corpus("planted", {"test": lambda: iter(docs)})
