"""Subword tokenizers from lines of text: byte-level BPE, WordPiece and Unigram.

Any algorithm goes with any layout of special tokens (gpt, bert, roberta, t5), so families can be
compared with the same pieces. The same text gives the same file, byte for byte: BPE does by itself;
the library's WordPiece takes the characters inside words, and its Unigram those too rare for a
score, in an order that differs from process to process, which is mended here. A budget is all
there is to the vocabulary, special tokens included. Costs memory for each distinct word, and for a
million words of English, 8,000 pieces, some 1.5 s (BPE), 3 s (WordPiece) or 8 s (Unigram).
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

from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.files import written_whole

Algorithm = Literal["bpe", "wordpiece", "unigram"]
Layout = Literal["gpt", "bert", "roberta", "t5"]
SENTINELS = 100
LONGEST = 1_000  # characters of a word that a tokenizer is trained on in one
_LONG = re.compile(rf"\S{{{LONGEST}}}")
T = TypeVar("T")
_DIGITS = 5  # of Unigram's scores: what lies below is the order in which numbers were added
_PENALTY = 1e-4  # between the scores that Unigram gives to characters too rare for one


class Marks(NamedTuple):
    """Special tokens in the order of their ids, and what stands around a text."""

    tokens: dict[str, str]  # by transformers' names for their parts
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
    """Train a vocabulary of at most `size` tokens; `max_length` is what the tokenizer tells models.

    A text that yields fewer gives a warning; a size below the alphabet is an error.
    """
    marks = _known(layout, LAYOUTS, "layout")
    build = _known(algorithm, _BUILDERS, "algorithm")
    names = list(dict.fromkeys(marks.tokens.values()))
    room = size - marks.sentinels
    if room <= len(names):
        raise _too_small(size, len(names) + marks.sentinels + 1, "its special tokens alone")
    seen = _Seen()
    trained = build(
        seen.of(map(_cut, lines), names), names, marks.tokens["unk_token"], room, lowercase
    )
    if not seen.anything:
        raise WorkbenchError(
            "there is no text to train a tokenizer on.",
            remedy="Give lines with words in them; is the right file named, or the right split?",
        )
    if (found := trained.get_vocab_size()) > room:
        raise _too_small(size, found + marks.sentinels, "the characters of this text")
    if found < room:
        warnings.warn(
            f"the text allows a vocabulary of {found + marks.sentinels:,} tokens, not {size:,}: "
            "there is nothing left to merge.",
            stacklevel=2,
        )
    return _dressed(trained, marks, names, max_length, algorithm)


def _cut(line: str) -> str:
    """A line with what is too long for a word cut: algorithms take its length squared."""
    return _LONG.sub(lambda run: f"{run[0]} ", line) if len(line) > LONGEST else line


def save_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write the files that `AutoTokenizer.from_pretrained` reads, each whole or not at all."""
    with tempfile.TemporaryDirectory() as aside:
        tokenizer.save_pretrained(aside)
        for file in sorted(path for path in Path(aside).rglob("*") if path.is_file()):
            with written_whole(folder / file.relative_to(aside)) as draft:
                draft.write_bytes(file.read_bytes())


