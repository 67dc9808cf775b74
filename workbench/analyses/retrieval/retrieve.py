"""Passages found for questions, and the answers that a model gives from them.

Questions about one passage are not independent, so intervals draw, and tests flip, them together.
Each passage is read alone. Costs: indexing the passages (index.py), training the bi-encoder, and
for each question 2 k + 8 short texts to score and some steps of writing for k + 4 of them;
then the attribution of some answers (passage_attribution.py).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from workbench.analyses.retrieval.bi_encoder import BATCH, Trained, trained
from workbench.analyses.retrieval.experiments import Retrieve
from workbench.analyses.retrieval.index import (
    Index,
    bm25_index,
    mean_states,
    probabilities,
    vector_index,
)
from workbench.analyses.retrieval.passage_attribution import attribution_tables
from workbench.analyses.retrieval.search import WORDS, layer_of, require_passages
from workbench.core.cluster_sample import ClusterSample
from workbench.core.errors import WorkbenchError
from workbench.core.head_names import state_name
from workbench.core.metrics import answer_scores, normalised
from workbench.core.stats import holm
from workbench.corpora.encode import encode
from workbench.corpora.passages import Passages, Question, passages_of, with_answer
from workbench.engine.model import Model, UnsupportedError
from workbench.experiment.definition import Caveat, Inputs, Progress, Result
from workbench.models.scoring.lm_scoring import START_TOKEN_TEXTS, start_of
from workbench.models.scoring.reading import (
    LONGEST,
    Asked,
    Prompt,
    Reader,
    log_probabilities,
    rag_sequence,
    rag_token,
    written,
)

DEPTH = 100  # passages in which the right one is looked for
CHOSEN_ON = 200  # questions of the training split on which the layer is chosen
CHUNK = 20  # questions between two progress callbacks
RANDOM_STATES = "states, random weights"
OFF, RANDOM, GOLD, FIRST = "none", "random", "with the answer", "first found"
SEQUENCE, TOKEN = "RAG-sequence", "RAG-token"
SWAPPED = "answer exchanged"
READ = (OFF, RANDOM, GOLD, FIRST, SEQUENCE, TOKEN)
GAINS = (
    (GOLD, RANDOM), (GOLD, OFF), (FIRST, RANDOM), (SEQUENCE, OFF), (SEQUENCE, FIRST),
    (TOKEN, SEQUENCE),
)  # fmt: skip

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def run(inputs: Inputs, settings: Retrieve, progress: Progress) -> Result:
    """Compute the tables of `retrieve`."""
    model = inputs.model
    words = settings.passage_words or min(WORDS, (model.max_pieces or 3 * WORDS) // 3)
    corpus = passages_of(inputs.corpus.docs(inputs.split, inputs.limit), words, inputs.seed)
    questions = _drawn(corpus, inputs.corpus.name, settings.questions, inputs.seed)
    sample = ClusterSample.of(np.array([question.passage for question in questions]), inputs.seed)
    caveats: list[Caveat] = []
    found = _retrievers(inputs, settings, corpus, words, progress, caveats)
    ranks = {
        name: _ranks(index, questions, len(corpus.texts)) for name, index in found.indices.items()
    }
    retrieval = _retrieval(ranks, settings.k, len(corpus.texts), sample)
    tables = {"retrieval": retrieval, **found.tables}
    if len(ranks) > 1:
        tables["compared"] = _compared(ranks, sample)
    first = settings.retrievers[0]
    if first in found.indices:
        start = start_of(model, encode(inputs.corpus.docs(inputs.split, START_TOKEN_TEXTS)))
        reader = Reader.of(model, settings.prompt, start)
        reads = _read(
            reader, corpus, questions, found.indices[first], settings.k, inputs.seed, progress
        )
        tables |= _tables(reads, questions, sample)
        tables |= _details(reads, corpus, questions, ranks[first])
        if settings.attributed:
            tables |= attribution_tables(
                reader, corpus, questions, reads.found[:, 0], reads.other, settings.attributed,
                sample, inputs.seed, progress,
            )  # fmt: skip
        caveats += _about_reading(reader, questions, reads)
    return Result(tables, caveats=tuple(caveats))


def _drawn(corpus: Passages, name: str, most: int, seed: int) -> list[Question]:
    """Some of the questions, in order; an error if there are none, or one passage only."""
    require_passages(corpus.texts, name)
    if not corpus.questions or len(corpus.texts) < 2:
        raise WorkbenchError(
            f"this corpus has {len(corpus.questions):,} questions and {len(corpus.texts):,} "
            "passages to find.",
            code="no-questions",
            where=name,
            remedy="Read primer/questions, a file of questions with their texts and answers, or "
            "any text of several sentences.",
        )
    random = np.random.default_rng([seed, len(corpus.questions)])
    size = min(most, len(corpus.questions))
    chosen = np.sort(random.choice(len(corpus.questions), size, replace=False))
    return [corpus.questions[n] for n in chosen]


# --- retrievers -----------------------------------------------------------------------------------


@dataclass
class _Retrievers:
    indices: dict[str, Index] = field(default_factory=dict)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)


def _retrievers(
    inputs: Inputs,
    settings: Retrieve,
    corpus: Passages,
    words: int,
    progress: Progress,
    caveats: list[Caveat],
) -> _Retrievers:
    """The chosen retrievers, with mean states of random weights where mean states are compared."""
    model, found, texts = inputs.model, _Retrievers(), corpus.texts
    pairs: list[tuple[str, str]] = []
    if "train" in inputs.corpus.splits and set(settings.retrievers) - {"bm25"}:
        docs = inputs.corpus.docs("train", 2 * settings.pairs)
        pairs = passages_of(docs, words, inputs.seed).pairs[: settings.pairs]
    for name in settings.retrievers:
        if name == "bm25":
            progress(0, 1, "indexing words")
            found.indices[name] = bm25_index(texts)
        elif name == "states":
            layer = layer_of(model, settings.layer)
            if settings.layer is None and len(pairs) > 1:
                found.tables["layers"] = _layers(model, pairs[:CHOSEN_ON])
                layer = int(found.tables["layers"]["mrr"].argmax())

            def indexed(done: int, total: int) -> None:
                progress(done, total, "reading passages")

            found.indices[name] = vector_index(model, texts, layer, indexed)
            try:
                twin = model.reinitialised(inputs.seed)
            except UnsupportedError:
                caveats.append(Caveat("There are no states of random weights to compare with."))
            else:
                found.indices[RANDOM_STATES] = vector_index(twin, texts, layer, indexed)
            caveats.append(
                Caveat(f"Mean states are those of this layer: {state_name(layer)}.", ("retrieval",))
            )
        elif len(pairs) <= BATCH:
            caveats.append(
                Caveat(
                    f"The bi-encoder is left out: it needs more than {BATCH} pairs of a training "
                    f"split, and there are {len(pairs)}.", ("retrieval",),
                )
            )  # fmt: skip
        else:
            encoder = trained(
                model, pairs, settings.steps, inputs.seed,
                lambda done: progress(done, settings.steps, "training the bi-encoder"),
            )  # fmt: skip
            found.indices[name] = encoder.index(texts)
            found.tables["training"] = _training(encoder, settings.steps)
    return found


def _layers(model: Model, pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """MRR of the mean states of each layer among the passages of some pairs."""
    layers = range(model.stacks[0].layers + 1)
    texts = list(dict.fromkeys(passage for _, passage in pairs))
    gold = np.array([texts.index(passage) for _, passage in pairs])
    states = mean_states(model, texts, layers)
    asked = mean_states(model, [question for question, _ in pairs], layers)
    rows = []
    for layer in layers:
        mean = states[layer].mean(0)
        left, right = (
            side / side.norm(dim=1, keepdim=True).clamp(min=1e-9)
            for side in (asked[layer] - mean, states[layer] - mean)
        )
        scores = (left @ right.T).numpy()  # [questions, passages]
        right_scores = scores[np.arange(len(gold)), gold][:, None]
        reciprocal = 1 / (1 + (scores > right_scores).sum(1))
        rows.append({"layer": layer, "mrr": reciprocal.mean(), "n": len(gold)})
    return pd.DataFrame(rows)


def _training(encoder: Trained, steps: int) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "retriever": "bi-encoder", "pairs": encoder.pairs, "steps": steps,
                "loss_before": encoder.before, "loss_after": encoder.after,
                "chance": encoder.chance, "learnt": encoder.after < encoder.before,
            }
        ]
    )  # fmt: skip


# --- how well they find ---------------------------------------------------------------------------


def _ranks(index: Index, questions: Sequence[Question], n_passages: int) -> Floats:
    """The rank of each question's passage, infinite beyond `DEPTH`.  # [questions]"""
    found, _ = index.top([question.text for question in questions], min(DEPTH, n_passages))
    is_right = found == np.array([question.passage for question in questions])[:, None]
    return np.where(is_right.any(1), is_right.argmax(1) + 1.0, np.inf)


