"""A tiny BERT with random weights, for demos, tests and random baselines.

Needs no network and writes no file. Costs: milliseconds, after torch and transformers are imported.
"""

from collections.abc import Iterable

import torch
from transformers import BertConfig, BertForMaskedLM, BertTokenizer

LAYERS, HEADS, WIDTH = 2, 2, 32
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def tiny_bert(words: Iterable[str], seed: int = 0) -> tuple[BertForMaskedLM, BertTokenizer]:
    """Create a random BERT with two layers of two heads, and a cased WordPiece tokenizer.

    These words are one piece each; other words are split into characters. `save_pretrained` of both
    writes a folder that `wb.load` opens.
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
    """A tokenizer with these words; BERT splits at punctuation first, so its parts are added."""
    backend = BertTokenizer(do_lower_case=False).backend_tokenizer
    parts = {
        part
        for word in set(words)
        for part, _ in backend.pre_tokenizer.pre_tokenize_str(
            backend.normalizer.normalize_str(word)
        )
    }
    characters = sorted({character for part in parts for character in part})
    pieces = [*SPECIAL, *characters, *(f"##{c}" for c in characters)]
    pieces += sorted(part for part in parts if len(part) > 1)
    return BertTokenizer(
        vocab={piece: index for index, piece in enumerate(pieces)}, do_lower_case=False
    )
