"""Numbers of one word: its pieces, its frequency, and the attention of each head to and from it.

Costs: a pass that captures the attention of one text; a count over the words of an index.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from workbench.analyses.attention.capture import attention
from workbench.analyses.attention.grids import Options, grid_of

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.engine.model import Model


class Frequency(NamedTuple):
    """How many times a word form is there, its rank among the forms, and the first places."""

    times: int
    rank: int
    places: NDArray[np.int64]


def frequency(codes: NDArray[Any], n_forms: int, code: int, n_places: int) -> Frequency:
    """The frequency of the word form with a code among all words.  # [words]"""
    counts = np.bincount(codes, minlength=n_forms)
    rank = 1 + int((counts > counts[code]).sum())
    return Frequency(int(counts[code]), rank, np.flatnonzero(codes == code)[:n_places])


def pieces_of(model: "Model", doc: "Doc", at: int) -> list[Any]:
    """The pieces that a word is read as."""
    ranges = np.array([(token.idx, token.idx + len(token)) for token in doc], dtype=np.int64)
    return [each for each in model.segmented(doc.text, ranges).pieces if each.word == at]


def attention_at(model: "Model", doc: "Doc", at: int, heads: Mapping[str, Any]) -> pd.DataFrame:
    """One row per head: the mean attention that a word gets from others, and its largest one.

    `heads` are by their names: stack, kind, layer and head.
    """
    maps = attention(model, doc, doc if len(model.stacks) > 1 else None)
    groups = dict.fromkeys((head.stack, head.kind) for head in heads.values())
    grids = {group: grid_of(maps, group, Options(unit="words")) for group in groups}
    rows = []
    for name, head in heads.items():
        grid = grids[head.stack, head.kind]
        weights = grid.map(grid.layers.index(head.layer), grid.heads.index(head.head))
        queries, keys = (np.array(side.words) for side in (grid.sides.rows, grid.sides.columns))
        others = [(side >= 0) & (side != at) for side in (queries, keys)]  # words of the text
        own = np.where(others[1], weights[queries == at][0], 0.0)  # [columns]
        rows.append(
            {
                "head": name,
                "received": float(weights[others[0]][:, keys == at].mean()),
                "given": float(own.max()),
                "to": grid.sides.columns.names[int(own.argmax())],
            }
        )
    return pd.DataFrame(rows)
