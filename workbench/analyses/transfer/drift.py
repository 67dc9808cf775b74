"""The experiment `drift`: what training changed in a model, layer by layer.

It compares a model before and after training: its states (debiased CKA, Procrustes distance), its
weights, the attention of its heads and its language-model loss. On request it also compares the
roles of heads and the scores of probes, from runs of `heads` and `edge-probing`. Costs: two passes
of each model for states and attention, one for losses, and the cost of `similarity` of the two;
compare_probing costs two edge-probing runs.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.analyses.transfer.adaptation import Fitting
from workbench.analyses.transfer.backbone import Body, body_of
from workbench.analyses.transfer.experiments import DRIFT_TABLES, Drift
from workbench.analyses.transfer.features import Live
from workbench.analyses.transfer.similarity import (
    Layer,
    every_pair,
    layer_by_layer,
    read,
    similarity,
    stack_caveats,
    word_caveats,
    words_of,
)
from workbench.analyses.transfer.trainer import guessed
from workbench.analyses.transfer.weight_change import WeightChange, require_same, weight_change
from workbench.core.arrays import Floats
from workbench.core.metrics import Metric
from workbench.core.stats import difference, f1, interval, ratio, resampled
from workbench.corpora.splits import few_sentences_caveat
from workbench.corpora.task_gold import gold_of
from workbench.corpora.tasks import Examples, metrics_of, scored_of
from workbench.engine.batch import Batch, Pieces
from workbench.engine.forward_pass import CHUNK, PIECES, chunks, forward
from workbench.engine.forward_pass import Progress as Passing
from workbench.engine.model import Model, Output
from workbench.engine.taps import Capture, Site, Tap, View
from workbench.experiment.definition import HEAD, Caveat, Inputs, Progress, Result, SubrunResult
from workbench.models.output_heads.task_heads import TaskHead
from workbench.models.scoring.lm_scoring import Scores, joined, measures, score

if TYPE_CHECKING:
    from spacy.tokens import Doc

# --- change of attention --------------------------------------------------------------------------
#
# Jensen-Shannon divergence between the attention rows of two models' heads on the same texts.
#
# Both models read each batch. At each site the second model's map is compared with the first's,
# reduced to one number per sentence and head, and freed. Queries are the pieces of the text, not
# special pieces or padding; a row includes the attention to special pieces. 0 bits: the same row; 1
# bit: no overlap. Costs: two forward passes, a few numbers per sentence, and one model's maps of a
# batch, at most 256 MB unless a single text has more.

MAPS = 2**28  # bytes of maps in memory at a time

Sums = Mapping[
    Site, NDArray[np.float64]
]  # [sentences, heads + 1] each; the last column: number of queries


def divergence(first: Tensor, second: Tensor) -> Tensor:
    """Jensen-Shannon divergence of each row, in bits.  # [..., keys] twice -> [...]"""
    p, q = first.double(), second.double()
    entropy = torch.special.entr
    middle = entropy((p + q) / 2).sum(-1)
    nats: Tensor = middle - (entropy(p).sum(-1) + entropy(q).sum(-1)) / 2
    return (nats / math.log(2)).clamp(0, 1)


@dataclass(eq=False)
class DivergenceTap(Tap):
    """A tap that compares each attention map with another model's; see above."""

    maps: dict[Site, Tensor]  # [batch, heads, queries, keys] of the other model
    sums: dict[Site, Tensor] = field(default_factory=dict)  # [batch, heads + 1]

    def see(self, view: View) -> None:
        assert view.queries is not None, "the engine gives queries"
        is_query = view.queries.mask & ~view.queries.special  # [batch, queries]
        bits = divergence(self.maps.pop(view.site), view.probabilities)  # [batch, heads, queries]
        sums = torch.where(is_query[:, None], bits, 0.0).sum(-1)
        self.sums[view.site] = torch.cat([sums, is_query.sum(-1, keepdim=True).double()], dim=1)

    def close(self, whole: bool) -> None:
        self.maps.clear()


def same_pieces(before: Model, after: Model, batch: Batch) -> bool:
    """Whether both models cut every text into the same pieces."""
    for documents in chunks(range(len(batch)), CHUNK):
        one, other = before.encode(batch, documents), after.encode(batch, documents)
        if one.ids.shape != other.ids.shape or not torch.equal(one.ids, other.ids):
            return False
    return True


