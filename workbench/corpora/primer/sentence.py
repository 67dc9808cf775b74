"""A sentence as it was spoken: words with their tree, and every other layer beside it."""

from dataclasses import dataclass, field
from typing import NamedTuple

from workbench.corpora.primer.english import Word

Range = tuple[int, int]


class Role(NamedTuple):
    """An argument of a predicate; `kind` and `cls` decide its proto-roles."""

    predicate: int
    span: Range
    role: str
    kind: str
    cls: str


@dataclass(slots=True, eq=False)
class Sentence:
    """Words with their trees and every other layer, as spoken."""

    words: list[Word] = field(default_factory=list)
    glued: list[bool] = field(default_factory=list)  # no space before this word
    heads: list[int] = field(default_factory=list)
    deps: list[str] = field(default_factory=list)
    constituents: list[tuple[int, int, str]] = field(default_factory=list)
    mentions: list[tuple[int, int, str, str]] = field(default_factory=list)
    entities: list[tuple[int, int, str]] = field(default_factory=list)
    roles: list[Role] = field(default_factory=list)
    relations: list[tuple[Range, Range, str]] = field(default_factory=list)

    def say(self, word: Word, dep: str, head: int = -1, glued: bool = False) -> int:
        """Add a word; a head not yet spoken is set later."""
        self.words.append(word)
        self.deps.append(dep)
        self.heads.append(head)
        self.glued.append(glued)
        return len(self.words) - 1

    def close(self, start: int, label: str) -> Range:
        """End a constituent that began at `start`."""
        self.constituents.append((start, len(self.words), label))
        return start, len(self.words)

    @property
    def text(self) -> str:
        parts: list[str] = []
        for word, glued in zip(self.words, self.glued, strict=True):
            if parts and not glued:
                parts.append(" ")
            parts.append(word.form)
        return "".join(parts)
