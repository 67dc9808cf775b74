"""CoNLL-U by hand: what a reader of treebanks must get right, and what it must refuse."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from spacy.tokens import Doc

from workbench import WorkbenchError
from workbench.corpora import read as corpus
from workbench.corpora.corpus import Options, Unit
from workbench.corpora.layers import Mention, layers, mentions, set_spans, vocabulary
from workbench.corpora.readers.conllu import reader, write
from workbench.corpora.readers.gum_entities import brackets

GUM = "# global.Entity = GRP-etype-infstat-salience-centering-minspan-link-identity"


def read(path: Path, unit: Unit = "sentence", language: str = "en") -> list[Doc]:
    return list(reader([path], Options(unit=unit, language=language)).docs(path))


def rows(text: str) -> str:
    """Lines with their columns parted by spaces; the columns left out at the end are `_`."""
    lines = []
    for line in text.strip("\n").split("\n"):
        columns = line.split()
        is_row = columns and not line.startswith("#")
        lines.append("\t".join([*columns, *"__________"][:10]) if is_row else line)
    return "\n".join(lines) + "\n"


@pytest.fixture
def file(tmp_path):
    def saved(text: str | bytes, name: str = "x.conllu") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return saved


def words(*forms: str, misc: dict[int, str] | None = None) -> str:
    """A sentence without annotation, but for notes on some words."""
    notes = misc or {}
    lines = [
        f"{i}\t{form}" + "\t_" * 7 + f"\t{notes.get(i, '_')}" for i, form in enumerate(forms, 1)
    ]
    return "\n".join(lines) + "\n\n"


SENTENCE = rows("""
# sent_id = s1
# text = Dogs don't bark.
1   Dogs Dog  NOUN  NNS Number=Plur 4 nsubj _ _
2-3 don't _ _ _ _ _ _ _ _
2   do   do   AUX   VBP Mood=Ind|VerbForm=Fin 4 aux _ _
3   n't  not  PART  RB  Polarity=Neg 4 advmod _ _
4   bark bark VERB  VB  VerbForm=Inf 0 root _ SpaceAfter=No
5   .    .    PUNCT .   _ 4 punct _ _
""")


def test_every_column_arrives_in_its_layer(file):
    (doc,) = read(file(SENTENCE))
    assert doc.text == "Dogs don't bark."
    assert [t.text for t in doc] == ["Dogs", "do", "n't", "bark", "."]
    assert [t.lemma_ for t in doc] == ["Dog", "do", "not", "bark", "."]
    assert [t.pos_ for t in doc] == ["NOUN", "AUX", "PART", "VERB", "PUNCT"]
    assert [t.tag_ for t in doc] == ["NNS", "VBP", "RB", "VB", "."]
    assert doc[1].morph.to_dict() == {"Mood": "Ind", "VerbForm": "Fin"}
    assert [(t.head.i, t.dep_) for t in doc] == [
        (3, "nsubj"),
        (3, "aux"),
        (3, "advmod"),
        (3, "root"),
        (3, "punct"),
    ]
    assert doc._.multiword == ((1, 3),)
    assert doc._.sent_ids == ("s1",)
    assert doc._.document == "x"
    assert layers(doc) == {
        "words", "sentences", "pos", "tags", "lemmas", "morphs", "dependencies"
    }  # fmt: skip


def test_underscores_leave_no_layer_behind(file):
    (doc,) = read(file(words("no", "gold")))
    assert layers(doc) == {"words", "sentences"}


def test_the_word_underscore_has_the_lemma_underscore(file):
    (doc,) = read(file(words("_", "x")))
    assert [(t.text, t.lemma_) for t in doc] == [("_", "_"), ("x", "")]


def test_no_document_ends_in_a_space_and_spaces_between_sentences_stay(file):
    path = file(words("One", ".", misc={1: "SpaceAfter=No"}) + words("Two"))
    assert [doc.text for doc in read(path)] == ["One.", "Two"]
    assert [doc.text for doc in read(path, "document")] == ["One. Two"]


@pytest.mark.parametrize(
    ("note", "text"),
    [
        ("SpaceAfter=No", "ab"),
        ("Gloss=x|SpaceAfter=No", "ab"),
        ("CorrectSpaceAfter=No", "a b"),
        ("SpacesAfter=\\n", "a b"),
    ],
)
def test_only_space_after_no_takes_a_space_away(file, note, text):
    (doc,) = read(file(words("a", "b", misc={1: note})))
    assert doc.text == text


# Words written as one.


@pytest.mark.parametrize(
    ("surface", "forms", "parts"),
    [
        ("don't", ["do", "n't"], ["do", "n't"]),
        ("im", ["in", "dem"], ["i", "m"]),
        ("zum", ["zu", "dem"], ["zu", "m"]),
        ("vámonos", ["vamos", "nos"], ["v", "ámonos"]),
        ("dámelo", ["da", "me", "lo"], ["d", "á", "melo"]),
        ("aux", ["à", "les"], ["a", "ux"]),
        ("ab", ["abc", "x"], ["a", "b"]),
    ],
)
def test_words_show_their_part_of_what_is_written_and_keep_their_form(file, surface, forms, parts):
    lines = [f"1-{len(forms)} {surface}", *(f"{i} {f}" for i, f in enumerate(forms, 1))]
    (doc,) = read(file(rows("\n".join(lines))))
    assert doc.text == surface
    assert [t.text for t in doc] == parts
    assert [t._.form or t.text for t in doc] == forms
    assert doc._.multiword == ((0, len(forms)),)


def test_fewer_letters_than_words_show_the_words(file):
    (doc,) = read(file(rows("1-2 x\n1 in\n2 dem\n3 Wald")))
    assert doc.text == "indem Wald"


def test_the_space_after_a_range_is_what_the_range_says(file):
    line = "1-2\tim" + "\t_" * 7 + "\tSpaceAfter=No\n"
    (doc,) = read(file(line + words("in", "dem", "Wald")))
    assert doc.text == "imWald"


def test_multiword_ranges_count_from_the_documents_first_word(file):
    path = file(words("a", "b") + "1-2\tim" + "\t_" * 8 + "\n" + words("in", "dem"))
    (doc,) = read(path, "document")
    assert doc._.multiword == ((2, 4),)
    assert [t._.form for t in doc] == ["", "", "in", "dem"]


# Trees.


def test_crossing_arcs_keep_their_heads_and_their_sentence(file):
    heads = [3, 4, 5, 0, 2, 1, 3]
    lines = [f"{i} w _ _ _ _ {head} dep" for i, head in enumerate(heads, 1)]
    path = file(rows("\n".join(lines)) + "\n" + rows("\n".join(lines)))
    (doc,) = read(path, "document")
    expected = [head - 1 if head else i for i, head in enumerate(heads)]
    assert [t.head.i for t in doc] == [*expected, *(i + 7 for i in expected)]
    assert [(s.start, s.end) for s in doc.sents] == [(0, 7), (7, 14)]


def test_several_roots_stay_one_sentence(file):
    (doc,) = read(file(rows("1 a _ _ _ _ 0 root\n2 b _ _ _ _ 1 dep\n3 c _ _ _ _ 0 root")))
    assert [t.head.i for t in doc] == [0, 0, 2]
    assert len(list(doc.sents)) == 1


def test_a_long_sentence_is_read_like_a_short_one(file):
    (doc,) = read(file(words(*["w"] * 1500)))
    assert len(doc) == 1500


def test_empty_nodes_and_enhanced_dependencies_are_left_out(file):
    text = rows("0.1 x\n1 a _ _ _ _ 0 root 1.1:x\n1.1 gone _ _ _ _ _ _ 1:x\n2 b _ _ _ _ 1 dep")
    (doc,) = read(file(text))
    assert [t.text for t in doc] == ["a", "b"]


# Documents.


def test_a_document_is_what_lies_between_newdocs(file):
    path = file(
        "# newdoc id = one\n# sent_id = a\n" + words("x") + "# sent_id = b\n" + words("y")
        + "# newdoc id = two\n" + words("z")
    )  # fmt: skip
    assert [(d._.document, d._.sent_ids, d.text) for d in read(path, "document")] == [
        ("one", ("a", "b"), "x y"),
        ("two", ("",), "z"),
    ]
    assert [(d._.document, d._.sent_ids) for d in read(path)] == [
        ("one", ("a",)),
        ("one", ("b",)),
        ("two", ("",)),
    ]


def test_documents_without_a_name_are_numbered_after_the_file(file):
    path = file("# newdoc\n" + words("x") + "# newdoc\n" + words("y"), "some.conllu")
    assert [d._.document for d in read(path, "document")] == ["some", "some-2"]


def test_a_file_without_newdoc_is_one_document(file):
    path = file(gzip.compress((words("x") + words("y")).encode()), "some.conllu.gz")
    assert [(d._.document, d.text) for d in read(path, "document")] == [("some", "x y")]


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# newdoc id = x\n# sent_id = y\n", "\ufeff", "# only\n\n# comments\n\n"]
)
def test_a_file_without_words_has_no_docs(file, text):
    path = file(text)
    assert read(path) == read(path, "document") == []


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.rstrip("\n"),
        lambda text: text + "\n\n\n",
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.replace("# sent_id = s1", "#sent_id=s1"),
    ],
)
def test_line_ends_marks_and_blank_lines_make_no_difference(file, change):
    (plain,), (changed,) = read(file(SENTENCE)), read(file(change(SENTENCE), "y.conllu"))
    assert changed.to_json() == plain.to_json()
    assert changed._.sent_ids == ("s1",)


def test_words_may_have_spaces_and_control_characters_in_them(file):
    (doc,) = read(file(words("10 000", "\x00\x85", "\u2028", "#")))
    assert [t.text for t in doc] == ["10 000", "\x00\x85", "\u2028", "#"]


# Entities.


def entities(file, notes: dict[int, str], header: str = GUM, length: int = 6) -> list[Mention]:
    misc = {i: f"Entity={note}" for i, note in notes.items()}
    (doc,) = read(file(f"{header}\n" + words(*"abcdefghijk"[:length], misc=misc)))
    assert mentions(doc, "entities") == mentions(doc, "coreference")
    return mentions(doc, "entities")


def test_brackets_open_close_nest_and_cross(file):
    found = entities(
        file,
        {
            1: "(7-abstract-new-nnnss-cf6-2-coref(3-place-giv:act-sssss-cf1-1-coref)",
            2: "(8-person-new-nnnnn-cf1-1-sgl",
            3: "7)",
            4: "8)(9-time-new-nnnnn-cf1-1-sgl-Some-Name",
            5: "(9-time-new-nnnnn-cf1-1-sgl",
            6: "9)9)",
        },
    )
    assert found == [
        (0, 3, "abstract", "7"),
        (0, 1, "place", "3"),
        (1, 4, "person", "8"),
        (3, 6, "time", "9"),
        (4, 6, "time", "9"),
    ]


@pytest.mark.parametrize("name", ["Morris_%28cartoonist%29", "Spectrum_(band)", "A-B_(c-d)-E"])
def test_a_name_may_have_brackets_and_dashes_in_it(file, name):
    one, two = f"(1-person-new-n-cf1-1-sgl-{name}", f"(2-person-new-n-cf1-1-sgl-{name}"
    found = entities(file, {1: f"{one}{two})", 3: f"{two})1)"})
    assert found == [(0, 3, "person", "1"), (0, 1, "person", "2"), (2, 3, "person", "2")]


@pytest.mark.parametrize(
    ("header", "opening", "closing"),
    [
        ("# global.Entity = etype-infstat-GRP", "(person-new-1", "1)"),
        ("# global.Entity = etype-infstat-GRP", "(person-new-1", "person-new-1)"),
        ("# global.Entity = entity-GRP", "(person-1", "person-1)"),
        ("# global.Entity = eid-etype-head-other", "(1-person-1-", "1)"),
        ("# no header", "(1-person-new-n-cf1-1-sgl", "1)"),
    ],
)
def test_the_header_tells_which_field_is_which(file, header, opening, closing):
    assert entities(file, {1: opening, 3: closing}, header) == [(0, 3, "person", "1")]


def test_the_parts_of_a_discontinuous_mention_share_chain_and_label(file):
    found = entities(
        file,
        {
            1: "(12[1/2]-person-new-n",
            2: "12[1/2])",
            4: "(12[2/2]-person-new-n)",
            5: "(12-person-n)",
        },
    )
    assert found == [(0, 2, "person", "12"), (3, 4, "person", "12"), (4, 5, "person", "12")]


def test_mentions_on_empty_nodes_cover_the_words_between(file):
    lines = ["1\ta" + "\t_" * 8, "1.1\tx" + "\t_" * 7 + "\tEntity=(1-person(2-place)"]
    lines += ["2\tb" + "\t_" * 8, "3\tc" + "\t_" * 8, "3.1\tx" + "\t_" * 7 + "\tEntity=1)"]
    (doc,) = read(file(f"{GUM}\n" + "\n".join(lines)))
    assert mentions(doc, "entities") == [(1, 3, "person", "1")]


def test_every_doc_of_an_annotated_file_has_both_layers(file):
    with_note = words("x") + words("y", misc={1: "A=b|Entity=(1-person)"})
    for path in (file(with_note), file(f"{GUM}\n" + words("x") + words("y"), "y.conllu")):
        for doc in read(path):
            assert {"entities", "coreference"} <= layers(doc)
    (plain,) = read(file("# text = \tno Entity= here\n" + words("x"), "z.conllu"))
    assert not {"entities", "coreference"} & layers(plain)


def test_mentions_are_placed_in_their_sentence_and_in_their_document(file):
    path = file(
        f"# newdoc id = one\n{GUM}\n"
        + words("a", "b", misc={2: "Entity=(1-person)(2-event"})
        + words("c", "d", misc={1: "Entity=2)", 2: "Entity=(1-person)"})
        + "# newdoc id = two\n"
        + words("e", misc={1: "Entity=(1-place)"})
    )
    one, two = read(path, "document")
    assert mentions(one, "entities") == [
        (1, 3, "event", "2"),
        (1, 2, "person", "1"),
        (3, 4, "person", "1"),
    ]
    assert mentions(two, "entities") == [(0, 1, "place", "1")]
    by_sentence = [mentions(doc, "coreference") for doc in read(path)]
    assert by_sentence == [[(1, 2, "person", "1")], [(1, 2, "person", "1")], [(0, 1, "place", "1")]]


# What is refused, with its line.


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("1 a b", 1, "has 1 of 10 columns"),
        (words("a").replace("\n\n", "\t_\n"), 1, "11 of 10 columns"),
        ("\n" + words("a", "b").replace("2\tb", "3\tb"), 3, "word 2 is expected"),
        (words("a", "b").replace("2\tb", "1\tb"), 2, "the number is '1'"),
        (words("a").replace("1\ta", "_\ta"), 1, "the number is '_'"),
        (words("a").replace("1\ta", "9" * 5000 + "\ta"), 1, "the number is '999"),
        (words("a").replace("1\ta", "١\ta"), 1, "the number is '١'"),
        (rows("1-0 x\n1 a"), 1, "range of words 1-0 cannot"),
        (rows("1-2 x\n1 a\n2-3 y\n2 b\n3 c"), 3, "range of words 2-3 cannot"),
        (rows("2-3 x\n1 a\n2 b\n3 c"), 1, "range of words 2-3 cannot"),
        (rows("1 a\n2-9 x\n2 b"), 2, "after the last word, 2"),
        (rows("1-2 x"), 1, "after the last word, 0"),
        (rows("1.1 x\n1 a"), 1, "the number is '1.1'"),
        (rows("0.1 x"), 1, "no words"),
        (words("a", "", "c"), 2, "the word is empty"),
        (rows("1 a _ NOWN"), 1, "Did you mean 'NOUN'"),
        (rows("1 a\n2 b _ _ _ Number"), 2, "'Number' are not Name=Value"),
        (rows("1 a _ _ _ A=b|A=c"), 1, "unique names"),
        (rows("1 a _ _ _ _ one root"), 1, "the head 'one'"),
        (rows("1 a _ _ _ _ +0 root"), 1, "the head '+0'"),
        (rows("1 a _ _ _ _ 1_0 root"), 1, "the head '1_0'"),
        (rows("1 a _ _ _ _ -1 root"), 1, "the head '-1'"),
        (rows("1 a _ _ _ _ 0 root\n2 b _ _ _ _ 3 dep"), 2, "the head 3 is after the last word, 2"),
        (rows("1 a _ _ _ _ 0 root\n2 b _ _ _ _ 2 dep"), 2, "cycle"),
        (rows("1 a _ _ _ _ 0 r\n2 b _ _ _ _ 3 d\n3 c _ _ _ _ 4 d\n4 d _ _ _ _ 2 d"), 2, "cycle"),
        (rows("1 a _ _ _ _ 0 _"), 1, "only one of head and relation"),
        (rows("1 a _ _ _ _ 0 root\n2 b _ _ _ _ _ dep"), 2, "only one of head"),
        (rows("1 a\n# sent_id = 2\n1 b"), 2, "comment is inside a sentence"),
        (words("a", misc={1: "Entity=(1-person"}), 1, "the bracket (1 is not closed"),
        (words("a", misc={1: "Entity=1)"}), 1, "1) closes a mention that was never opened"),
        (words("a", "b", misc={2: "Entity=(1-person)1)"}), 2, "never opened"),
        (words("a", misc={1: "Entity=(1"}), 1, "lacks its chain or its type"),
        (words("a", misc={1: "Entity="}), 1, "not a series of brackets"),
        (words("a", misc={1: "Entity=(1-person)x"}), 1, "not a series of brackets"),
        ("# global.Entity = GRP-head\n", 1, "names neither etype nor entity"),
        (
            words("a", misc={1: "Entity=(1-x"}) + "# newdoc\n" + words("b", misc={1: "Entity=1)"}),
            1,
            "not closed before the document ends",
        ),
        (SENTENCE.encode() + b"\xff", 9, "not UTF-8"),
    ],
)  # fmt: skip
def test_a_fault_is_named_with_its_line(file, text, line, what):
    path = file(text)
    with pytest.raises(WorkbenchError) as caught:
        read(path)
    assert caught.value.where == f"{path}:{line}"
    assert what in str(caught.value) and caught.value.remedy


def test_sentences_before_a_fault_are_read(file):
    path = file(words("fine") + "broken\n")
    docs = reader([path], Options()).docs(path)
    assert next(docs).text == "fine"
    with pytest.raises(WorkbenchError, match=r":3: .*has 1 of 10"):
        next(docs)


@pytest.mark.parametrize("language", ["qq", "", "english", "en.examples", "..", "lex_attrs"])
def test_a_language_spacy_does_not_know_is_refused(file, language):
    with pytest.raises(WorkbenchError, match="language-unknown"):
        read(file(SENTENCE), language=language)


@pytest.mark.parametrize("language", ["xx", "de", "ja", "eng"])
def test_a_language_needs_no_tokenizer(file, language):
    (doc,) = read(file(SENTENCE), language=language)
    assert doc.text == "Dogs don't bark."


# Writing.


def test_a_file_that_was_read_is_written_back_unchanged(file, tmp_path):
    text = (
        "# newdoc id = one\n# global.Entity = GRP-etype\n"
        + SENTENCE.replace("\t4\tnsubj\t_\t_", "\t4\tnsubj\t_\tEntity=(1-animal)") + "\n"
        + "# newdoc\n# global.Entity = GRP-etype\n# text = im Wald\n"
        + rows("1-2 im\n1 in _ ADP\n2 dem\n3 Wald") + "\n"
    )  # fmt: skip
    docs = read(file(text))
    docs[1]._.document = ""
    assert write(docs, tmp_path / "again.conllu") == 2
    assert (tmp_path / "again.conllu").read_text() == text


def doc_of(*forms: str, **layers: list) -> Doc:
    return Doc(vocabulary("en"), words=list(forms), **layers)


def test_sentences_of_one_document_share_its_newdoc_and_its_chains(tmp_path):
    docs = [doc_of("a", "b"), doc_of("c")]
    for doc in docs:
        doc._.document = "one"
        set_spans(doc, "entities", [Mention(0, 1, "thing")])
    set_spans(docs[0], "coreference", [Mention(0, 1, "thing")])
    set_spans(docs[1], "coreference", [Mention(0, 1, "thing", "e1")])
    write(docs, tmp_path / "x.conllu")
    written = (tmp_path / "x.conllu").read_text()
    assert written.count("newdoc") == written.count("global.Entity") == 1
    (doc,) = read(tmp_path / "x.conllu", "document")
    assert mentions(doc, "coreference") == [(0, 1, "thing", "e1"), (2, 3, "thing", "e2")]


def test_entities_found_by_spacy_are_written_too(tmp_path):
    write([doc_of("In", "New", "York", ents=["O", "B-GPE", "I-GPE"])], tmp_path / "x.conllu")
    (doc,) = read(tmp_path / "x.conllu")
    assert mentions(doc, "entities") == [(1, 3, "GPE", "")]
    assert "coreference" not in layers(doc)


def test_named_entities_among_mentions_are_distinguished(tmp_path):
    doc = doc_of("Ann", "and", "her", "dog", spaces=[True, True, True, False])
    set_spans(doc, "entities", [Mention(0, 1, "PERSON"), Mention(3, 4, "PET")])
    chained = [
        Mention(0, 1, "PERSON", "1"),
        Mention(2, 3, "person", "1"),
        Mention(3, 4, "pet", "2"),
    ]
    set_spans(doc, "coreference", chained)
    write([doc], tmp_path / "x.conllu")
    (again,) = read(tmp_path / "x.conllu")
    assert mentions(again, "entities") == mentions(doc, "entities")
    assert mentions(again, "coreference") == chained
    notes = [line.split("\t")[9] for line in (tmp_path / "x.conllu").read_text().split("\n")[3:7]]
    assert "global.Entity = GRP-etype-entities-coreference\n" in (tmp_path / "x.conllu").read_text()
    assert notes == [
        "Entity=(1-PERSON-yes-yes)",
        "_",
        "Entity=(1-person-no-yes)",
        "Entity=(2-pet-no-yes)(name1-PET-yes-no)",
    ]


def test_layers_can_differ_from_the_second_sentence_on(tmp_path):
    docs = [doc_of("a"), doc_of("b"), doc_of("c")]
    for number, doc in enumerate(docs):
        doc._.document = "one"
        set_spans(doc, "entities", [Mention(0, 1, "thing", "1")] if number != 1 else [])
        set_spans(doc, "coreference", [Mention(0, 1, "thing", "1")])
    write(docs, tmp_path / "x.conllu")
    again = read(tmp_path / "x.conllu")
    assert [mentions(d, "entities") for d in again] == [mentions(d, "entities") for d in docs]
    assert [mentions(d, "coreference") for d in again] == [mentions(docs[0], "coreference")] * 3


@pytest.mark.parametrize("unit", ["sentence", "document"])
def test_primer_comes_back_with_its_entities_and_its_chains(tmp_path, unit):
    docs = list(corpus("primer:size=60", unit=unit).docs())
    write(docs, tmp_path / "x.conllu")
    again = read(tmp_path / "x.conllu", unit)
    for layer in ("entities", "coreference"):
        assert [sorted(mentions(doc, layer)) for doc in again] == [
            sorted(mentions(doc, layer)) for doc in docs
        ]


def with_spans(doc: Doc, *found: Mention) -> Doc:
    set_spans(doc, "coreference", found)
    return doc


def two_sentences(doc: Doc) -> Doc:
    return doc.from_array(["SENT_START"], np.ones(len(doc), dtype=np.uint64))


def with_multiword(doc: Doc, *ranges: tuple[int, int]) -> Doc:
    doc._.multiword = ranges
    return doc


@pytest.mark.parametrize(
    ("doc", "what"),
    [
        (doc_of(), "no words"),
        (doc_of("a", "\n\n"), "tab or a line break"),
        (doc_of("a\tb"), "tab or a line break"),
        (doc_of("a", tags=["N\rN"]), "tab or a line break"),
        (two_sentences(doc_of("a", "b", heads=[1, 1], deps=["x", "root"])), "another sentence"),
        (with_multiword(doc_of("a", "b"), (0, 2)), "has a space in it"),
        (with_multiword(doc_of("a", "b", spaces=[False, False]), (0, 3)), "cannot be written"),
        (with_spans(doc_of("a"), Mention(0, 0, "x", "1")), "has no words"),
        (
            with_spans(doc_of(*"abcd"), Mention(0, 3, "x", "1"), Mention(1, 4, "x", "1")),
            "two mentions of chain '1' cross",
        ),
    ],
)
def test_what_conllu_cannot_hold_is_refused_and_nothing_is_written(tmp_path, doc, what):
    path = tmp_path / "x.conllu"
    with pytest.raises(WorkbenchError, match=what) as caught:
        write([doc_of("fine"), doc], path)
    assert "Doc 2" in str(caught.value)
    assert ".spacy" in caught.value.remedy
    assert list(tmp_path.iterdir()) == []


def test_brackets_are_written_from_the_outside_in_and_closed_from_the_inside_out():
    nested = [Mention(0, 3, "a", "1"), Mention(0, 1, "b", "2"), Mention(1, 3, "c", "3")]
    assert brackets([*nested, Mention(2, 3, "d", "4"), Mention(2, 4, "e", "5")]) == {
        0: "(2-b)(1-a",
        1: "(3-c",
        2: "(4-d)3)1)(5-e",
        3: "5)",
    }


def test_a_mention_may_begin_on_the_last_word_of_another(tmp_path):
    crossing = [Mention(0, 2, "x", "1"), Mention(1, 4, "y", "1"), Mention(1, 3, "z", "2")]
    write([with_spans(doc_of(*"abcd"), *crossing)], tmp_path / "x.conllu")
    (doc,) = read(tmp_path / "x.conllu")
    assert mentions(doc, "coreference") == crossing


def test_a_document_name_that_a_comment_cannot_hold_is_refused(tmp_path):
    doc = doc_of("a")
    doc._.document = "two\nlines"
    with pytest.raises(WorkbenchError, match="newdoc id 'two"):
        write([doc], tmp_path / "x.conllu")
