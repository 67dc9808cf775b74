"""Names of attention heads in sentences. Costs: nothing."""

from typing import Any

import pandas as pd


def has_several_kinds(table: pd.DataFrame) -> bool:
    """Return whether the heads of a table belong to several stacks or kinds of attention."""
    return len(table[["stack", "kind"]].drop_duplicates()) > 1


def head_name(row: Any, several: bool, prefix: str = "") -> str:
    """Return the head of a row as text: head 3-1 is head 1 of layer 3.

    `several`: the stack is named too. `prefix` is that of its columns, as in `nearest_layer`.

    >>> row = {"stack": "decoder", "kind": "cross", "layer": 3, "head": 1}
    >>> head_name(row, several=False), head_name(row, several=True)
    ('head 3-1', 'decoder cross-attention head 3-1')
    """
    stack, kind, layer, head = (
        row[f"{prefix}{name}"] for name in ("stack", "kind", "layer", "head")
    )
    name = f"head {int(layer)}-{int(head)}"
    if not several:
        return name
    return f"{stack} {'cross-attention ' if kind == 'cross' else ''}{name}"
