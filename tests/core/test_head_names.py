"""Heads have the same names in all sentences."""

import pandas as pd

from workbench.core.findings import capital
from workbench.core.head_names import has_several_kinds, head_name

HEADS = pd.DataFrame(
    [("encoder", "self", 2, 1, 0), ("decoder", "cross", 0, 3, 4)],
    columns=["stack", "kind", "layer", "head", "nearest_head"],
)


def test_the_stack_is_named_where_there_are_several() -> None:
    assert has_several_kinds(HEADS) and not has_several_kinds(HEADS[:1])
    names = [head_name(row, True) for _, row in HEADS.iterrows()]
    assert names == ["encoder head 2-1", "decoder cross-attention head 0-3"]
    assert capital(head_name(HEADS.iloc[0], False)) == "Head 2-1"


def test_the_columns_of_another_head_have_a_prefix() -> None:
    row = {f"kin_{name}": value for name, value in HEADS.iloc[0].items()}
    assert head_name(row, True, "kin_") == "encoder head 2-1"
