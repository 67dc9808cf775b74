"""Tokenizers of every kind the hub has, each trained in a blink on one small text.

`tokenizer(kind)` is the class production uses for that family, with its own normaliser, special
tokens and their usual places; only the vocabulary is small. Deterministic; needs no network.
"""

import json
import math
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import (
    AlbertTokenizer,
    BertTokenizer,
    BertTokenizerLegacy,
    DebertaV2Tokenizer,
    GPT2Tokenizer,
    GPTNeoXTokenizer,
    LlamaTokenizer,
    OpenAIGPTTokenizer,
    PreTrainedTokenizerBase,
    RobertaTokenizer,
    T5Tokenizer,
    TokenizersBackend,
    XLNetTokenizer,
)

TEXT = """
The old man had walked along the river for an hour before he saw the boat. It was larger than
the ones he remembered, and it carried no light. "Who is there?" he called; nobody answered him.
In the morning the children told their mother what they had seen. She gave them bread and milk,
asked them whether the man was well, and sent the youngest to the village to bring the doctor.
Doctors, teachers, writers and farmers were sitting in the café, talking about prices: 12, 35, 100.
They didn't believe the story, for the boats hadn't come up the river since 1994. Nevertheless,
one of the teachers, Zoë, went to look. She found a coat, two letters and a photograph of a dog.
The dog was sleeping under the table; it had been barking all night, louder and louder, until the
neighbours complained. Reading the letters took her longer than she had thought it would.
"My dear friend," said the first, "when you are reading this, I shall be crossing the mountains."
Larger and larger grew the crowd; they were waiting, whispering, running, jumping and shouting.
Qualified lawyers examined every word, quickly but carefully, expecting a hidden message. Why not?
""".strip().split("\n")

# Known before training, and in order: otherwise the trainers number them by chance
LETTERS = sorted({sign for line in TEXT for sign in (line + line.lower()) if not sign.isspace()})
INSIDE = [f"##{letter}" for letter in LETTERS]
LAST = [f"{letter}</w>" for letter in LETTERS]
BERT_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def _trained(tokenizer: Tokenizer, trainer: trainers.Trainer) -> dict[str, Any]:
    """The model part of a tokenizer trained on the text: `vocab`, and `merges` where it has any."""
    tokenizer.train_from_iterator(TEXT, trainer)
    model: dict[str, Any] = json.loads(tokenizer.to_str())["model"]
    return model


@cache
def _wordpiece(lowercase: bool) -> dict[str, int]:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=400, special_tokens=[*BERT_SPECIAL, *INSIDE], show_progress=False
    )
    vocabulary: dict[str, int] = _trained(tokenizer, trainer)["vocab"]
    return vocabulary


def _byte_level(special: list[str]) -> dict[str, Any]:
    """`vocab` and `merges` over bytes, with the special tokens first."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=special,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    return _vocabulary_and_merges(_trained(tokenizer, trainer))


def _vocabulary_and_merges(model: dict[str, Any]) -> dict[str, Any]:
    return {"vocab": model["vocab"], "merges": [tuple(merge) for merge in model["merges"]]}


def _metaspace(special: list[str], vocab_size: int, lowercase: bool = False) -> dict[str, Any]:
    """`vocab` and `merges` over words marked with ▁."""
    tokenizer = Tokenizer(models.BPE())
    if lowercase:
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=special, show_progress=False
    )
    return _vocabulary_and_merges(_trained(tokenizer, trainer))


def _unigram(special: list[str], lowercase: bool = False) -> list[tuple[str, float]]:
    """Pieces scored by how often they occur; the trainer's own scores differ from run to run."""
    text = "▁".join(["", *" ".join(TEXT).split()])
    text = text.lower() if lowercase else text
    found = _metaspace([], 300, lowercase)["vocab"]
    scores = {piece: math.log(text.count(piece) / len(text)) for piece in sorted(found)}
    return [*((piece, 0.0) for piece in special), *scores.items()]


def _llama() -> PreTrainedTokenizerBase:
    """BPE over ▁-marked words, with a piece for each byte to fall back to."""
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    parts = _metaspace(special, 450)
    return LlamaTokenizer(**parts, add_bos_token=True)


