"""A masked language model trained to read the passages that it retrieves, as REALM, in mini size.

The answer y of a text x is hidden, and the model fills it in after reading a passage z (Guu et al.
2020):

    p(y | x) = sum_z p(z | x) p(y | z, x),   p(z | x) = softmax over z of 20 cos(f(x), f(z))

over the k passages nearest to x and the null passage, an empty text. p(y | z, x) is the product
over the pieces of y, all hidden. From a passage with the sentence x, that sentence is left out (the
trivial candidate). One loss trains the reader and the retriever f, a bi-encoder whose passages are
embedded again every `refresh` steps for the search, and in each step for the loss. A second reader
learns from the same texts in as many steps without passages. Costs: `steps` passes forth and back
over 8 texts with k + 1 passages each, and as many over the texts alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from workbench.analyses.retrieval.bi_encoder import descend, index_of, vectors
from workbench.analyses.retrieval.index import SHARPNESS, Index
from workbench.analyses.retrieval.reads import (
    AT_RANDOM,
    FIRST,
    GOLD,
    MARGINAL,
    NO_PASSAGE,
    OFF,
    RANDOM,
    SWAPPED,
    WITHOUT,
    Reads,
    another,
    exchanged,
    in_chunks,
)
from workbench.core.arrays import Ints
from workbench.corpora.encode import doc_of, encode
from workbench.corpora.passages import Passages, Question, with_answer, without
from workbench.corpora.text_prediction import pair_of
from workbench.engine.batch import Pieces
from workbench.engine.forward_pass import chunks
from workbench.engine.model import Model
from workbench.experiment.definition import Caveat, Progress
from workbench.models.output_heads.lm_heads import mask_of
from workbench.models.output_heads.lm_losses import candidates, logits_of, masked, masked_losses

BATCH = 8  # texts of a step
RETRIEVER = 0.1  # its learning rate, of that of the reader, which at first cannot read
HELD_OUT = 4 * BATCH  # texts that are not trained on
CHUNK = 32  # texts in a pass without gradients
GAINS = (
    (GOLD, OFF), (RANDOM, OFF), (GOLD, RANDOM), (MARGINAL, OFF), (MARGINAL, AT_RANDOM),
    (MARGINAL, WITHOUT),
)  # fmt: skip
CAVEATS = (
    Caveat(
        "The model fills in as many pieces as the right answer has, so exact matches are an upper "
        "bound.", ("answers", "items"),
    ),
    Caveat(
        "Reader and retriever were trained together on the training split; 'none, trained without' "
        "learnt from the same texts in as many steps, without passages.", ("answers", "gains"),
    ),
)  # fmt: skip

Pair = tuple[Question, str]  # with a passage; "": the null passage


@dataclass(frozen=True)
class Realm:
    """A reader and a retriever trained together, and the reader trained without passages."""

    reader: Model
    retriever: Model
    without: Model
    before: float  # nats of the answer of a held-out text
    after: float
    items: int  # texts trained on


# --- p(y | x), differentiable ---------------------------------------------------------------------


def _read(model: Model, pairs: Sequence[Pair]) -> tuple[Pieces, Tensor]:
    """Texts with their passages in pieces, and the pieces of the answers.  # [pairs, pieces]"""
    docs, ranges = [], []
    for question, passage in pairs:
        doc = doc_of(question.whole)
        start = len(question.before) + 1 if question.before else 0
        end = start + len(question.answer)
        inside = [t.i for t in doc if t.idx < end and t.idx + len(t) > start]
        ranges.append((inside[0], inside[-1] + 1))
        docs.append(pair_of(doc, doc_of(passage)) if passage else doc)
    text = model.encode(encode(docs))
    first, last = torch.tensor(ranges).T[..., None]
    hidden = candidates(text) & (text.words >= first) & (text.words < last)
    return text.to(model.device), hidden.to(model.device)


def _mask(model: Model) -> int | None:
    net: Any = model
    return mask_of(net.net, net.tokenizer)


def log_answers(model: Model, pairs: Sequence[Pair]) -> Tensor:
    """log p(y | z, x) of each text with its passage.  # [pairs]"""
    text, hidden = _read(model, pairs)
    return -masked_losses(model, text, hidden, _mask(model)).nats.sum(1)