def _measures(k: int, n_passages: int) -> dict[str, tuple[Callable[[Floats], Floats], float]]:
    """Each measure of ranks, and its value of a random order."""
    deepest = np.arange(1, min(DEPTH, n_passages) + 1)
    recalls: dict[str, tuple[Callable[[Floats], Floats], float]] = {
        f"recall@{n}": (
            lambda ranks, n=n: (ranks <= n).astype(np.float64),  # type: ignore[misc]
            min(n, n_passages) / n_passages,
        )
        for n in dict.fromkeys((1, k))
    }
    return {**recalls, "MRR": (lambda ranks: 1 / ranks, float((1 / deepest).sum() / n_passages))}


def _retrieval(
    ranks: Mapping[str, Floats], k: int, n_passages: int, sample: ClusterSample
) -> pd.DataFrame:
    rows = []
    for name, own in ranks.items():
        for measure, (values_of, chance) in _measures(k, n_passages).items():
            values = values_of(own)
            lower, upper = sample.mean_interval(values)
            rows.append(
                {
                    "retriever": name, "measure": measure, "value": values.mean(),
                    "lower": float(lower), "upper": float(upper), "chance": chance,
                    "n": len(values), "passages": n_passages,
                    "p": sample.p_above_zero(values - chance),
                }
            )  # fmt: skip
    return pd.DataFrame(rows).assign(p=lambda table: holm(table["p"].to_numpy()))


