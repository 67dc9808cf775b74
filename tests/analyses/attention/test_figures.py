"""Figures of averaged attention: one scale for what is compared."""

import pandas as pd

from workbench.analyses.attention.figures import FIGURES, LEAST

HEAD = ("encoder", "self")
TABLES = {
    "offsets": pd.DataFrame(
        [(*HEAD, 0, head, at, 0.3 + at / 10, 9) for head in (0, 1) for at in (-1, 0, 1)],
        columns=["stack", "kind", "layer", "head", "offset", "attention", "n"],
    ),
    "tags": pd.DataFrame(
        [(*HEAD, layer, 0, tag, to, 0.9 if tag != to and layer else 0.5, 40)
         for layer in (0, 1) for tag in ("NOUN", "VERB") for to in ("NOUN", "VERB")],
        columns=["stack", "kind", "layer", "head", "tag", "to_tag", "attention", "n"],
    ),
}  # fmt: skip


def test_offsets_are_drawn_on_the_whole_scale_of_shares() -> None:
    (cells,) = FIGURES["offsets"](TABLES).data
    assert (cells.zmin, cells.zmax) == (0, 1)
    assert list(cells.y) == ["1.1", "1.2"] and cells.text.tolist()[0] == ["20", "30", "40"]


def test_layers_are_drawn_next_to_each_other_on_one_scale_around_all_words() -> None:
    figure = FIGURES["tags"](TABLES)
    assert [note.text for note in figure.layout.annotations] == ["layer 1", "layer 2"]
    same, different = figure.data
    assert not same.z.any() and different.z.tolist()[0][1] > 15
    assert {(cells.zmin, cells.zmax) for cells in figure.data} == {(-LEAST, LEAST)}
    assert same.hovertemplate.startswith(
        "%{y} to %{x}: attention %{customdata:.1%}, %{z:+.1f} points"
    )
    assert not figure.layout.updatemenus