def log_priors(
    retriever: Model, questions: Sequence[Question], passages: Sequence[Sequence[str]]
) -> Tensor:
    """log p(z | x) of each text's candidates, of which the last one is the null passage.

    Other candidates without text are left out.  # [questions] of [k + 1] -> [questions, k + 1]
    """
    distinct = {text: n for n, text in enumerate(dict.fromkeys(t for row in passages for t in row))}
    left, right = (
        vectors(retriever, retriever.encode(encode(map(doc_of, texts))))
        for texts in ([question.text for question in questions], list(distinct))
    )
    chosen = torch.tensor([[distinct[text] for text in row] for row in passages])
    scores = SHARPNESS * (left @ right.T).gather(1, chosen.to(left.device))
    empty = torch.tensor([[not text for text in row[:-1]] + [False] for row in passages])
    return scores.masked_fill(empty.to(scores.device), -torch.inf).log_softmax(1)


def log_marginal(
    reader: Model,
    retriever: Model | None,
    questions: Sequence[Question],
    passages: Sequence[Sequence[str]],
) -> Tensor:
    """log p(y | x), the sum over the candidates; without a retriever of the only one.

    # [questions] of [k + 1] -> [questions]
    """
    rows = zip(questions, passages, strict=True)
    flat = [(question, text) for question, row in rows for text in row]
    logs = log_answers(reader, flat).view(len(questions), -1)  # [questions, k + 1]
    if retriever is None:
        return logs[:, 0]
    return (log_priors(retriever, questions, passages) + logs).logsumexp(1)


# --- candidates and training ----------------------------------------------------------------------


def passage_for(question: Question, passage: str) -> str:
    """A passage without the sentence that the text is."""
    return passage if question.after is None else without(passage, question.whole)


def candidates_of(
    index: Index, texts: Sequence[str], questions: Sequence[Question], k: int
) -> tuple[Ints, list[list[str]]]:
    """The k nearest passages of each text and the null passage: indices, and what is read."""
    nearest, _ = index.top([question.text for question in questions], min(k, len(texts)))
    read = [
        [*(passage_for(question, texts[n]) for n in row), ""]
        for question, row in zip(questions, nearest, strict=True)
    ]
    return np.pad(nearest, ((0, 0), (0, 1)), constant_values=NO_PASSAGE), read


def fitting(model: Model, questions: Sequence[Question]) -> list[Question]:
    """Texts that leave half of what the model reads to a passage, and whose answer it sees."""
    kept: list[Question] = []
    for chunk in chunks(questions, CHUNK):
        text, hidden = _read(model, [(question, "") for question in chunk])
        short = text.mask.sum(1) * 2 <= (model.max_pieces or 2**31)
        kept += [q for q, ok in zip(chunk, (hidden.any(1) & short).tolist(), strict=True) if ok]
    return kept


def trained(
    model: Model,
    start: Model,
    lessons: Passages,
    k: int,
    steps: int,
    refresh: int,
    seed: int,
    on_step: Callable[[int], object],
) -> Realm:
    """Train copies of a model and of a bi-encoder together, and another copy without passages."""
    reader, alone, retriever = (each.copy(in_fp32=True) for each in (model, model, start))
    texts, n_items = lessons.texts, len(lessons.questions)
    draw = torch.Generator().manual_seed(seed)
    order = torch.randperm(n_items, generator=draw).tolist()
    held_out = [lessons.questions[row] for row in order[:HELD_OUT]]
    drawn = torch.randint(HELD_OUT, n_items, (steps, BATCH), generator=draw).tolist()
    batches = [[lessons.questions[order[row]] for row in rows] for rows in drawn]
    index: Index = index_of(retriever, texts)

    def together(step: int) -> Tensor:
        nonlocal index
        if step and step % refresh == 0:
            index = index_of(retriever, texts)
        _, passages = candidates_of(index, texts, batches[step], k)
        return -log_marginal(reader, retriever, batches[step], passages).mean()

    def without_passages(step: int) -> Tensor:
        return -log_marginal(alone, None, batches[step], [[""]] * BATCH).mean()

    @torch.no_grad()
    def held_out_nats() -> float:
        _, passages = candidates_of(index_of(retriever, texts), texts, held_out, k)
        parts = zip(chunks(held_out, BATCH), chunks(passages, BATCH), strict=True)
        return -float(torch.cat([log_marginal(reader, retriever, *part) for part in parts]).mean())

    before = held_out_nats()
    descend({reader: 1.0, retriever: RETRIEVER}, steps, together, on_step)
    descend({alone: 1.0}, steps, without_passages, lambda done: on_step(steps + done))
    return Realm(reader, retriever, alone, before, held_out_nats(), n_items - HELD_OUT)


# --- reading --------------------------------------------------------------------------------------


