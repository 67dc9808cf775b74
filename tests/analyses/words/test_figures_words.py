"""Figures of the page Words: drawn from tables alone, by both renderers, whatever the words are."""

import pandas as pd
import pytest

from workbench.analyses.words.figures.words import WORDS, nearest, pieces
from workbench.drawing.sanitize import harmless
from workbench.drawing.vector import inline_svg

EVIL = "<img/src=x/onerror=window.evil=1>"


def neighbours(models: tuple[str, ...]) -> pd.DataFrame:
    """Three neighbours at two layers, for two texts."""
    rows = [
        (model, text, layer, rank, 1 - rank / 10, f"It is {EVIL} here.", 6, 6 + len(EVIL))
        for model in models
        for text in (1, 2)
        for layer in (0, 4)
        for rank in (1, 2, 3)
    ]
    columns = ["model", "text", "layer", "rank", "similarity", "sentence", "start", "end"]
    return pd.DataFrame(rows, columns=columns)


@pytest.mark.parametrize("models", [("mini:bert",), ("mini:bert", EVIL)])
def test_each_model_text_and_layer_has_its_neighbours(models: tuple[str, ...]) -> None:
    figure = nearest(neighbours(models))
    assert len(figure.data) == 4 * len(models)
    assert list(figure.data[0].x) == [0.9, 0.8, 0.7]
    titles = [note.text for note in figure.layout.annotations]
    assert titles[0] == (
        "text 1, embeddings" if len(models) == 1 else "mini:bert, text 1, embeddings"
    )
    assert "<img" not in inline_svg(harmless(figure))


def test_each_word_has_the_number_of_its_pieces() -> None:
    n_words = WORDS + 5
    table = pd.DataFrame(
        [
            (model, index, EVIL if index else "the", " ".join("ab"[: 1 + index % 2]), 1 + index % 2)
            for model in ("mini:bert", EVIL)
            for index in range(n_words)
        ],
        columns=["model", "index", "word", "pieces", "n_pieces"],
    )
    figure = pieces(table)
    assert figure.data[0].z.shape == (WORDS, 2)
    assert figure.data[0].z[:3, 0].tolist() == [1, 2, 1]
    assert "<img" not in inline_svg(harmless(figure))
