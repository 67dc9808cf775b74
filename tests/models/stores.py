"""The stored states of one stack."""

from pathlib import Path
from typing import Any

from workbench import Model, word_states
from workbench.engine.activation_store import Store
from workbench.engine.batch import Batch
from workbench.engine.forward_pass import Report


def stored(
    model: Model, batch: Batch, home: Path, stack: str = "", **rest: Any
) -> tuple[Store, Report | None]:
    """The store of one stack (default: the last), and what the pass did."""
    name: Any = stack or model.stacks[-1].name
    stores, report = word_states(model, batch, home, [name], **rest)
    return stores[name], report