@torch.no_grad()
def read(
    realm: Realm,
    corpus: Passages,
    questions: Sequence[Question],
    index: Index,
    k: int,
    seed: int,
    progress: Progress,
) -> Reads:
    """Every text with every kind of passage; the index is that of the retriever."""
    texts, model = corpus.texts, realm.reader
    found, passages = candidates_of(index, texts, questions, k)
    log_prior = torch.cat(
        [
            log_priors(realm.retriever, *part)
            for part in zip(chunks(questions, CHUNK), chunks(passages, CHUNK), strict=True)
        ]
    ).double().cpu()  # fmt: skip
    random = np.random.default_rng([seed, len(questions), len(texts)])
    others = exchanged(corpus, questions, random)
    exchanges = [q._replace(answer=other) for q, other in zip(questions, others, strict=True)]
    fits = set(fitting(model, [each for each in exchanges if each.answer]))
    others = [each.answer if each in fits else "" for each in exchanges]
    reads = Reads("nats", found, log_prior.exp().numpy(), others, GAINS, GOLD)
    k = found.shape[1] - 1
    for rows in in_chunks(len(questions), progress):
        pairs: list[Pair] = []
        swaps: list[Pair] = []
        for row in rows:
            own, other = questions[row], others[row]
            gold = passage_for(own, texts[own.passage])
            swapped = with_answer(gold, own.answer, other) if other else gold
            drawn = [texts[another(own, len(texts), random)] for _ in range(k)]
            read_too = [passage_for(own, text) for text in drawn]
            pairs += [(own, text) for text in (gold, swapped, *passages[row], *read_too)]
            asked = exchanges[row] if other else own
            swaps += [(asked, text) for text in (gold, swapped, "")]
        filled = _filled(model, pairs)
        alone = _filled(realm.without, [(questions[row], "") for row in rows])
        for_other = _filled(model, swaps)
        width = 2 * k + 3
        for n, row in enumerate(rows):
            gold_read, swapped_read, *each = filled[n * width : (n + 1) * width]
            nearest, null, at_random = each[:k], each[k], each[k + 1 :]
            reads.by_passage.append(np.array([one.log_p for one in (*nearest, null)]))
            reads.alone.append([one.said for one in (*nearest, null)])
            for name, one in (
                (OFF, null), (RANDOM, at_random[0]), (GOLD, gold_read), (FIRST, nearest[0]),
                (MARGINAL, _marginal(model, log_prior[row], [*nearest, null])),
                (AT_RANDOM, _marginal(model, log_prior[row], [*at_random, null])),
                (WITHOUT, alone[n]),
            ):  # fmt: skip
                reads.add(name, -one.log_p, one.said)
            for name, own_read, other_read in zip(
                (GOLD, SWAPPED, OFF), (gold_read, swapped_read, null),
                for_other[3 * n : 3 * n + 3], strict=True,
            ):  # fmt: skip
                odds = other_read.log_p - own_read.log_p
                reads.add_odds(name, odds if others[row] else np.nan)
    return reads


class Filled(NamedTuple):
    """What a model fills in for an answer."""

    logs: Tensor  # [pieces, vocabulary], log p
    log_p: float  # of the right answer
    said: str


def _filled(model: Model, pairs: Sequence[Pair]) -> list[Filled]:
    """What is filled in for each text with its passage."""
    found = []
    for chunk in chunks(pairs, CHUNK):
        text, hidden = _read(model, chunk)
        logits = logits_of(model, masked(text, hidden, _mask(model)), hidden)
        logs = logits.double().log_softmax(-1).cpu()  # [hidden, vocabulary]
        sizes = hidden.sum(1).tolist()
        gold = torch.split(text.ids[hidden].cpu(), sizes)
        for own, ids in zip(torch.split(logs, sizes), gold, strict=True):
            log_p = float(own.gather(1, ids[:, None]).sum())
            found.append(Filled(own, log_p, _said(model, own)))
    return found


def _said(model: Model, logs: Tensor) -> str:
    """The most probable pieces, as text.  # [pieces, vocabulary]"""
    net: Any = model
    return str(net.tokenizer.decode(logs.argmax(-1).tolist(), skip_special_tokens=True)).strip()


def _marginal(model: Model, log_prior: Tensor, filled: Sequence[Filled]) -> Filled:
    """What is filled in by all candidates together, by their priors.  # [candidates]"""
    logs = (torch.stack([each.logs for each in filled]) + log_prior[:, None, None]).logsumexp(0)
    each = torch.tensor([one.log_p for one in filled], dtype=torch.float64)
    return Filled(logs, float((log_prior + each).logsumexp(0)), _said(model, logs))
