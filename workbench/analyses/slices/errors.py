"""Each text with its prediction, and slices of texts on which the model is worse: `errors`.

Costs: two forward passes over the texts (of language models one).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from workbench.analyses.compression.lost import Items, lost
from workbench.analyses.compression.scores import scored
from workbench.analyses.pruning.evaluation import (
    Evaluation,
    TextScores,
    baseline,
    caveats,
    evaluation_of,
    learnt_texts_caveat,
    not_better_caveat,
)
from workbench.analyses.slices.experiments import Errors
from workbench.core.stats import ratio, thirds
from workbench.engine.halving import Limit, in_halves
from workbench.engine.task import objective_table
from workbench.experiment.definition import Inputs, Progress, Result
from workbench.models.scoring.eval_tasks import Question

if TYPE_CHECKING:
    from spacy.tokens import Doc

DEPTHS = ("flat texts", "middle depth", "deep texts")


def run(inputs: Inputs, settings: Errors, progress: Progress) -> Result:
    """Compute the tables of `errors`."""
    evaluation, docs = evaluation_of(inputs, settings), list(inputs.docs())
    progress(0, len(docs), "scoring texts")
    whole = scored(evaluation, docs)
    order = sorted(place for question in evaluation.questions for place in question.order)
    kept = [docs[place] for place in order]  # texts with a label, as they are scored
    progress(len(docs), len(docs), "comparing slices")
    depths = np.array([_depth(doc) for doc in kept])
    items = [*whole.items, *_more(whole.texts, kept, depths, settings.words, evaluation)]
    texts = _texts(whole.texts, kept, order, depths)
    tables = {"texts": texts, "slices": _slices(items, evaluation, inputs.seed)}
    if evaluation.aim.task.kind == "class":
        guesses = _guesses(evaluation)
        texts = texts.assign(
            label=[str(doc._.labels.get(evaluation.aim.task.label, "")) for doc in kept],
            predicted=[guesses[place][0] for place in order],
            confidence=[guesses[place][1] for place in order],
        )
        tables["texts"] = texts
        by = texts.groupby(["label", "predicted"], as_index=False).size()
        tables["confusion"] = by.rename(columns={"size": "n"})
    tables["baseline"] = baseline(evaluation, _in_questions(whole.texts, evaluation), inputs.seed)
    tables["objective"] = objective_table(evaluation.aim.task)
    notes = (*caveats(evaluation, len(kept)), *not_better_caveat(tables["baseline"]))
    return Result(tables, caveats=(*notes, *learnt_texts_caveat(inputs, evaluation)))


def _texts(
    scores: TextScores, docs: "Sequence[Doc]", order: Sequence[int], depths: Any
) -> pd.DataFrame:
    """One row per text that is scored, in the order of the corpus."""
    return pd.DataFrame(
        {
            "index": order,
            "text": [doc.text for doc in docs],
            "words": [len(doc) for doc in docs],
            "depth": depths,
            "right": ratio(scores.right, scores.number),
            "loss": ratio(scores.nats, scores.number),
            "n": scores.number.astype(int),
        }
    )


def _in_questions(scores: TextScores, evaluation: Evaluation) -> TextScores:
    """Scores in the order of the questions, as the trivial baseline has them."""
    places = [place for question in evaluation.questions for place in question.order]
    back = np.argsort(np.argsort(places, kind="stable"), kind="stable")
    return replace(
        scores, nats=scores.nats[back], right=scores.right[back], number=scores.number[back]
    )


def _guesses(evaluation: Evaluation) -> Mapping[int, tuple[str, float]]:
    """The class that is predicted of each text, and its probability."""
    model, names = evaluation.model, evaluation.aim.task.names
    found: dict[int, tuple[str, float]] = {}
    room = Limit()

    @torch.no_grad()
    def of(question: Question) -> list[tuple[int, float]]:
        assert question.segments is not None
        head = model.task_head
        outputs = head(head.read(model, question.text, question.segments))  # [batch, classes]
        best = outputs.float().softmax(-1).max(-1)
        return list(zip(best.indices.tolist(), best.values.tolist(), strict=True))

    for question in evaluation.questions:
        for part, answers in in_halves(of, question, room):
            for place, (index, sure) in zip(part.order, answers, strict=True):
                found[place] = (names[index], sure)
    return found


def _depth(doc: "Doc") -> float:
    """The longest way from a word to its root; NaN without trees."""
    if not doc.has_annotation("DEP"):
        return float("nan")
    return float(max((sum(1 for _ in word.ancestors) for word in doc), default=0))


# --- slices ---------------------------------------------------------------------------------------


def _more(
    scores: TextScores,
    docs: "Sequence[Doc]",
    depths: Any,
    words: Sequence[str],
    evaluation: Evaluation,
) -> Iterator[Items]:
    """The score of each text by the depth of its tree and by the words that it has."""
    part = -scores.nats if evaluation.aim.task.is_language_model else scores.right
    there = scores.number > 0
    of, units = ratio(part, scores.number)[there], np.arange(int(there.sum())).astype(object)
    deep = depths[there]
    if len(deep) and not np.isnan(deep).any():
        yield Items("depth", np.array(DEPTHS, dtype=object)[thirds(deep)], units, of)
    wanted = {word.lower() for word in words}
    has = [
        any(word.lower_ in wanted for word in doc)
        for doc, is_there in zip(docs, there, strict=True)
        if is_there
    ]
    if wanted:
        said = [f"with {'one' if each else 'none'} of the words" for each in has]
        yield Items("words", np.array(said, dtype=object), units, of)


def _slices(items: Sequence[Items], evaluation: Evaluation, seed: int) -> pd.DataFrame:
    """Each slice against the rest: what a model that is right everywhere would lose there."""
    perfect = [replace(each, scores=np.zeros_like(each.scores)) for each in items]
    rows = lost(perfect, items, seed)
    is_loss = evaluation.aim.task.is_language_model
    sign = 1 if is_loss else -1  # a fall is a loss, or what is missing of the accuracy
    return pd.DataFrame(
        [
            {
                "kind": row["kind"], "slice": row["group"], "n": row["n"],
                "value": 0.0 + sign * row["fall"], "rest": 0.0 + sign * row["rest"],  # not -0.0
                "worse": row["difference"], "lower": row["lower"], "upper": row["upper"],
                "p": row["p"],
            }
            for row in rows
        ],
        columns=["kind", "slice", "n", "value", "rest", "worse", "lower", "upper", "p"],
    )  # fmt: skip
