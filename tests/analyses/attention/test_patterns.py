"""What is said of a head is what its map shows, and what a run found."""

import numpy as np
import pandas as pd
import pytest

import workbench as wb
from tests.analyses.attention.test_grids import made
from tests.minis import shared
from workbench.analyses.attention.capture import attention
from workbench.analyses.attention.changes import changed_most, changes
from workbench.analyses.attention.grids import Grid, Options, grid_of
from workbench.analyses.attention.patterns import caption, on_corpus, pattern_of
from workbench.analyses.attention.similar import similar, tags_of

SELF = ("encoder", "self")
KEY = ["stack", "kind", "layer", "head"]


def grid(one: np.ndarray) -> Grid:
    """The map of one head on [CLS], words and [SEP]."""
    n = len(one)
    names = ["[CLS]", *(f"w{i}" for i in range(1, n - 1)), "[SEP]"]
    owners = [-1, *range(n - 2), -1]
    found = made(one[None, None].astype(np.float32), owners, [i < 0 for i in owners], names[1:-1])
    return grid_of(found, SELF, Options())


@pytest.mark.parametrize(
    ("targets", "words", "share"),
    [
        ([0, 0, 1, 2, 3, 4, 5], "the previous token", 1.0),
        ([0, 2, 3, 4, 5, 6, 5], "the next token", 1.0),
        ([0, 1, 2, 3, 4, 5, 6], "the same token", 1.0),
        ([0, 0, 0, 0, 0, 1, 0], "the first token", 0.8),
        ([0, 6, 6, 6, 1, 6, 0], "a separator", 0.8),
        ([0, 3, 4, 5, 6, 7, 1, 2, 0], "the token 2 ahead", 1.0),
    ],
)
def test_the_place_of_most_tokens_is_named(targets: list[int], words: str, share: float) -> None:
    one = np.full((len(targets), len(targets)), 0.01)
    one[np.arange(len(targets)), targets] = 0.9
    found = pattern_of(grid(one), one.astype(np.float32))
    assert found and (found.in_words("token"), found.share) == (words, pytest.approx(share))


def test_the_caption_has_the_corpus_only_where_a_run_has() -> None:
    one = np.full((7, 7), 0.01)
    one[np.arange(7), [0, 0, 1, 2, 3, 4, 5]] = 0.9
    heads = pd.DataFrame([(*SELF, 0, 0, "positional", 0.1)], columns=[*KEY, "role", "first_mass"])
    offsets = pd.DataFrame([(*SELF, 0, 0, -1, 0.91)], columns=[*KEY, "offset", "share"])
    shown = grid(one), one.astype(np.float32), 0, 0
    said = caption(*shown, on_corpus("EWT dev", "run", heads, offsets))
    assert said == (
        "Head 1.1 looks at the previous token: 100 % of tokens here, 91 % on EWT dev. "
        "Role on EWT dev: positional."
    )
    assert caption(*shown, None) == "Head 1.1 looks at the previous token: 100 % of tokens here."
    even = np.full((7, 7), 1 / 7, dtype=np.float32)
    assert "no fixed place" in caption(grid(even), even, 0, 0, None)


def test_an_edit_changes_heads_and_no_edit_none() -> None:
    model = shared("mini:bert")
    one, other = (attention(model, f"The {noun} sees Mary .") for noun in ("dog", "river"))
    found = changes(one, other, SELF, Options())
    values = np.array(found, dtype=float)
    assert values.shape == (4, 4) and ((values > 0) & (values < 1)).all()
    row, column = changed_most(found)[0]
    assert values[row, column] == values.max()
    assert np.array(changes(one, one, SELF, Options()), dtype=float).max() == 0
    shorter = changes(one, attention(model, "The dog sees ."), SELF, Options())
    assert 0 < np.array(shorter, dtype=float).max() < 1


def test_similar_pairs_have_the_tags_and_their_attention() -> None:
    """Each pair is the strongest of its sentence, as its own maps say."""
    model = shared("mini:bert")
    docs = list(wb.read("primer").docs("test", 20))
    site = model.sites[1]
    found = similar(model, docs, site, 2, ("VERB", "NOUN"), first=100)
    assert found and [hit.weight for hit in found] == sorted(
        (hit.weight for hit in found), reverse=True
    )
    for hit in found:
        doc = docs[hit.sentence - 100]
        assert tags_of(doc, hit.word, hit.to) == ("VERB", "NOUN")
        maps = grid_of(attention(model, doc), SELF, Options(unit="words", special="hidden"))
        own = maps.map(1, 2)
        pairs = [own[a.i, b.i] for a in doc for b in doc if a.pos_ == "VERB" and b.pos_ == "NOUN"]
        assert hit.weight == pytest.approx(max(pairs), abs=1e-5)
        assert own[hit.word, hit.to] == pytest.approx(hit.weight, abs=1e-5)