def _compared(ranks: Mapping[str, Floats], sample: ClusterSample) -> pd.DataFrame:
    """Differences of MRR: mean states against random weights, and all against BM25 or the first."""
    names = [name for name in ranks if name != RANDOM_STATES]
    pairs = [(name, names[0]) for name in names[1:]]
    pairs += [("bi-encoder", "states")] if {"bi-encoder", "states"} <= set(names[1:]) else []
    pairs += [("states", RANDOM_STATES)] if RANDOM_STATES in ranks else []
    values = np.stack([1 / ranks[one] - 1 / ranks[other] for one, other in pairs], 1)
    return _differences(pairs, values, sample)


def _differences(
    pairs: Sequence[tuple[str, str]], values: Floats, sample: ClusterSample
) -> pd.DataFrame:
    """Mean differences with intervals and p-values.  # [questions, pairs]"""
    lower, upper = sample.mean_interval(values)
    return pd.DataFrame(
        {
            "first": [one for one, _ in pairs], "second": [other for _, other in pairs],
            "difference": values.mean(0), "lower": lower, "upper": upper,
            "n": len(values), "p": sample.p_values(values),
        }
    )  # fmt: skip


# --- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Reads:
    """What the model makes of each question; the lists are [questions]."""

    found: Ints  # [questions, k], the passages found
    priors: Floats  # [questions, k]
    by_passage: list[Floats]  # [k], log p of the answer
    nats: dict[str, Floats]  # by what is read: [questions]
    answers: dict[str, list[str]]  # by what is read: what it writes
    alone: list[list[str]]  # [k], what it writes from each passage alone
    other: list[str]  # the exchanged answer; "": none of its kind
    odds: dict[str, Floats]  # by the passage: log p (other) - log p (right), NaN without another


def _read(
    reader: Reader,
    corpus: Passages,
    questions: Sequence[Question],
    index: Index,
    k: int,
    seed: int,
    progress: Progress,
) -> _Reads:
    """Every question with every kind of passage."""
    k = min(k, len(corpus.texts))
    found, scores = index.top([question.text for question in questions], k)
    priors = probabilities(scores)
    random = np.random.default_rng([seed, len(questions), len(corpus.texts)])
    others = _exchanged(corpus, questions, random)
    reads = _Reads(found, priors, [], {}, {name: [] for name in READ}, [], others, {})
    nats: dict[str, list[float]] = {name: [] for name in READ}
    odds: dict[str, list[float]] = {name: [] for name in (OFF, GOLD, SWAPPED)}
    for start in range(0, len(questions), CHUNK):
        rows = range(start, min(start + CHUNK, len(questions)))
        _read_some(reader, corpus, questions, rows, reads, nats, odds, random)
        progress(rows[-1] + 1, len(questions), "reading passages and answering")
    reads.nats.update({name: np.array(values) for name, values in nats.items()})
    reads.odds.update({name: np.array(values) for name, values in odds.items()})
    return reads