def attention_change(
    before: Model,
    after: Model,
    batch: Batch,
    on_progress: Callable[[Passing], object] | None = None,
) -> Sums:
    """Divergence sums of each sentence at each site, for models with the same pieces."""
    sums = {site: np.zeros((len(batch), site.heads + 1)) for site in before.sites}
    first = Capture()

    def compare(text: Pieces, output: Output) -> None:
        second = DivergenceTap({site: maps.pop() for site, maps in first.maps.items()})
        first.maps.clear()
        after.forward(text, taps=[second], hidden=False)
        sentences = text.order.cpu().numpy()
        for site, values in second.sums.items():
            sums[site][sentences] = values.cpu().numpy()

    max_pieces = _pieces_per_batch(before, batch)
    forward(
        before, batch, compare, taps=[first], hidden=False, pieces=max_pieces, progress=on_progress
    )
    return sums


def _pieces_per_batch(model: Model, batch: Batch) -> int:
    """Maximum pieces per batch so that its maps fit in `MAPS`; a piece has at least one byte."""
    longest = int(np.diff(batch.text_offsets).max(initial=1)) + 8
    longest = min(longest, model.max_pieces or longest)
    row = (
        4 * longest * sum(site.heads for site in model.sites)
    )  # bytes of one query's rows in all heads
    return max(1, min(MAPS // row, PIECES.get(model.device.type, PIECES["cpu"])))


def heads(sums: Sums, seed: int) -> pd.DataFrame:
    """Each head's mean divergence over queries, with 95 % bootstrap intervals over sentences."""
    rows = []
    for site, site_sums in sums.items():
        bits, n_queries = site_sums[:, :-1], site_sums[:, -1]  # [sentences, heads], [sentences]
        stacked = np.stack([bits.T, np.broadcast_to(n_queries, bits.T.shape)], axis=-1)
        values = mean(stacked.sum(1))  # [heads]
        lower, upper = interval(resampled(stacked[:, None], mean, seed))
        rows += [
            (site.stack, site.kind, site.layer, head, float(values[head]), float(lower[head]),
             float(upper[head]), int(n_queries.sum()))
            for head in range(site.heads)
        ]  # fmt: skip
    return pd.DataFrame(rows, columns=[*HEAD, "attention_js", "lower", "upper", "n"])


def mean(sums: Floats) -> Floats:
    """Sums over counts; NaN for a count of 0.  # [..., 2] -> [...]"""
    return ratio(sums[..., 0], sums[..., 1], np.nan)


# --- the experiment `drift` -----------------------------------------------------------------------

SCORES = (
    "offset_share", "relation_accuracy", "rare_share", "confidence", "entropy", "distance",
    "special_mass",
)  # fmt: skip
SHOWN = 5  # names in a caveat


def run(inputs: Inputs, settings: Drift, progress: Progress) -> Result:
    """Compare the two models in every way that their architecture and the corpus allow."""
    before, after = inputs.models
    require_same(before, after)
    docs = list(inputs.docs())
    head = head_for(docs, after)
    old_lm, new_lm = as_language_model(before), as_language_model(after)
    weights = weight_change(before, after)
    tables: dict[str, pd.DataFrame] = {}
    if settings.compare_probing:
        progress(0, None, "probing")
        tables["probing"] = _probing(inputs, settings)
    roles = _roles(inputs, settings, progress) if settings.compare_roles and before.sites else None
    batch = read(inputs)
    with words_of(inputs, batch, settings.max_words, progress) as words:
        old, new = words.models
        states = layer_by_layer(words, old, new, progress)
        progress(0, None, "comparing all pairs of layers")
        tables["similarity"] = similarity(old, new, every_pair(words, old, new))
        word_texts = [*word_caveats(words), *_few_words(len(words.rows), old.width)]
        word_texts += stack_caveats(words.models)
    attention_compared = bool(before.sites) and same_pieces(before, after, batch)
    if attention_compared:
        sums = attention_change(
            before, after, batch, lambda now: progress(now.done, now.total, "comparing attention")
        )
        tables["heads"] = heads(sums, inputs.seed)
        if roles is not None:
            tables["heads"] = tables["heads"].merge(roles, on=HEAD, how="left")
    scored_texts: tuple[str, ...] = ()
    if head:
        scored, scored_texts = scored_of(
            inputs.corpus, head.task, inputs.split, inputs.seed, settings.max_sentences
        )
        tables["rewound"] = rewound(
            before,
            after,
            head,
            scored,
            lambda done, total: progress(done, total, "resetting layers"),
            inputs.seed,
        )
    no_losses = no_forgetting(old_lm, new_lm)
    if not no_losses:
        tables["losses"] = forgetting(old_lm, new_lm, batch, inputs.seed, progress)
    tables["modules"] = weights.modules
    tables["drift"] = _by_layer(states, weights, tables, len(words.rows))
    caveats = [Caveat(text, ("drift", "similarity")) for text in word_texts]
    caveats += [Caveat(text, ("rewound",)) for text in scored_texts]
    with_intervals = tuple(name for name in ("heads", "losses") if name in tables)
    caveats += [
        Caveat(text, with_intervals) for text in few_sentences_caveat(len(batch)) if with_intervals
    ]
    caveats += [Caveat(text, ("drift", "modules")) for text in _weights_left_out(weights)]
    if before.vocabulary != after.vocabulary:
        caveats.append(
            Caveat(
                "The vocabularies differ: the embedding distance compares rows of different words.",
                ("drift", "modules"),
            )
        )
    if no_losses:
        caveats.append(Caveat(no_losses))
    if not before.sites:
        caveats.append(Caveat(f"{before.name} has no attention, so there are no heads to compare."))
    elif not attention_compared:
        caveats.append(
            Caveat(
                "The tokenizers cut the texts into different pieces: attention cannot be compared.",
                ("drift",),
            )
        )
    return Result(
        {name: tables[name] for name in DRIFT_TABLES if name in tables}, caveats=tuple(caveats)
    )


# --- tables ---------------------------------------------------------------------------------------


def _by_layer(
    states: Mapping[Layer, tuple[float, float]],
    weights: WeightChange,
    tables: Mapping[str, pd.DataFrame],
    n_words: int,
) -> pd.DataFrame:
    """The table `drift`: one row per layer, NaN for values that are not available."""
    attention = _means(tables.get("heads"), "attention_js", shift=1)
    probing = _means(tables.get("probing"), "delta")
    rows = [
        (
            *layer,
            *distances,
            weights.layers.get(layer, np.nan),
            attention.get(layer, np.nan),
            probing.get(layer, np.nan),
            n_words,
        )
        for layer, distances in states.items()
    ]
    columns = "stack layer cka procrustes weight_distance attention_js probing_delta n".split()
    return pd.DataFrame(rows, columns=columns)


def _means(table: pd.DataFrame | None, column: str, shift: int = 0) -> dict[Any, float]:
    """The mean of each layer's rows; `shift` turns the layer of a head into a layer of states."""
    if table is None:
        return {}
    means = table.groupby(["stack", "layer"])[column].mean().reset_index()
    keys = zip(means["stack"], means["layer"] + shift, strict=True)
    return dict(zip(keys, means[column], strict=True))


# --- runs of other experiments ------------------------------------------------------------------


def _roles(inputs: Inputs, settings: Drift, progress: Progress) -> pd.DataFrame:
    """Each head's role before and after, from runs of `heads`, and the change of its scores."""
    progress(0, None, "finding the roles of heads")
    heads_settings = {"max_sentences": settings.max_sentences}
    tables = [
        inputs.run_experiment(
            "heads", [model], inputs.corpora, heads_settings, inputs.split
        ).tables["heads"]
        for model in inputs.models
    ]
    both = tables[0].merge(tables[1], on=HEAD, suffixes=("_before", "_after"))
    changes = {
        f"{score}_change": both[f"{score}_after"] - both[f"{score}_before"] for score in SCORES
    }
    return both[[*HEAD, "role_before", "role_after"]].assign(**changes)


def _probing(inputs: Inputs, settings: Drift) -> pd.DataFrame:
    """Each layer's probe scores before and after, from runs of `edge-probing`."""
    probe_settings = {
        "max_sentences": None,
        "max_train": settings.max_train,
        "max_dev": settings.max_dev,
        "max_test": settings.max_test,
        "tasks": list(settings.tasks),
        "modes": ["lexical", "layer"],
        "control_tasks": False,
        "random_baseline": False,
    }
    results = [
        inputs.run_experiment("edge-probing", [model], inputs.corpora, probe_settings)
        for model in inputs.models
    ]
    before, after = map(_layer_means, results)
    keys = ["task", "stack", "layer", "metric"]
    both = before.merge(after, on=keys, suffixes=("_before", "_after"))
    both = both.rename(columns={"mean_before": "before", "mean_after": "after"})
    both = both.assign(delta=both["after"] - both["before"])
    old, new = map(_counts, results)
    tests = [
        difference(*resampled(np.stack([old[layer], new[layer]]), f1, inputs.seed))
        for layer in zip(both["task"], both["stack"], both["layer"], strict=True)
    ]
    return both.assign(
        **dict(zip(("lower", "upper", "p_value"), zip(*tests, strict=True), strict=True))
    )


def _counts(result: SubrunResult) -> dict[tuple[str, str, int], Floats]:
    """Right, predicted and gold counts of each layer's probes.  # [seeds, sentences, 3] each"""
    scores, counts = result.tables["scores"].reset_index(drop=True), result.arrays["counts"]
    is_model = (scores["encoder"] == "model") & ~scores["control"].astype(bool)
    counts_of: dict[tuple[str, str, int], Floats] = {}
    for mode in ("lexical", "layer"):  # layer 0 has both modes
        mode_scores = scores[is_model & (scores["mode"] == mode)]
        for key, rows in mode_scores.groupby(["task", "stack", "layer"]):
            task, stack, layer = key
            layer_counts = np.asarray(counts)[rows.index].astype(float)
            counts_of.setdefault((str(task), str(stack), int(str(layer))), layer_counts)
    return counts_of


def _layer_means(result: SubrunResult) -> pd.DataFrame:
    """Each layer's score, the mean over seeds."""
    means = result.tables["means"]
    scores = means[(means["encoder"] == "model") & means["mode"].isin(["lexical", "layer"])]
    scores = scores.drop_duplicates(["task", "stack", "layer"])  # layer 0 has both modes
    return scores[["task", "stack", "layer", "metric", "mean"]].reset_index(drop=True)


# --- caveats ---------------------------------------------------------------------------------


def _few_words(words: int, width: int) -> Iterator[str]:
    if words < 2 * width:
        yield (
            f"Only {words:,} words for a width of {width:,}: a rotation then partly fits even "
            "unrelated states, and Procrustes distances are too small."
        )


def _weights_left_out(weights: WeightChange) -> Iterator[str]:
    if names := weights.left_out:
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        yield (
            "Weights that only one model has, or that differ in shape, are left out: "
            f"{', '.join(names[:SHOWN])}{more}."
        )


# --- forgetting of the language model -------------------------------------------------------------
#
# Forgetting: the language-model loss on a corpus after training, minus the loss before.
#
# Both models are scored on the same texts with their common objective, and with the same masked
# pieces if any; bootstrap intervals resample the same sentences for both. Costs: one pass of each
# model with logits.

SCORED_AT_ONCE = 512  # documents scored between two progress reports
COLUMNS = ["metric", "before", "after", "change", "lower", "upper", "n"]


def as_language_model(model: Model) -> Model:
    """The model as the language model that it was before it got a task; unchanged without one."""
    return next(
        (model.for_objective(task) for task in model.objectives if task.is_language_model), model
    )


def no_forgetting(before: Model, after: Model) -> str:
    """Why the losses cannot be compared; "" if they can."""
    headless = [model.name for model in (before, after) if not model.objective]
    if headless:
        return (
            f"{' and '.join(dict.fromkeys(headless))} {'has' if len(headless) == 1 else 'have'} no "
            "language-model head with trained weights, or none that can be scored: forgetting is "
            "not measured."
        )
    if before.objective != after.objective:
        return (
            f"The objective is {before.objective} before and {after.objective} after training: the "
            "losses cannot be compared, and forgetting is not measured."
        )
    return ""


def forgetting(
    before: Model, after: Model, batch: Batch, seed: int, progress: Progress
) -> pd.DataFrame:
    """The table `losses`: both models' losses and their change."""
    old = _scored(
        before, batch, seed, lambda now: progress(now, 2 * len(batch), "scoring documents")
    )
    new = _scored(
        after,
        batch,
        seed,
        lambda now: progress(len(batch) + now, 2 * len(batch), "scoring documents"),
    )
    objective = str(before.objective)
    measures_before, measures_after = measures(old, objective), measures(new, objective)
    prefix = next(iter(measures_before)).removesuffix("loss")
    sums = np.concatenate([_sums(old, objective), _sums(new, objective)], axis=1)  # [texts, 8]
    rows = []
    for metric, measure in _METRICS.items():
        name = f"{prefix}{metric}"
        first, second = measures_before[name][0], measures_after[name][0]
        lower, upper = interval(resampled(sums[None, None], _change(measure), seed)[0])
        rows.append(
            (
                name,
                first,
                second,
                second - first,
                float(lower),
                float(upper),
                measures_before[name][1],
            )
        )
    return pd.DataFrame(rows, columns=COLUMNS)


def _scored(model: Model, batch: Batch, seed: int, on_progress: Callable[[int], object]) -> Scores:
    parts = []
    for documents in chunks(range(len(batch)), SCORED_AT_ONCE):
        on_progress(documents[0])
        parts.append(score(model, batch, documents, seed=seed))
    return joined(parts)


def _sums(scores: Scores, objective: str) -> Floats:
    """Nats, pieces, right predictions and all predictions of each text.  # [texts, 4]"""
    guesses = scores.pieces * (2 if objective == "bidirectional" else 1)
    parts = [scores.nats, scores.pieces, scores.right, guesses]
    return np.stack([np.asarray(part, dtype=np.float64) for part in parts], axis=1)


_METRICS: dict[str, Callable[[Floats], Floats]] = {  # functions of the sums of `_sums`
    "loss": mean,
    "perplexity": lambda sums: np.exp(np.minimum(mean(sums), 700)),
    "accuracy": lambda sums: mean(sums[..., 2:]),
}


def _change(measure: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
    """The change of a measure, from both models' sums.  # [..., 8] -> [...]"""
    return lambda sums: measure(sums[..., 4:]) - measure(sums[..., :4])


# --- rewinding layers -----------------------------------------------------------------------------
#
# Which layers a fine-tuned model needs: reset each layer to its weights before fine-tuning, and
# score the task again.
#
# Zhang et al.'s re-initialisation (2019), with the weights that fine-tuning started from. It needs
# the task head, which a run of `finetune` saves with its model. Costs: one pass over the texts per
# layer.


def head_for(docs: "Sequence[Doc]", after: Model) -> TaskHead | None:
    """The task head of a fine-tuned model, if these texts have its labels."""
    head: TaskHead | None = after.task_head
    if head is None or not head.task.label or head.task.kind == "text":
        return None
    return head if any(gold_of(doc, head.task) is not None for doc in docs) else None


def rewound(
    before: Model,
    after: Model,
    head: TaskHead,
    examples: Examples,
    on_progress: Callable[[int, int], object],
    seed: int = 0,
) -> pd.DataFrame:
    """The score with each layer reset alone, and with no layer and all layers reset."""
    body = body_of(after)
    old = before.named_weights()
    source = Live(body, examples.batch, head)
    layers = sorted({body.depth(name) for name in body.weights})
    keys, metrics = [("none", -1)], [_metric(body, head, source, examples)]
    for index, layer in enumerate(layers):
        on_progress(index, len(layers) + 1)
        names = [name for name in body.weights if body.depth(name) == layer]
        keys.append((body.stack, layer))
        metrics.append(_metric_with_reset(body, old, names, head, source, examples))
    keys.append(("all", -1))
    metrics.append(_metric_with_reset(body, old, list(body.weights), head, source, examples))
    table = pd.DataFrame(keys, columns=["stack", "layer"])
    table["metric"] = head.task.metric
    table["value"] = [metric.value() for metric in metrics]
    table["change"] = table["value"] - table["value"].iloc[0]
    draws = [resampled(one.counts[None, None], one.measure, seed)[0] for one in metrics]
    tests = [difference(draws[0], own) for own in draws]
    names_of_tests = ("lower", "upper", "p_value")
    return table.assign(**dict(zip(names_of_tests, zip(*tests, strict=True), strict=True)))


def _metric_with_reset(
    body: Body,
    old: Mapping[str, Tensor],
    names: Sequence[str],
    head: TaskHead,
    source: Live,
    examples: Examples,
) -> Metric:
    """The metric with these weights temporarily reset to their old values."""
    reset = [name for name in names if name in old and old[name].shape == body.weights[name].shape]
    tuned = {name: body.weights[name].detach().clone() for name in reset}
    with torch.no_grad():
        for name in reset:
            body.weights[name].copy_(old[name])
        try:
            return _metric(body, head, source, examples)
        finally:
            for name, value in tuned.items():
                body.weights[name].copy_(value)


def _metric(body: Body, head: TaskHead, source: Live, examples: Examples) -> Metric:
    guesses = guessed(head, Fitting(body), source, examples)
    return metrics_of(head.task, examples, guesses)[head.task.metric]
