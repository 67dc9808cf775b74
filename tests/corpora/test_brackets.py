"""Bracketed trees: words, tags and constituents of the Penn Treebank's form."""

from pathlib import Path

import pytest
from spacy.tokens import Doc

from workbench import WorkbenchError
from workbench.corpora import layers, mentions, read


def _docs(folder: Path, content: str, name: str = "wsj.mrg") -> list[Doc]:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return list(read(path).docs())


def _constituents(doc: Doc) -> list[tuple[str, str]]:
    return [(span.label_, span.text) for span in doc.spans["constituents"]]


TREE = """
( (S
    (NP-SBJ-1 (DT The) (JJ old)
      (NN cat))
    (VP (VBZ sleeps)) (. .)))
"""


@pytest.mark.parametrize("name", ["a.mrg", "a.ptb", "a.parse"])
def test_a_tree_is_a_doc(tmp_path: Path, name: str) -> None:
    (doc,) = _docs(tmp_path, TREE, name)
    assert doc.text == "The old cat sleeps ."
    assert [t.tag_ for t in doc] == ["DT", "JJ", "NN", "VBZ", "."]
    assert _constituents(doc) == [
        ("S", "The old cat sleeps ."),
        ("NP", "The old cat"),
        ("VP", "sleeps"),
    ]
    assert (doc._.document, doc._.sent_ids) == ("a", ("",))
    assert len(list(doc.sents)) == 1
    assert layers(doc) == {"words", "sentences", "tags", "constituents"}


@pytest.mark.parametrize("outer", ["( {} )", "(TOP {})", "(ROOT {})", "{}"])
def test_the_outermost_bracket_is_no_constituent(tmp_path: Path, outer: str) -> None:
    (doc,) = _docs(tmp_path, outer.format("(S (NP (NN a)) (VB b))"))
    assert _constituents(doc) == [("S", "a b"), ("NP", "a")]


def test_trees_follow_each_other_anyhow(tmp_path: Path) -> None:
    docs = _docs(tmp_path, "(S (NN a))(S (NN b))\n\n\n(S\n(NN\nc))   ")
    assert [d.text for d in docs] == ["a", "b", "c"]
    assert _docs(tmp_path, " \n") == []


@pytest.mark.parametrize(
    ("label", "plain"),
    [
        ("NP-SBJ-1", "NP"),
        ("NP=2", "NP"),
        ("WHNP-1=2", "WHNP"),
        ("ADVP|PRT", "ADVP|PRT"),
        ("-LRB-", "-LRB-"),
        ("X", "X"),
        ("=", "="),
    ],
)
def test_function_tags_and_indices_are_removed(tmp_path: Path, label: str, plain: str) -> None:
    (doc,) = _docs(tmp_path, f"(S ({label} (NN a)) (NN b))")
    assert _constituents(doc)[1:] == [(plain, "a")]


def test_tags_stay_as_they_are(tmp_path: Path) -> None:
    (doc,) = _docs(tmp_path, "(S (PRP$ my) (-LRB- -LRB-) (NN-X=1 a))")
    assert [t.tag_ for t in doc] == ["PRP$", "-LRB-", "NN-X=1"]


def test_traces_are_removed_with_the_constituents_they_leave_empty(tmp_path: Path) -> None:
    tree = "(S (NP-SBJ (-NONE- *)) (VP (VB go) (SBAR (WHNP (-NONE- 0)) (S (NP (-NONE- *T*-1))))))"
    (doc,) = _docs(tmp_path, tree)
    assert doc.text == "go"
    assert _constituents(doc) == [("S", "go"), ("VP", "go")]


def test_a_tree_of_traces_alone_is_no_doc(tmp_path: Path) -> None:
    docs = _docs(tmp_path, "(S (NP (-NONE- *)))\n(S (NN a))")
    assert [d.text for d in docs] == ["a"]


def test_unary_chains_stay_whole_outermost_first(tmp_path: Path) -> None:
    (doc,) = _docs(tmp_path, "(S (S (VP (VP (VB go)) (VB on))))")
    assert [m.label for m in mentions(doc, "constituents")] == ["S", "S", "VP", "VP"]


def test_words_are_freed_of_their_escapes_but_quotes_stay(tmp_path: Path) -> None:
    words = r"-LRB- -RRB- -LSB- -RSB- -LCB- -RCB- 1\/2 \* `` '' a-LRB-"
    (doc,) = _docs(tmp_path, f"(S {' '.join(f'(X {word})' for word in words.split())})")
    assert [t.text for t in doc] == [*"()[]{}", "1/2", "*", "``", "''", "a-LRB-"]


def test_only_ascii_space_separates_words(tmp_path: Path) -> None:
    (doc,) = _docs(tmp_path, "(S (CD 10\u00a0000)\t(NN \u2028))")
    assert [t.text for t in doc] == ["10\u00a0000", "\u2028"]


def test_depth_is_not_limited(tmp_path: Path) -> None:
    depth = 100_000
    (doc,) = _docs(tmp_path, "(X " * depth + "(NN a)" + ")" * depth)
    assert len(doc.spans["constituents"]) == depth


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("(S (NN a))\n(S (NN b)\n(S (NN c))\n", 2, "never closed"),
        ("(S (NN a))\n(S\n(NP (NN b)\n", 2, "never closed"),
        ("(S (NN a))\n)\n", 2, "never opened"),
        ("(S (NN a))\nNN\n", 2, "outside"),
        ("(S\n(NN))", 2, "no word"),
        ("\n()", 2, "no word"),
        ("(S\n(NN a b))", 2, "second word"),
        ("(S (NN a)\nb)", 2, "next to a bracket"),
        ("(S (NN a\n(NN b)))", 2, "next to a word"),
    ],
)
def test_faults_are_reported_with_their_line(
    tmp_path: Path, content: str, line: int, message: str
) -> None:
    with pytest.raises(WorkbenchError, match=message) as caught:
        _docs(tmp_path, content)
    assert caught.value.where == f"{tmp_path / 'wsj.mrg'}:{line}"