def _read_some(
    reader: Reader,
    corpus: Passages,
    questions: Sequence[Question],
    rows: Sequence[int],
    reads: _Reads,
    nats: dict[str, list[float]],
    odds: dict[str, list[float]],
    random: np.random.Generator,
) -> None:
    """Score and write the answers of some questions."""
    model, texts, k = reader.model, corpus.texts, reads.found.shape[1]
    groups: list[list[Prompt]] = []  # by question: none, random, gold, exchanged, those found
    answers, others = [], []
    for row in rows:
        question = questions[row]
        asked = Asked(question.before, question.after)
        gold, other = texts[question.passage], reads.other[row]
        shift = int(random.integers(1, len(texts)))
        read = ["", texts[(question.passage + shift) % len(texts)], gold]
        read += [with_answer(gold, question.answer, other) if other else gold]
        read += [texts[passage] for passage in reads.found[row]]
        groups.append([reader.prompt(asked, passage) for passage in read])
        answers.append(reader.answer(asked, question.answer))
        others.append(reader.answer(asked, other) if other else answers[-1])
    flat = [prompt for group in groups for prompt in group]
    width = 4 + k
    logs = log_probabilities(model, flat, [answer for answer in answers for _ in range(width)])
    for_other = log_probabilities(
        model,
        [group[n] for group in groups for n in (0, 2, 3)],
        [other for other in others for _ in range(3)],
    )
    # each prompt alone but the exchanged one, then those found together
    singles = [0, 1, 2, *range(4, width)]
    alone = written(
        model,
        [[group[n]] for group in groups for n in singles],
        [np.zeros(1)] * (len(groups) * len(singles)),
        [most for most in _longest(reader, questions, rows, answers) for _ in singles],
    )
    log_priors = [np.log(np.maximum(reads.priors[row], 1e-300)) for row in rows]
    by_token = written(
        model, [group[4:] for group in groups], log_priors,
        _longest(reader, questions, rows, answers),
    )  # fmt: skip
    for n, row in enumerate(rows):
        own = logs[n * width : (n + 1) * width]
        sums = np.array([each.sum() for each in own])
        reads.by_passage.append(sums[4:])
        prior = log_priors[n]
        for name, value in (
            (OFF, sums[0]), (RANDOM, sums[1]), (GOLD, sums[2]), (FIRST, sums[4]),
            (SEQUENCE, rag_sequence(prior, own[4:])), (TOKEN, rag_token(prior, own[4:])),
        ):  # fmt: skip
            nats[name].append(-float(value))
        swap = [each.sum() for each in for_other[3 * n : 3 * n + 3]]
        for name, value, right in zip((OFF, GOLD, SWAPPED), swap, sums[[0, 2, 3]], strict=True):
            odds[name].append(float(value - right) if reads.other[row] else np.nan)
        pieces = alone[n * len(singles) : (n + 1) * len(singles)]
        said = [_said(model, each) for each in pieces]
        reads.alone.append(said[3:])
        for name, text in zip((OFF, RANDOM, GOLD, FIRST), said, strict=False):
            reads.answers[name].append(text)
        reads.answers[TOKEN].append(_said(model, by_token[n]))
        best = _best_of(reader, questions[row], groups[n][4:], prior, pieces[3:])
        reads.answers[SEQUENCE].append(_said(model, best))


def _longest(
    reader: Reader, questions: Sequence[Question], rows: Sequence[int], answers: Sequence[Ints]
) -> list[int]:
    """Pieces to write: as many as the right answer has, unless the model ends the answer itself."""
    ends = [reader.has_end(Asked(questions[row].before, questions[row].after)) for row in rows]
    return [LONGEST if end else len(own) for end, own in zip(ends, answers, strict=True)]


def _said(model: Any, pieces: Ints) -> str:
    return str(model.tokenizer.decode(pieces.tolist(), skip_special_tokens=True)).strip()


def _best_of(
    reader: Reader,
    question: Question,
    prompts: Sequence[Prompt],
    log_prior: Floats,
    candidates: Sequence[Ints],
) -> Ints:
    """RAG-sequence's answer: of those written from each passage, the most probable over all."""
    distinct = list({tuple(each.tolist()): each for each in candidates}.values())
    if len(distinct) == 1:
        return distinct[0]
    end = (
        [reader.model.symbols.end] if reader.has_end(Asked(question.before, question.after)) else []
    )
    ended = [np.array([*each, *end], dtype=np.int64) for each in distinct]
    logs = log_probabilities(
        reader.model,
        [prompt for _ in ended for prompt in prompts],
        [each for each in ended for _ in prompts],
    )
    size = len(prompts)
    totals = [rag_sequence(log_prior, logs[n * size : (n + 1) * size]) for n in range(len(ended))]
    return distinct[int(np.argmax(totals))]


