"""Passages found for questions, and the answers that a model gives from them.

Questions about one passage are not independent, so intervals draw, and tests flip, them together.
Each passage is read alone. Costs: indexing the passages (index.py), training the bi-encoder, and
reading: see `generative`, `extractive` and `realm`, by what the model can do; then the attribution
of some answers (`passage_attribution`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from workbench.analyses.retrieval import extractive, generative, realm
from workbench.analyses.retrieval.bi_encoder import BATCH, Trained, index_of, trained
from workbench.analyses.retrieval.experiments import Retrieve
from workbench.analyses.retrieval.index import Index, bm25_index, mean_states, vector_index
from workbench.analyses.retrieval.passage_attribution import attribution_tables
from workbench.analyses.retrieval.reads import ENDINGS, NO_PASSAGE, OFF, Reads, posteriors
from workbench.analyses.retrieval.search import WORDS, layer_of, require_passages
from workbench.core.arrays import Floats
from workbench.core.cluster_sample import ClusterSample
from workbench.core.errors import WorkbenchError
from workbench.core.head_names import state_name
from workbench.core.metrics import answer_scores
from workbench.core.stats import holm
from workbench.corpora.encode import encode
from workbench.corpora.passages import Passages, Question, passages_of
from workbench.engine.model import Model, UnsupportedError
from workbench.experiment.definition import Caveat, Inputs, Progress, Result
from workbench.models.scoring.lm_scoring import START_TOKEN_TEXTS, start_of
from workbench.models.scoring.reading import Reader

DEPTH = 100  # passages in which the right one is looked for
CHOSEN_ON = 200  # questions of the training split on which the layer is chosen
RANDOM_STATES = "states, random weights"
UNTRAINED, JOINT = "bi-encoder, untrained", "trained with the reader"


def run(inputs: Inputs, settings: Retrieve, progress: Progress) -> Result:
    """Compute the tables of `retrieve`."""
    model, is_masked = inputs.model, inputs.model.objective == "masked"
    words = settings.passage_words or min(WORDS, (model.max_pieces or 3 * WORDS) // 3)
    corpus = passages_of(
        inputs.corpus.docs(inputs.split, inputs.limit), words, inputs.seed, is_masked
    )
    lessons = Passages()
    if "train" in inputs.corpus.splits:
        docs = inputs.corpus.docs("train", 2 * settings.pairs)
        lessons = passages_of(docs, words, inputs.seed, is_masked)
    caveats: list[Caveat] = []
    if is_masked:
        corpus.questions = _answered(model, corpus, caveats)
    questions = _drawn(corpus, inputs.corpus.name, settings.questions, inputs.seed)
    sample = ClusterSample.of(np.array([question.passage for question in questions]), inputs.seed)
    pairs = lessons.pairs[: settings.pairs]
    found = _retrievers(inputs, settings, corpus, pairs, progress, caveats)
    together = None
    if is_masked:
        together = _trained_together(inputs, settings, corpus, lessons, found, progress, caveats)
    ranks = {
        name: _ranks(index, questions, len(corpus.texts)) for name, index in found.indices.items()
    }
    retrieval = _retrieval(ranks, settings.k, len(corpus.texts), sample)
    tables = {"retrieval": retrieval, **found.tables}
    if len(ranks) > 1:
        tables["compared"] = _compared(ranks, sample)
    first = JOINT if is_masked else settings.retrievers[0]
    if (index := found.indices.get(first)) is not None:
        reads = _reads(inputs, settings, corpus, questions, index, together, progress, caveats)
        tables |= _tables(reads, questions, sample)
        tables |= _details(reads, corpus, questions, ranks[first])
        if settings.attributed and reads.reader is not None:
            tables |= attribution_tables(
                reads.reader, corpus, questions, reads.found[:, 0], reads.other,
                settings.attributed, sample, inputs.seed, progress,
            )  # fmt: skip
    return Result(tables, caveats=tuple(caveats))


def _reads(
    inputs: Inputs,
    settings: Retrieve,
    corpus: Passages,
    questions: Sequence[Question],
    index: Index,
    together: realm.Realm | None,
    progress: Progress,
    caveats: list[Caveat],
) -> Reads:
    """What the model makes of the questions, in the way in which it can read."""
    model, k, seed = inputs.model, settings.k, inputs.seed
    if together is not None:
        caveats += realm.CAVEATS
        return realm.read(together, corpus, questions, index, k, seed, progress)
    if model.task_head is not None and model.task_head.task.kind == "answers":
        return extractive.read(model, corpus, questions, index, k, seed, progress)
    start = start_of(model, encode(inputs.corpus.docs(inputs.split, START_TOKEN_TEXTS)))
    reader = Reader.of(model, settings.prompt, start)
    caveats += generative.caveats(reader, questions)
    return generative.read(reader, corpus, questions, index, k, seed, progress)


def _answered(model: Model, corpus: Passages, caveats: list[Caveat]) -> list[Question]:
    """The texts that a masked model can read, with passages that have the answer if there are."""
    fitting = realm.fitting(model, corpus.questions)
    answered = [q for q in fitting if q.answer in realm.passage_for(q, corpus.texts[q.passage])]
    if fitting and not answered:
        caveats.append(
            Caveat(
                "No hidden name, number or date stands in another sentence of its passage: the "
                "passage 'with the answer' is the one around the text.", ("answers", "gains"),
            )
        )  # fmt: skip
    return answered or fitting


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
    encoder: Model | None = None  # the trained bi-encoder
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)


def _retrievers(
    inputs: Inputs,
    settings: Retrieve,
    corpus: Passages,
    pairs: Sequence[tuple[str, str]],
    progress: Progress,
    caveats: list[Caveat],
) -> _Retrievers:
    """The chosen retrievers, with mean states of random weights where mean states are compared."""
    model, found, texts = inputs.model, _Retrievers(), corpus.texts
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
            found.indices[name], found.encoder = encoder.index(texts), encoder.model
            found.tables["training"] = _training(encoder, settings.steps)
    return found


def _trained_together(
    inputs: Inputs,
    settings: Retrieve,
    corpus: Passages,
    lessons: Passages,
    found: _Retrievers,
    progress: Progress,
    caveats: list[Caveat],
) -> realm.Realm | None:
    """A masked model trained with its retriever, which is added to those found."""
    model = inputs.model
    lessons.questions = realm.fitting(model, lessons.questions[: settings.pairs])
    if len(lessons.questions) <= 2 * realm.HELD_OUT:
        caveats.append(
            Caveat(
                "A masked model reads only after training with passages, and the training split "
                f"has {len(lessons.questions)} hidden names, numbers, dates or answers; it needs "
                f"more than {2 * realm.HELD_OUT}.", ("retrieval",),
            )
        )  # fmt: skip
        return None
    if found.encoder is None:
        found.indices[UNTRAINED] = index_of(model, corpus.texts)
    together = realm.trained(
        model, found.encoder or model, lessons, settings.k, settings.steps, settings.refresh,
        inputs.seed,
        lambda done: progress(done, 2 * settings.steps, "training reader and retriever"),
    )  # fmt: skip
    found.indices[JOINT] = index_of(together.retriever, corpus.texts)
    row = {
        "retriever": JOINT, "pairs": together.items, "steps": settings.steps,
        "loss_before": together.before, "loss_after": together.after,
        "learnt": together.after < together.before,
    }  # fmt: skip
    rows = [found.tables["training"]] if "training" in found.tables else []
    found.tables["training"] = pd.concat([*rows, pd.DataFrame([row])], ignore_index=True)
    if inputs.keep is not None:
        together.reader.save(inputs.keep)
    return together


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
    names = [name for name in ranks if name not in (RANDOM_STATES, UNTRAINED)]
    pairs = [(name, names[0]) for name in names[1:]]
    pairs += [("bi-encoder", "states")] if {"bi-encoder", "states"} <= set(names[1:]) else []
    pairs += [("states", RANDOM_STATES)] if RANDOM_STATES in ranks else []
    start = UNTRAINED if UNTRAINED in ranks else "bi-encoder"
    pairs += [(JOINT, start)] if JOINT in ranks and (JOINT, start) not in pairs else []
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


# --- tables of what was read ----------------------------------------------------------------------


def _tables(
    reads: Reads, questions: Sequence[Question], sample: ClusterSample
) -> dict[str, pd.DataFrame]:
    """The tables `answers`, `gains` and `swaps`."""
    rows, exact = [], {}
    for name, values in reads.values.items():
        pairs = zip(questions, reads.answers[name], strict=True)
        scores = np.array([(*answer_scores([q.answer], text),) for q, text in pairs])
        columns = np.column_stack([values, scores])  # [questions, 3]
        exact[name] = scores[:, 0]
        lower, upper = sample.mean_interval(columns)
        row: dict[str, Any] = {"passages": name, "n": len(values)}
        for n, measure in enumerate((reads.unit, "exact", "f1")):
            row[measure] = columns[:, n].mean()
            row[f"{measure}_lower"], row[f"{measure}_upper"] = lower[n], upper[n]
        rows.append(row)
    # more of exact answers, or less of nats
    better = exact if reads.unit == "probability" else {
        name: -np.array(values) for name, values in reads.values.items()
    }  # fmt: skip
    gains = np.stack([better[one] - better[other] for one, other in reads.gains], 1)
    unit = "nats" if reads.unit == "nats" else "exact"
    tables = {
        "answers": pd.DataFrame(rows),
        "gains": _differences(reads.gains, gains, sample).assign(unit=unit),
    }
    if len(swaps := _swaps(reads, sample)):
        tables["swaps"] = swaps
    return tables


def _swaps(reads: Reads, sample: ClusterSample) -> pd.DataFrame:
    prefers = {name: np.array(values) for name, values in reads.prefers.items()}
    null = prefers[reads.swap_null]
    has = np.isfinite(null)
    if not has.any():
        return pd.DataFrame()
    own, rows = sample.take(has), []
    for name, values in prefers.items():
        chosen = values[has]
        lower, upper = own.mean_interval(chosen)
        row = {
            "passage": name, "other": chosen.mean(), "lower": float(lower),
            "upper": float(upper), "n": int(has.sum()),
            "p": own.p_above_zero(chosen - null[has]),
        }  # fmt: skip
        if name in reads.odds:
            row["log_odds"] = np.array(reads.odds[name])[has].mean()
        rows.append(row)
    return pd.DataFrame(rows)


def _details(
    reads: Reads, corpus: Passages, questions: Sequence[Question], ranks: Floats
) -> dict[str, pd.DataFrame]:
    """The tables `items` and `passages`."""
    items, passages = [], []
    together = {name: end for name, end in ENDINGS.items() if name in reads.values}
    for n, question in enumerate(questions):
        item: dict[str, Any] = {
            "item": n + 1, "question": question.shown, "answer": question.answer,
            "rank": ranks[n] if np.isfinite(ranks[n]) else None, "other": reads.other[n],
        }  # fmt: skip
        for name, end in together.items():
            item[f"{reads.unit}_{end}"] = reads.values[name][n]
            item[f"written_{end}"] = reads.answers[name][n]
        items.append(item)
        log_prior = np.log(np.maximum(reads.priors[n], 1e-300))
        posterior = posteriors(log_prior, reads.by_passage[n])
        for rank, passage in enumerate(reads.found[n]):
            row = {
                "item": n + 1, "rank": rank + 1,
                "passage": "" if passage == NO_PASSAGE else corpus.texts[passage],
                "has_answer": passage == question.passage, "prior": reads.priors[n, rank],
                "answer": float(np.exp(reads.by_passage[n][rank])),
                "posterior": posterior[rank], "written": reads.alone[n][rank],
            }  # fmt: skip
            if reads.unit == "nats":
                row["utility"] = reads.by_passage[n][rank] + reads.values[OFF][n]
            passages.append(row)
    return {"items": pd.DataFrame(items), "passages": pd.DataFrame(passages)}
