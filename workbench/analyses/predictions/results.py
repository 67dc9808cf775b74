"""What the functions that predict return: plain objects with a table and a readable text.

`TopChoices` is the distribution at hidden places or after a text; `Generated` a text with every
step; `Labelled` what a task head or a classifier says of a text; `SideBySide` several of them, of
models or of texts. Costs: nothing; tables are made when they are read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workbench.analyses.predictions.prediction import Prediction
from workbench.core.display import Displayed
from workbench.core.errors import listed
from workbench.corpora.answer_spans import AnswerSpan

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 100  # characters of a text in a heading
NO_ANSWER = "(no answer)"


@dataclass(frozen=True)
class Choice:
    """A piece, a word or a class, with its probability."""

    index: int  # the row of the model's head
    text: str
    probability: float


@dataclass(frozen=True)
class Span:
    """What an encoder-decoder writes for a hidden place, and the probability of exactly this."""

    text: str
    probability: float
    pieces: tuple[int, ...] = ()
    ended: bool = True  # False: it was not finished within the maximum number of pieces

    @property
    def shown(self) -> str:
        return f"{self.text or '(nothing)'}{'' if self.ended else ' …'}"


@dataclass(frozen=True, eq=False)
class Place:
    """The distribution at one hidden place, or after the text."""

    name: str  # `next`, or `gap 1`, `gap 2`, … in the order of the text
    prediction: Prediction
    probabilities: NDArray[np.float32]  # [choices]
    top: int = 5
    spans: tuple[Span, ...] = ()  # of an encoder-decoder: one for each of the top choices

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        """The most probable choices, the most probable first."""
        count = min(self.top, len(self.probabilities))
        order = np.argsort(-self.probabilities, kind="stable")[:count].tolist()
        return self.chosen(order)

    def chosen(self, indices: Sequence[int]) -> tuple[Choice, ...]:
        """The named choices with their probabilities."""
        names = self.prediction.names(indices)
        shares = self.probabilities[list(indices)].tolist()
        return tuple(map(Choice, indices, names, shares))

    @property
    def span(self) -> Span | None:
        """The most probable span."""
        return max(self.spans, key=lambda span: span.probability, default=None)

    @property
    def gold(self) -> Choice | None:
        """The hidden word's first piece, if a word of the text was hidden."""
        gold = self.prediction.gold
        return None if gold is None else self.chosen([gold])[0]

    @property
    def gold_rank(self) -> int | None:
        """The rank of the hidden word's first piece; 1 is the most probable."""
        gold = self.prediction.gold
        if gold is None:
            return None
        return 1 + int((self.probabilities > self.probabilities[gold]).sum())


class _Shown(Displayed):
    """A result that prints as its heading, its rows and its notes."""

    model: str
    text: str
    notes: tuple[str, ...]

    def _lines(self) -> list[tuple[str, ...]]:
        raise NotImplementedError

    @property
    def table(self) -> "pd.DataFrame":
        raise NotImplementedError

    def as_dict(self) -> dict[str, Any]:
        """Model, text, the rows of the table, and notes, as JSON has them."""
        data = {"model": self.model, "text": self.text} | self._facts()
        return {**data, "rows": self.table.to_dict("records"), "notes": list(self.notes)}

    def _facts(self) -> dict[str, Any]:
        """What the table does not have."""
        return {}

    def __repr__(self) -> str:
        """The model, the text, and the most probable choices."""
        text = self.text if len(self.text) <= SHOWN else f"{self.text[:SHOWN]} …"
        heading = f"{self.model}: {printable(text)}"
        notes = [f"  Note: {note}" for note in self.notes]
        return "\n".join([heading, *_aligned(self._lines()), *notes])


