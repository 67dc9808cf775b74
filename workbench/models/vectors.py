"""Static word vectors as a model of one layer: what a word is worth without its sentence.

Reads `vectors:FILE` in word2vec's and GloVe's forms, or a folder that `Vectors.save` wrote. A file
of theirs is held in memory, 4 bytes a number; the folder's table is mapped, and only the rows that
are looked up are read. A word is found as it is written, or else in lower case, or else its vector
is zeros: `found` counts how often each happened. Costs one dictionary look-up a word.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

import torch
from torch import Tensor

from workbench.errors import WorkbenchError
from workbench.files import read_regular, require_regular, written_whole
from workbench.models.vectors_files import read_table

TABLE, WORDS = "vectors.safetensors", "words.txt"
_REMEDY = f"Name a folder with {TABLE} and {WORDS} as saved together, copied whole."


class Found(NamedTuple):
    """How many of some words were found, and how."""

    exact: int
    lowered: int
    unknown: int


class Vectors:
    """Words and their table of vectors, a row each."""

    def __init__(self, words: Sequence[str], table: Tensor) -> None:
        if table.ndim != 2 or len(words) != len(table) or not table.is_floating_point():
            kind = f"{str(table.dtype).removeprefix('torch.')} {list(table.shape)}"
            raise ValueError(f"{len(words)} words do not fit a table of {kind}")
        self.table = table  # [words, width]
        self.rows = {word: row for row, word in enumerate(words)}
        if len(self.rows) < len(words):
            raise ValueError("a word stands twice among the words of vectors")

    @property
    def width(self) -> int:
        return self.table.shape[1]

    def lookup(self, words: Sequence[str]) -> Tensor:
        """The vector of each word, zeros where it is unknown.  # [words, width]"""
        rows = torch.tensor([self._row(word) for word in words], dtype=torch.long)
        known = rows >= 0
        out = self.table.new_zeros(len(words), self.width)
        out[known] = self.table[rows[known]]
        return out

    def found(self, words: Sequence[str]) -> Found:
        """How `lookup` fares with these words."""
        exact = sum(word in self.rows for word in words)
        known = sum(self._row(word) >= 0 for word in words)
        return Found(exact, known - exact, len(words) - known)

    def random(self, seed: int) -> Self:
        """The same words and width with fresh vectors, each number drawn from N(0, 1)."""
        generator = torch.Generator().manual_seed(seed)
        return type(self)(list(self.rows), torch.randn(self.table.shape, generator=generator))

    def save(self, folder: Path) -> None:
        """Write `vectors.safetensors` and `words.txt`, which `read_vectors` maps."""
        from safetensors.torch import save_file

        if broken := [word for word in self.rows if "\n" in word]:
            raise WorkbenchError(
                f"the word {broken[0]!r} goes over two lines.",
                where=str(folder),
                remedy="Take the line feeds out of the words: words.txt has one word on each line.",
            )
        with written_whole(folder / TABLE) as draft:
            save_file({"vectors": self.table.contiguous()}, draft)
        with written_whole(folder / WORDS) as draft:
            draft.write_text("".join(f"{word}\n" for word in self.rows), "utf-8", newline="\n")

    def _row(self, word: str) -> int:
        row = self.rows.get(word, -1)
        return row if row >= 0 else self.rows.get(word.lower(), -1)


def read_vectors(path: Path) -> Vectors:
    """Read a saved folder (or the table in it), or a file in word2vec's or GloVe's form."""
    if path.is_dir():
        return _read_saved(path)
    if path.suffix == ".safetensors":
        return _read_saved(path.parent, path.name)
    words, table = read_table(path)
    return Vectors(words, torch.from_numpy(table))


def _read_saved(folder: Path, name: str = TABLE) -> Vectors:
    from safetensors import SafetensorError, safe_open

    path = folder / name
    try:
        words = read_regular(folder / WORDS).decode("utf-8")  # nothing but a line feed ends a line
        with safe_open(require_regular(path), framework="pt") as file:
            table: Tensor = file.get_tensor("vectors")
    except UnicodeDecodeError:
        raise WorkbenchError("not UTF-8.", where=str(folder / WORDS), remedy=_REMEDY) from None
    except (SafetensorError, OSError) as error:
        raise WorkbenchError(f"cannot be read: {error}.", where=str(path), remedy=_REMEDY) from None
    try:
        return Vectors(words.removesuffix("\n").split("\n"), table)
    except ValueError as error:
        raise WorkbenchError(f"{error}.", where=str(folder), remedy=_REMEDY) from None
