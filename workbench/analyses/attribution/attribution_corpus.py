"""Attribution over a corpus: which method is faithful on a model, and which words carry it.

One prediction of each text is attributed by all methods. Their maps are checked by erasure against
random orders and attention, and against random weights (`faithfulness`); what they say of tags,
relations and positions is in `evidence`. Costs: per text and method, what the method costs; a
forward pass over some hundred variants of each text; for the first texts, all methods again for
each model with random weights.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from workbench.analyses.attribution import evidence
from workbench.analyses.attribution.experiments import AttributionOverCorpus
from workbench.analyses.attribution.faithfulness import (
    ATTENTION,
    CONTROL,
    FEWEST,
    SMALLEST,
    UNFIT,
    Erasure,
    attention_scores,
    attribute_again,
    chance_correlation,
    confidence,
    erasure,
    order_of,
    random_orders,
    verdict_of_correlation,
)
from workbench.analyses.attribution.methods import Attribution, attribute_prediction
from workbench.analyses.attribution.removal import free_units
from workbench.analyses.predictions.prediction import (
    Prediction,
    following,
    labelled,
    of_word,
    words_to_predict,
    written,
)
from workbench.analyses.predictions.target import Target, Unit, units_of
from workbench.core.arrays import Floats
from workbench.core.cluster_sample import ClusterSample
from workbench.core.errors import WorkbenchError
from workbench.core.stats import SIGNIFICANT, holm, rank_correlation
from workbench.corpora.encode import encode
from workbench.corpora.layers import document_numbers
from workbench.corpora.splits import few_sentences_caveat
from workbench.engine.model import Model
from workbench.engine.task import objective_table
from workbench.experiment.definition import Caveat, Inputs, Progress, Result

if TYPE_CHECKING:
    from spacy.tokens import Doc

ATTEMPTS = 4  # texts drawn for each prediction: some have none
RANDOMISED = 12  # texts of the weight-randomisation check
RANDOM_STEPS = 32  # of integrated gradients there: enough for ranks
EXAMPLES = 6  # texts whose maps are stored
FEWEST_DOCUMENTS = 10  # with fewer, a method that is not better than random is undecided


@dataclass(frozen=True, eq=False)
class _Explained:
    """One prediction with its maps and what erasure says of them."""

    prediction: Prediction
    document: int
    word: int | None  # the predicted word
    target: Target
    units: Sequence[Unit]
    probability: float
    maps: Mapping[str, Attribution]
    scores: Mapping[str, Floats]  # by method, also of the attention baseline [units]
    erased: Mapping[str, tuple[float, float]]  # by method, also of the control
    random: tuple[float, float]  # mean over random orders
    randomised: dict[str, float] = field(default_factory=dict)  # by method


def run(inputs: Inputs, settings: AttributionOverCorpus, progress: Progress) -> Result:
    """Compute the tables of `attribution`."""
    refused: dict[str, str] = {}
    explained, skipped = _explained(inputs, settings, refused, progress)
    _randomise(inputs, settings, explained, progress)
    done = [name for name in settings.methods if any(name in each.scores for each in explained)]
    has_attention = any(ATTENTION in each.scores for each in explained)
    documents = len({each.document for each in explained})
    rows = [*done, *([ATTENTION] if has_attention else []), CONTROL]
    texts = [_text(each) for each in explained]
    parts: dict[str, evidence.Rows] = {
        "tags": [], "relations": [], "positions": [], "top_words": []
    }  # fmt: skip
    for method in done:
        found = evidence.evidence_of(texts, method)
        if not len(found.score):
            continue
        shuffled = settings.n_shuffles, inputs.seed
        parts["tags"] += evidence.tags(found, method, *shuffled)
        parts["relations"] += evidence.relations(found, method, *shuffled)
        parts["positions"] += evidence.positions(found, method, inputs.seed)
        parts["top_words"] += evidence.top_words(found, method)
    tables = {
        "methods": _methods(explained, rows, settings, inputs.seed),
        "agreement": _agreement(explained, rows[:-1], inputs.seed),
        **{name: pd.DataFrame(part, columns=COLUMNS[name]) for name, part in parts.items()},
        "examples": pd.DataFrame(_examples(explained[:EXAMPLES])),
        "objective": objective_table(inputs.model.predicts),
    }
    unit = "document" if documents < len(explained) else "sentence"
    caveats = [
        *few_sentences_caveat(documents, unit),
        *_caveats(tables, refused, skipped, settings),
    ]
    return Result(tables, caveats=tuple(Caveat(text) for text in caveats))


COLUMNS = {
    "tags": [
        "method", "tag", "n", "types", "attribution", "words", "lift", "lower", "upper",
        "expected", "p",
    ],
    "relations": [
        "method", "direction", "relation", "n", "types", "attribution", "expected",
        "difference", "lower", "upper", "p_shuffled", "p_types", "p",
    ],
    "positions": [
        "method", "origin", "offset", "n", "attribution", "lower", "upper", "words"
    ],
    "top_words": ["method", "word", "n", "lift"],
}  # fmt: skip


# --- predictions ----------------------------------------------------------------------------------


def _explained(
    inputs: Inputs, settings: AttributionOverCorpus, refused: dict[str, str], progress: Progress
) -> tuple[list[_Explained], int]:
    """The explained predictions, and the number of texts that had none."""
    explained: list[_Explained] = []
    skipped, documents = 0, {}  # type: int, dict[int, int]
    drawn = _drawn(inputs, ATTEMPTS * settings.max_predictions)
    numbers = document_numbers([doc for _, doc in drawn])
    for number, (index, doc) in zip(numbers, drawn, strict=True):
        if len(explained) == settings.max_predictions:
            break
        progress(len(explained), settings.max_predictions, "explaining predictions")
        random = np.random.default_rng([inputs.seed, index])
        prediction, word = _prediction(inputs.model, doc, settings, random)
        units = [] if prediction is None else units_of(prediction, _by(settings))
        if prediction is None or len(free_units(units)) < FEWEST:
            skipped += 1
            continue
        document = documents.setdefault(number, len(documents))
        explained.append(_explain(prediction, document, word, settings, refused, random))
    if not explained:
        raise WorkbenchError(
            f"none of {skipped:,} texts has a prediction from {FEWEST} words or more.",
            code="corpus-too-small",
            where="attribution",
            remedy="Choose a corpus with longer texts.",
        )
    return explained, skipped


def _drawn(inputs: Inputs, number: int) -> "list[tuple[int, Doc]]":
    """Random texts of the corpus in random order, each with its index."""
    random = np.random.default_rng([inputs.seed, number])
    drawn: list[tuple[float, int, Doc]] = []
    for index, doc in enumerate(inputs.docs()):
        drawn.append((float(random.random()), index, doc))
        if len(drawn) > 2 * number:  # of long corpora, only the texts that stay are in memory
            drawn = sorted(drawn, key=lambda each: each[0])[:number]
    return [(index, doc) for _, index, doc in sorted(drawn, key=lambda each: each[0])[:number]]


def _prediction(
    model: Model, doc: "Doc", settings: AttributionOverCorpus, random: np.random.Generator
) -> tuple[Prediction | None, int | None]:
    """The prediction of a text that is explained, and the predicted word; None if it has none."""
    if len(doc) == 0:
        return None, None
    predict = settings.predict
    if predict == "auto":
        predict = "class" if model.task_head is not None else "word"
    elif predict in ("class", "tag", "answer"):
        _require_task(model, doc, predict)
    if predict == "next":
        start = written if model.objective == "seq2seq" else following
        return start(model, doc), len(doc)
    if predict == "word":
        if not model.objective:
            return of_word(model, doc, 0), 0  # raises
        words = _candidates(model, doc)
        if not words:
            return None, None
        word = int(random.choice(words))
        return of_word(model, doc, word), word
    found = labelled(model, doc)
    if not found:
        return None, None
    if found[0].kind == "tag":
        chosen = found[int(random.integers(len(found)))]
        return chosen, chosen.position
    return found[0], None


def _require_task(model: Model, doc: "Doc", predict: str) -> None:
    kinds = {"class": ("class", "score"), "tag": ("tag",), "answer": ("start",)}[predict]
    found = labelled(model, doc)  # raises if it has no task head
    if found and found[0].kind not in kinds:
        raise WorkbenchError(
            f"{model.name} predicts a {found[0].kind}, not predict={predict}.",
            code="setting-invalid",
            where="attribution",
            remedy="Leave out the setting predict: auto explains what the task head predicts.",
        )


def _candidates(model: Model, doc: "Doc") -> list[int]:
    """Words to predict: of one piece, if there are some, and no punctuation, if there are some."""
    words = words_to_predict(model, doc)
    if model.objective == "causal":
        words = [word for word in words if word >= FEWEST]
    owners = model.encode(encode([doc])).words[0].tolist()
    words = [word for word in words if not (doc[word].is_punct or doc[word].is_space)] or words
    return [word for word in words if owners.count(word) == 1] or words


def _by(settings: AttributionOverCorpus) -> Any:
    return "word" if settings.by_word else "piece"


def _explain(
    prediction: Prediction,
    document: int,
    word: int | None,
    settings: AttributionOverCorpus,
    refused: dict[str, str],
    random: np.random.Generator,
) -> _Explained:
    """All maps of a prediction, and their comprehensiveness and sufficiency."""
    with torch.no_grad():
        logits = prediction.logits()
    choice = int(logits[0].argmax())
    target = Target(choice)
    if prediction.kind == "start" and choice < len(prediction.doc):
        word = choice
    options = _options(settings)
    maps: dict[str, Attribution] = {}
    for method in settings.methods:
        if method in refused:
            continue
        try:
            maps[method] = attribute_prediction(prediction, target, method, **options)
        except WorkbenchError as error:
            if error.code not in UNFIT:
                raise
            refused[method] = str(error.what)
    if not maps:
        raise WorkbenchError(
            f"no chosen method fits {prediction.model.name}: {' '.join(refused.values())}",
            code="model-unsupported",
            where="attribution",
            remedy="Choose another method, such as occlusion.",
        )
    first = next(iter(maps.values()))
    scores = {method: each.scores for method, each in maps.items()}
    attended = attention_scores(first, **_again(settings))
    if attended is not None:
        scores[ATTENTION] = attended
    free = free_units(first.units)
    orders = [order_of(each[free]) for each in scores.values()]
    orders.append(random.permutation(len(free)))
    drawn = random_orders(len(free), settings.random_orders, int(random.integers(2**31)))
    erased = erasure(
        prediction, target, first.units, np.concatenate([np.stack(orders), drawn]),
        options["baseline"],
    )  # fmt: skip
    pairs = [
        (float(a), float(b))
        for a, b in zip(erased.comprehensiveness, erased.sufficiency, strict=True)
    ]
    null: Erasure = erased.take(slice(len(orders), None))
    return _Explained(
        prediction,
        document,
        word,
        target,
        first.units,
        float(confidence(prediction, target, logits)[0]),
        maps,
        scores,
        dict(zip([*scores, CONTROL], pairs, strict=False)),
        (float(null.comprehensiveness.mean()), float(null.sufficiency.mean())),
    )


def _options(settings: AttributionOverCorpus) -> dict[str, Any]:
    baseline = None if settings.baseline == "auto" else settings.baseline
    return {"baseline": baseline, **_again(settings)}


def _again(settings: AttributionOverCorpus) -> dict[str, Any]:
    return {"by": _by(settings), "max_steps": settings.max_steps}


def _randomise(
    inputs: Inputs,
    settings: AttributionOverCorpus,
    explained: Sequence[_Explained],
    progress: Progress,
) -> None:
    """Add the rank correlations with the maps of random weights to the first texts."""
    some = explained[:RANDOMISED]
    options = {"by": _by(settings), "max_steps": min(settings.max_steps, RANDOM_STEPS)}
    total = settings.random_models * len(some)
    for seed in range(settings.random_models):
        twin = inputs.model.reinitialised(inputs.seed + seed)
        for index, each in enumerate(some):
            progress(seed * len(some) + index, total, "explaining predictions with random weights")
            free = free_units(each.units)
            prediction = replace(each.prediction, model=twin)
            any_map = next(iter(each.maps.values()))
            for method, scores in each.scores.items():
                again = attribute_again(any_map, prediction, method, **options)
                found = rank_correlation(np.abs(scores[free]), np.abs(again.scores[free]))
                before = each.randomised.get(method, 0.0)
                each.randomised[method] = before + found / settings.random_models


def _text(each: _Explained) -> evidence.Text:
    """The absolute score of each word: the sum over its pieces."""
    doc = each.prediction.doc
    scores, pieces = {}, np.zeros(len(doc), dtype=np.int64)
    for unit in each.units:
        if not unit.fixed and 0 <= unit.word < len(doc):
            pieces[unit.word] += len(unit.pieces)
    for method in each.maps:
        by_word = np.full(len(doc), np.nan)
        for unit, score in zip(each.units, each.scores[method], strict=True):
            if not unit.fixed and 0 <= unit.word < len(doc):
                before = by_word[unit.word]
                by_word[unit.word] = abs(score) + (before if np.isfinite(before) else 0.0)
        scores[method] = by_word
    return evidence.Text(doc, each.document, each.word, scores, pieces)


# --- tables ---------------------------------------------------------------------------------------


def _sample(own: Sequence[_Explained], seed: int) -> ClusterSample:
    """Texts in documents."""
    documents = np.array([each.document for each in own])
    return ClusterSample(documents, seed, int(documents.max()) + 1)


def _methods(
    explained: Sequence[_Explained],
    names: Sequence[str],
    settings: AttributionOverCorpus,
    seed: int,
) -> pd.DataFrame:
    rows, raw = [], []
    for method in names:
        own = [each for each in explained if method in each.erased]
        sample = _sample(own, seed)
        erased = np.array([each.erased[method] for each in own])  # [texts, 2]
        null = np.array([each.random for each in own])
        gain = erased[:, 0] - erased[:, 1] - (null[:, 0] - null[:, 1])
        raw.append(sample.p_above_zero(gain))
        row: dict[str, Any] = {
            "method": method,
            "n": len(own),
            "documents": len(set(sample.clusters)),
        }
        for column, name in enumerate(("comprehensiveness", "sufficiency")):
            row[name] = erased[:, column].mean()
            row[f"{name}_lower"], row[f"{name}_upper"] = sample.mean_interval(erased[:, column])
            row[f"random_{name}"] = null[:, column].mean()
        row["gain"] = gain.mean()
        row["lower"], row["upper"] = sample.mean_interval(gain)
        row |= _over_attention(own, method, sample)
        rows.append({**row, **_randomised(own, method, settings, seed), **_deltas(own, method)})
    p_values = [*holm(raw[:-1]), raw[-1]]  # the control comes last, and is a test of its own
    compared = [row for row in rows if np.isfinite(row["p_attention"])]
    for row, p in zip(compared, holm([row["p_attention"] for row in compared]), strict=True):
        row["p_attention"] = float(p)
    chosen = names[: -1 - (ATTENTION in names)]
    best = max(chosen, key=lambda name: rows[names.index(name)]["gain"])
    for row in rows:
        row |= _behind(explained, best, row["method"] if row["method"] in chosen else best, seed)
    for row, p in zip(rows, p_values, strict=True):
        row["p"] = float(p)
        row["faithful"] = _is_faithful(row)
    table = pd.DataFrame(rows)
    order = [*table.columns]
    order.insert(order.index("upper") + 1, order.pop(order.index("p")))
    order.insert(order.index("p") + 1, order.pop(order.index("faithful")))
    return table[order]


def _is_faithful(row: Mapping[str, Any]) -> str:
    if row["p"] < SIGNIFICANT and row["gain"] >= SMALLEST:
        return "yes"
    return "no" if row["documents"] >= FEWEST_DOCUMENTS else "undecided"


def _over_attention(
    own: Sequence[_Explained], method: str, sample: ClusterSample
) -> dict[str, Any]:
    """The gain minus that of attention; NaN for attention, the control, and without attention."""
    ends = "over_attention_lower", "over_attention_upper"
    columns = ("over_attention", *ends, "p_attention")
    if method in (ATTENTION, CONTROL) or not all(ATTENTION in each.erased for each in own):
        return dict.fromkeys(columns, np.nan)
    pairs = np.array([[each.erased[name] for name in (method, ATTENTION)] for each in own])
    gain = pairs[..., 0] - pairs[..., 1]  # [texts, 2]
    over = gain[:, 0] - gain[:, 1]
    values = over.mean(), *sample.mean_interval(over), sample.p_above_zero(over)
    return dict(zip(columns, values, strict=True))


def _behind(explained: Sequence[_Explained], best: str, method: str, seed: int) -> dict[str, Any]:
    """The gain of the best method minus that of another, over texts that both explain."""
    columns = "behind", "behind_lower", "behind_upper"
    both = [each for each in explained if best in each.erased and method in each.erased]
    if method == best or not both:
        return dict.fromkeys(columns, np.nan)
    pairs = np.array([[each.erased[name] for name in (best, method)] for each in both])
    gain = pairs[..., 0] - pairs[..., 1]  # [texts, 2]; random orders are the same for both
    behind = gain[:, 0] - gain[:, 1]
    values = behind.mean(), *_sample(both, seed).mean_interval(behind)
    return dict(zip(columns, values, strict=True))


def _randomised(
    own: Sequence[_Explained], method: str, settings: AttributionOverCorpus, seed: int
) -> dict[str, Any]:
    """The weight-randomisation check of a method, over texts."""
    some = [each for each in own if method in each.randomised]
    if not some:
        return {
            "randomised": np.nan, "randomised_lower": np.nan, "randomised_upper": np.nan,
            "chance": np.nan, "n_randomised": 0, "check": "",
        }  # fmt: skip
    values = np.array([each.randomised[method] for each in some])
    lower, upper = _sample(some, seed).mean_interval(values)
    units = [len(free_units(each.units)) for each in some]
    chance = chance_correlation(units, settings.random_models)
    return {
        "randomised": values.mean(),
        "randomised_lower": lower,
        "randomised_upper": upper,
        "chance": chance,
        "n_randomised": len(some),
        "check": verdict_of_correlation(float(values.mean()), chance),
    }


def _deltas(own: Sequence[_Explained], method: str) -> dict[str, float]:
    found = [each.maps[method].delta for each in own if method in each.maps]
    deltas = np.abs([delta for delta in found if delta is not None])
    if not len(deltas):
        return {"delta": np.nan, "delta_worst": np.nan}
    return {"delta": float(deltas.mean()), "delta_worst": float(deltas.max())}


def _agreement(explained: Sequence[_Explained], names: Sequence[str], seed: int) -> pd.DataFrame:
    """Rank correlations of the scores of each two methods."""
    from scipy.stats import spearmanr

    rows = []
    for index, first in enumerate(names):
        for second in names[index + 1 :]:
            values, own = [], []
            for each in explained:
                if first in each.scores and second in each.scores:
                    free = free_units(each.units)
                    pair = [each.scores[name][free] for name in (first, second)]
                    if all(np.ptp(scores) > 0 for scores in pair):
                        values.append(float(spearmanr(*pair).statistic))
                        own.append(each)
            if values:
                found = np.array(values)
                lower, upper = _sample(own, seed).mean_interval(found)
                rows.append((first, second, found.mean(), lower, upper, len(values)))
    columns = ["first", "second", "correlation", "lower", "upper", "n"]
    return pd.DataFrame(rows, columns=columns)


def _examples(explained: Sequence[_Explained]) -> Iterator[dict[str, Any]]:
    for text, each in enumerate(explained):
        prediction = each.prediction
        predicted = prediction.names([each.target.choice])[0]
        gold = "" if prediction.gold is None else prediction.names([prediction.gold])[0]
        for method in each.maps:
            pairs = zip(each.units, each.scores[method], strict=True)
            for position, (unit, score) in enumerate(pairs):
                yield {
                    "text": text,
                    "method": method,
                    "position": position,
                    "word": unit.text,
                    "score": float(score),
                    "fixed": unit.fixed,
                    "predicted": predicted,
                    "probability": each.probability,
                    "gold": gold,
                }


# --- caveats --------------------------------------------------------------------------------------


def _caveats(
    tables: Mapping[str, pd.DataFrame],
    refused: Mapping[str, str],
    skipped: int,
    settings: AttributionOverCorpus,
) -> Iterator[str]:
    for method, reason in refused.items():
        yield f"{method} is left out: {reason}"
    if ATTENTION not in set(tables["methods"]["method"]):
        yield "The model shows no attention maps, so there is no attention baseline."
    if skipped:
        subject = "1 text is" if skipped == 1 else f"{skipped:,} texts are"
        yield f"{subject} left out: the prediction reads fewer than {FEWEST} words."
    if not len(tables["tags"]):
        yield "The corpus has no tags, so the table of tags is empty."
    if not len(tables["relations"]):
        yield (
            "The table of relations is empty: the corpus has no trees, no word is predicted, or "
            "its governor and dependents are too rarely read."
        )
    worst = tables["methods"]["delta_worst"].max()
    if worst > 0.1:
        yield (
            f"Integrated gradients are not exact: with {settings.max_steps} steps, their scores "
            f"miss the change of the output by up to {worst:.2g}. A higher max_steps helps."
        )
