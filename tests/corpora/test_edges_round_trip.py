"""For any words and spacing of a Doc, an edge file gives back the same edges."""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc

from tests.corpora.strategies import docs
from workbench.corpora import edges, layers, read, write

READABLE = {"pos", "tags", "dependencies", "entities", "coreference"}


@given(st.lists(docs(), min_size=1, max_size=3), st.data())
def test_words_spaces_names_and_edges_survive(drawn: list[Doc], data: st.DataObject) -> None:
    shared = [layers(doc) & READABLE | set(doc._.edges) for doc in drawn]
    for doc in drawn:
        doc._.edges = {**doc._.edges, "mine": tuple(doc._.edges.get("mine", ()))}
    layer = data.draw(st.sampled_from(sorted(set.intersection(*shared) | {"mine"})))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "drawn.jsonl"
        assert write(drawn, path, layer=layer) == len(drawn)
        back = list(read(path, layer=layer).docs())
    assert len(back) == len(drawn)
    for before, after in zip(drawn, back, strict=True):
        assert after.text == before.text
        assert [t.text_with_ws for t in after] == [t.text_with_ws for t in before]
        assert edges(after, layer) == edges(before, layer)
        assert after._.document == (before._.document or "drawn")
        if len(before._.sent_ids) == 1:
            assert after._.sent_ids == before._.sent_ids
