"""What a model is, and how well it predicts a corpus: facts, parameters, language-model losses.

Facts cost nothing. Losses cost one forward pass over the corpus, pseudo-likelihood one for each of
its pieces. Documents are scored a chunk at a time, and what is scored is kept while the run is
unfinished, so that a run that was stopped goes on where it was.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.basics.experiments import Profile
from workbench.core.experiment import Caveat, Inputs, Progress, Result
from workbench.core.files import DAMAGED, require_regular, written_whole
from workbench.corpora.encode import encode
from workbench.corpora.formats import WHOLE
from workbench.engine.batch import Batch
from workbench.engine.model import Model
from workbench.models.lm_losses import CORRUPTED, INFILLED, MASKED
from workbench.models.lm_scoring import FIELDS, PSEUDO, Scores, joined, measures, score
from workbench.models.references import facts

CHUNK = 512  # documents scored before they are written down


def run(inputs: Inputs, settings: Profile, progress: Progress) -> Result:
    """Facts of the model; where there is a corpus and a head, its losses."""
    model = inputs.model
    tables = _fact_tables(model)
    if not model.objective:
        return Result(tables, caveats=(_no_head(model),))
    if not inputs.corpora:
        return Result(tables)
    objectives = [str(model.objective)]
    caveats = []
    if settings.pseudo and model.objective in PSEUDO:
        objectives.append("pseudo")
    elif settings.pseudo:
        caveats.append(
            Caveat(
                "Pseudo-likelihood is of models that see both sides at once; this one needs none."
            )
        )
    batch = encode(inputs.docs())
    scores = _scored(inputs, batch, objectives, progress)
    rows = [
        (inputs.split or WHOLE, objective, metric, value, number)
        for objective, found in scores.items()
        for metric, (value, number) in measures(found, objective).items()
    ]
    columns = ["split", "objective", "metric", "value", "n"]
    tables["losses"] = pd.DataFrame(rows, columns=columns)
    caveats += _caveats(model, batch, scores)
    return Result(tables, caveats=tuple(caveats))


# --- tables ---------------------------------------------------------------------------------------


def _fact_tables(model: Model) -> dict[str, pd.DataFrame]:
    told = facts(model)
    plain = [(fact, _said(value)) for fact, value in told.items() if fact != "stacks"]
    stacks = [(s["name"], s["layers"], s["heads"], ", ".join(s["kinds"])) for s in told["stacks"]]
    parts = list(model.parameters_by_part().items())
    return {
        "facts": pd.DataFrame(plain, columns=["fact", "value"]),
        "stacks": pd.DataFrame(stacks, columns=["stack", "layers", "heads", "kinds"]),
        "modules": pd.DataFrame(parts, columns=["module", "parameters"]),
    }


def _said(value: object) -> str:
    return "none" if value in (None, "") else str(value)


# --- losses, a chunk at a time --------------------------------------------------------------------


def _scored(
    inputs: Inputs, batch: Batch, objectives: Sequence[str], progress: Progress
) -> dict[str, Scores]:
    """Scores of every document by each objective; chunks already written down are read."""
    chunks = []
    progress(0, len(batch), "documents")
    for start in range(0, max(len(batch), 1), CHUNK):
        documents = range(start, min(start + CHUNK, len(batch)))
        kept = inputs.scratch and inputs.scratch / f"documents-{start:09d}.safetensors"
        if kept and (before := _read(kept, objectives)):
            chunks.append(before)
        else:
            chunks.append(
                {
                    objective: score(
                        inputs.model,
                        batch,
                        documents,
                        pseudo="original" if objective == "pseudo" else None,
                        seed=inputs.seed,
                    )
                    for objective in objectives
                }
            )
            if kept:
                _write(kept, chunks[-1])
        progress(documents.stop, len(batch), "documents")
    return {objective: joined([chunk[objective] for chunk in chunks]) for objective in objectives}


def _write(path: Path, chunk: Mapping[str, Scores]) -> None:
    from safetensors.numpy import save_file

    arrays = {
        f"{objective}/{field}": getattr(scores, field)
        for objective, scores in chunk.items()
        for field in FIELDS
    }
    with written_whole(path) as draft:
        save_file(arrays, draft)


def _read(path: Path, objectives: Sequence[str]) -> dict[str, Scores] | None:
    """What was done before the run was stopped; what cannot be read is done again."""
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


# --- what to know ---------------------------------------------------------------------------------


def _no_head(model: Model) -> Caveat:
    return Caveat(
        f"{model.name} has no language-model head with weights of its own, or none whose "
        "predictions can be measured: there are facts, but no losses."
    )


def _caveats(model: Model, batch: Batch, scores: Mapping[str, Scores]) -> list[Caveat]:
    """What the losses leave out, and what they cannot be compared with."""
    found = next(iter(scores.values()))
    words, pieces = len(batch.words), int(scores[list(scores)[-1]].pieces.sum())
    counts = {name: int(getattr(found, name).sum()) for name in FIELDS}
    texts = [_HOW[model.objective](model)]
    if "pseudo" in scores:
        texts.append(
            "Pseudo-perplexity is the original (Salazar et al. 2020): each piece is hidden alone "
            "and sees both sides, the other pieces of its word too. It compares such models with "
            "one another, and not with causal ones."
        )
    if counts["cut"]:
        texts.append(
            f"{counts['cut']:,} of {words:,} words are beyond the model's {model.max_pieces:,} "
            "pieces and were not read; neither they nor their bytes count."
        )
    if counts["bare"]:
        texts.append(
            f"The tokenizer puts nothing before a text, so the first piece of each of "
            f"{counts['bare']:,} has no context: neither it nor its bytes are scored."
        )
    if counts["unaligned"]:
        texts.append(
            f"{counts['unaligned']:,} of {words:,} words own no piece: they share another word's, "
            "or the tokenizer makes nothing of them. Their bytes count, they do not."
        )
    if counts["unknown"] and model.objective == "bidirectional":
        texts.append(
            f"{counts['unknown']:,} of {words:,} words are not in the model's softmax and count as "
            "one word, <UNK>: it is easier to predict than what it stands for, so that perplexity "
            "flatters."
        )
    elif counts["unknown"]:
        texts.append(
            f"{counts['unknown']:,} pieces stand for what the vocabulary does not have: they are "
            "easier to predict than what they stand for."
        )
    if model.folds_case and scores.keys() & {"causal", "pseudo"}:
        texts.append(
            "The tokenizer does not tell upper from lower case: bits a byte are of the raw text, "
            "of which less had to be predicted."
        )
    if not pieces:
        texts.append("No piece was scored: the texts are too short.")
    return [Caveat(text, ("losses",)) for text in texts]


def _causal(model: Model) -> str:
    return "Each piece is predicted from those before it in its text, and from no other text."


def _masked(model: Model) -> str:
    how = "all behind the mask"
    if model.symbols.mask is None:
        how = "all last in the order of prediction, for it reads no mask"
    return (
        f"{MASKED:.0%} of pieces are hidden, {how}, chosen by the seed and a text's place in the "
        "corpus."
    )


def _seq2seq(model: Model) -> str:
    if model.symbols.sentinels:
        return (
            f"Span corruption as in T5: {CORRUPTED:.0%} of pieces are hidden in spans of about 3, "
            "chosen by the seed and a text's place in the corpus. Sentinels and the end of the "
            "answer are scored with the pieces."
        )
    return (
        f"Infilling as in BART: {INFILLED:.0%} of pieces are hidden in spans of about 3, chosen by "
        "the seed and a text's place in the corpus. The whole text must be written and is scored, "
        "what was not hidden too."
    )


def _bidirectional(model: Model) -> str:
    size = len(model.vocabulary)
    return (
        "Each word and the end of its text is predicted from what is before it, and each word and "
        "the beginning from what is after it; losses are the mean of the two directions, and the "
        f"accuracy is of both. Words are predicted whole, out of {size:,}: loss and "
        "perplexity do not compare with those of pieces. Bits a byte do, but for white space, "
        "which is not predicted, and words that count as <UNK>."
    )


_HOW = {
    "causal": _causal,
    "masked": _masked,
    "seq2seq": _seq2seq,
    "bidirectional": _bidirectional,
}
