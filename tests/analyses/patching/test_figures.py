"""Figures of patching: what is drawn is the table, and the title names its largest effect."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from workbench.analyses.patching.figures.patching import LONGEST, effects, finding


def states(words: list[str], values: list[list[float]], stack: str = "encoder") -> pd.DataFrame:
    """The table of a small map, by layer and word."""
    rows = [
        {"stack": stack, "layer": layer, "position": n, "word": n, "corrupt": word,
         "clean": word or "only", "value": value, "effect": value}
        for layer, line in enumerate(values)
        for n, (word, value) in enumerate(zip(words, line, strict=True))
    ]  # fmt: skip
    return pd.DataFrame(rows)


def heads(values: Any) -> pd.DataFrame:
    """The table of a grid of heads."""
    grid = np.array(values)
    rows = [
        {"stack": "decoder", "kind": "causal", "layer": layer, "head": head,
         "value": float(value), "effect": float(value)}
        for (layer, head), value in np.ndenumerate(grid)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_a_map_has_a_row_for_each_layer_and_a_column_for_each_word() -> None:
    gap = float("nan")
    table = states(["a", "", "a", "<b>"], [[1, gap, 0, 0], [0.2, gap, 0.7, -0.1], [0, gap, 0, 1]])
    figure = effects(table, "states", "'x'")
    (cells,) = figure.data
    np.testing.assert_allclose(cells.z, table["effect"].to_numpy().reshape(3, 4))
    assert list(cells.y) == ["embeddings", "layer 1", "layer 2"]
    assert list(cells.x) == ["a", "(only)", "a ", "<b>"]  # a word that occurs twice has two columns
    assert (cells.zmin, cells.zmax) == (-1, 1)
    assert figure.layout.title.text == "The state of “a” in layer 1 restores 70 % of 'x'"


def test_the_title_names_the_restored_word_and_the_one_in_whose_place_it_is_put() -> None:
    table = states(["do", "a"], [[1, 0], [0.5, 0], [0, 1]]).assign(clean=["did", "a"] * 3)
    assert finding(table, "states", "'x'").startswith("The state of “did” (for “do”) in layer 1")
    assert "%" not in finding(table, "states", "'x'", is_distinguished=False)


def test_stacks_and_kinds_have_panels_and_heads_a_grid() -> None:
    table = pd.concat([
        states(["a", "b"], [[0, 1], [1, 0]]), states(["c"], [[0.5], [0.6]], "decoder"),
    ])  # fmt: skip
    figure = effects(table, "mlps")
    assert [list(cells.x) for cells in figure.data] == [["a", "b"], ["c"]]
    assert "in the encoder, layer 1" in figure.layout.title.text
    figure = effects(heads([[0.1, 0.2], [0.9, -0.4]]), "heads", "'x'")
    np.testing.assert_allclose(figure.data[0].z, [[0.1, 0.2], [0.9, -0.4]])
    assert figure.layout.title.text == "Head 2.1 restores 90 % of 'x'"


def test_heads_by_word_have_a_row_each() -> None:
    table = heads([[0.0, 0.3]]).merge(
        pd.DataFrame({"position": [0, 1], "word": [0, 1], "corrupt": ["a", "b"], "clean": "a"}),
        how="cross",
    )
    figure = effects(table, "heads")
    assert list(figure.data[0].y) == ["1.1", "1.2"] and list(figure.data[0].x) == ["a", "b"]


def test_of_a_long_text_the_words_with_the_largest_effects_are_drawn() -> None:
    words = [f"w{n}" for n in range(LONGEST + 20)]
    values = [[float(n >= 20) for n in range(len(words))]] * 3
    assert list(effects(states(words, values)).data[0].x) == words[20:]


@pytest.mark.parametrize("value", [0.0, -0.5, float("nan")])
def test_nothing_that_restores_is_said(value: float) -> None:
    assert finding(states(["a"], [[value]] * 3), "states", "'x'") == "Nothing restores 'x'"
