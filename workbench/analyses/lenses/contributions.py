"""Direct contributions of embeddings, heads, MLPs and biases to one prediction.

    found = contributions(model, "Ben [MASK] to the hill.")
    print(found)                  # the largest contributions
    found.table                   # all of them; they sum to `found.total`

The contributions sum to the logit of a choice, or to the difference of two choices, with the scale
of every norm held. If a model's head is not linear (BERT), they sum to the product of the head's
input and the gradient of the logit there, and `of` says so. Costs: a few passes over four pieces, a
pass over the text and the backward pass of the head.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from workbench.analyses.predictions.explained import Position, prediction_of, target_of
from workbench.analyses.predictions.prediction import Prediction
from workbench.analyses.predictions.target import Target
from workbench.core.arrays import Floats
from workbench.core.display import Displayed, figure_by
from workbench.core.errors import WorkbenchError
from workbench.core.head_names import has_several_kinds, part_name
from workbench.core.public import public
from workbench.engine.model import Model
from workbench.engine.taps import StackName
from workbench.models.interventions.direct_contributions import (
    Component,
    Contributions,
    Of,
    Reader,
    contributions_to,
    contributions_to_layers,
    reader,
)
from workbench.models.output_heads.task_heads import MixHead

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure
    from spacy.tokens import Doc

SHOWN = 10  # contributions that are printed


@dataclass(frozen=True, repr=False, eq=False)
class DirectContributions(Displayed):
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

    def figure(self) -> "Figure":
        """Draw the contributions of heads and MLPs by layer, the last layer on top.

        Returns:
            A Plotly figure: blue parts speak for the choice, orange ones against it.

        Example:
            >>> model = wb.load("mini:gpt", device="cpu")
            >>> found = wb.contributions(model, "Ben walks to the hill.", word=4)
            >>> found.figure().data[0].x
            ('head 1', 'head 2', 'head 3', 'head 4', 'MLP')
        """
        return figure_by(
            "workbench.analyses.lenses.figures.contributions:one_prediction", self.table
        )

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
    target: "str | int | Target | None" = None,
    *,
    against: str | int | None = None,
    word: str | int | None = None,
    second: "str | Doc | None" = None,
    position: Position | None = None,
) -> DirectContributions:
    """Measure the direct contribution of every head, MLP and bias to a logit.

    Args:
        model: A transformers model with a language-model head, a classifier, or a fine-tuned run.
        text: A text, or one `Prediction` of it.
        target: The choice that is explained, as text or index (default: the most probable one).
        against: Another choice: explain the difference of the two logits.
        word: A word of the text to hide and predict, or its index. For a head that tags words: the
            word whose tag is explained.
        second: The second text of a pair, for tasks of two texts.
        position: Which of several predictions: the number of the hidden word or of the written
            piece, from 1 (default 1); `start` or `end` of an answer (default `start`).

    Returns:
        `DirectContributions`: its `table` has a row for each part, `total` is their sum, and
        `figure()` draws heads and MLPs by layer.

    Raises:
        WorkbenchError: The model has no residual stream (ELMo) or no such head, the word cannot be
            predicted, or the choice is unknown.

    Example:
        >>> model = wb.load("mini:bert", device="cpu")
        >>> found = wb.contributions(model, "Ben walks to the hill.", word=1, target="walks")
        >>> found.of
        'head input'
    """
    notes: list[str] = []
    if isinstance(text, Prediction):
        prediction = text
    else:
        prediction, notes = prediction_of(model, text, word=word, second=second, position=position)
    if isinstance(target, Target) and against is not None:
        raise WorkbenchError(
            "the target has its own contrast.",
            code="setting-invalid",
            remedy="Leave out against, or give the choice instead of a Target.",
        )
    chosen = target if isinstance(target, Target) else target_of(prediction, target, against)
    with torch.no_grad():
        value = float(chosen.value(prediction.logits())[0])
    opened = reader(model)  # after the logits, which are checked
    found = contributions_of(opened, prediction, chosen)
    names = prediction.names([chosen.choice] + ([] if chosen.against is None else [chosen.against]))
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
        table_of(found.components, found.values[0, 0].cpu().numpy(), stack_of(opened)),
        opened.of,
        float(found.totals[0, 0]),
        value,
        tuple(notes),
    )


def contributions_of(opened: Reader, prediction: Prediction, *targets: Target) -> Contributions:
    """The contributions to targets of one prediction."""
    if measures := {target.measure for target in targets} - {"logit"}:
        raise WorkbenchError(
            f"direct contributions sum to a logit, not to a {measures.pop()}.",
            code="setting-invalid",
            remedy='Use measure="logit", or another method.',
        )

    def explained(logits: Tensor) -> Tensor:  # [n, choices] -> [n, targets]
        return torch.stack([target.value(logits) for target in targets], 1)

    if prediction.mixes_layers:
        return contributions_to_layers(
            opened,
            prediction.text,
            lambda layers: explained(prediction.head_logits(lambda _: layers, prediction.text)),
        )
    if prediction.kind in ("class", "score"):
        return contributions_to(opened, prediction.text, None, None, explained)
    if prediction.kind in ("start", "end"):
        return contributions_to(
            opened, prediction.text, None, None, _of_answers(prediction, explained)
        )
    device = prediction.text.ids.device
    if prediction.kind == "tag":
        of_word = prediction.text.words[0] == prediction.position
        place = torch.tensor([[0, int(of_word.int().argmax())]], device=device)
        return contributions_to(opened, prediction.text, None, place, explained)
    place = torch.tensor([[0, prediction.position]], device=device)
    return contributions_to(opened, prediction.text, prediction.target, place, explained)


def _of_answers(
    prediction: Prediction, of: Callable[[Tensor], Tensor]
) -> Callable[[Tensor], Tensor]:
    """The explained numbers of the logits that a net gives all pieces, of answers."""
    head, text = prediction.head, prediction.text
    assert head is not None, "the prediction is of a task head"

    def explained(logits: Tensor) -> Tensor:  # [1, pieces, 2] -> [1, targets]; or of a bias, [n, 2]
        pieces = logits if logits.ndim == 3 else logits[:1, None].expand(1, text.ids.shape[1], 2)
        read = head.read_logits(pieces, text, prediction.segments(text))  # type: ignore[operator]
        return of(prediction.of_head(head(read)))

    return explained


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


def stack_of(opened: Reader) -> StackName:
    """The stack that the head reads: a task head the first one."""
    mixes = isinstance(opened.model.task_head, MixHead)
    return opened.model.stacks[0].name if mixes else opened.stack
