"""Training of subword tokenizers: byte-level BPE, WordPiece and Unigram.

Any algorithm works with any layout of special tokens (gpt, bert, roberta, t5), so families can be
compared with the same pieces. The same text gives the same file, byte for byte. The library's BPE
is deterministic; its WordPiece orders the characters inside words, and its Unigram the characters
too rare for a score, differently in each process, which is fixed here. The vocabulary size includes
special tokens. Costs: memory for each distinct word; for a million English words and 8,000 pieces
about 1.5 s (BPE), 3 s (WordPiece) or 8 s (Unigram).
"""

import json
import re
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from workbench.core.errors import WorkbenchError, require_one_of
from workbench.core.files import write_atomically

Algorithm = Literal["bpe", "wordpiece", "unigram"]
Layout = Literal["gpt", "bert", "roberta", "t5"]
SENTINELS = 100
LONGEST = 1_000  # characters; longer words are cut for training
_LONG = re.compile(rf"\S{{{LONGEST}}}")
T = TypeVar("T")
_DIGITS = 5  # of Unigram's scores; further digits depend on the order of summation
_PENALTY = 1e-4  # between the scores that Unigram gives to characters too rare for a score


class Marks(NamedTuple):
    """Special tokens in the order of their ids, and the templates around a text."""

    tokens: dict[str, str]  # by transformers' names
    single: str
    pair: str
    segments: bool = False
    sentinels: int = 0


