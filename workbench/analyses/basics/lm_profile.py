"""Facts, parameters and language-model losses of a model: the experiment `profile`.

Documents are scored in chunks, and scores are stored until the run is finished, so that a stopped
run resumes where it was. Costs: nothing for facts; for losses one forward pass over the corpus, for
pseudo-likelihood one for each piece.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.analyses.basics.experiments import Profile
from workbench.analyses.basics.permuted import AS_TRAINED, ORDERS, by_orders, over_orders
from workbench.core.files import DAMAGED, atomic_write, require_regular
from workbench.core.findings import percent
from workbench.corpora.encode import encode
from workbench.corpora.formats import WHOLE
from workbench.engine.batch import Batch
from workbench.engine.model import Model
from workbench.experiment.definition import Caveat, Inputs, Progress, Result
from workbench.models.output_heads.lm_losses import CORRUPTED, INFILLED, MASKED
from workbench.models.references import facts
from workbench.models.scoring.lm_scoring import (
    FIELDS,
    PSEUDO,
    Scores,
    joined,
    measures,
    predicts_in_order,
    score,
)

CHUNK = 512  # documents whose scores are stored together


def run(inputs: Inputs, settings: Profile, progress: Progress) -> Result:
    """Compute the tables of `profile`: losses need a corpus and a language-model head."""
    model = inputs.model
    tables = _fact_tables(model)
    if not model.objective:
        return Result(tables, caveats=(_no_head(model),))
    if not inputs.corpora:
        return Result(tables)
    objectives = [str(model.objective)]
    caveats = []
    if settings.pseudo_likelihood and model.objective in PSEUDO:
        objectives.append("pseudo")
    elif settings.pseudo_likelihood:
        caveats.append(
            Caveat("Pseudo-likelihood is for models that see both sides at once, not for this one.")
        )
    if predicts_in_order(model):
        objectives += [_by_order(number) for number in range(ORDERS)]
    batch = encode(inputs.docs())
    scores = _scored(inputs, batch, objectives, progress)
    split = inputs.split or WHOLE
    rows = [
        (split, objective, metric, value, n)
        for objective, objective_scores in scores.items()
        if not objective.startswith(PERMUTED)
        for metric, (value, n) in measures(objective_scores, objective).items()
    ]
    rows += [(split, PERMUTED, *row) for row in _over_orders(scores)]
    columns = ["split", "objective", "metric", "value", "n"]
    tables["losses"] = pd.DataFrame(rows, columns=columns)
    caveats += _caveats(model, batch, scores)
    return Result(tables, caveats=tuple(caveats))


# --- tables ---------------------------------------------------------------------------------------


def _fact_tables(model: Model) -> dict[str, pd.DataFrame]:
    model_facts = facts(model)
    rows = [(fact, _shown(value)) for fact, value in model_facts.items() if fact != "stacks"]
    stacks = [
        (stack["name"], stack["layers"], stack["heads"], ", ".join(stack["kinds"]))
        for stack in model_facts["stacks"]
    ]
    parts = list(model.parameters_by_part().items())
    return {
        "facts": pd.DataFrame(rows, columns=["fact", "value"]),
        "stacks": pd.DataFrame(stacks, columns=["stack", "layers", "heads", "kinds"]),
        "modules": pd.DataFrame(parts, columns=["module", "parameters"]),
    }


def _shown(value: object) -> str:
    return "none" if value in (None, "") else str(value)


# --- losses over random orders, of XLNet -------------------------------------------------------

PERMUTED = "permuted"


def _by_order(number: int) -> str:
    return f"{PERMUTED} {number}"


def _over_orders(scores: Mapping[str, Scores]) -> list[tuple[str, float, int]]:
    """The measures as means over orders, and 95 % intervals of the means over orders."""
    by_order = [
        measures(each, PERMUTED) for name, each in scores.items() if name.startswith(PERMUTED)
    ]
    rows = []
    for metric, (_, n) in by_order[0].items() if by_order else ():
        values = over_orders([measured[metric][0] for measured in by_order])
        names = (metric, f"{metric}_lower", f"{metric}_upper")
        rows += [(name, value, n) for name, value in zip(names, values, strict=True)]
    return rows


# --- losses, a chunk at a time --------------------------------------------------------------------


def _scored(
    inputs: Inputs, batch: Batch, objectives: Sequence[str], progress: Progress
) -> dict[str, Scores]:
    """Scores of every document by each objective; stored chunks are read from disk."""
    chunks = []
    progress(0, len(batch), "scoring documents")
    for start in range(0, max(len(batch), 1), CHUNK):
        documents = range(start, min(start + CHUNK, len(batch)))
        path = inputs.scratch and inputs.scratch / f"documents-{start:09d}.safetensors"
        if path and (stored := _read(path, objectives)):
            chunks.append(stored)
        else:
            chunk = {
                objective: score(
                    inputs.model,
                    batch,
                    documents,
                    pseudo="original" if objective == "pseudo" else None,
                    seed=inputs.seed,
                )
                for objective in objectives
                if not objective.startswith(PERMUTED)
            }
            if _by_order(0) in objectives:
                orders = by_orders(inputs.model, batch, documents, seed=inputs.seed)
                chunk |= {_by_order(number): each for number, each in enumerate(orders)}
            chunks.append(chunk)
            if path:
                _write(path, chunks[-1])
        progress(documents.stop, len(batch), "scoring documents")
    return {objective: joined([chunk[objective] for chunk in chunks]) for objective in objectives}


def _write(path: Path, chunk: Mapping[str, Scores]) -> None:
    from safetensors.numpy import save_file

    arrays = {
        f"{objective}/{field}": getattr(scores, field)
        for objective, scores in chunk.items()
        for field in FIELDS
    }
    with atomic_write(path) as draft:
        save_file(arrays, draft)


def _read(path: Path, objectives: Sequence[str]) -> dict[str, Scores] | None:
    """Scores that were stored before the run was stopped; None if they cannot be read."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        arrays: dict[str, np.ndarray[Any, Any]] = load_file(require_regular(path))
        return {
            objective: Scores(*(arrays[f"{objective}/{field}"] for field in FIELDS))
            for objective in objectives
        }
    except (*DAMAGED, SafetensorError):
        return None


