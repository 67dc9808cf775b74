"""Names of attention heads, of their roles, and of other parts of a model. Costs: nothing."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

KIND_NAMES: Mapping[str, str] = {
    "self": "self-attention",
    "causal": "causal attention",
    "cross": "cross-attention",
}
ROLES: Mapping[str, str] = {
    "induction": "in random blocks that occur twice, attends to the piece after the earlier copy",
    "duplicate": "in random blocks that occur twice, attends to the earlier copy of the piece",
    "coreference": "attends from a mention to its chain, more often than two simple rules",
    "syntactic": "follows a dependency relation, significantly better than any simple rule",
    "rare": "attends to the rarest word of the sentence",
    "positional": "attends to one relative offset almost always",
    "separator": "attends to the special token after the text",
    "first": "attends to the beginning of the text",
    "block": "attends within the sentence, in texts with several sentences",
    "vertical": "most words attend to the same word",
    "diagonal": "attends to the word itself and its neighbours",
}  # in the order in which they name a head that fills several equally well


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


def part_name(row: Any, several: bool = False) -> str:
    """Return a part of a model that writes to its residual stream as text.

    >>> part_name({"part": "mlp", "kind": "", "layer": 3, "head": -1})
    'MLP of layer 3'
    """
    part, layer = row["part"], row["layer"]
    cross = "cross-" if row["kind"] == "cross" else ""
    if part == "head":
        return head_name(row, several)
    if part == "mlp":
        return f"MLP of layer {layer}"
    if part == "attention-bias":
        return f"bias of {cross}attention in layer {layer}"
    if part == "norm-bias":
        if layer == -1:
            return "bias of the final norm"
        after = f"{cross}attention" if row["kind"] else "the MLP"
        return f"bias of the norm after {after} in layer {layer}"
    return "bias of the output layer" if part == "output-bias" else "embeddings"
