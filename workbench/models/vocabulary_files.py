"""The words of a model that reads whole ones, as files: `vocab.txt`, and `counts.txt` beside it.

`vocab.txt` is the original ELMo's: a word a line, `<S>`, `</S>`, `<UNK>`, then by falling count, so
that a softmax of any size is over the first so many. `counts.txt` says how often each came. Costs a
string a word.
"""

from pathlib import Path
from typing import NamedTuple

from workbench.errors import WorkbenchError
from workbench.files import written_whole
from workbench.lines import numbered_lines

BEGIN, END, UNKNOWN = "<S>", "</S>", "<UNK>"
MARKS = (BEGIN, END, UNKNOWN)
WORDS, COUNTS = "vocab.txt", "counts.txt"


class Words(NamedTuple):
    """The words of a text by falling count, the three marks first, with a count of 0."""

    words: tuple[str, ...]
    counts: tuple[int, ...]

    @property
    def unknown(self) -> int:
        return MARKS.index(UNKNOWN)


def save_words(words: Words, folder: Path) -> None:
    """Write `vocab.txt`, a word a line as the original has it, and `counts.txt` beside it."""
    with written_whole(folder / WORDS) as draft:
        draft.write_text("".join(f"{word}\n" for word in words.words), "utf-8", newline="\n")
    with written_whole(folder / COUNTS) as draft:
        draft.write_text("".join(f"{count}\n" for count in words.counts), "utf-8", newline="\n")


def read_words(folder: Path) -> Words:
    """Read what `save_words` wrote; a vocabulary of the original has no counts, they are then 0."""
    words = tuple(line for _, line in numbered_lines(folder / WORDS))
    counts = (0,) * len(words)
    if (folder / COUNTS).is_file():
        lines = [line for _, line in numbered_lines(folder / COUNTS)]
        if not all(line.isdecimal() for line in lines) or len(lines) != len(words):
            raise _unsound(folder / COUNTS, f"it is not {len(words):,} numbers, one a line")
        counts = tuple(map(int, lines))
    if words[: len(MARKS)] != MARKS or len(set(words)) != len(words):
        raise _unsound(folder / WORDS, "it does not begin with <S>, </S>, <UNK>, or repeats a word")
    return Words(words, counts)


def _unsound(path: Path, reason: str) -> WorkbenchError:
    return WorkbenchError(
        f"not a vocabulary of words: {reason}.",
        where=str(path),
        remedy="Write it anew with save_words, or copy both files together.",
    )
