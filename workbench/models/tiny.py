"""A real BERT with random weights, small enough to make anew each time: for demos, tests and nulls.

Needs no network and leaves no file. Costs milliseconds, once torch and transformers are imported.
"""

from collections.abc import Iterable

import torch
from transformers import BertConfig, BertForMaskedLM, BertTokenizer

from workbench.core.public import public

LAYERS, HEADS, WIDTH = 2, 2, 32
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@public
def tiny_bert(words: Iterable[str], seed: int = 0) -> tuple[BertForMaskedLM, BertTokenizer]:
    """Make a random BERT of two layers and two heads, and a cased WordPiece tokenizer for it.

    Args:
        words: Words that the tokenizer keeps whole; others fall into pieces of one character.
        seed: Draws the weights.

    Returns:
        The model and the tokenizer, both of transformers; `save_pretrained` writes them into a
        folder that `wb.load` opens.

    Example:
        >>> net, tokenizer = wb.tiny_bert(["The", "dog", "barks"])
        >>> wb.HuggingFace(net, tokenizer, "tiny").sites[0].name
        'encoder.0.self'
    """
    tokenizer = _tokenizer(words)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=2 * WIDTH,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = BertForMaskedLM(config)
    model.eval()  # type: ignore[no-untyped-call]
    return model, tokenizer


def _tokenizer(words: Iterable[str]) -> BertTokenizer:
    """BERT cuts at punctuation before it looks words up; the vocabulary holds what is then left."""
    cut = BertTokenizer(do_lower_case=False).backend_tokenizer
    whole = {
        part
        for word in set(words)
        for part, _ in cut.pre_tokenizer.pre_tokenize_str(cut.normalizer.normalize_str(word))
    }
    characters = sorted({character for part in whole for character in part})
    pieces = [*SPECIAL, *characters, *(f"##{c}" for c in characters)]
    pieces += sorted(part for part in whole if len(part) > 1)
    return BertTokenizer(
        vocab={piece: number for number, piece in enumerate(pieces)}, do_lower_case=False
    )
