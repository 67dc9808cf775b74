"""Counts worked out by hand."""

import json
import math
from collections.abc import Iterator

import pytest
import spacy
from spacy.tokens import Doc

from workbench import WorkbenchError
from workbench.corpora import read
from workbench.corpora.corpus import Corpus
from workbench.corpora.describe import Coreference, Relation, Scores, Sizes, Zipf, describe
from workbench.corpora.layers import Edge, Mention, set_spans

VOCAB = spacy.blank("en").vocab


def doc(text: str, **layers: object) -> Doc:
    return Doc(VOCAB, words=text.split(), **layers)


def two_sentences() -> Doc:
    """The dog saw the cat . It ran ."""
    made = doc(
        "The dog saw the cat . It ran .",
        heads=[1, 2, 2, 4, 2, 2, 7, 7, 7],
        deps=["det", "nsubj", "root", "det", "obj", "punct", "nsubj", "root", "punct"],
        pos=["DET", "NOUN", "VERB", "DET", "NOUN", "PUNCT", "PRON", "VERB", "PUNCT"],
        tags=["DT", "NN", "VBD", "DT", "NN", ".", "PRP", "VBD", "."],
    )
    set_spans(made, "coreference", [Mention(0, 2, "", "a"), Mention(6, 7, "", "a"),
                                    Mention(3, 5, "", "b")])  # fmt: skip
    set_spans(made, "constituents", [Mention(0, 6, "S"), Mention(0, 2, "NP"), Mention(3, 5, "NP")])
    made._.edges = {
        "roles": [Edge((2, 3), (0, 2), ("ARG0",)), Edge((2, 3), (3, 5), ("ARG1",))],
        "proto": [Edge((2, 3), (0, 2), ("awareness", "volition"))],
    }
    made._.document = "story"
    return made


def test_sizes_are_counted_for_each_split() -> None:
    found = describe({"train": [two_sentences(), doc("The dog")], "dev": [], "test": [doc("a a")]})
    assert found.splits == (
        Sizes("train", docs=2, documents=1, sentences=3, words=11, types=8),
        Sizes("dev", docs=0, documents=0, sentences=0, words=0, types=0),
        Sizes("test", docs=1, documents=0, sentences=1, words=2, types=1),
    )


def test_documents_are_counted_where_their_name_changes() -> None:
    docs = [doc("one"), doc("two"), doc("three"), doc("four")]
    for made, name in zip(docs, ["a", "a", "b", ""], strict=True):
        made._.document = name
    (sizes,) = describe({"all": docs}).splits
    assert sizes.documents == 2


def test_sentence_lengths_of_one_two_two_and_seven_words() -> None:
    docs = [doc("a"), doc("a b"), doc("a b"), doc("a b c d e f g")]
    lengths = describe({"all": docs}).lengths
    assert lengths is not None
    assert (lengths.min, lengths.median, lengths.mean, lengths.max) == (1, 2.0, 3.0, 7)
    assert [b.count for b in lengths.histogram] == [1, 2, 0, 0, 0, 0, 1]


def test_median_of_two_and_five_lies_between() -> None:
    lengths = describe({"all": [doc("a b"), doc("a b c d e")]}).lengths
    assert lengths is not None
    assert lengths.median == 3.5


def test_histogram_has_at_most_twenty_bins_and_loses_nothing() -> None:
    docs = [doc(" ".join("a" * n)) for n in (1, 3, 4, 41)]
    lengths = describe({"all": docs}).lengths
    assert lengths is not None
    assert [(b.first, b.last, b.count) for b in lengths.histogram[:2]] == [(1, 3, 2), (4, 6, 1)]
    assert len(lengths.histogram) == 14
    assert sum(b.count for b in lengths.histogram) == 4


def test_tags_are_counted_most_frequent_first() -> None:
    found = describe({"all": [two_sentences()]})
    assert list(found.upos.items()) == [
        ("DET", 2), ("NOUN", 2), ("PUNCT", 2), ("VERB", 2), ("PRON", 1),
    ]  # fmt: skip
    assert found.xpos == {".": 2, "DT": 2, "NN": 2, "VBD": 2, "PRP": 1}


def test_relations_have_their_most_frequent_offset_and_its_share() -> None:
    found = describe({"all": [two_sentences()]})
    assert found.relations == (
        Relation("det", 2, offset=1, share=1.0),
        Relation("nsubj", 2, offset=1, share=1.0),
        Relation("punct", 2, offset=-1, share=0.5),  # -3 and -1: the nearer of two as frequent
        Relation("obj", 1, offset=-2, share=1.0),
    )


def test_labels_of_spans_and_edges_are_counted_each() -> None:
    found = describe({"all": [two_sentences(), two_sentences()]})
    assert found.labels == {
        "constituents": {"NP": 4, "S": 2},
        "proto": {"awareness": 2, "volition": 2},
        "roles": {"ARG0": 2, "ARG1": 2},
    }


