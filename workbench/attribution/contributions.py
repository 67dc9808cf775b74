"""Direct contributions of embeddings, heads, MLPs and biases to one prediction.

    found = contributions(model, "Ben walks to the hill.", word=1)
    print(found)                  # the largest contributions
    found.table                   # all of them; they sum to `found.total`

The contributions sum to the logit of a choice, or to the difference of two choices, with the scale
of every norm held. If a model's head is not linear (BERT), they sum to the product of the head's
input and the gradient of the logit there, and `of` says so. Costs: a few passes over four pieces, a
pass over the text and the backward pass of the head.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.attribution.prediction import Prediction, following, labelled, of_word, written
from workbench.attribution.target import Target
from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.head_names import has_several_kinds, part_name
from workbench.core.public import public
from workbench.corpora.encode import doc_of
from workbench.engine.model import Model
from workbench.engine.taps import StackName
from workbench.models.direct_contributions import (
    Component,
    Contributions,
    Of,
    Reader,
    contributions_to,
    contributions_to_layers,
    reader,
)

if TYPE_CHECKING:
    import pandas as pd
    from spacy.tokens import Doc

Floats = NDArray[np.float64]
SHOWN = 10  # contributions that are printed
SPACE = " ▁"


@dataclass(frozen=True, repr=False, eq=False)
class DirectContributions:
    """What each part of a model contributes to a logit of one prediction.

    `table` has a row for each part, in the order of the model: `part` (embeddings, head,
    attention-bias, mlp, norm-bias, output-bias), `stack`, `kind` of attention, `layer` and `head`
    from 0, its `contribution`, and the `share` of all absolute contributions. The contributions sum
    to `total`: the value of the target if `of` is "logit"; if it is "head input", the product of
    the head's input and the gradient of the logit there.

    Example:
        >>> model = wb.load("mini:gpt", device="cpu")
        >>> found = wb.contributions(model, "Ben walks to the hill.", word=4)
        >>> found.of, bool(abs(found.table["contribution"].sum() - found.total) < 1e-4)
        ('logit', True)
    """

    model: str
    text: str
    choice: str  # as it is shown
    against: str  # "": none
    table: "pd.DataFrame"
    of: Of
    total: float  # the sum of the contributions
    logit: float  # the value of the target
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """The largest contributions, by size."""
        what = f"`{self.choice}`" + (f" rather than `{self.against}`" if self.against else "")
        lines = [f"{self.model}: {what} (logit {self.logit:.2f}, sum {self.total:.2f})"]
        order = self.table["contribution"].abs().sort_values(ascending=False, kind="stable").index
        rows = self.table.loc[order].to_dict("records")
        several = has_several_kinds(self.table[self.table["part"] == "head"])
        names = [part_name(row, several) for row in rows[:SHOWN]]
        width = max(map(len, names), default=0)
        lines += [
            f"  {name:<{width}}  {row['contribution']:+.3f}"
            for name, row in zip(names, rows[:SHOWN], strict=True)
        ]
        if len(rows) > SHOWN:
            rest = sum(row["contribution"] for row in rows[SHOWN:])
            lines.append(f"  {f'{len(rows) - SHOWN} more':<{width}}  {rest:+.3f}")
        return "\n".join([*lines, *(f"  Note: {note}" for note in self.notes)])


@public
def contributions(
    model: Model,
    text: "str | Doc | Prediction",
    *,
    word: int | None = None,
    written_so_far: Sequence[int] = (),
    target: "str | int | Target | None" = None,
    against: str | int | None = None,
) -> DirectContributions:
    """Measure the direct contribution of every head, MLP and bias to a logit.

    Args:
        model: A transformers model with a language-model head, a classifier, or a fine-tuned run.
        text: A text, or one `Prediction` of it.
        word: The index of the word to predict from its context (default: what follows the text, or
            the text's class).
        written_so_far: Of an encoder-decoder without `word`: the pieces that it has written.
        target: The choice that is explained, as text or index (default: the most probable one).
        against: Another choice: explain the difference of the two logits.

    Returns:
        `DirectContributions`, with its `table`.

    Raises:
        WorkbenchError: The model has no residual stream (ELMo) or no such head, the word cannot be
            predicted, or the choice is unknown.

    Example:
        >>> model = wb.load("mini:bert", device="cpu")
        >>> found = wb.contributions(model, "Ben walks to the hill.", word=1, target="walks")
        >>> found.of
        'head input'
    """
    opened = reader(model)
    prediction = (
        text if isinstance(text, Prediction) else _prediction(model, text, word, written_so_far)
    )
    with torch.no_grad():
        logits = prediction.logits()[0]  # [choices]
    chosen = _target(prediction, logits, target, against)
    found = contributions_of(opened, prediction, chosen)
    value = float(chosen.value(logits[None])[0])
    names = prediction.names([chosen.choice] + ([] if chosen.against is None else [chosen.against]))
    notes = []
    if opened.of == "head input":
        notes.append(
            "The head of this model is not linear. Contributions are to its input, along the "
            "gradient of the logit; their sum is not the logit."
        )
    return DirectContributions(
        model.name,
        prediction.doc.text,
        names[0],
        names[1] if len(names) > 1 else "",
        table_of(found.components, found.values[0, 0].cpu().numpy(), _stack(opened)),
        opened.of,
        float(found.totals[0, 0]),
        value,
        tuple(notes),
    )


def contributions_of(opened: Reader, prediction: Prediction, target: Target) -> Contributions:
    """The contributions to a target of one prediction."""
    if target.measure != "logit":
        raise WorkbenchError(
            f"direct contributions sum to a logit, not to a {target.measure}.",
            code="setting-invalid",
            remedy='Use measure="logit", or another method.',
        )

    def explained(logits: Tensor) -> Tensor:  # [n, choices] -> [n, 1]
        return target.value(logits)[:, None]

    if prediction.head is not None:
        return contributions_to_layers(
            opened,
            prediction.text,
            lambda layers: explained(prediction.head_logits(lambda _: layers, prediction.text)),
        )
    if prediction.kind in ("class", "score"):
        return contributions_to(opened, prediction.text, None, None, explained)
    device = prediction.text.ids.device
    place = torch.tensor([[0, prediction.position]], device=device)
    return contributions_to(opened, prediction.text, prediction.target, place, explained)


def table_of(components: Sequence[Component], values: Floats, stack: StackName) -> "pd.DataFrame":
    """One row per part, in the order of the model.  # [components]"""
    import pandas as pd

    total = float(np.abs(values).sum())
    return pd.DataFrame(
        {
            **columns_of(components, stack),
            "contribution": values,
            "share": np.abs(values) / max(total, 1e-300),
        }
    )


def columns_of(components: Sequence[Component], stack: StackName) -> dict[str, list[object]]:
    """The columns that identify a part."""
    return {
        "part": [each.part for each in components],
        "stack": [stack for _ in components],
        "kind": [each.kind for each in components],
        "layer": [each.layer for each in components],
        "head": [each.head for each in components],
    }


# --- the prediction and its target ----------------------------------------------------------------


def _stack(opened: Reader) -> StackName:
    is_task = opened.model.task_folder is not None
    return opened.model.stacks[0].name if is_task else opened.stack


def _prediction(
    model: Model, text: "str | Doc", word: int | None, so_far: Sequence[int]
) -> Prediction:
    """What the model predicts for a text: a word, the next piece, or its class."""
    doc = doc_of(text)
    if word is not None:
        return of_word(model, doc, word)
    if model.task_folder is not None or model.classes:
        return labelled(model, doc)[0]
    if model.objective == "seq2seq":
        return written(model, doc, so_far)
    if model.objective == "masked":
        raise WorkbenchError(
            f"{model.name} predicts hidden words, and no word is named.",
            code="word-unknown",
            remedy="Name the index of a word with word=….",
        )
    return following(model, doc)


def _target(
    prediction: Prediction,
    logits: Tensor,
    target: "str | int | Target | None",
    against: str | int | None,
) -> Target:
    if isinstance(target, Target):
        if against is not None:
            raise WorkbenchError(
                "the target has its own contrast.",
                code="setting-invalid",
                remedy="Leave out against, or give the choice instead of a Target.",
            )
        return target
    choice = int(logits.argmax()) if target is None else _choice(prediction, logits, target)
    other = None if against is None else _choice(prediction, logits, against)
    return Target(choice, other)


def _choice(prediction: Prediction, logits: Tensor, name: str | int) -> int:
    """A choice by its index, or by its text: of several with this text, the most probable one."""
    number = len(logits)
    if isinstance(name, int):
        if 0 <= name < number:
            return name
        raise WorkbenchError(
            f"there is no choice {name}.",
            code="choice-unknown",
            remedy=f"Choices are numbered from 0 to {number - 1}.",
        )
    names = prediction.names(range(number))
    found = [index for index, text in enumerate(names) if text == name]
    if not found:  # a piece that begins a word is shown with a mark for the space before it
        found = [index for index, text in enumerate(names) if text.strip(SPACE) == name.strip()]
    if not found:
        raise WorkbenchError(
            f"{prediction.model.name} has no choice {name!r}: it is not one piece of its "
            "vocabulary.",
            code="choice-unknown",
            remedy=did_you_mean(name, sorted({text for text in names if text.isprintable()})),
        )
    return max(found, key=lambda index: float(logits[index]))