def _prepended() -> PreTrainedTokenizerBase:
    """Llama's as older files on the hub have it: the normaliser writes the marks."""
    model = json.loads(_llama().backend_tokenizer.to_str())["model"]
    inside = Tokenizer(
        models.BPE(
            **_vocabulary_and_merges(model), byte_fallback=True, fuse_unk=True, unk_token="<unk>"
        )
    )
    inside.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    inside.decoder = _bytes_and_marks()
    return TokenizersBackend(tokenizer_object=inside, unk_token="<unk>")


def _bytes_and_marks() -> decoders.Decoder:
    return decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])


def _unigram_bytes() -> PreTrainedTokenizerBase:
    """Unigram pieces, and bytes for what has none; letters are changed to their plain forms."""
    pieces = _unigram(["<pad>", "</s>", "<unk>"])
    pieces += [(f"<0x{byte:02X}>", -9.0) for byte in range(256)]
    inside = Tokenizer(models.Unigram(pieces, unk_id=2, byte_fallback=True))
    inside.normalizer = normalizers.NFKC()
    inside.pre_tokenizer = pre_tokenizers.Metaspace()
    inside.decoder = _bytes_and_marks()
    return TokenizersBackend(tokenizer_object=inside, unk_token="<unk>", pad_token="<pad>")


def _openai_gpt() -> PreTrainedTokenizerBase:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<unk>", *LAST],
        end_of_word_suffix="</w>",
        show_progress=False,
    )
    return OpenAIGPTTokenizer(**_vocabulary_and_merges(_trained(tokenizer, trainer)))


def _modernbert() -> PreTrainedTokenizerBase:
    """Byte-level BPE between BERT's special tokens, as the hub's `tokenizer.json` has it."""
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    inside = Tokenizer(models.BPE(**_byte_level(special)))
    inside.normalizer = normalizers.NFC()
    inside.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inside.decoder = decoders.ByteLevel()
    inside.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    return TokenizersBackend(
        tokenizer_object=inside,
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        mask_token="[MASK]",
        model_input_names=["input_ids", "attention_mask"],
    )


def _deberta() -> PreTrainedTokenizerBase:
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    return DebertaV2Tokenizer(vocab=_unigram(special), unk_id=3)


def _albert() -> PreTrainedTokenizerBase:
    special = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    return AlbertTokenizer(vocab=_unigram(special, lowercase=True))


def _xlnet() -> PreTrainedTokenizerBase:
    special = ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"]
    return XLNetTokenizer(vocab=_unigram(special))


def bert_in_python() -> PreTrainedTokenizerBase:
    """One that tells no offsets, which no catalogued family has."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "vocab.txt")
        file.write_text("\n".join(_wordpiece(lowercase=True)) + "\n", encoding="utf-8")
        return BertTokenizerLegacy(str(file))


_MAKERS: dict[str, Callable[[], PreTrainedTokenizerBase]] = {
    "bert-uncased": lambda: BertTokenizer(vocab=_wordpiece(True), do_lower_case=True),
    "bert-cased": lambda: BertTokenizer(vocab=_wordpiece(False), do_lower_case=False),
    "roberta": lambda: RobertaTokenizer(**_byte_level(ROBERTA_SPECIAL)),
    "gpt2": lambda: GPT2Tokenizer(**_byte_level(["<|endoftext|>"])),
    "gpt-neox": lambda: GPTNeoXTokenizer(**_byte_level(["<|endoftext|>", "<|padding|>"])),
    "modernbert": _modernbert,
    "deberta-v2": _deberta,
    "albert": _albert,
    "xlnet": _xlnet,
    "t5": lambda: T5Tokenizer(vocab=_unigram(["<pad>", "</s>", "<unk>"])),
    "llama": _llama,
    "openai-gpt": _openai_gpt,
    # Settings met on the hub, each with traps of its own
    "roberta-spaced": lambda: RobertaTokenizer(
        **_byte_level(ROBERTA_SPECIAL), add_prefix_space=True
    ),
    "roberta-untrimmed": lambda: RobertaTokenizer(
        **_byte_level(ROBERTA_SPECIAL), trim_offsets=False
    ),
    "llama-prepended": _prepended,
    "unigram-bytes": _unigram_bytes,
}
KINDS = tuple(_MAKERS)


def tokenizer(kind: str) -> PreTrainedTokenizerBase:
    """A fresh tokenizer of one of the `KINDS`."""
    return _MAKERS[kind]()
