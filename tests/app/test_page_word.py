"""The page of one word without a browser: what it says of a word, for every kind of model."""

import math
import time
from pathlib import Path

import pytest

import workbench as wb
from tests.app.pages import home, opened, said, titles, well  # noqa: F401
from tests.night import mostly

pytestmark = pytest.mark.usefixtures("home")
TEXT = "The girls did not visit it because they were tall."
SMALL = "primer:size=200"


def test_a_word_has_its_pieces_and_its_surprise() -> None:
    app = opened("word", word="girls", text=TEXT, view="Heads", corpus=SMALL, model="mini:bert")
    found = wb.fill(wb.load("mini:bert", device="cpu"), TEXT, hide="girls", top=2000).table
    probability = float(found.set_index("choice")["probability"]["girls"])
    assert titles(app) == ["“girls” in mini:bert"]
    assert "Read as 1 piece: girls" in said(app)
    assert f"a surprise of {-math.log(probability):.2f} nats" in said(app)


def test_the_heads_are_those_that_attend_to_it_most() -> None:
    """The same numbers as the maps of the text in Python."""
    from workbench.analyses.attention.capture import attention
    from workbench.corpora.typed import readable

    app = opened("word", word="girls", text=TEXT, view="Heads", corpus=SMALL, model="mini:bert")
    received = app.dataframe[0].value
    model, doc = wb.load("mini:bert", device="cpu"), readable(TEXT)
    maps = attention(model, doc)
    best = {}
    for site, each in maps.maps.items():
        for head, weights in enumerate(each):  # [pieces, pieces]: a word is one piece here
            words = [n for n in range(1, len(doc) + 1) if n != 2]
            best[f"{site.layer + 1}.{head + 1}"] = float(weights[words, 2].mean())
    names = sorted(best, key=best.__getitem__, reverse=True)[:10]
    assert received["head"].tolist() == names
    assert received.iloc[0, 1] == pytest.approx(100 * best[names[0]])


@pytest.mark.slow  # makes an index; `tests/analyses/editing/test_words.py` counts planted words
def test_the_corpus_is_counted_and_its_sentences_shown() -> None:
    app = opened("word", word="hill", view="Sentences", corpus=SMALL, model="mini:bert")
    corpus = wb.read(SMALL)
    words = [t.text.lower() for split in corpus.splits for doc in corpus.docs(split) for t in doc]
    for _ in range(300):  # the index is made in the background, that of the first words first
        if f"in {len(words):,} words" in said(app):
            break
        time.sleep(0.1)
        well(app.run())
    assert f"{words.count('hill')} times in {len(words):,} words" in said(app)


@pytest.mark.parametrize(
    ("model", "view", "words"),
    [
        pytest.param("mini:gpt", "Heads", "a surprise of", marks=pytest.mark.slow),
        ("mini:t5", "Heads", "a surprise of"),
        ("mini:elmo", "Heads", "no attention heads"),
        pytest.param("mini:bert", "Nearest words", "Read as 1 piece", marks=pytest.mark.slow),
    ],
)
def test_every_kind_of_model(model: str, view: str, words: str) -> None:
    app = opened("word", word="hill", text="Ben walks to the hill.", model=model, view=view,
                 corpus=SMALL)  # fmt: skip
    assert not app.error and words in said(app)


@pytest.mark.parametrize("word", mostly(["<script>", "qwertz", "x" * 500], "<script>"))
def test_a_word_that_is_nowhere_gets_a_sentence(word: str) -> None:
    app = opened("word", word=word, model="mini:bert", corpus=SMALL, view="Heads")
    assert "does not know" in said(app) or "the text has no" in said(app).lower()


def test_vectors_have_neither_surprise_nor_heads(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("Ben 0.5 1.0\nhill 1.0 0.25\n")
    app = opened("word", word="hill", model=f"vectors:{tmp_path / 'v.txt'}", text="Ben hill",
                 view="Heads", corpus=SMALL)  # fmt: skip
    assert "predicts no words" in said(app) and "no attention heads" in said(app)


def test_another_word_forgets_the_text() -> None:
    app = opened("word", word="girls", text=TEXT, view="Heads", corpus=SMALL, model="mini:bert")
    app.text_input(key="word girls").set_value("hill")
    well(app.run())
    assert app.query_params["word"] in ("hill", ["hill"]) and "text" not in app.query_params
    assert titles(app) == ["“hill” in mini:bert"] and "hill" in said(app)
