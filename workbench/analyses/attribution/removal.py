"""The value of a target without some units of the text: removed, or replaced by a baseline.

Removed units are hidden or, where the model has no piece for a hidden word, deleted, as by
`token_effects`. Costs: a forward pass over one row for each set of units.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from workbench.analyses.predictions.edits import logits_without
from workbench.analyses.predictions.prediction import Prediction
from workbench.analyses.predictions.target import Baseline, Unit, baseline_vectors
from workbench.core.arrays import Bools, Floats, Ints
from workbench.core.errors import WorkbenchError
from workbench.engine.taps import StackName

Absence = Baseline | Literal["removed"]

PIECES_AT_ONCE = 4_096  # in one forward pass


def free_units(units: Sequence[Unit]) -> Ints:
    """Indices of the units that can be absent: those that are not fixed.  # [free units]"""
    return np.array([i for i, unit in enumerate(units) if not unit.fixed], dtype=np.int64)


def values_without(
    prediction: Prediction,
    units: Sequence[Unit],
    kept: Bools,
    value: Callable[[Tensor], Tensor],
    absence: Absence | None = None,
) -> Floats:
    """The value for each set of units that are kept; the others are absent.

    # kept: [sets, free units] -> [sets]
    """
    gone = {  # [sets, pieces] per stack
        stack: torch.zeros(len(kept), pieces.ids.shape[1], dtype=torch.bool)
        for stack, pieces in prediction.inputs.items()
    }
    for column, index in enumerate(free_units(units).tolist()):
        unit = units[index]
        gone[unit.stack][:, list(unit.pieces)] = torch.from_numpy(~kept[:, column])[:, None]
    at_once = max(1, PIECES_AT_ONCE // sum(x.shape[1] for x in gone.values()))
    if absence == "removed":
        _require_rest(prediction, next(iter(gone.values())))
    values = []
    with torch.no_grad():
        for rows in torch.split(torch.arange(len(kept)), at_once):
            some = {stack: x[rows].to(prediction.text.ids.device) for stack, x in gone.items()}
            logits = (
                logits_without(prediction, some)
                if absence == "removed"
                else _replaced(prediction, some, absence)
            )
            values.append(value(logits).cpu())
    return torch.cat(values).double().numpy()


def _replaced(
    prediction: Prediction, gone: Mapping[StackName, Tensor], baseline: Baseline | None
) -> Tensor:
    own, absent = prediction.input_vectors(), baseline_vectors(prediction, baseline)
    return prediction.logits_from(
        {stack: torch.where(gone[stack][..., None], absent[stack], x) for stack, x in own.items()}
    )


def _require_rest(prediction: Prediction, gone: Tensor) -> None:
    """Raise if a model that has no mask piece would read nothing.  # [sets, pieces]"""
    if prediction.model.symbols.mask is None and bool(
        (gone | ~prediction.text.mask.cpu()).all(1).any()
    ):
        raise WorkbenchError(
            "without its words the text is empty.",
            code="text-empty",
            where=prediction.model.name,
            remedy="Write more words, or choose the method occlusion.",
        )
