"""Small texts and tokenizers to train with, made once."""

from functools import cache
from random import Random

from transformers import PreTrainedTokenizerFast

from workbench.analyses.training.tokenizers import Algorithm, Layout, train_tokenizer

_KNOWN = (
    "the a small old red cat dog bird fox man woman child sees hears likes finds house garden "
    "river tree singing walking quickly slowly under over with without letter window unhappily"
).split()
_SYLLABLES = "ba co di fu ga hel jin kol lam mo nes pir quo rus sti tor ul ven wax yo zed".split()
_RNG = Random("words")
WORDS = [*_KNOWN, *("".join(_RNG.choices(_SYLLABLES, k=_RNG.randint(2, 4))) for _ in range(300))]


def paragraphs(count: int, seed: int = 0) -> list[str]:
    """Paragraphs of a few sentences; a blank line after every fifth."""
    rng, lines = Random(seed), []
    for number in range(count):
        sentences = [
            " ".join(rng.choices(WORDS, k=rng.randint(3, 12))).capitalize() + "."
            for _ in range(rng.randint(1, 5))
        ]
        lines.append(" ".join(sentences))
        if number % 5 == 4:
            lines.append("")
    return lines


@cache
def tokenizer(algorithm: Algorithm, layout: Layout, size: int = 400) -> PreTrainedTokenizerFast:
    return train_tokenizer(paragraphs(300), algorithm, layout, size)