def test_entities_are_counted_from_either_place() -> None:
    flat, nested = doc("New York"), doc("New York")
    flat.set_ents([flat.char_span(0, 8, label="place")])
    set_spans(nested, "entities", [Mention(0, 2, "place"), Mention(1, 2, "town")])
    assert describe({"all": [flat, nested]}).labels == {"entities": {"place": 2, "town": 1}}


def test_chains_and_mentions_are_counted_within_docs() -> None:
    found = describe({"all": [two_sentences(), two_sentences()]})
    assert found.coreference == Coreference(chains=4, mentions=6)
    assert describe({"all": [doc("no chains")]}).coreference is None


def test_labels_of_texts_are_classes_or_scores() -> None:
    docs = [doc("x") for _ in range(4)]
    for made, sentiment, score in zip(
        docs, ["good", "bad", "good", None], [1, 2.5, -0.5, None], strict=True
    ):
        made._.labels = {"sentiment": sentiment, "score": score}
    found = describe({"all": docs})
    assert found.classes == {"sentiment": {"good": 2, "bad": 1}}
    assert found.scores == {"score": Scores(count=3, min=-0.5, mean=1.0, max=2.5)}


def test_words_are_counted_as_written_without_white_space() -> None:
    text = Doc(VOCAB, words=["The", " ", "the", "the"], spaces=[True, False, True, False])
    found = describe({"all": [text]})
    assert found.words == {"the": 2, "The": 1}
    assert found.splits[0].words == 3


def test_parts_of_one_written_word_are_counted_by_their_own_forms() -> None:
    contracted = Doc(VOCAB, words=["i", "m", "Haus"], spaces=[False, True, False])
    contracted[0]._.form, contracted[1]._.form = "in", "dem"
    contracted._.multiword = ((0, 2),)
    assert describe({"all": [contracted]}).words == {"Haus": 1, "dem": 1, "in": 1}


def test_only_the_hundred_most_frequent_words_are_listed() -> None:
    found = describe({"all": [doc(" ".join(f"w{n:03}" for n in range(150)) + " w149")]})
    assert len(found.words) == 100
    assert next(iter(found.words)) == "w149"
    assert found.splits[0].types == 150


def test_words_that_follow_zipfs_law_have_its_slope() -> None:
    words = [f"w{rank}" for rank in range(1, 61) for _ in range(round(6000 / rank))]
    found = describe({"all": [doc(" ".join(words))]}).zipf
    assert found is not None
    assert (found.first, found.last) == (1, 60)
    assert math.isclose(found.slope, -1, abs_tol=0.001)


def test_rare_words_stay_out_of_the_fit() -> None:
    frequent = [f"w{rank}" for rank in range(10) for _ in range(5)]
    found = describe({"all": [doc(" ".join([*frequent, "rare", "rarer"]))]})
    assert found.zipf == Zipf(slope=pytest.approx(0, abs=1e-12), first=1, last=10)
    assert describe({"all": [doc(" ".join(frequent[5:]))]}).zipf is None


def test_nothing_at_all_is_described_too() -> None:
    found = describe({})
    assert found.splits == ()
    assert found.lengths is None
    assert found.zipf is None


def test_docs_are_streamed_and_progress_is_reported() -> None:
    alive: list[str] = []

    def stream() -> Iterator[Doc]:
        for number in range(3):
            alive.append(f"requested {number}")
            yield doc("a b")

    found = describe({"all": stream()}, on_progress=lambda done: alive.append(f"{done} done"))
    assert alive == ["requested 0", "1 done", "requested 1", "2 done", "requested 2", "3 done"]
    assert found.splits[0].docs == 3


def test_a_corpus_is_described_under_its_name_split_by_split() -> None:
    corpus = Corpus("mine", {"dev": lambda: iter([doc("a")]), "test": lambda: iter([doc("b c")])})
    found = describe(corpus)
    assert found.name == "mine"
    assert [(sizes.split, sizes.words) for sizes in found.splits] == [("dev", 1), ("test", 2)]


def test_description_is_plain_data() -> None:
    found = describe({"all": [two_sentences()]}).as_dict()
    assert json.loads(json.dumps(found))["relations"][0] == {
        "label": "det", "count": 2, "offset": 1, "share": 1.0,
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.data
def test_ewt_has_the_published_sizes(data: object) -> None:
    from workbench.corpora import read

    corpus = read(f"{data}/ewt")
    assert list(corpus.splits) == ["train", "dev", "test"]
    found = describe(corpus)
    sizes = {"train": 12544, "dev": 2001, "test": 2077}
    assert {s.split: s.sentences for s in found.splits} == sizes
    det = next(relation for relation in found.relations if relation.label == "det")
    assert det.offset == 1


def test_docs_without_a_corpus_are_one_split() -> None:
    docs = list(read("primer:size=20").docs())
    assert describe(docs) == describe({"all": docs}) == describe(iter(docs))


@pytest.mark.parametrize("given", [5, [5], "primer", {"all": 5}])
def test_other_objects_cannot_be_described(given: object) -> None:
    with pytest.raises(WorkbenchError, match="cannot be described"):
        describe(given)  # type: ignore[arg-type]
