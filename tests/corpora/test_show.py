"""Docs as text: what a reader sees is what the Doc carries."""

import json
import sys

import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc

from workbench.corpora.layers import Edge, Mention, set_spans
from workbench.corpora.show import as_data, bracketed, doc_name, shown, tree_lines

VOCAB = spacy.blank("en").vocab


def sentence() -> Doc:
    return Doc(
        VOCAB,
        words="The old man saw Mary in the park .".split(),
        heads=[2, 2, 3, 3, 3, 7, 7, 3, 3],
        deps=["det", "amod", "nsubj", "root", "obj", "case", "det", "obl", "punct"],
        pos=["DET", "ADJ", "NOUN", "VERB", "PROPN", "ADP", "DET", "NOUN", "PUNCT"],
    )


def test_tree_is_drawn_in_the_order_of_the_words() -> None:
    assert tree_lines(list(sentence())) == [
        "   ┌─ 1 The  DET    det",
        "   ├─ 2 old  ADJ    amod",
        "┌─ 3 man     NOUN   nsubj",
        "4 saw        VERB   root",
        "├─ 5 Mary    PROPN  obj",
        "│  ┌─ 6 in   ADP    case",
        "│  ├─ 7 the  DET    det",
        "├─ 8 park    NOUN   obl",
        "└─ 9 .       PUNCT  punct",
    ]


def test_crossing_arcs_keep_their_words_under_their_heads() -> None:
    made = Doc(VOCAB, words="a b c d".split(), heads=[2, 3, 2, 2], deps=["x", "y", "root", "z"])
    assert [line.split()[-2:] for line in tree_lines(list(made))] == [
        ["a", "x"], ["c", "root"], ["b", "y"], ["d", "z"],
    ]  # fmt: skip


@given(st.data())
def test_every_word_is_drawn_once_whatever_the_tree(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 12))
    order = data.draw(st.permutations(range(size)))
    heads = list(range(size))
    for place in range(1, size):
        heads[order[place]] = order[data.draw(st.integers(0, place - 1))]
    made = Doc(VOCAB, words=[f"w{n}" for n in range(size)], heads=heads, deps=["dep"] * size)
    drawn = [line.split()[-2] for line in tree_lines(list(made))]
    assert sorted(drawn) == sorted(token.text for token in made)


def test_a_chain_longer_than_pythons_stack_is_drawn() -> None:
    size = sys.getrecursionlimit() + 10
    made = Doc(VOCAB, words=["w"] * size, heads=[0, *range(size - 1)], deps=["dep"] * size)
    assert len(tree_lines(list(made))) == size


def test_constituents_are_bracketed() -> None:
    made = sentence()
    spans = [Mention(0, 9, "S"), Mention(0, 3, "NP"), Mention(3, 8, "VP"), Mention(4, 5, "NP"),
             Mention(5, 8, "PP"), Mention(6, 8, "NP")]  # fmt: skip
    assert bracketed(made, spans) == (
        "(S (NP The old man) (VP saw (NP Mary) (PP in (NP the park))) .)"
    )


def test_of_two_constituents_over_the_same_words_the_first_is_outside() -> None:
    made = Doc(VOCAB, words=["Run", "!"])
    assert bracketed(made, [Mention(0, 1, "S"), Mention(0, 1, "VP")]) == "(S (VP Run)) !"


def test_crossing_constituents_are_listed_instead() -> None:
    made = Doc(VOCAB, words="a b c".split())
    crossing = [Mention(0, 2, "X"), Mention(1, 3, "Y")]
    assert bracketed(made, crossing) == ""
    set_spans(made, "constituents", crossing)
    assert "constituents: [a b] X; [b c] Y" in shown(made)


def test_every_layer_is_shown() -> None:
    made = sentence()
    set_spans(made, "entities", [Mention(4, 5, "person"), Mention(6, 8, "place")])
    set_spans(made, "coreference", [Mention(4, 5, "", "m"), Mention(0, 3, "", "m"),
                                    Mention(6, 8, "", "p")])  # fmt: skip
    set_spans(made, "segments", [Mention(0, 5, ""), Mention(5, 9, "")])
    set_spans(made, "answers", [Mention(6, 8, "answer")])
    made._.edges = {
        "roles": [Edge((3, 4), (0, 3), ("ARG0",))],
        "events": [Edge((3, 4), None, ("seeing", "past"))],
    }
    made._.labels = {"sentiment": "neutral", "score": 3.5, "entailment": None}
    lines = [line.strip() for line in shown(made).splitlines()]
    assert lines[0] == "The old man saw Mary in the park ."
    assert lines[10:] == [
        "segments: The old man saw Mary | in the park .",
        "entities: [Mary] person; [the park] place",
        "chain m: [The old man] = [Mary]",
        "chains of one mention: 1",
        "answers: [the park] answer",
        "roles: [saw] → [The old man] ARG0",
        "events: [saw] seeing, past",
        "sentiment: neutral",
        "score: 3.5",
        "entailment: unknown",
    ]


def test_without_a_tree_words_stand_with_their_tags_or_alone() -> None:
    tagged = Doc(VOCAB, words=["It", "rains"], pos=["PRON", "VERB"])
    assert "It/PRON rains/VERB" in shown(tagged)
    cut_apart = Doc(VOCAB, words=["It", "rains", "."], spaces=[True, False, False])
    assert shown(cut_apart) == "It rains.\n  It rains ."
    assert shown(Doc(VOCAB, words=["It", "rains"])) == "It rains"


def test_sentences_of_a_document_have_a_tree_each() -> None:
    made = Doc(VOCAB, words="Go . Stop .".split(), heads=[0, 0, 2, 2], deps=["root", "punct"] * 2)
    assert shown(made).splitlines()[1:] == [
        "", "  1 Go    root", "  └─ 2 .  punct", "", "  1 Stop  root", "  └─ 2 .  punct",
    ]  # fmt: skip


def test_a_doc_is_called_by_its_sentence_or_its_document() -> None:
    made = sentence()
    assert doc_name(made) == ""
    made._.document = "story"
    assert doc_name(made) == "story"
    made._.sent_ids = ("story-1",)
    assert doc_name(made) == "story-1"
    made._.sent_ids = ("story-1", "story-2")
    assert doc_name(made) == "story"


def test_as_data_holds_what_the_doc_carries_and_no_more() -> None:
    made = sentence()
    made._.edges = {"roles": [Edge((3, 4), (0, 3), ("ARG0",))]}
    made._.labels = {"score": 3.5}
    found = json.loads(json.dumps(as_data(made)))
    assert set(found["words"]) == {"text", "upos", "head", "relation"}
    assert found["words"]["head"][:3] == [2, 2, 3]
    assert found["edges"]["roles"] == [{"span1": [3, 4], "span2": [0, 3], "labels": ["ARG0"]}]
    assert found["labels"] == {"score": 3.5}
    assert found["sentences"] == [0]
    assert set(as_data(Doc(VOCAB, words=["a"]))["words"]) == {"text"}
