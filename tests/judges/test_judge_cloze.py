"""A judge of `cloze`: bare transformers forwards of each text with each option, three families."""

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.judges.odd import odd_corpus, odd_model, run_here
from tests.judges.plain import causal_nats, pseudo_nats, text_of
from tests.models import headed
from workbench import Corpus
from workbench.corpora.cloze import Cloze, cloze_items, with_options
from workbench.models.scoring.gap_scores import gap_scores

TEXTS = {"bert": 6, "gpt": 6, "t5": 2}  # of each built-in model
ODD = 4  # of the odd encoder


def parts_of(model: Any, item: Cloze) -> tuple[float, float, float, bool]:
    """Nats of the gap, after and before it, and whether each piece of the gap is the likeliest."""
    text = text_of(model.tokenizer, item.doc)
    if model.objective == "causal":
        losses, places = causal_nats(model.net, text), [p for p in text.inside if p > 0]
    else:
        losses, places = pseudo_nats(model.net, model.tokenizer, text, True), text.inside
    first, last = item.gap
    word = [text.word[place] for place in places]
    gap = [loss for loss, at in zip(losses, word, strict=True) if first <= at < last]
    after = sum(nats for (nats, _), at in zip(losses, word, strict=True) if at >= last)
    before = sum(nats for (nats, _), at in zip(losses, word, strict=True) if 0 <= at < first)
    return sum(nats for nats, _ in gap), after, before, all(best for _, best in gap) and bool(gap)


def odd_items() -> tuple[Corpus, list[Cloze]]:
    corpus = odd_corpus({"test": ODD}, longest=18)
    docs = [doc for doc in corpus.docs("test") if len(doc) > 2]
    for number, doc in enumerate(docs):
        doc._.document = f"text {number // 2}"
    made = Corpus("odd", {"test": lambda: iter(docs)})
    return made, with_options(cloze_items(docs), 4, 0)


def built_in(name: str) -> tuple[Any, Corpus, list[Cloze]]:
    corpus = wb.read("primer")
    model = wb.load(f"mini:{name}", device="cpu")
    items = cloze_items(corpus.docs("test", TEXTS[name]))
    return model, corpus, with_options(items, 4, 0)


def judge(model: Any, corpus: Corpus, items: list[Cloze], texts: int) -> None:
    """Every score of every option, then what the experiment says of them."""
    options = [(item, option) for item in items for option in item.options]
    filled = [item.filled(option) for item, option in options]
    found = gap_scores(
        model, wb.encode([each.doc for each in filled]), [each.gap for each in filled]
    )
    expected = [parts_of(model, each) for each in filled]
    for name, column in (("gap", 0), ("after", 1), ("before", 2)):
        values = [row[column] for row in expected]
        np.testing.assert_allclose(getattr(found, name), values, rtol=1e-4, atol=2e-4)
    assert found.right.tolist() == [row[3] for row in expected]

    tables = run_here("cloze", model, corpus, max_sentences=texts, choices=4).tables
    scores = tables["scores"].set_index(["phenomenon", "task", "context"])
    index, chosen, right = 0, [], []
    for item in items:
        rows = expected[index : index + len(item.options)]
        chosen.append(item.options[int(np.argmin([sum(row[:3]) for row in rows]))] == item.answer)
        right.append(rows[item.options.index(item.answer)][3])
        index += len(item.options)
    row = scores.loc[("all", "choice, full", "with the passage")]
    assert row["accuracy"] == pytest.approx(np.mean(chosen)) and row["n"] == len(items)
    row = scores.loc[("all", "any word", "with the passage")]
    assert row["accuracy"] == pytest.approx(np.mean(right))
    bare = [short for item in items if (short := item.without_passage())]
    values = [parts_of(model, each)[3] for each in bare]
    row = scores.loc[("all", "any word", "without it")]
    assert row["accuracy"] == pytest.approx(np.mean(values)) and row["n"] == len(bare) > 0


def test_an_odd_encoder() -> None:
    corpus, items = odd_items()
    judge(odd_model(corpus), corpus, items, ODD)


@pytest.mark.slow  # by day loops over passes in `tests/models/test_likelihood.py`
@pytest.mark.parametrize("name", ["gpt", "bert", "t5"])
def test_built_in_models(name: str) -> None:
    model, corpus, items = built_in(name)
    judge(model, corpus, items, TEXTS[name])


def test_a_decoder_with_words_of_several_pieces() -> None:
    """Gaps of several pieces, and a first piece without context."""
    model = headed.made("gpt2", "GPT2LMHeadModel")
    corpus = wb.read(
        ["Ann sees an old dog. The dog runs home.", "Ben sings. Mary saw Ben singing."]
    )
    items = with_options(cloze_items(corpus.docs()), 3, 0)
    filled = [item.filled(option) for item in items for option in item.options]
    found = gap_scores(
        model, wb.encode([each.doc for each in filled]), [each.gap for each in filled]
    )
    values = [parts_of(model, each) for each in filled]
    np.testing.assert_allclose(found.whole, [sum(row[:3]) for row in values], rtol=1e-4, atol=2e-4)
    assert max(found.pieces) > 1
