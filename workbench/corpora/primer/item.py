"""One example of a task: a text or two, what is said of them, and the span that answers."""

from dataclasses import dataclass, field

from workbench.corpora.primer.sentence import Range, Sentence

Label = str | float


@dataclass(slots=True)
class Item:
    """One text, or two, with what is to be said of them."""

    first: list[Sentence]
    labels: dict[str, Label]
    second: list[Sentence] = field(default_factory=list)
    answer: Range | None = None  # words of the second text