class _Seen:
    """Lines on their way to a trainer: special tokens taken out, and whether there was any word."""

    def __init__(self) -> None:
        self.anything = False

    def of(self, lines: Iterable[str], names: list[str]) -> Iterator[str]:
        marks = re.compile("|".join([*map(re.escape, names), r"<extra_id_\d+>"]))
        for line in lines:
            plain = marks.sub(" ", line)
            self.anything = self.anything or bool(plain.strip())
            yield plain


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
    """Every character that begins a word, or goes on with one, has its id before training starts.

    The library would number the latter by the order of a hash table, and break ties by number.
    """
    shell = Tokenizer(models.WordPiece(unk_token=unknown))
    shell.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    shell.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    shell.decoder = decoders.WordPiece()
    heads: set[str] = set()
    inside: set[str] = set()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="surrogatepass") as spool:
        for line in lines:
            normal = shell.normalizer.normalize_str(line)
            words = [word for word, _ in shell.pre_tokenizer.pre_tokenize_str(normal)]
            spool.write(" ".join(words) + "\n")
            for word in words:
                heads.add(word[0])
                inside.update(word[1:])
        letters = [*sorted(heads | inside), *(f"##{letter}" for letter in sorted(inside))]
        if len(names) + len(letters) > size:
            raise _too_small(size, len(names) + len(letters), "the characters of this text")
        spool.seek(0)
        bare = Tokenizer(models.WordPiece(unk_token=unknown))
        bare.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        trainer = trainers.WordPieceTrainer(
            vocab_size=size, special_tokens=[*names, *letters], show_progress=False
        )
        bare.train_from_iterator(spool, trainer)
    shell.model = models.WordPiece(bare.get_vocab(), unk_token=unknown)
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

    def watched() -> Iterator[str]:
        for line in lines:
            alphabet.update(line)
            yield line

    try:
        tokenizer.train_from_iterator(watched(), trainer)
    except Exception as error:
        if "not large enough" not in str(error):
            raise
        normal = {sign for c in alphabet for sign in tokenizer.normalizer.normalize_str(c)}
        least = len(names) + len({sign for sign in normal if not sign.isspace()} | {"▁"})
        raise _too_small(size, least, "the characters of this text") from None
    pieces: list[tuple[str, float]] = json.loads(tokenizer.to_str())["model"]["vocab"]
    marks, ordinary = pieces[: len(names)], pieces[len(names) :]
    vocabulary = [(token, score) for token, score in marks]
    vocabulary += _settled([(token, score) for token, score in ordinary])
    tokenizer.model = models.Unigram(vocabulary, names.index(unknown), False)
    return tokenizer


def _settled(pieces: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """The same pieces with scores and order that the text alone decides.

    Characters that training left no score get the lowest one, each a little more than the one
    before it; here they are taken in the order of their code points.
    """
    scores = {piece: round(score, _DIGITS) for piece, score in pieces}
    lowest = min(scores.values(), default=0.0)
    ladder: dict[int, list[str]] = {}
    for piece, score in scores.items():
        step = (score - lowest) / _PENALTY
        if len(piece) == 1 and abs(step - round(step)) < 0.05:
            ladder.setdefault(round(step), []).append(piece)
    rungs: list[int] = []
    while found := ladder.get(len(set(rungs))):
        rungs += [len(set(rungs))] * len(found)
    rare = sorted(piece for step in set(rungs) for piece in ladder[step])
    for step, piece in zip(rungs, rare, strict=True):
        scores[piece] = round(lowest + step * _PENALTY, _DIGITS)
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


_BUILDERS = {"bpe": _bpe, "wordpiece": _wordpiece, "unigram": _unigram}


def _dressed(
    trained: Tokenizer, marks: Marks, names: list[str], max_length: int, algorithm: Algorithm
) -> PreTrainedTokenizerFast:
    """With its special tokens, sentinels last and counting down as T5's do, and its frame."""
    sentinels = [f"<extra_id_{number}>" for number in reversed(range(marks.sentinels))]
    trained.add_special_tokens(
        [AddedToken(name, lstrip=name == "<mask>", special=True) for name in names]
    )
    trained.add_special_tokens([AddedToken(name, special=True) for name in sentinels])
    frame = processors.TemplateProcessing(
        single=marks.single,
        pair=marks.pair,
        special_tokens=[(name, trained.token_to_id(name)) for name in names],
    )
    bytes_first = [processors.ByteLevel(trim_offsets=True)] if algorithm == "bpe" else []
    trained.post_processor = processors.Sequence([*bytes_first, frame])
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=trained,
        model_max_length=max_length,
        model_input_names=inputs if marks.segments else [inputs[0], inputs[2]],
        extra_special_tokens=sentinels[::-1],
        clean_up_tokenization_spaces=False,
        **marks.tokens,
    )


def _known(name: str, table: dict[str, T], what: str) -> T:
    if name not in table:
        raise WorkbenchError(f"there is no {what} {name!r}.", remedy=did_you_mean(name, table))
    return table[name]


def _too_small(size: int, least: int, why: str) -> WorkbenchError:
    return WorkbenchError(
        f"a vocabulary of {size:,} is too small: {why} need {least:,}.",
        remedy=f"Ask for at least {least:,}; byte-level BPE never needs more than 256 characters.",
    )
