"""Odd corpora and odd models: what is missing is counted and note, and no table has a hole."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from spacy.tokens import Doc

from tests.analyses.heads.conftest import doc_of, random_docs
from tests.analyses.heads.prescribed import Prescribed
from tests.models.gated import shared
from tests.night import mostly
from workbench import Result, WorkbenchError, encode, read
from workbench.analyses.heads.examples import choose_documents
from workbench.analyses.heads.gold import gold_of
from workbench.analyses.heads.word_maps import sides_of

RunHeads = Callable[..., Result]


def _caveats(result: Result) -> str:
    for name, table in result.tables.items():
        assert not table.isna().any().any(), name
    return " ".join(caveat.text for caveat in result.caveats)


def test_without_trees_there_are_no_relations_and_a_caveat(run_heads: RunHeads) -> None:
    docs = [doc_of(["a", "cat", "sleeps"]), doc_of(["she", "sleeps"])]
    found = run_heads(Prescribed(), docs)
    assert "no dependencies" in _caveats(found) and "no coreference" in _caveats(found)
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
def test_hardly_anything(run_heads: RunHeads, docs: Sequence[Doc]) -> None:
    for kind in ("self", "causal"):
        found = run_heads(Prescribed(kind), docs)  # type: ignore[arg-type]
        _caveats(found)
        assert len(found.tables["heads"]) == 6
        assert (found.tables["heads"]["role"] != "syntactic").all()


def test_arcs_of_words_not_read_are_left_out_and_counted(run_heads: RunHeads) -> None:
    words = ["cat"] * 8
    heads = [1, 2, 3, 4, 5, 6, 7, 7]
    docs = [doc_of(words, heads, ["dep"] * 7 + ["ROOT"])]
    found = run_heads(Prescribed(max_pieces=6), docs)  # room for four words
    assert "4 words beyond the model's maximum length" in _caveats(found)
    assert set(found.tables["relations"]["n"]) == {3}
    assert set(found.tables["heads"]["n"]) == {4}
    none = doc_of(["cat", "a" * 10, "cat"], [1, 2, 2], ["dep", "dep", "ROOT"])
    found = run_heads(Prescribed(), [none])
    assert "without a piece of their own are left out (1)" in _caveats(found)
    assert found.tables["relations"].empty, "both arcs lost an end"


def test_rare_relations_are_listed_but_never_syntactic(run_heads: RunHeads) -> None:
    docs = [*random_docs(0, 20), doc_of(["a", "b"], [1, 1], ["goeswith", "ROOT"])]
    found = run_heads(Prescribed(), docs, min_count=10).tables["relations"]
    rare = found[found["relation"] == "goeswith"]
    assert len(rare) == 12 and set(rare["n"]) == {1}
    assert (rare["p_value"] == 1).all() and not rare["syntactic"].any()


def test_example_sentences_show_every_relation() -> None:
    """The first sentences, but for those that the rare relations need."""
    det, obj = ([0, 0], ["ROOT", "det"]), ([0, 0], ["ROOT", "obj"])
    docs = [doc_of(["a", "b"], *(obj if place in (9, 17) else det)) for place in range(30)]
    assert choose_documents(gold_of(docs), 6) == [0, 1, 2, 3, 9, 17]
    assert choose_documents(gold_of(docs), 1) == [9]
    assert choose_documents(gold_of(docs), 0) == []
    assert choose_documents(gold_of(docs), 99) == list(range(30))


def test_words_that_were_cut_off_have_no_place_in_maps() -> None:
    """Of a line of 5,000 words that a model cuts after 62, no map of 5,000 by 5,000 is made."""
    model = Prescribed(max_pieces=64)
    pieces = model.encode(encode([doc_of(["a"] * 5000), doc_of(["a"] * 3)]))
    assert pieces.word_counts.max() == 5000
    assert sides_of(pieces, pieces, "self").visible.shape[1] <= 64


def test_unreliable_maxima_are_reported(run_heads: RunHeads) -> None:
    note = "the maximum is not reliable"
    assert note in _caveats(run_heads(Prescribed(), random_docs(0, 40), min_word_attention=1.0))
    assert note not in _caveats(run_heads(Prescribed(), random_docs(0, 40)))


def test_few_words_give_no_role_and_few_sentences_a_caveat(run_heads: RunHeads) -> None:
    docs = [doc_of(["she", "sees", "it", "now"], [1, 1, 1, 1], ["nsubj", "ROOT", "obj", "advmod"])]
    found = run_heads(Prescribed(), docs, min_count=10)
    assert (found.tables["heads"]["roles"] == "").all()
    assert "Only 1 sentence is" in _caveats(found)
    assert "sentences are scored" not in _caveats(run_heads(Prescribed(), random_docs(0, 40)))


def test_intervals_hold_their_value_even_where_all_sentences_are_the_same(
    run_heads: RunHeads,
) -> None:
    heads = run_heads(Prescribed(even=True), [doc_of(["a", "cat", "sleeps"])] * 12).tables["heads"]
    for name in heads.columns:
        if f"{name}_lower" in heads:
            assert (heads[f"{name}_lower"] <= heads[name]).all(), name
            assert (heads[name] <= heads[f"{name}_upper"]).all(), name


def test_nothing_to_read_is_an_error(run_heads: RunHeads) -> None:
    with pytest.raises(WorkbenchError, match="too-few-sentences"):
        run_heads(Prescribed(), [])


def test_subtypes_on_request(run_heads: RunHeads) -> None:
    docs = random_docs(0, 20)
    plain = set(run_heads(Prescribed(), docs).tables["relations"]["relation"])
    fine = set(run_heads(Prescribed(), docs, subtypes=True).tables["relations"]["relation"])
    assert "nmod" in plain and "nmod:poss" in fine
    assert not {"root", "punct"} & (plain | fine)


def test_the_level_of_pieces_has_no_relations(run_heads: RunHeads) -> None:
    found = run_heads(Prescribed(), random_docs(0, 20), level="pieces")
    assert "level of pieces" in _caveats(found)
    assert found.tables["relations"].empty
    words = run_heads(Prescribed(), random_docs(0, 20)).tables["heads"]["n"].iloc[0]
    assert found.tables["heads"]["n"].iloc[0] > words


def test_coreference_with_its_baselines(run_heads: RunHeads) -> None:
    docs = list(read("primer").docs("dev", 250))
    from tests.tiny import tiny_bert
    from workbench.models.huggingface import HuggingFace

    net, tokenizer = tiny_bert(token.text for doc in docs for token in doc)
    heads = run_heads(HuggingFace(net, tokenizer, "random"), docs, n_frequent_words=100).tables[
        "heads"
    ]
    row = heads.iloc[0]
    assert row["coref_n"] > 30
    assert 0.5 < row["coref_nearest"] <= row["coref_head_match"] <= 1
    assert 0 < row["coref_accuracy_lower"] < row["coref_accuracy_upper"] <= 1
    assert not heads["roles"].str.contains("coreference").any()


FAMILIES = ("t5", "bart", "gpt2", "llama", "albert", "distilbert", "xlnet", "longformer")
BY_DAY = ("t5", "longformer")  # the others have the same kinds as these


@pytest.mark.parametrize("family", mostly(FAMILIES, *BY_DAY))
def test_every_family_is_analysed(family: str, run_heads: RunHeads) -> None:
    model: Any = shared(family)
    docs = list(read("primer").docs("dev", 10))
    found = run_heads(model, docs, n_frequent_words=50)
    note = _caveats(found)
    heads = found.tables["heads"]
    assert len(heads) == sum(site.heads for site in model.sites)
    kinds = {"t5": {"self", "causal", "cross"}, "bart": {"self", "causal", "cross"}}
    only = {"causal"} if family in ("gpt2", "llama") else {"self"}
    assert set(heads["kind"]) == kinds.get(family, only)
    assert ("not known" in note) == (family in ("xlnet", "longformer"))
    assert bool(len(found.tables["cross"])) == ("cross" in set(heads["kind"]))
    causal = found.tables["offsets"].query("kind == 'causal'")
    assert not (causal["offset"] > 0).any(), "later words are not visible"


def test_a_caveat_names_the_pipeline_of_predicted_trees(
    run_heads: RunHeads, tmp_path: Path
) -> None:
    import spacy
    from spacy.language import Language
    from spacy.pipeline import Pipe

    import workbench as wb
    from tests.analyses.heads.conftest import Silent
    from workbench.analyses.heads.experiments import Heads
    from workbench.analyses.heads.head_analysis import run
    from workbench.experiment import Inputs

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
    found = run(Inputs(models=(model,), corpora=(corpus,)), Heads(n_shuffles=120), Silent())
    (note,) = [each for each in found.caveats if "predictions" in each.text]
    assert "chain" in note.text and "relations" in note.applies_to
    assert len(found.tables["relations"])