LAYOUTS: dict[str, Marks] = {
    "gpt": Marks(
        {
            "bos_token": "<|endoftext|>",
            "eos_token": "<|endoftext|>",
            "pad_token": "<|pad|>",
            "unk_token": "<|unknown|>",
        },
        "$A",
        "$A $B:1",
    ),
    "bert": Marks(
        {
            "pad_token": "[PAD]",
            "unk_token": "[UNK]",
            "cls_token": "[CLS]",
            "sep_token": "[SEP]",
            "mask_token": "[MASK]",
        },
        "[CLS] $A [SEP]",
        "[CLS] $A [SEP] $B:1 [SEP]:1",
        segments=True,
    ),
    "roberta": Marks(
        {
            "bos_token": "<s>",
            "cls_token": "<s>",
            "pad_token": "<pad>",
            "eos_token": "</s>",
            "sep_token": "</s>",
            "unk_token": "<unk>",
            "mask_token": "<mask>",
        },
        "<s> $A </s>",
        "<s> $A </s> </s> $B </s>",
    ),
    "t5": Marks(
        {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"},
        "$A </s>",
        "$A </s> $B </s>",
        sentinels=SENTINELS,
    ),
}


def train_tokenizer(
    lines: Iterable[str],
    algorithm: Algorithm,
    layout: Layout,
    size: int,
    *,
    max_length: int = 512,
    lowercase: bool = False,
) -> PreTrainedTokenizerFast:
    """Train a tokenizer of at most `size` tokens; `max_length` is its maximum model length.

    A text that allows fewer tokens gives a warning; a size below the alphabet is an error.
    """
    marks = _known(layout, LAYOUTS, "layout")
    build = _known(algorithm, _BUILDERS, "algorithm")
    names = list(dict.fromkeys(marks.tokens.values()))
    n_ordinary = size - marks.sentinels
    if n_ordinary <= len(names):
        raise _too_small(size, len(names) + marks.sentinels + 1, "the special tokens alone")
    filtered = _Filter()
    trained = build(
        filtered.lines(map(_cut_long_words, lines), names),
        names,
        marks.tokens["unk_token"],
        n_ordinary,
        lowercase,
    )
    if not filtered.has_words:
        raise WorkbenchError(
            "the text for the tokenizer has no words.",
            code="empty-text",
            remedy="Give a text with words; check the name of the file or split.",
        )
    if (n_tokens := trained.get_vocab_size()) > n_ordinary:
        raise _too_small(size, n_tokens + marks.sentinels, "the characters of this text")
    if n_tokens < n_ordinary:
        warnings.warn(
            f"the text allows only {n_tokens + marks.sentinels:,} pieces instead of {size:,}: "
            "no two are left to merge.",
            stacklevel=2,
        )
    return _with_special_tokens(trained, marks, names, max_length, algorithm)


def _cut_long_words(line: str) -> str:
    """The line with long words cut, because training takes the square of a word's length."""
    return _LONG.sub(lambda run: f"{run[0]} ", line) if len(line) > LONGEST else line


def save_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write the files that `AutoTokenizer.from_pretrained` reads, each atomically."""
    with tempfile.TemporaryDirectory() as temporary:
        tokenizer.save_pretrained(temporary)
        for file in sorted(path for path in Path(temporary).rglob("*") if path.is_file()):
            write_atomically(folder / file.relative_to(temporary), file.read_bytes())


class _Filter:
    """Removes special tokens from lines and records whether any line had a word."""

    def __init__(self) -> None:
        self.has_words = False

    def lines(self, lines: Iterable[str], names: list[str]) -> Iterator[str]:
        marks = re.compile("|".join([*map(re.escape, names), r"<extra_id_\d+>"]))
        for line in lines:
            without_marks = marks.sub(" ", line)
            self.has_words = self.has_words or bool(without_marks.strip())
            yield without_marks


def _bpe(
    lines: Iterable[str], names: list[str], unknown: str, size: int, lowercase: bool
) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    if lowercase:
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=names,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def _wordpiece(
    lines: Iterable[str], names: list[str], unknown: str, size: int, lowercase: bool
) -> Tokenizer:
    """WordPiece; every character at the start of or inside a word gets its id before training.

    The library would number characters inside words in hash-table order, and break ties by id.
    """
    shell = Tokenizer(models.WordPiece(unk_token=unknown))
    shell.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    shell.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    shell.decoder = decoders.WordPiece()
    first_characters: set[str] = set()
    inner_characters: set[str] = set()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="surrogatepass") as spool:
        for line in lines:
            normal = shell.normalizer.normalize_str(line)
            words = [word for word, _ in shell.pre_tokenizer.pre_tokenize_str(normal)]
            spool.write(" ".join(words) + "\n")
            for word in words:
                first_characters.add(word[0])
                inner_characters.update(word[1:])
        letters = [
            *sorted(first_characters | inner_characters),
            *(f"##{letter}" for letter in sorted(inner_characters)),
        ]
        if len(names) + len(letters) > size:
            raise _too_small(size, len(names) + len(letters), "the characters of this text")
        spool.seek(0)
        learner = Tokenizer(models.WordPiece(unk_token=unknown))
        learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        trainer = trainers.WordPieceTrainer(
            vocab_size=size, special_tokens=[*names, *letters], show_progress=False
        )
        learner.train_from_iterator(spool, trainer)
    shell.model = models.WordPiece(learner.get_vocab(), unk_token=unknown)
    return shell


def _unigram(
    lines: Iterable[str], names: list[str], unknown: str, size: int, lowercase: bool
) -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    steps: list[Any] = [normalizers.NFKC(), *([normalizers.Lowercase()] if lowercase else [])]
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=size, special_tokens=names, unk_token=unknown, show_progress=False
    )
    alphabet: set[str] = set()

    def lines_with_alphabet() -> Iterator[str]:
        for line in lines:
            alphabet.update(line)
            yield line

    try:
        tokenizer.train_from_iterator(lines_with_alphabet(), trainer)
    except Exception as error:
        if "not large enough" not in str(error):
            raise
        normal = {sign for c in alphabet for sign in tokenizer.normalizer.normalize_str(c)}
        minimum = len(names) + len({sign for sign in normal if not sign.isspace()} | {"▁"})
        raise _too_small(size, minimum, "the characters of this text") from None
    pieces: list[tuple[str, float]] = json.loads(tokenizer.to_str())["model"]["vocab"]
    marks, ordinary = pieces[: len(names)], pieces[len(names) :]
    vocabulary = [(token, score) for token, score in marks]
    vocabulary += _deterministic([(token, score) for token, score in ordinary])
    tokenizer.model = models.Unigram(vocabulary, names.index(unknown), False)
    return tokenizer


def _deterministic(pieces: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """The same pieces with scores and order that depend on the text alone.

    Characters without a trained score get the lowest score, each slightly more than the one before;
    here they are ordered by code point.
    """
    scores = {piece: round(score, _DIGITS) for piece, score in pieces}
    lowest = min(scores.values(), default=0.0)
    ladder: dict[int, list[str]] = {}
    for piece, score in scores.items():
        step = (score - lowest) / _PENALTY
        if len(piece) == 1 and abs(step - round(step)) < 0.05:
            ladder.setdefault(round(step), []).append(piece)
    rungs: list[int] = []
    while characters := ladder.get(len(set(rungs))):
        rungs += [len(set(rungs))] * len(characters)
    rare = sorted(piece for step in set(rungs) for piece in ladder[step])
    for step, piece in zip(rungs, rare, strict=True):
        scores[piece] = round(lowest + step * _PENALTY, _DIGITS)
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


_BUILDERS = {"bpe": _bpe, "wordpiece": _wordpiece, "unigram": _unigram}


def _with_special_tokens(
    trained: Tokenizer, marks: Marks, names: list[str], max_length: int, algorithm: Algorithm
) -> PreTrainedTokenizerFast:
    """Add the special tokens (T5's sentinels last, counting down) and the template of a text."""
    sentinels = [f"<extra_id_{index}>" for index in reversed(range(marks.sentinels))]
    trained.add_special_tokens(
        [AddedToken(name, lstrip=name == "<mask>", special=True) for name in names]
    )
    trained.add_special_tokens([AddedToken(name, special=True) for name in sentinels])
    template = processors.TemplateProcessing(
        single=marks.single,
        pair=marks.pair,
        special_tokens=[(name, trained.token_to_id(name)) for name in names],
    )
    byte_level = [processors.ByteLevel(trim_offsets=True)] if algorithm == "bpe" else []
    trained.post_processor = processors.Sequence([*byte_level, template])
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=trained,
        model_max_length=max_length,
        model_input_names=inputs if marks.segments else [inputs[0], inputs[2]],
        extra_special_tokens=sentinels[::-1],
        clean_up_tokenization_spaces=False,
        **marks.tokens,
    )


def _known(name: str, table: dict[str, T], what: str) -> T:
    require_one_of(name, table, f"{name!r} is not a tokenizer {what}.", code="setting-invalid")
    return table[name]


def _too_small(size: int, minimum: int, why: str) -> WorkbenchError:
    return WorkbenchError(
        f"a vocabulary of {size:,} is too small: {why} need {minimum:,} tokens.",
        code="setting-invalid",
        remedy=f"Set vocabulary_size to at least {minimum:,}; byte-level BPE needs only 256 bytes.",
    )