def _exchanged(
    corpus: Passages, questions: Sequence[Question], random: np.random.Generator
) -> list[str]:
    """For each question another answer of its kind that is not in its passage; "" if none is."""
    kinds: dict[str, list[str]] = {}
    for question in corpus.questions:
        kinds.setdefault(question.kind, []).append(question.answer)
    pools = {kind: list(dict.fromkeys(answers)) for kind, answers in kinds.items()}
    found = []
    for question in questions:
        pool, passage = pools[question.kind], set(normalised(corpus.texts[question.passage]))
        order = random.permutation(len(pool))
        fitting = (pool[n] for n in order if not passage & set(normalised(pool[n])))
        found.append(next(fitting, ""))
    return found


# --- tables of what was read ----------------------------------------------------------------------


def _tables(
    reads: _Reads, questions: Sequence[Question], sample: ClusterSample
) -> dict[str, pd.DataFrame]:
    """The tables `answers`, `gains` and `swaps`."""
    rows = []
    for name, nats in reads.nats.items():
        pairs = zip(questions, reads.answers[name], strict=True)
        values = np.array([(*answer_scores([q.answer], text),) for q, text in pairs])
        values = np.column_stack([nats, values])  # [questions, 3]
        lower, upper = sample.mean_interval(values)
        row: dict[str, Any] = {"passages": name, "n": len(nats)}
        for n, measure in enumerate(("nats", "exact", "f1")):
            row[measure] = values[:, n].mean()
            row[f"{measure}_lower"], row[f"{measure}_upper"] = lower[n], upper[n]
        rows.append(row)
    gains = np.stack([reads.nats[other] - reads.nats[one] for one, other in GAINS], 1)
    tables = {"answers": pd.DataFrame(rows), "gains": _differences(GAINS, gains, sample)}
    if len(swaps := _swaps(reads, sample)):
        tables["swaps"] = swaps
    return tables


def _swaps(reads: _Reads, sample: ClusterSample) -> pd.DataFrame:
    has = np.isfinite(reads.odds[GOLD])
    if not has.any():
        return pd.DataFrame()
    own = sample.take(has)
    prefers = {name: (odds[has] > 0).astype(np.float64) for name, odds in reads.odds.items()}
    rows = []
    for name, chosen in prefers.items():
        lower, upper = own.mean_interval(chosen)
        rows.append(
            {
                "passage": name, "other": chosen.mean(), "lower": float(lower),
                "upper": float(upper), "log_odds": reads.odds[name][has].mean(),
                "n": int(has.sum()), "p": own.p_above_zero(chosen - prefers[GOLD]),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _details(
    reads: _Reads, corpus: Passages, questions: Sequence[Question], ranks: Floats
) -> dict[str, pd.DataFrame]:
    """The tables `items` and `passages`."""
    items, passages = [], []
    for n, question in enumerate(questions):
        gap = (
            question.before if question.after is None else f"{question.before} ___{question.after}"
        )
        items.append(
            {
                "item": n + 1, "question": gap, "answer": question.answer,
                "rank": ranks[n] if np.isfinite(ranks[n]) else None,
                "other": reads.other[n],
                "nats_sequence": reads.nats[SEQUENCE][n],
                "written_sequence": reads.answers[SEQUENCE][n],
                "nats_token": reads.nats[TOKEN][n], "written_token": reads.answers[TOKEN][n],
            }
        )  # fmt: skip
        joint = np.log(np.maximum(reads.priors[n], 1e-300)) + reads.by_passage[n]
        posterior = probabilities(joint)
        for rank, passage in enumerate(reads.found[n]):
            passages.append(
                {
                    "item": n + 1, "rank": rank + 1, "passage": corpus.texts[passage],
                    "has_answer": passage == question.passage, "prior": reads.priors[n, rank],
                    "answer": float(np.exp(reads.by_passage[n][rank])),
                    "posterior": posterior[rank], "written": reads.alone[n][rank],
                }
            )  # fmt: skip
    return {"items": pd.DataFrame(items), "passages": pd.DataFrame(passages)}


def _about_reading(
    reader: Reader, questions: Sequence[Question], reads: _Reads
) -> Iterator[Caveat]:
    if reader.is_tuned:
        return
    if any(question.after is None for question in questions):
        yield Caveat(
            "The model was not fine-tuned on questions: its answers show what it makes of them "
            "without training.", ("answers", "items"),
        )  # fmt: skip
    if not all(reader.has_end(Asked(each.before, each.after)) for each in questions):
        yield Caveat(
            "The model does not end these answers itself: it writes as many pieces as the right "
            "answer has.", ("answers", "items"),
        )  # fmt: skip