@dataclass(frozen=True, repr=False, eq=False)
class TopChoices(_Shown):
    """The most probable pieces at each hidden place of a text, or after it.

    Example:
        >>> wb.predict(wb.load("mini:gpt", device="cpu"), "Ben walks to the", top=1).first.text
        '▁old'
    """

    model: str
    text: str  # as the model reads it
    places: tuple[Place, ...]
    notes: tuple[str, ...] = ()

    @property
    def first(self) -> Choice:
        """The most probable choice at the first place."""
        return self.places[0].choices[0]

    @property
    def table(self) -> "pd.DataFrame":
        """One row for each place and choice: `place`, `rank`, `choice`, `probability`.

        Of an encoder-decoder also the `span` that begins with the choice, and `span_probability`.
        """
        import pandas as pd

        rows: list[dict[str, Any]] = []
        for place in self.places:
            for rank, choice in enumerate(place.choices, 1):
                row = {"place": place.name, "rank": rank, "choice": choice.text}
                row["probability"] = choice.probability
                if place.spans:
                    span = place.spans[rank - 1]
                    row |= {"span": span.shown, "span_probability": span.probability}
                rows.append(row)
        return pd.DataFrame(rows)

    def _facts(self) -> dict[str, Any]:
        hidden = [
            {
                "place": place.name,
                "choice": place.gold.text,
                "probability": place.gold.probability,
                "rank": place.gold_rank,
            }
            for place in self.places
            if place.gold is not None
        ]
        return {"hidden": hidden} if hidden else {}

    def _lines(self) -> list[tuple[str, ...]]:
        lines: list[tuple[str, ...]] = []
        for place in self.places:
            for rank, choice in enumerate(place.choices):
                line = ["" if rank else place.name, printable(choice.text)]
                line.append(percent(choice.probability))
                if place.spans:
                    span = place.spans[rank]
                    line += [printable(span.shown), percent(span.probability)]
                lines.append(tuple(line))
            if place.gold is not None:
                gold = f"rank {place.gold_rank}"
                text = f"(hidden: {printable(place.gold.text)})"
                lines.append(("", text, percent(place.gold.probability), gold))
        return lines


@dataclass(frozen=True)
class WrittenPiece:
    """A step of generation: the chosen piece, and the most probable ones in its place."""

    index: int
    piece: str
    text: str  # what it adds to the text
    probability: float
    choices: tuple[Choice, ...]


@dataclass(frozen=True, repr=False, eq=False)
class Generated(_Shown):
    """A text that a model wrote, with the distribution at every step.

    Example:
        >>> wb.generate(wb.load("mini:gpt", device="cpu"), "Ben walks", max_pieces=3).written
        ' to the old'
    """

    model: str
    text: str  # the prompt
    steps: tuple[WrittenPiece, ...]
    written: str
    ended: bool  # whether the model wrote its end piece
    notes: tuple[str, ...] = ()

    @property
    def probability(self) -> float:
        """The product of the probabilities of all pieces."""
        return float(np.prod([step.probability for step in self.steps], dtype=np.float64))

    @property
    def table(self) -> "pd.DataFrame":
        """One row for each step: `step`, `piece`, `probability`, and the other choices.

        `first` is the most probable piece there, and `second` the next.
        """
        import pandas as pd

        rows = []
        for number, step in enumerate(self.steps, 1):
            row: dict[str, Any] = {"step": number, "piece": step.piece}
            row["probability"] = step.probability
            for name, choice in zip(("first", "second"), step.choices, strict=False):
                row |= {name: choice.text, f"{name}_probability": choice.probability}
            rows.append(row)
        return pd.DataFrame(rows, columns=None if rows else ["step", "piece", "probability"])

    @property
    def choices(self) -> "pd.DataFrame":
        """One row for each step and choice: `step`, `rank`, `choice`, `probability`."""
        import pandas as pd

        rows = [
            (number, rank, choice.text, choice.probability)
            for number, step in enumerate(self.steps, 1)
            for rank, choice in enumerate(step.choices, 1)
        ]
        return pd.DataFrame(rows, columns=["step", "rank", "choice", "probability"])

    def _facts(self) -> dict[str, Any]:
        return {"written": self.written, "probability": self.probability, "ended": self.ended}

    def _lines(self) -> list[tuple[str, ...]]:
        end = "" if self.ended else " …"
        return [("written", f"{printable(self.written.strip())}{end}", percent(self.probability))]


