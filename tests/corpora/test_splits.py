"""Train, dev and test: the corpus' own, or cut from it; the first of them, or a random sample."""

import pytest
from spacy.tokens import Doc
from spacy.vocab import Vocab

from workbench import Corpus
from workbench.core.errors import WorkbenchError
from workbench.corpora.splits import Parts, SplitSizes, few_sentences_caveat, parts_of

VOCAB = Vocab()


def corpus_of(**splits: int) -> Corpus:
    """So many texts a split, each of one word: the split's name and the text's place."""

    def docs(name: str, number: int) -> list[Doc]:
        return [Doc(VOCAB, [f"{name}{place}"]) for place in range(number)]

    made = {name: docs(name, number) for name, number in splits.items()}
    return Corpus("made", {name: lambda own=own: iter(own) for name, own in made.items()})


def words(parts: Parts) -> list[list[str]]:
    return [[doc[0].text for doc in docs] for docs in (parts.train, parts.dev, parts.test)]


def test_the_first_are_taken_where_nothing_is_drawn() -> None:
    found = parts_of(corpus_of(train=9, dev=5, test=5), None, SplitSizes(3, 2, 2), 0)
    assert words(found) == [["train0", "train1", "train2"], ["dev0", "dev1"], ["test0", "test1"]]
    assert found.scored == "test" and len(found.notes) == 1, "few sentences"


def test_a_caveat_names_what_there_is_little_of() -> None:
    (of_documents,) = few_sentences_caveat(12, "document")
    assert of_documents.startswith("Only 12 documents are scored: with fewer than 30,")
    assert few_sentences_caveat(1)[0].startswith("Only 1 sentence is scored:")
    assert few_sentences_caveat(30, "document") == ()


def test_texts_are_drawn_from_all_by_the_seed_and_keep_their_order() -> None:
    corpus = corpus_of(train=900, dev=100, test=100)
    found = words(parts_of(corpus, None, SplitSizes(60, 40, 40), 0, drawn_from=5000))
    assert [len(part) for part in found] == [60, 40, 40]
    for part, name, number in zip(found, ("train", "dev", "test"), (900, 100, 100), strict=True):
        places = [int(word.removeprefix(name)) for word in part]
        assert places == sorted(set(places)) and places[-1] > 0.8 * number, "not the first alone"
    assert found == words(parts_of(corpus, None, SplitSizes(60, 40, 40), 0, drawn_from=5000))
    assert found != words(parts_of(corpus, None, SplitSizes(60, 40, 40), 1, drawn_from=5000))


def test_a_split_too_large_to_be_read_is_drawn_from_its_start_and_says_so() -> None:
    found = parts_of(
        corpus_of(train=900, dev=50, test=50), None, SplitSizes(40, 40, 40), 0, drawn_from=200
    )
    assert max(int(word.removeprefix("train")) for word in words(found)[0]) < 200
    assert "Texts of train are a random sample of its first 200." in found.notes


def test_what_is_of_no_use_is_left_out_before_anything_is_drawn() -> None:
    def even(name: str, docs: list[Doc]) -> list[Doc]:
        return [doc for doc in docs if int(doc[0].text.removeprefix(name)) % 2 == 0]

    found = parts_of(
        corpus_of(train=200, dev=60, test=60), None, SplitSizes(100, 30, 30), 0, drawn_from=5000,
        sift=even,
    )  # fmt: skip
    assert [len(part) for part in words(found)] == [100, 30, 30]
    assert words(found)[0] == [f"train{place}" for place in range(0, 200, 2)]


@pytest.mark.parametrize("drawn_from", [None, 5000])
def test_without_splits_no_text_is_in_two_parts(drawn_from: int | None) -> None:
    found = parts_of(corpus_of(all=1000), None, SplitSizes(50, 30, 30), 0, drawn_from=drawn_from)
    each = words(found)
    assert len({word for part in each for word in part}) == sum(map(len, each))
    assert [len(part) for part in each] == ([50, 30, 30] if drawn_from else [50, 10, 11])
    assert found.notes[0].startswith("The corpus has no splits") and "by sentence" in found.notes[0]


def test_dev_is_cut_from_all_of_train_where_texts_are_drawn() -> None:
    found = parts_of(
        corpus_of(train=900, test=50), None, SplitSizes(60, 40, 40), 0, drawn_from=5000
    )
    train, dev, _ = words(found)
    assert len(train) == 60 and len(dev) == 40 and not {*train} & {*dev}
    assert "a part of train is used for early stopping" in found.notes[0]


@pytest.mark.parametrize(
    ("splits", "scored", "said"),
    [
        ({"test": 90}, None, "has only the split test"),
        ({"train": 90, "dev": 90}, "train", "dev is used for training"),
    ],
)
def test_unusual_splits_are_explained_in_notes(
    splits: dict[str, int], scored: str | None, said: str
) -> None:
    assert said in " ".join(parts_of(corpus_of(**splits), scored, SplitSizes(40, 40, 40), 0).notes)


@pytest.mark.parametrize(("splits", "said"), [({"all": 2}, "2 sentences"), ({"all": 0}, "0 sent")])
def test_too_few_sentences_are_an_error_with_their_number(
    splits: dict[str, int], said: str
) -> None:
    with pytest.raises(WorkbenchError, match=f"{said}.* cannot be split in 3 parts"):
        parts_of(corpus_of(**splits), None, SplitSizes(), 0)