# --- caveats --------------------------------------------------------------------------------------


def _no_head(model: Model) -> Caveat:
    return Caveat(
        f"{model.name} has no language-model head with trained weights, or none whose predictions "
        "can be measured. The tables have facts, but no losses."
    )


def _caveats(model: Model, batch: Batch, scores: Mapping[str, Scores]) -> list[Caveat]:
    """What the losses leave out, and what they cannot be compared with."""
    first = next(iter(scores.values()))
    words, pieces = len(batch.words), int(scores[list(scores)[-1]].pieces.sum())
    counts = {name: int(getattr(first, name).sum()) for name in FIELDS}
    texts = [_HOW[model.objective](model)]
    if "pseudo" in scores:
        texts.append(
            "Pseudo-perplexity is the original one (Salazar et al. 2020): each piece is masked "
            "alone, and the model sees both sides and the other pieces of its word. It "
            "compares such models with each other, not with causal models."
        )
    if _by_order(0) in scores:
        texts.append(
            f"Permuted losses are means over {ORDERS} random orders of each text. {AS_TRAINED}; "
            "intervals are over orders, not over texts."
        )
    if counts["cut"]:
        texts.append(
            f"{counts['cut']:,} of {words:,} words are beyond the model's maximum of "
            f"{model.max_pieces:,} pieces and were not read. Neither they nor their bytes count."
        )
    if counts["bare"]:
        texts.append(
            "The tokenizer adds no start token, so the first piece of "
            f"{counts['bare']:,} texts has no context. Neither it nor its bytes are scored."
        )
    if counts["unaligned"]:
        texts.append(
            f"{counts['unaligned']:,} of {words:,} words have no piece of their own: they share "
            "the piece of another word, or the tokenizer drops them. Only their bytes count."
        )
    if counts["unknown"] and model.objective == "bidirectional":
        texts.append(
            f"{counts['unknown']:,} of {words:,} words are not in the model's softmax and count as "
            "one word, <UNK>. It is easier to predict than the words it replaces, so the "
            "perplexity is too low."
        )
    elif counts["unknown"]:
        texts.append(
            f"{counts['unknown']:,} pieces are the unknown token: it is easier to predict than the "
            "text it replaces."
        )
    if model.folds_case and scores.keys() & {"causal", "pseudo"}:
        texts.append(
            "The tokenizer ignores case. Bits per byte refer to the raw text, of which the model "
            "predicts less."
        )
    if not pieces:
        texts.append("No piece was scored, since the texts are too short.")
    return [Caveat(text, ("losses",)) for text in texts]


def _causal(model: Model) -> str:
    return "Each piece is predicted from the pieces before it in its text, and from no other text."


def _masked(model: Model) -> str:
    how = "by the mask token"
    if model.symbols.mask is None:
        how = "by predicting them last, since the model has no mask token"
    return (
        f"{percent(MASKED)} of pieces are hidden, {how}. They depend on the seed and the index of "
        "the text in the corpus only."
    )


def _seq2seq(model: Model) -> str:
    if model.symbols.sentinels:
        return (
            f"Span corruption as in T5: {percent(CORRUPTED)} of pieces are hidden in spans "
            "of about 3, drawn with the seed and the index of the text in the corpus. Sentinels "
            "and the end token are scored with the pieces."
        )
    return (
        f"Infilling as in BART: {percent(INFILLED)} of pieces are hidden in spans of about 3, "
        "drawn from the seed and the index of the text in the corpus. The decoder predicts the "
        "whole text, and all of it is scored, also pieces that were not hidden."
    )


def _bidirectional(model: Model) -> str:
    size = len(model.vocabulary)
    return (
        "Each word and the end of its text is predicted from the left, and each word and the "
        "beginning from the right. Losses are the mean of the two directions; the accuracy is of "
        f"both. Whole words are predicted, out of {size:,}, so loss and perplexity cannot be "
        "compared with those of pieces. Bits per byte can, except for white space, which is not "
        "predicted, and for words that count as <UNK>."
    )


_HOW = {
    "causal": _causal,
    "masked": _masked,
    "seq2seq": _seq2seq,
    "bidirectional": _bidirectional,
}
