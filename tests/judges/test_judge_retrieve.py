"""A judge of `retrieve`: RAG, answers as spans and REALM's marginal likelihood by plain loops over
pieces, spans and passages of bare nets; BM25 by its formula."""

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
from tests.night import mostly
from workbench import Corpus
from workbench.analyses.retrieval.extractive import answers_of, per_passage, shared
from workbench.analyses.retrieval.index import Vectors, bm25_index
from workbench.analyses.retrieval.realm import log_marginal, log_priors
from workbench.core.metrics import normalised
from workbench.corpora.answer_spans import span_scores
from workbench.corpora.encode import doc_of
from workbench.corpora.passages import Question, passages_of
from workbench.corpora.text_prediction import pair_of
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


@pytest.mark.parametrize("family", mostly(FAMILIES, "gpt2"))
def test_rag_is_its_definition(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    model = headed.made(family, FAMILIES[family])
    corpus = wb.read(TEXTS)
    found = passages_of(corpus.docs(), 8)
    result = run_here(
        "retrieve",
        model,
        corpus,
        retrievers=("bm25",),
        k=3,
        passage_words=8,
        questions=99,
        attributed=0,
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
    result = run_here(
        "retrieve", model, corpus, retrievers=("bm25",), k=1, questions=2, attributed=0
    )
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


# --- answers as spans -----------------------------------------------------------------------------


@torch.no_grad()
def span_sums(model: Any, question: str, passage: str) -> tuple[dict[str, float], float]:
    """Sums of exp(score) of the spans with the same words, and of no answer; of a bare net."""
    read = model.tokenizer(question, passage, return_offsets_mapping=True, return_tensors="pt")
    offsets, sides = read.pop("offset_mapping")[0].tolist(), read.sequence_ids(0)
    out = model.net(**read)
    starts, ends = out.start_logits[0].double().tolist(), out.end_logits[0].double().tolist()
    words = list(doc_of(passage))
    places: list[list[int]] = [[] for _ in words]
    for place, ((first, last), side) in enumerate(zip(offsets, sides, strict=True)):
        for n, word in enumerate(words):
            if side == 1 and first < word.idx + len(word) and last > word.idx:
                places[n].append(place)
    sums: dict[str, float] = {}
    for first, begins in enumerate(places):
        for last in range(first, min(first + 20, len(words))):
            text = passage[words[first].idx : words[last].idx + len(words[last])]
            key = " ".join(normalised(text))
            score = starts[min(begins)] + ends[max(places[last])]
            sums[key] = sums.get(key, 0.0) + math.exp(score)
    return sums, math.exp(starts[0] + ends[0])


@pytest.mark.parametrize(
    ("family", "architecture"),
    [("bert", "BertForQuestionAnswering"), ("electra", "ElectraForQuestionAnswering")],
)
def test_answers_of_several_passages(family: str, architecture: str) -> None:
    model: Any = headed.made(family, architecture)
    question, priors = "Who sees the dog?", [0.5, 0.3, 0.2]
    passages = ["Ann sees an old dog, the old dog.", "Nobody knows the dog.", "Ann sleeps."]
    scores = span_scores(model, [pair_of(doc_of(question), doc_of(each)) for each in passages])
    reads = [answers_of(passage, each) for passage, each in zip(passages, scores, strict=True)]
    log_prior = np.log(priors)
    own, together = per_passage(log_prior, reads), shared(log_prior, reads)
    judged = [span_sums(model, question, each) for each in passages]
    totals = [sum(sums.values()) + none for sums, none in judged]
    whole = sum(prior * total for prior, total in zip(priors, totals, strict=True))
    keys = {key for sums, _ in judged for key in sums}
    assert own.keys() == together.keys() == keys and {"ann", "old dog", "dog"} <= keys
    for key in keys:
        mass = [p * sums.get(key, 0.0) for p, (sums, _) in zip(priors, judged, strict=True)]
        each = sum(part / total for part, total in zip(mass, totals, strict=True))
        assert math.exp(own[key]) == pytest.approx(each, abs=1e-5)
        assert math.exp(together[key]) == pytest.approx(sum(mass) / whole, abs=1e-5)
    # what is left is the share of no answer
    none = sum(p * n / total for p, (_, n), total in zip(priors, judged, totals, strict=True))
    assert sum(map(math.exp, own.values())) == pytest.approx(1 - none, abs=1e-5)


# --- REALM ----------------------------------------------------------------------------------------

GAPS = [
    Question("Ann sees an old", " .", "dog", 0, ""),
    Question("Who opened the box?", None, "Tom", 2, ""),
    Question("", " sings to his brother.", "Ben", 1, ""),
]


def mean_state(model: Any, text: str) -> torch.Tensor:
    """The mean of the last states of the pieces of a text, with norm 1; of the special ones."""
    read = model.tokenizer(text, return_tensors="pt")
    states = model.net(**read, output_hidden_states=True).hidden_states[-1][0].double()
    chosen = states[1:-1] if len(states) > 2 else states
    mean = chosen.sum(0) / len(chosen)
    return mean / mean.norm()


def filled(model: Any, question: Question, passage: str) -> float:
    """p(answer | text, passage): the product over its pieces, all masked."""
    tokenizer = model.tokenizer
    start = len(question.before) + 1 if question.before else 0
    end = start + len(question.answer)
    texts = (question.whole, passage) if passage else (question.whole,)
    read = tokenizer(*texts, return_tensors="pt", return_offsets_mapping=True)
    offsets = read.pop("offset_mapping")[0].tolist()
    places = [
        n for n, (first, last) in enumerate(offsets)
        if read.sequence_ids(0)[n] == 0 and first < end and last > start
    ]  # fmt: skip
    gold = read["input_ids"][0, places].tolist()
    read["input_ids"][0, places] = tokenizer.mask_token_id
    p = model.net(**read).logits[0].double().softmax(-1)
    return math.prod(float(p[place, piece]) for place, piece in zip(places, gold, strict=True))


@pytest.mark.parametrize(
    ("family", "architecture"),
    mostly(
        [("bert", "BertForMaskedLM"), ("distilbert", "DistilBertForMaskedLM")],
        ("distilbert", "DistilBertForMaskedLM"),
    ),
)
def test_the_marginal_likelihood_is_its_definition(family: str, architecture: str) -> None:
    """Two odd shapes; a candidate without text is left out unless it is the null passage."""
    reader, retriever = headed.made(family, architecture), headed.made("bert", "BertForMaskedLM")
    candidates = [
        ["The dog runs home quickly.", "", ""],
        ["Tom opened it.", "A boat sails on the wide lake.", ""],
        ["Mary saw Ben singing.", "Nobody knows the name of the dog.", ""],
    ]
    found = log_marginal(reader, retriever, GAPS, candidates).detach()
    priors = log_priors(retriever, GAPS, candidates).exp().detach()
    for row, (question, passages) in enumerate(zip(GAPS, candidates, strict=True)):
        with torch.no_grad():
            known = [n for n, text in enumerate(passages) if text or n == len(passages) - 1]
            asked = mean_state(retriever, question.text)
            scores = [20 * float(asked @ mean_state(retriever, passages[n])) for n in known]
            total = sum(map(math.exp, scores))
            p = 0.0
            for n, score in zip(known, scores, strict=True):
                assert float(priors[row, n]) == pytest.approx(math.exp(score) / total, abs=1e-5)
                p += math.exp(score) / total * filled(reader, question, passages[n])
        assert float(found[row]) == pytest.approx(math.log(p), abs=1e-5, rel=1e-5)
    # the loss reaches both models, and the null passage has a share
    assert (priors[:, -1] > 0).all() and float(priors[0, 1]) == 0
    for net in (reader, retriever):
        for weight in net.named_weights().values():
            weight.requires_grad_()
    (-log_marginal(reader, retriever, GAPS, candidates).mean()).backward()
    for net in (reader, retriever):
        gradients = [w.grad for w in net.named_weights().values() if w.grad is not None]
        assert max(float(each.abs().max()) for each in gradients) > 1e-6
