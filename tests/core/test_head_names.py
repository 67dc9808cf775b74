"""Layers and heads have the same names in all sentences, counted from 1."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.core.errors import WorkbenchError
from workbench.core.findings import capital
from workbench.core.head_names import (
    block_name,
    has_several_kinds,
    head_name,
    head_number,
    parse_state,
    place_name,
    state_name,
    state_number,
)

ANY = {"stack": "encoder", "kind": "self"}
HEADS = pd.DataFrame(
    [("encoder", "self", 2, 1, 0), ("decoder", "cross", 0, 3, 4)],
    columns=["stack", "kind", "layer", "head", "nearest_head"],
)


def test_the_stack_is_named_where_there_are_several() -> None:
    assert has_several_kinds(HEADS) and not has_several_kinds(HEADS[:1])
    names = [head_name(row, True) for _, row in HEADS.iterrows()]
    assert names == ["encoder head 3.2", "decoder cross-attention head 1.4"]
    assert capital(head_name(HEADS.iloc[0], False)) == "Head 3.2"


def test_the_columns_of_another_head_have_a_prefix() -> None:
    row = {f"kin_{name}": value for name, value in HEADS.iloc[0].items()}
    assert head_name(row, True, "kin_") == "encoder head 3.2"


@given(layer=st.integers(0, 999), head=st.integers(0, 999))
def test_what_is_typed_is_what_was_shown(layer: int, head: int) -> None:
    assert head_number(layer, head) == f"{layer + 1}.{head + 1}"
    assert head_name({"layer": layer, "head": head, **ANY}, False) == f"head {layer + 1}.{head + 1}"
    assert parse_state(state_name(layer)) == parse_state(state_number(layer)) == layer
    assert parse_state(block_name(layer)) == layer + 1  # the states that this block returns


@pytest.mark.parametrize("text", ["-1", "layer 0", "top", "", "1.5"])
def test_another_text_is_no_layer(text: str) -> None:
    with pytest.raises(WorkbenchError, match="embeddings"):
        parse_state(text)


def test_keys_of_a_row_name_its_layer_or_its_head() -> None:
    assert place_name({"stack": "encoder", "layer": 0}, "states") == "embeddings"
    assert place_name({"stack": "decoder", "layer": 0}, "mlps") == "layer 1"
    assert place_name({"kind": "self", "layer": 0, "tag": "DET"}, "tags") == "layer 1"
    assert place_name({"stack": "decoder", "layer": 0, "head": 3}, "cross") == "head 1.4"
    part = {"part": "mlp", "stack": "decoder", "kind": "", "layer": 0, "head": -1}
    assert place_name(part, "components") == "MLP of layer 1"
    assert place_name({"layer": "upos", "tag": "NOUN"}, "tags") == "layer upos"
    assert place_name({"probe": "attention", "layer": -1}, "means") == ""
