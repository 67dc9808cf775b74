"""What the judges measure on: an odd-shaped random model, its random twin, and an odd corpus.

The built-in models are of one width and well behaved; errors hide there. The odd model has 7 layers
of 6 heads of width 20, attention that is far from uniform, one feature of its states much larger
than the others, and an offset common to all words. The corpus has sentences of 1 to 60 words with
ambiguous tags, random trees and a long-tailed vocabulary. Costs milliseconds.
"""

import random
from collections.abc import Mapping
from typing import Any

import torch
from spacy.tokens import Doc
from transformers import BertConfig, BertForMaskedLM

from tests.tiny import tiny_bert
from workbench import Corpus, Result, experiments
from workbench.corpora.layers import vocabulary
from workbench.experiment import Inputs
from workbench.models.huggingface import HuggingFace

LAYERS, HEADS, HEAD_WIDTH = 7, 6, 20
OUTLIER, OFFSET = 60.0, 8.0  # of one feature of the states; of the mean of each feature
LONGEST = 60
TAGS = ("NOUN", "VERB", "ADJ", "ADV", "PUNCT")
RELATIONS = ("nsubj", "obj", "amod", "advmod", "det", "punct")
SIZES = {"train": 120, "dev": 40, "test": 60}


class Quiet:
    """A progress callback that drops what it is given."""

    def __call__(self, done: int, total: int | None = None, doing: str = "") -> None: ...
    def log(self, text: str) -> None: ...
    def warn(self, text: str) -> None: ...


def odd_corpus(
    sizes: Mapping[str, int] | None = None, seed: int = 0, longest: int = LONGEST
) -> Corpus:
    """Sentences of 1 to `longest` words; each word type has one or two tags, its head is random."""
    draw = random.Random(seed)
    lexicon = ["".join(draw.choices("abcdefg", k=draw.randint(1, 9))) for _ in range(300)]
    weights = [1 / (rank + 2) for rank in range(len(lexicon))]
    tags = {word: draw.choices(TAGS, k=draw.choice((1, 1, 2))) for word in lexicon}

    def sentence() -> Doc:
        size = min(longest, max(1, round(draw.lognormvariate(2.2, 0.9))))
        words = draw.choices(lexicon, weights, k=size)
        heads = [draw.randrange(max(1, place)) if place else 0 for place in range(size)]
        pos = [draw.choice(tags[word]) for word in words]
        # the relation goes with the tag of the word, and of its head half of the time
        deps = [
            "ROOT" if head == place
            else RELATIONS[(TAGS.index(pos[place]) + (TAGS.index(pos[head]) > 1)) % len(RELATIONS)]
            for place, head in enumerate(heads)
        ]  # fmt: skip
        return Doc(vocabulary("en"), words=words, pos=pos, heads=heads, deps=deps)

    splits = {name: [sentence() for _ in range(size)] for name, size in (sizes or SIZES).items()}
    return Corpus("odd", {name: (lambda docs=docs: iter(docs)) for name, docs in splits.items()})


def odd_model(
    corpus: Corpus, seed: int = 0, outlier: float = OUTLIER, offset: float = OFFSET
) -> HuggingFace:
    """A random BERT of an odd shape, whose states have an outlier feature and an offset."""
    words = {token.text for split in corpus.splits for doc in corpus.docs(split) for token in doc}
    _, tokenizer = tiny_bert(sorted(words))
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=HEADS * HEAD_WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=150,
        max_position_embeddings=256,
        initializer_range=0.15,  # attention is far from uniform
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = BertForMaskedLM(config)
        with torch.no_grad():
            for layer in net.bert.encoder.layer:
                norm = layer.output.LayerNorm
                norm.bias += offset * torch.randn_like(norm.bias).sign()
                norm.weight[3] *= outlier
    net.eval()
    return HuggingFace(net, tokenizer, f"odd-{seed}")


def odd_twin(model: HuggingFace, seed: int = 0) -> Any:
    """The same architecture with fresh random weights."""
    return model.reinitialised(seed)


def run_here(experiment: str, models: Any, corpora: Any, seed: int = 0, **settings: Any) -> Result:
    """An experiment's result in this process, with nothing written to disk."""
    found = experiments()[experiment]
    models, corpora = _tuple(models), _tuple(corpora)
    chosen = found.settings(**settings)
    split = found.split_of(corpora[0], None) if corpora else None
    inputs = Inputs(models, corpora, split=split, seed=seed, limit=chosen.max_sentences)
    return found.run(inputs, chosen, Quiet())


def _tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,)
