"""A judge of answers in windows: bare transformers over each window, every span in a plain loop."""

import math
from typing import Any

import pytest
import torch
from spacy.tokens import Doc

import workbench as wb
from tests.models import headed
from tests.night import mostly
from workbench.corpora.answer_spans import answer_spans
from workbench.corpora.encode import doc_of
from workbench.corpora.text_prediction import pair_of
from workbench.models.huggingface import HuggingFace

LONGEST = 20  # words of an answer
PASSAGE = (
    "In 1912, Ann's dog—a very old one—walked to the hill of São Paulo. 🙂 Ben (who "
    "is n't her brother) sang; the dog slept until 10:30 p.m. and ate two-thirds of it. "
)


def words_of(net: Any, tokenizer: Any, question: Doc, passage: list[Any]) -> dict[str, Any]:
    """Logits of the first and the last piece of each word of a passage, and of the first piece."""
    begin = passage[0].idx
    text = passage[0].doc.text[begin : passage[-1].idx + len(passage[-1])]
    found = tokenizer(
        question.text, text, return_offsets_mapping=True, return_tensors="pt"
    )  # fmt: skip
    offsets, sides = found.pop("offset_mapping")[0].tolist(), found.sequence_ids(0)
    with torch.no_grad():
        out = net(**found)
    starts, ends = out.start_logits[0].double().tolist(), out.end_logits[0].double().tolist()
    pieces: dict[int, list[int]] = {}
    for place, ((first, last), side) in enumerate(zip(offsets, sides, strict=True)):
        while first < last and text[first].isspace():
            first += 1
        shared = [
            (min(last, t.idx - begin + len(t)) - max(first, t.idx - begin), -n)
            for n, t in enumerate(passage)
        ]
        if side != 1:
            continue
        # a piece that is only a space (GPT-2's) is of the word that follows
        follows = [n for n, t in enumerate(passage) if first == last == t.idx - begin > 0]
        own = [-max(shared)[1]] if first < last and max(shared)[0] > 0 else follows
        for word in own:
            pieces.setdefault(word, []).append(place)
    return {
        "starts": {word: starts[min(own)] for word, own in pieces.items()},
        "ends": {word: ends[max(own)] for word, own in pieces.items()},
        "none": starts[0] + ends[0],
    }


def judged(model: Any, question: Doc, passage: Doc) -> tuple[dict[tuple[int, int], float], float]:
    """Score of each span (first word, last word), and of no answer."""
    spans: dict[tuple[int, int], float] = {}
    none, begin, total = math.inf, 0, len(passage)
    while True:
        end = total
        while True:  # as many words as fit
            own = list(passage)[begin:end]
            text = passage.text[own[0].idx : own[-1].idx + len(own[-1])]
            ids = model.tokenizer(question.text, text)["input_ids"]
            if len(ids) <= (model.max_pieces or math.inf):
                break
            end -= 1
        window = words_of(model.net, model.tokenizer, question, own)
        none = min(none, window["none"])
        for first, start in window["starts"].items():
            for last, stop in window["ends"].items():
                if first <= last < first + LONGEST:
                    key = (begin + first, begin + last)
                    spans[key] = max(spans.get(key, -math.inf), start + stop)
        if end == total:
            return spans, none
        begin = max(begin + 1, end - int(0.5 * (end - begin)))


MODELS = {
    "bert": "BertForQuestionAnswering",
    "gpt2": "GPT2ForQuestionAnswering",
    "bart": "BartForQuestionAnswering",
}


@pytest.mark.parametrize(
    ("name", "copies", "longest"),
    mostly(
        [(name, *size) for name in MODELS for size in ((1, 60), (3, 128))],
        ("bert", 3, 128),
        ("gpt2", 1, 60),
    ),
)
def test_spans_of_a_passage_in_windows(name: str, copies: int, longest: int) -> None:
    model = headed.made(name, MODELS[name])
    model.max_pieces = longest
    question, passage = doc_of("Who sang to the old dog?"), doc_of(PASSAGE * copies)
    expected, none = judged(model, question, passage)
    (found,) = answer_spans(model, [pair_of(question, passage)], top=10**6)
    assert found.windows > 1
    assert found.none.score == pytest.approx(none, abs=1e-5)
    places = {t.idx: t.i for t in passage}, {t.idx + len(t): t.i for t in passage}
    spans = {(places[0][s.start], places[1][s.end]): s for s in found.spans}
    assert spans.keys() == expected.keys()
    for key, span in spans.items():
        assert span.score == pytest.approx(expected[key], abs=1e-5)
        assert span.text == passage.text[span.start : span.end]
    best = max(expected.values())
    assert found.spans[0].score == pytest.approx(best, abs=1e-5)
    # BERT's rule for SQuAD 2.0: no answer if its score is above the best span's by a threshold
    for threshold in (none - best - 0.1, none - best + 0.1):
        assert (found.decided(threshold).text == "") == (none - best > threshold)
    assert found.decided(None).text


def test_windows_of_fewer_words() -> None:
    model = headed.made("bert", "BertForQuestionAnswering")
    doc = pair_of(doc_of("Who?"), doc_of(PASSAGE))
    n_words = len(doc.spans["segments"][1])
    (whole,) = answer_spans(model, [doc])
    (parts,) = answer_spans(model, [doc], window=10, overlap=0.3)
    assert whole.windows == 1
    assert parts.windows == 1 + math.ceil((n_words - 10) / 7)


def test_one_window_is_what_the_head_predicts() -> None:
    """The rule is that of a run of finetune where a passage needs no windows."""
    model = headed.made("bert", "BertForQuestionAnswering")
    for text in ("Ben walks.", PASSAGE[:60], "x"):
        labelled = wb.predict(model, text, second="Who?")
        doc = pair_of(doc_of(text), doc_of("Who?"))
        (found,) = answer_spans(model, [doc])
        assert labelled.guess == (found.decided().text or "(no answer)")  # type: ignore[union-attr]
        assert labelled.answer == pytest.approx(found.decided().probability)  # type: ignore[union-attr]


def test_a_question_that_is_too_long_and_a_passage_of_one_word() -> None:
    model: HuggingFace = headed.made("bert", "BertForQuestionAnswering")
    model.max_pieces = 30
    found = wb.answer(model, "Who walks? " * 30, "Ben walks. " * 9)
    assert "question is too long" in " ".join(found.notes)
    assert wb.answer(model, "Who?", "🙂").spans[0].text in ("", "🙂")  # type: ignore[union-attr]
