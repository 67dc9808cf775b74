"""CoNLL's columns: words, parts of speech and entities, in the dialects they come in."""

from pathlib import Path

import pytest

from workbench import WorkbenchError
from workbench.corpora import read
from workbench.corpora.layers import layers, mentions
from workbench.corpora.validate import faults

FOUR = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O
German JJ B-NP B-MISC
call NN I-NP O
. . O O

Peter NNP B-NP B-PER
Blackburn NNP I-NP I-PER

-DOCSTART- -X- -X- O

BRUSSELS NNP B-NP B-LOC
"""


def written(folder: Path, text: str, name: str = "ner.conll") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_four_columns_give_words_tags_entities_and_documents(tmp_path: Path) -> None:
    docs = list(read(written(tmp_path, FOUR)).docs())
    assert [doc.text for doc in docs] == [
        "EU rejects German call .", "Peter Blackburn", "BRUSSELS",
    ]  # fmt: skip
    assert [word.tag_ for word in docs[0]] == ["NNP", "VBZ", "JJ", "NN", "."]
    assert mentions(docs[0], "entities") == [(0, 1, "ORG", ""), (2, 3, "MISC", "")]
    assert mentions(docs[1], "entities") == [(0, 2, "PER", "")]
    assert [doc._.document for doc in docs] == ["ner", "ner", "ner-2"]
    whole = list(read(written(tmp_path, FOUR), unit="document").docs())
    assert [len(list(doc.sents)) for doc in whole] == [2, 1]
    assert mentions(whole[0], "entities")[-1] == (5, 7, "PER", "")


def test_two_columns_between_tabs_hold_words_with_spaces(tmp_path: Path) -> None:
    (doc,) = read(written(tmp_path, "New York\tB-LOC\n10 000\tO\n", "wnut.bio")).docs()
    assert [word.text for word in doc] == ["New York", "10 000"]
    assert layers(doc) == {"words", "sentences", "entities"}


def test_comments_stand_before_a_sentence_and_a_hash_is_a_word(tmp_path: Path) -> None:
    text = "# id 5239d808\tdomain=dev\n# _ _ O\ntag _ _ U-X\n# _ _ O\n"
    (doc,) = read(written(tmp_path, text)).docs()
    assert doc.text == "# tag #" and mentions(doc, "entities") == [(1, 2, "X", "")]
    assert not doc.has_annotation("TAG")


@pytest.mark.parametrize(
    ("line", "what", "remedy"),
    [
        ("word", "one column", "word first"),
        ("\tO", "no word", "word first"),
        ("dog NN", "'NN' is not a BIO tag", "last column"),
        ("1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_", "'_' is not a BIO tag", "rename it"),
    ],
)
def test_faults_are_reported_with_their_line(
    tmp_path: Path, line: str, what: str, remedy: str
) -> None:
    path = written(tmp_path, f"The O\ndog O\n\n{line}\n\nfine O\n")
    with pytest.raises(WorkbenchError, match=rf"ner.conll:4: .*{what}.*\n.*{remedy}"):
        list(read(path).docs())
    assert [(fault.line, fault.what) for fault in faults(path)] == [(4, faults(path)[0].what)]


@pytest.mark.parametrize("encoding", ["utf-16", "cp1252"])
def test_other_encodings_are_reported_with_the_command_that_converts_them(
    tmp_path: Path, encoding: str
) -> None:
    path = tmp_path / "ner.conll"
    path.write_bytes("Zoé B-PER\n".encode(encoding))
    with pytest.raises(WorkbenchError, match=f"not UTF-8[\\s\\S]*iconv -f {encoding}"):
        list(read(path).docs())


def test_it_can_be_probed_like_any_corpus_with_entities(tmp_path: Path) -> None:
    from workbench.corpora.splits import SplitSizes
    from workbench.corpora.tasks import split_of, task_of

    text = "".join(f"Mary{n} B-PER\nsaw O\nNew B-LOC\nYork I-LOC\n\n" for n in range(40))
    corpus = read(written(tmp_path, text))
    task = task_of(corpus, "")
    assert (task.kind, task.names) == ("entities", ("O", "B-LOC", "I-LOC", "B-PER", "I-PER"))
    split = split_of(corpus, task, None, 0, SplitSizes(20, 5, 5))
    assert split.train.gold[0] == [3, 0, 1, 2]
