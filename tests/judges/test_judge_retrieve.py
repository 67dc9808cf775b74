"""A judge of `retrieve`: RAG by plain loops over pieces and passages, BM25 by its formula."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import workbench as wb
from tests.judges.odd import run_here
from tests.models import headed
from workbench import Corpus
from workbench.analyses.retrieval.index import Vectors, bm25_index
from workbench.corpora.passages import passages_of
from workbench.models.scoring.lm_scoring import start_of

TEXTS = [
    "Ann sees an old dog. The dog runs home quickly.",
    "Ben sings to his brother. Mary saw Ben singing in the garden.",
    "The letters were in the red box. Tom opened it.",
    "A boat sails on the wide lake.",
    "Nobody knows the name of the dog.",
]
FAMILIES = {
    "gpt2": "GPT2LMHeadModel",
    "t5": "T5ForConditionalGeneration",
    "bart": "BartForConditionalGeneration",
}


def bm25(texts: list[str], query: str) -> list[float]:
    """Lucene's: log(1 + (N - df + 0.5) / (df + 0.5)) tf / (tf + k1 (1 - b + b length / mean))."""
    split = [re.findall(r"\w+", text.lower()) for text in texts]
    mean = sum(map(len, split)) / len(split)
    scores = []
    for words in split:
        score = 0.0
        for word in re.findall(r"\w+", query.lower()):
            df, tf = sum(word in other for other in split), words.count(word)
            if df:
                idf = math.log(1 + (len(split) - df + 0.5) / (df + 0.5))
                score += idf * tf / (tf + 1.5 * (1 - 0.75 + 0.75 * len(words) / mean))
        scores.append(score)
    return scores


@torch.no_grad()
def pieces_logs(model: Any, before: str, after: str, answer: str, passage: str) -> list[float]:
    """log p of each piece of an answer in a gap, one forward of the bare net for each."""
    tokenizer, net = model.tokenizer, model.net
    if model.family == "gpt2":
        prefix = f"{passage} {before}".strip()
        first = start_of(model, wb.encode(wb.read(TEXTS)))  # its own judge is elsewhere
        start, source = [] if first is None else [first], None
    elif model.family == "t5":
        prefix, start = "<extra_id_0>", [net.config.decoder_start_token_id]
        source = f"{passage} {before} <extra_id_0>{after}".strip()
    else:
        prefix = f"{passage} {before}".strip()
        start = [net.config.decoder_start_token_id, tokenizer.bos_token_id]
        source = f"{passage} {before} {tokenizer.mask_token}{after}".strip()
    whole = tokenizer(f"{prefix} {answer}", add_special_tokens=False)["input_ids"]
    known = tokenizer(prefix, add_special_tokens=False)["input_ids"]
    assert whole[: len(known)] == known
    logs, so_far = [], [*start, *known]
    for piece in whole[len(known) :]:
        ids = torch.tensor([so_far])
        if source is None:
            logits = net(ids).logits
        else:
            read = torch.tensor([tokenizer(source)["input_ids"]])
            logits = net(input_ids=read, decoder_input_ids=ids).logits
        logs.append(float(logits[0, -1].double().log_softmax(-1)[piece]))
        so_far.append(piece)
    return logs


@pytest.mark.parametrize("family", FAMILIES)
def test_rag_is_its_definition(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    model = headed.made(family, FAMILIES[family])
    corpus = wb.read(TEXTS)
    found = passages_of(corpus.docs(), 8)
    result = run_here(
        "retrieve", model, corpus, retrievers=("bm25",), k=3, passage_words=8, questions=99
    )
    items, read = result.tables["items"], result.tables["passages"]
    assert len(items) == len(found.questions) > 5
    for item, question in zip(items.to_dict("records"), found.questions, strict=True):
        scores = bm25(found.texts, f"{question.before}{question.after}")
        own = read[read["item"] == item["item"]]
        chosen = [found.texts.index(text) for text in own["passage"]]
        best = sorted(scores, reverse=True)[:3]
        assert [scores[n] for n in chosen] == pytest.approx(best, abs=1e-5)
        total = sum(math.exp(scores[n]) for n in chosen)
        priors = [math.exp(scores[n]) / total for n in chosen]
        assert own["prior"].tolist() == pytest.approx(priors, abs=1e-5)
        logs = [
            pieces_logs(
                model, question.before, question.after or "", question.answer, found.texts[n]
            )
            for n in chosen
        ]
        sequence = sum(
            prior * math.exp(sum(each)) for prior, each in zip(priors, logs, strict=True)
        )
        token = 1.0
        for piece in range(len(logs[0])):
            token *= sum(
                prior * math.exp(each[piece]) for prior, each in zip(priors, logs, strict=True)
            )
        assert item["nats_sequence"] == pytest.approx(-math.log(sequence), abs=1e-5, rel=1e-5)
        assert item["nats_token"] == pytest.approx(-math.log(token), abs=1e-5, rel=1e-5)
        posterior = [
            prior * math.exp(sum(each)) / sequence for prior, each in zip(priors, logs, strict=True)
        ]
        assert own["posterior"].tolist() == pytest.approx(posterior, abs=1e-5)


def test_bm25_is_its_formula(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    index = bm25_index(TEXTS)
    for query in ("the old dog of the lake", "BEN and the the box", "nothing here"):
        np.testing.assert_allclose(index.scores(query), bm25(TEXTS, query), atol=1e-5)


def test_search_in_blocks_is_a_sort() -> None:
    draw = torch.Generator().manual_seed(0)
    rows = torch.randn(40_000, 5, generator=draw).half()
    queries = torch.randn(3, 5, generator=draw)
    found, scores = Vectors(rows, lambda texts: queries).top(["a", "b", "c"], 7)
    expected = (queries @ rows.float().T).numpy()
    for row, (own, values) in enumerate(zip(found, scores, strict=True)):
        order = np.argsort(-expected[row])[:7]
        assert own.tolist() == order.tolist()
        np.testing.assert_allclose(values, 20 * expected[row][order], rtol=1e-5)


def test_an_encoder_decoder_answers_a_question_with_an_end() -> None:
    """As T5 is asked, and the end piece counts."""
    model: Any = wb.load("mini:t5", device="cpu")
    corpus: Corpus = wb.read("primer/questions:size=20")
    result = run_here("retrieve", model, corpus, retrievers=("bm25",), k=1, questions=2)
    found = passages_of(corpus.docs("test"), 21)
    texts = {each.before: each for each in found.questions}
    for item, passage in zip(
        result.tables["items"].to_dict("records"),
        result.tables["passages"].to_dict("records"), strict=True,
    ):  # fmt: skip
        question = texts[item["question"]]
        source = f"question: {question.before} context: {passage['passage']}"
        ids = model.tokenizer(source, return_tensors="pt")["input_ids"]
        labels = model.tokenizer(question.answer, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            mean = model.net(input_ids=ids, labels=labels).loss
        assert item["nats_sequence"] == pytest.approx(float(mean) * labels.shape[1], rel=1e-4)
