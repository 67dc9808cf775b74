"""What a pass leaves of each document."""

from typing import Any

from torch import Tensor

from workbench import forward
from workbench.engine.batch import Batch, Pieces
from workbench.engine.model import Output


def states_by_document(model: Any, batch: Batch, **options: Any) -> dict[int, Tensor]:
    """The last states of each document's real pieces."""
    found: dict[int, Tensor] = {}

    def keep(text: Pieces, output: Output) -> None:
        for row, document in enumerate(text.order.tolist()):
            assert document not in found, "a document came twice"
            found[document] = output.final["encoder"][row][text.mask[row]]

    forward(model, batch, keep, **options)
    return found
