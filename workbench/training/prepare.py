"""What a training reads, made once: the tokenizer or the words, and the store of tokens.

The process that leads makes them and writes down where they are; all others, and a run that goes on
after it was killed, open what is there. Costs reading the text once for its hash, once for the
tokenizer, and tokenising it.
"""

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from workbench.errors import WorkbenchError
from workbench.files import parsed_json, read_regular, written_whole
from workbench.lines import unreadable
from workbench.models.checkpoint import read_tokenizer
from workbench.models.vocabulary_files import Words, read_words, save_words
from workbench.training.architectures import Size
from workbench.training.distributed import Place
from workbench.training.families import Family
from workbench.training.store import Store, open_store, tokenize_text
from workbench.training.task import Progress
from workbench.training.text import lines_of
from workbench.training.tokenizers import save_tokenizer, train_tokenizer
from workbench.training.words import count_words, word_tokenizer

PREPARED, TOKENIZER = "prepared.json", "tokenizer"
Text = Path | Sequence[str]  # a file, or lines


@dataclass(frozen=True)
class Prepared:
    """A text as its family reads it."""

    tokenizer: PreTrainedTokenizerBase
    words: Words | None  # of a family that reads words
    store: Store
    text_hash: str


def prepare(
    row: Family,
    size: Size,
    text: Text,
    scratch: Path,
    home: Path,
    place: Place,
    progress: Progress,
    *,
    digest: str,
    tokenizer: Path | None = None,
    words: Words | None = None,
    lowercase: bool = False,
) -> Prepared:
    """Find or make what is read; `tokenizer` is a folder that has one, `words` go before others."""
    note = scratch / PREPARED
    given = str(tokenizer or "")
    if place.leads and not _is_made(note, digest, given):
        if row.reads == "words":
            counted = _with(words, count_words(lines_of(text)))
            save_words(counted, scratch / TOKENIZER)
            own: PreTrainedTokenizerBase = word_tokenizer(counted)
        elif tokenizer is not None:
            own = open_tokenizer(tokenizer)
            save_tokenizer(own, scratch / TOKENIZER)
        else:
            own = _trained(row, size, text, lowercase, progress)
            save_tokenizer(own, scratch / TOKENIZER)
        store = tokenize_text(
            text, own, home, progress=lambda done: progress(done, None, "bytes of text")
        )
        made = {
            "manifest": str(store.folder / f"{store.manifest.key}.json"),
            "text": digest,
            "tokenizer": given,
        }
        with written_whole(note) as draft:
            draft.write_text(json.dumps(made), "utf-8")
    place.wait()
    return _opened(row, note)


def text_hash(text: Text) -> str:
    """Of the lines, however they are kept."""
    digest = hashlib.blake2b(digest_size=16)
    for line in lines_of(text):
        digest.update(line.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def open_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """A tokenizer's folder, and nothing from a network."""
    try:
        return read_tokenizer(str(folder), True)
    except WorkbenchError as error:
        raise WorkbenchError(
            f"there is no tokenizer: {error.what}",
            where=error.where,
            remedy="Name a folder that tokenizer.save_pretrained wrote.",
        ) from None


def _trained(
    row: Family, size: Size, text: Text, lowercase: bool, progress: Progress
) -> PreTrainedTokenizerBase:
    """A new tokenizer; what the library would warn of is told where the user sees it."""
    progress(0, None, "training the tokenizer")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = train_tokenizer(
            lines_of(text),
            row.algorithm,
            row.layout,
            size.vocabulary,
            max_length=size.length,
            lowercase=lowercase,
        )
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            progress.warn(str(warning.message))
    return found


def _with(first: Words | None, counted: Words) -> Words:
    """The words of a model that is gone on with keep their places; new ones come behind."""
    if first is None:
        return counted
    counts: dict[str, int] = dict(zip(counted.words, counted.counts, strict=True))
    old = set(first.words)
    more = [word for word in counted.words if word not in old]
    words = (*first.words, *more)
    return Words(words, tuple(counts.get(word, 0) for word in words))


def _is_made(note: Path, digest: str, tokenizer: str) -> bool:
    """Whether it was made of this text; what cannot be read is made again."""
    try:
        made: dict[str, Any] = parsed_json(read_regular(note))
        there = Path(made["manifest"]).is_file()
        return bool(there and made["text"] == digest and made["tokenizer"] == tokenizer)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _opened(row: Family, note: Path) -> Prepared:
    try:
        made: dict[str, str] = parsed_json(read_regular(note))
        text, manifest = made["text"], Path(made["manifest"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise unreadable(note, error) from None
    folder = note.parent / TOKENIZER
    words = read_words(folder) if row.reads == "words" else None
    own = word_tokenizer(words) if words is not None else open_tokenizer(folder)
    return Prepared(own, words, open_store(manifest), text)
