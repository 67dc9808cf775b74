"""A long corpus is read in parts, and the result says if it was not read to its end."""

from pathlib import Path

import pytest

from tests.night import mostly
from workbench.corpora import browse, read
from workbench.corpora.browse import COUNTED, counted, find, passage, sizes, stamp
from workbench.corpora.primer import WORDS
from workbench.corpora.primer.tasks import TASKS


def test_sizes_are_exact_or_say_that_there_is_more() -> None:
    corpus = read("primer:size=100")
    whole = {size.split: size for size in sizes(corpus)}
    assert whole["train"].docs == 100 and whole["train"].whole
    assert whole["dev"].words == sum(len(doc) for doc in corpus.docs("dev"))
    part = {size.split: size for size in sizes(corpus, 40)}
    assert part["train"].docs == 40 and not part["train"].whole
    assert part["dev"].docs == 10 and part["dev"].whole
    assert sizes(corpus, 100)[0].whole
    assert sizes(corpus, None) == sizes(corpus)


@pytest.mark.parametrize("ref", mostly(WORDS, "primer/acceptability"))
def test_known_sizes_of_the_built_in_corpora_are_those_that_are_counted(ref: str) -> None:
    """With the hash of their text, which is compared each day (tests/corpora/test_primer.py)."""
    corpus, task = read(ref), ref.partition("/")[2]
    known = {name: (docs, words) for name, docs, words, _ in counted(ref, None)}
    assert set(WORDS) == {"primer", *(f"primer/{name}" for name in TASKS)}
    assert sum(known["test"]) == 1000 + sum(len(doc) for doc in corpus.docs("test"))
    if task != "acceptability":
        assert counted(ref, COUNTED) == [(s.split, s.docs, s.words, s.whole) for s in sizes(corpus)]


def test_passages_follow_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browse, "PASSAGE", 20)
    corpus = read("primer:size=45")
    texts = [doc.text for number in range(4) for doc in passage(corpus, "train", number)]
    assert texts == [doc.text for doc in corpus.docs("train")]
    assert len(passage(corpus, "train", 0)) == 20


def test_words_are_found_whole_and_phrases_as_they_stand() -> None:
    corpus = read("primer:size=200")
    docs = list(corpus.docs("train"))
    found = find(corpus, "train", "THE")
    assert found.whole and found.looked == 200
    expected = [i for i, doc in enumerate(docs) if any(t.lower_ == "the" for t in doc)]
    assert list(found.numbers) == expected
    pair = " ".join(token.text for token in docs[7][1:3])
    if pair in docs[7].text:
        assert 7 in find(corpus, "train", f" {pair.upper()} ").numbers
    assert find(corpus, "train", "zzzz").numbers == ()
    near = find(corpus, "train", "zzzz", reach=50)
    assert near.looked == 50 and not near.whole


def test_a_stamp_changes_with_the_files(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("One.")
    before = stamp(str(path))
    path.write_text("One. Two.")
    assert before != stamp(str(path)) != ""
    assert stamp("primer") == stamp("a\0b") == stamp("no such corpus") == ""
