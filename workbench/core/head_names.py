"""Names of layers, of attention heads and their roles, and of other parts of a model.

Wherever people read, layers and heads are counted from 1: the states of a stack are those of the
`embeddings`, `layer 1`, `layer 2`, …; layer 1 is the first block, and head 3.7 is head 7 of layer
3. Tables and arguments in Python keep indices from 0: state 0 is the embeddings and state 1 what
block 0 returns, and the same head is `layer` 2, `head` 6. `docs/guides/numbering.md` says so.
Costs: nothing.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from workbench.core.errors import WorkbenchError

if TYPE_CHECKING:
    import pandas as pd

FIRST = 1  # the number of the first block, and of its first head, where people read
EMBEDDINGS = "embeddings"
_STATE = re.compile(r"(?:layer )?([1-9][0-9]{0,5})")
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


def has_several_kinds(table: "pd.DataFrame") -> bool:
    """Return whether the heads of a table belong to several stacks or kinds of attention."""
    return len(table[["stack", "kind"]].drop_duplicates()) > 1


def head_number(layer: Any, head: Any) -> str:
    """Return a head as layer and head, from its indices in a table.

    >>> head_number(2, 6)
    '3.7'
    """
    return f"{int(layer) + FIRST}.{int(head) + FIRST}"


def block_name(index: Any) -> str:
    """Return the name of a block, from its index in a table of heads, attention or MLPs.

    >>> block_name(0)
    'layer 1'
    """
    return f"layer {int(index) + FIRST}"


def state_name(index: Any) -> str:
    """Return the name of a layer, from its index in a table of states.

    >>> state_name(0), state_name(1)
    ('embeddings', 'layer 1')
    """
    number = int(index)
    return f"layer {number}" if number else EMBEDDINGS


def at_state(index: Any) -> str:
    """Return the name of a layer within a sentence.

    >>> at_state(0), at_state(1)
    ('the embeddings', 'layer 1')
    """
    return state_name(index) if int(index) else f"the {EMBEDDINGS}"


def state_number(index: Any) -> str:
    """Return the name of a layer under a heading that says `layer`.

    >>> state_number(0), state_number(1)
    ('embeddings', '1')
    """
    return state_name(index).removeprefix("layer ")


def parse_state(text: str) -> int:
    """Return the index of a layer's states, from its name: embeddings, 3, or layer 3.

    >>> parse_state("embeddings"), parse_state("3")
    (0, 3)
    """
    name = text.strip()
    if name == EMBEDDINGS:
        return 0
    found = _STATE.fullmatch(name)
    if found is None:
        raise WorkbenchError(
            f"{text!r:.40} is not a layer.",
            code="layer-missing",
            remedy="Write embeddings, or the number of a layer, counted from 1.",
        )
    return int(found[1])


def head_name(row: Any, several: bool, prefix: str = "") -> str:
    """Return the head of a row as text: head 3.7 is head 7 of layer 3.

    `several`: the stack is named too. `prefix` is that of its columns, as in `nearest_layer`.

    >>> row = {"stack": "decoder", "kind": "cross", "layer": 2, "head": 6}
    >>> head_name(row, several=False), head_name(row, several=True)
    ('head 3.7', 'decoder cross-attention head 3.7')
    """
    stack, kind, layer, head = (
        row[f"{prefix}{name}"] for name in ("stack", "kind", "layer", "head")
    )
    name = f"head {head_number(layer, head)}"
    if not several:
        return name
    return f"{stack} {'cross-attention ' if kind == 'cross' else ''}{name}"


def weights_name(part: str) -> str:
    """Return the name of a part of a model's weights, whose block has an index in tables.

    >>> weights_name("encoder layer 0"), weights_name("embeddings")
    ('encoder layer 1', 'embeddings')
    """
    return re.sub(r"\blayer (\d+)$", lambda found: block_name(found[1]), part)


def place_name(keys: Mapping[str, Any], table: str) -> str:
    """Return the layer or the head that the keys of a row of a table name; "" if they name none.

    The layers of heads, attention and MLPs are blocks, all others are states.

    >>> place_name({"stack": "encoder", "layer": 2}, "states")
    'layer 2'
    >>> place_name({"stack": "encoder", "kind": "self", "layer": 2, "head": 6}, "heads")
    'head 3.7'
    """
    layer = keys.get("layer", -1)
    if isinstance(layer, str):
        return f"layer {layer}"  # of a corpus
    if keys.get("part", "head") != "head":
        return part_name(keys)
    if layer < 0:
        return ""
    if keys.get("head", -1) >= 0:
        return head_name({"stack": "", "kind": "", **keys}, several=False)
    return block_name(layer) if "kind" in keys or table == "mlps" else state_name(layer)


def part_name(row: Any, several: bool = False) -> str:
    """Return a part of a model that writes to its residual stream as text.

    >>> part_name({"part": "mlp", "kind": "", "layer": 2, "head": -1})
    'MLP of layer 3'
    """
    part, layer = row["part"], row["layer"]
    cross = "cross-" if row["kind"] == "cross" else ""
    if part == "head":
        return head_name(row, several)
    if part == "mlp":
        return f"MLP of {block_name(layer)}"
    if part == "attention-bias":
        return f"bias of {cross}attention in {block_name(layer)}"
    if part == "norm-bias":
        if layer == -1:
            return "bias of the final norm"
        after = f"{cross}attention" if row["kind"] else "the MLP"
        return f"bias of the norm after {after} in {block_name(layer)}"
    return "bias of the output layer" if part == "output-bias" else EMBEDDINGS
