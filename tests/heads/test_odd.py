"""Odd corpora and odd models: what is missing is counted and said, and no table has a hole."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from spacy.tokens import Doc

from tests.heads.conftest import doc_of, random_docs
from tests.heads.prescribed import Prescribed
from tests.models.gated import shared
from workbench import Result, WorkbenchError, encode, read
from workbench.heads.examples import chosen
from workbench.heads.gold import gold_of
from workbench.heads.word_maps import sides_of

Ask = Callable[..., Result]


def _said(result: Result) -> str:
    for name, table in result.tables.items():
        assert not table.isna().any().any(), name
    return " ".join(caveat.text for caveat in result.caveats)


def test_without_trees_there_are_no_relations_and_that_is_said(asked: Ask) -> None:
    docs = [doc_of(["a", "cat", "sleeps"]), doc_of(["she", "sleeps"])]
    found = asked(Prescribed(), docs)
    assert "no dependencies" in _said(found) and "no coreference" in _said(found)
    assert found.tables["relations"].empty and found.tables["best"].empty
    assert (found.tables["heads"]["best_relation"] == "").all()
    assert (found.tables["heads"]["relation_accuracy_upper"] == 1).all(), "nothing is known"


@pytest.mark.parametrize(
    "docs",
    [
        [doc_of(["cat"], [0], ["ROOT"])],
        [doc_of(["a" * 10])],  # no piece at all
        [doc_of(["a" * 10, "b" * 10]), doc_of(["cat"])],
        [doc_of(["."], [0], ["ROOT"]), doc_of(["a", "."], [0, 0], ["ROOT", "punct"])],
        [doc_of([])],
    ],
)
def test_hardly_anything(asked: Ask, docs: Sequence[Doc]) -> None:
    for kind in ("self", "causal"):
        found = asked(Prescribed(kind), docs)  # type: ignore[arg-type]
        _said(found)
        assert len(found.tables["heads"]) == 6
        assert (found.tables["heads"]["role"] != "syntactic").all()


def test_words_that_are_lost_take_their_arcs_along_and_are_counted(asked: Ask) -> None:
    words = ["cat"] * 8
    heads = [1, 2, 3, 4, 5, 6, 7, 7]
    docs = [doc_of(words, heads, ["dep"] * 7 + ["ROOT"])]
    found = asked(Prescribed(max_pieces=6), docs)  # room for four words
    assert "4 words beyond the model's length" in _said(found)
    assert set(found.tables["relations"]["n"]) == {3}
    assert set(found.tables["heads"]["n"]) == {4}
    none = doc_of(["cat", "a" * 10, "cat"], [1, 2, 2], ["dep", "dep", "ROOT"])
    found = asked(Prescribed(), [none])
    assert "made nothing of 1 words" in _said(found)
    assert found.tables["relations"].empty, "both arcs lost an end"


def test_rare_relations_are_told_and_never_called(asked: Ask) -> None:
    docs = [*random_docs(0, 20), doc_of(["a", "b"], [1, 1], ["goeswith", "ROOT"])]
    found = asked(Prescribed(), docs, least=10).tables["relations"]
    rare = found[found["relation"] == "goeswith"]
    assert len(rare) == 12 and set(rare["n"]) == {1}
    assert (rare["p_value"] == 1).all() and not rare["syntactic"].any()


def test_sentences_that_are_kept_show_every_relation() -> None:
    """The first sentences, but for those that the rare relations need."""
    det, obj = ([0, 0], ["ROOT", "det"]), ([0, 0], ["ROOT", "obj"])
    docs = [doc_of(["a", "b"], *(obj if place in (9, 17) else det)) for place in range(30)]
    assert chosen(gold_of(docs), 6) == [0, 1, 2, 3, 9, 17]
    assert chosen(gold_of(docs), 1) == [9]
    assert chosen(gold_of(docs), 0) == []
    assert chosen(gold_of(docs), 99) == list(range(30))


def test_words_that_were_cut_off_have_no_place_in_maps() -> None:
    """Of a line of 5,000 words that a model cuts after 62, no map of 5,000 by 5,000 is made."""
    model = Prescribed(max_pieces=64)
    pieces = model.encode(encode([doc_of(["a"] * 5000), doc_of(["a"] * 3)]))
    assert pieces.word_counts.max() == 5000
    assert sides_of(pieces, pieces, "self").visible.shape[1] <= 64


def test_unreliable_maxima_are_reported(asked: Ask) -> None:
    said = "the maximum is not reliable"
    assert said in _said(asked(Prescribed(), random_docs(0, 40), residual=1.0))
    assert said not in _said(asked(Prescribed(), random_docs(0, 40)))


def test_no_role_rests_on_hardly_any_words_and_few_sentences_are_told(asked: Ask) -> None:
    docs = [doc_of(["she", "sees", "it", "now"], [1, 1, 1, 1], ["nsubj", "ROOT", "obj", "advmod"])]
    found = asked(Prescribed(), docs, least=10)
    assert (found.tables["heads"]["roles"] == "").all()
    assert "Only 1 sentence is" in _said(found)
    assert "sentences are scored" not in _said(asked(Prescribed(), random_docs(0, 40)))


def test_intervals_hold_their_value_even_where_all_sentences_are_the_same(asked: Ask) -> None:
    heads = asked(Prescribed(even=True), [doc_of(["a", "cat", "sleeps"])] * 12).tables["heads"]
    for name in heads.columns:
        if f"{name}_lower" in heads:
            assert (heads[f"{name}_lower"] <= heads[name]).all(), name
            assert (heads[name] <= heads[f"{name}_upper"]).all(), name


def test_nothing_to_read_is_an_error(asked: Ask) -> None:
    with pytest.raises(WorkbenchError, match="no sentence"):
        asked(Prescribed(), [])


def test_subtypes_on_request(asked: Ask) -> None:
    docs = random_docs(0, 20)
    plain = set(asked(Prescribed(), docs).tables["relations"]["relation"])
    fine = set(asked(Prescribed(), docs, subtypes=True).tables["relations"]["relation"])
    assert "nmod" in plain and "nmod:poss" in fine
    assert not {"root", "punct"} & (plain | fine)


def test_by_pieces_nothing_is_asked_of_words(asked: Ask) -> None:
    found = asked(Prescribed(), random_docs(0, 20), level="pieces")
    assert "By pieces" in _said(found)
    assert found.tables["relations"].empty
    words = asked(Prescribed(), random_docs(0, 20)).tables["heads"]["n"].iloc[0]
    assert found.tables["heads"]["n"].iloc[0] > words


def test_coreference_beside_its_baselines(asked: Ask) -> None:
    docs = list(read("primer").docs("dev", 250))
    from workbench import HuggingFace, tiny_bert

    net, tokenizer = tiny_bert(token.text for doc in docs for token in doc)
    heads = asked(HuggingFace(net, tokenizer, "random"), docs, frequent=100).tables["heads"]
    row = heads.iloc[0]
    assert row["coref_n"] > 30
    assert 0.5 < row["coref_nearest"] <= row["coref_head_match"] <= 1
    assert 0 < row["coref_accuracy_lower"] < row["coref_accuracy_upper"] <= 1
    assert not heads["roles"].str.contains("coreference").any()


FAMILIES = ("t5", "bart", "gpt2", "llama", "albert", "distilbert", "xlnet", "longformer")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_asked_alike(family: str, asked: Ask) -> None:
    model: Any = shared(family)
    docs = list(read("primer").docs("dev", 15))
    found = asked(model, docs, frequent=50)
    said = _said(found)
    heads = found.tables["heads"]
    assert len(heads) == sum(site.heads for site in model.sites)
    kinds = {"t5": {"self", "causal", "cross"}, "bart": {"self", "causal", "cross"}}
    only = {"causal"} if family in ("gpt2", "llama") else {"self"}
    assert set(heads["kind"]) == kinds.get(family, only)
    assert ("is not known" in said) == (family in ("xlnet", "longformer"))
    assert bool(len(found.tables["cross"])) == ("cross" in set(heads["kind"]))
    causal = found.tables["offsets"].query("kind == 'causal'")
    assert not (causal["offset"] > 0).any(), "what comes later is not asked"


def test_predicted_trees_are_told_with_their_pipeline(asked: Ask, tmp_path: Path) -> None:
    import spacy
    from spacy.language import Language
    from spacy.pipeline import Pipe

    import workbench as wb
    from tests.heads.conftest import Silent
    from workbench import Inputs
    from workbench.heads.experiments import Heads
    from workbench.heads.head_analysis import run

    class Chained(Pipe):
        """Every word hangs on the next."""

        def __call__(self, doc: Doc) -> Doc:
            for token in doc:
                token.head = doc[min(token.i + 1, len(doc) - 1)]
                token.dep_ = "dep" if token.i + 1 < len(doc) else "ROOT"
            return doc

        def to_disk(self, path: Path, **more: Any) -> None: ...
        def from_disk(self, path: Path, **more: Any) -> "Chained":
            return self

    Language.factory("chained", func=lambda nlp, name: Chained())
    nlp = spacy.blank("en")
    nlp.add_pipe("chained")
    nlp.to_disk(tmp_path / "chain")
    (tmp_path / "x.txt").write_text("the cat sees a dog\n" * 12)
    corpus = wb.read(tmp_path / "x.txt", pipeline=str(tmp_path / "chain"))
    model: Any = Prescribed()
    found = run(Inputs(models=(model,), corpora=(corpus,)), Heads(shuffles=120), Silent())
    (said,) = [each for each in found.caveats if "predicted" in each.text]
    assert "chain" in said.text and "relations" in said.beside
    assert len(found.tables["relations"])