@dataclass(frozen=True, repr=False, eq=False)
class Labelled(_Shown):
    """What a task head or a text classifier predicts for a text."""

    model: str
    text: str
    kind: str  # class, score, tags, entities, answers or text
    guess: str  # as text
    classes: tuple[tuple[str, float], ...] = ()  # with their probabilities, most probable first
    words: tuple[tuple[str, str, float], ...] = ()  # each with its tag and the tag's probability
    answer: float | None = None  # probability of the answer's start times that of its end
    spans: tuple[AnswerSpan, ...] = ()  # the best answers, one without text is no answer
    notes: tuple[str, ...] = ()

    @property
    def table(self) -> "pd.DataFrame":
        """One row for each class, word with its tag, or answer; or for the score or text."""
        import pandas as pd

        if self.classes:
            return pd.DataFrame(self.classes, columns=["class", "probability"])
        if self.words:
            return pd.DataFrame(self.words, columns=["word", "tag", "probability"])
        if self.spans:
            return pd.DataFrame(self.spans).rename(columns={"text": "answer"})
        if self.answer is not None:
            return pd.DataFrame([(self.guess, self.answer)], columns=["answer", "probability"])
        if self.kind == "text":
            return pd.DataFrame({"written": [self.guess]})
        return pd.DataFrame({self.kind: [float(self.guess)]})

    def _facts(self) -> dict[str, Any]:
        return {"kind": self.kind, "guess": self.guess}

    def _lines(self) -> list[tuple[str, ...]]:
        if self.classes:
            return [(name, percent(share)) for name, share in self.classes]
        if self.words:
            return [(printable(word), tag, percent(share)) for word, tag, share in self.words]
        if self.spans:
            names = ["answer", *[""] * (len(self.spans) - 1)]
            return [
                (name, printable(span.text) or NO_ANSWER, percent(span.probability))
                for name, span in zip(names, self.spans, strict=True)
            ]
        share = () if self.answer is None else (percent(self.answer),)
        name = "answer" if self.kind == "answers" else self.kind
        return [(name, printable(self.guess), *share)]


Predicted = TopChoices | Generated | Labelled


@dataclass(frozen=True, repr=False, eq=False)
class SideBySide(Displayed):
    """Predictions next to each other: of several models, or of one model for several texts."""

    results: tuple[Predicted, ...]

    @property
    def table(self) -> "pd.DataFrame":
        """The tables of all, one below the other, with the columns `model` and `text`."""
        import pandas as pd

        tables = []
        for result in self.results:
            table = result.table
            table.insert(0, "text", result.text)
            table.insert(0, "model", result.model)
            tables.append(table)
        return pd.concat(tables, ignore_index=True)

    def __repr__(self) -> str:
        """The results in columns."""
        columns = [repr(result).splitlines() for result in self.results]
        width = max(len(line) for column in columns[:-1] for line in column)
        rows = zip_longest(*columns, fillvalue="")
        return "\n".join(" │ ".join(cell.ljust(width) for cell in row).rstrip() for row in rows)


def percent(share: float) -> str:
    """A probability as text; small ones keep two digits."""
    if share and share < 5e-4:
        return f"{share:.1e}"
    return f"{share:.1%}".replace("%", " %")


def printable(text: str) -> str:
    """A text on one line, with what cannot be printed escaped."""
    return listed([text])


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    columns = list(zip_longest(*lines, fillvalue=""))
    widths = [max(map(len, column)) for column in columns]
    return [
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=False)).rstrip()
        for line in lines
    ]
