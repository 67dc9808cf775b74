"""What training has changed in a model, and where: the experiment `drift`.

A model before and after, layer by layer: its states (debiased CKA, Procrustes), its weights, where
its heads look, what it has forgotten; and, where asked, what heads are called and what probes find,
each by the experiment that tells it, as a run of its own. Costs two passes of each model for states
and attention, one for losses, and what `similarity` of the two costs; `probe` costs two edge
probings.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.core.experiment import HEAD, Answer, Caveat, Inputs, Progress, Result, few_sentences
from workbench.core.stats import Floats, difference, f1, interval, ratio, resampled
from workbench.engine.batch import Batch, Pieces
from workbench.engine.forward_pass import CHUNK, PIECES, chunks, forward
from workbench.engine.forward_pass import Progress as Passing
from workbench.engine.model import Model, Output
from workbench.engine.taps import Capture, Site, Tap, View
from workbench.models.lm_scoring import Scores, joined, measures, score
from workbench.transfer.adaptation import Fitting
from workbench.transfer.backbone import Body, body_of
from workbench.transfer.checkpoints import has_task, head_of
from workbench.transfer.experiments import DRIFT_TABLES, Drift
from workbench.transfer.features import Live
from workbench.transfer.similarity import (
    Layer,
    every_pair,
    layer_by_layer,
    read,
    similarity,
    stack_caveats,
    word_caveats,
    words_of,
)
from workbench.transfer.task_heads import Head
from workbench.transfer.tasks import Examples, gold_of, metrics_of, scored_of
from workbench.transfer.trainer import guessed
from workbench.transfer.weight_change import Moved, moved, require_same

if TYPE_CHECKING:
    from spacy.tokens import Doc

# --- change of attention --------------------------------------------------------------------------
#
# How differently two models' heads look at the same texts: Jensen-Shannon divergence of rows.
#
# Both models read each batch; site by site the second's map meets the first's, becomes a number a
# sentence and head, and is gone. Asked are pieces of the text, not special ones or padding; a row
# is all that a piece gives, to special pieces too. 0 bits is the same row, 1 one with nothing in
# common. Costs two forward passes, a few numbers a sentence, and for a batch one model's maps:
# 256 MB at most, unless a text alone has more.

MAPS = 2**28  # bytes of maps that are kept at a time

Sums = Mapping[Site, NDArray[np.float64]]  # [sentences, heads + 1] each; the last: pieces that look


def divergence(first: Tensor, second: Tensor) -> Tensor:
    """Of each row, in bits.  # [..., keys] twice -> [...]"""
    one, other = first.double(), second.double()
    entropy = torch.special.entr
    middle = entropy((one + other) / 2).sum(-1)
    nats: Tensor = middle - (entropy(one).sum(-1) + entropy(other).sum(-1)) / 2
    bits: Tensor = (nats / math.log(2)).clamp(0, 1)
    return bits


@dataclass(eq=False)
class Beside(Tap):
    """A tap that sets each map beside another model's; see above."""

    maps: dict[Site, Tensor]  # [batch, heads, queries, keys] of the other
    found: dict[Site, Tensor] = field(default_factory=dict)  # [batch, heads + 1]

    def see(self, view: View) -> None:
        assert view.queries is not None, "asked through the engine"
        asked = view.queries.mask & ~view.queries.special  # [batch, queries]
        apart = divergence(self.maps.pop(view.site), view.probabilities)  # [batch, heads, queries]
        sums = torch.where(asked[:, None], apart, 0.0).sum(-1)
        self.found[view.site] = torch.cat([sums, asked.sum(-1, keepdim=True).double()], dim=1)

    def close(self, whole: bool) -> None:
        self.maps.clear()


def same_pieces(before: Model, after: Model, batch: Batch) -> bool:
    """Whether both models read the same pieces of every text."""
    for documents in chunks(range(len(batch)), CHUNK):
        one, other = before.encode(batch, documents), after.encode(batch, documents)
        if one.ids.shape != other.ids.shape or not torch.equal(one.ids, other.ids):
            return False
    return True


def attention_change(
    before: Model,
    after: Model,
    batch: Batch,
    told: Callable[[Passing], object] | None = None,
) -> Sums:
    """Sums of each sentence at each site, of models that read the same pieces."""
    sums = {site: np.zeros((len(batch), site.heads + 1)) for site in before.sites}
    first = Capture()

    def use(text: Pieces, output: Output) -> None:
        second = Beside({site: maps.pop() for site, maps in first.maps.items()})
        first.maps.clear()
        after.forward(text, taps=[second], hidden=False)
        places = text.order.cpu().numpy()
        for site, numbers in second.found.items():
            sums[site][places] = numbers.cpu().numpy()

    most = _most(before, batch)
    forward(before, batch, use, taps=[first], hidden=False, pieces=most, progress=told)
    return sums


def _most(model: Model, batch: Batch) -> int:
    """Pieces in a batch, so that its maps have room; a piece is a byte at least."""
    longest = int(np.diff(batch.text_offsets).max(initial=1)) + 8
    longest = min(longest, model.max_pieces or longest)
    row = 4 * longest * sum(site.heads for site in model.sites)  # bytes of what a piece gives
    return max(1, min(MAPS // row, PIECES.get(model.device.type, PIECES["cpu"])))


def heads(sums: Sums, seed: int) -> pd.DataFrame:
    """Each head's mean over pieces, with the middle 95 % of drawings of sentences."""
    rows = []
    for site, found in sums.items():
        apart, number = found[:, :-1], found[:, -1]  # [sentences, heads], [sentences]
        both = np.stack([apart.T, np.broadcast_to(number, apart.T.shape)], axis=-1)
        values = mean(both.sum(1))  # [heads]
        lower, upper = interval(resampled(both[:, None], mean, seed))
        for head in range(site.heads):
            rows.append(
                (site.stack, site.kind, site.layer, head, float(values[head]), float(lower[head]),
                 float(upper[head]), int(number.sum()))
            )  # fmt: skip
    return pd.DataFrame(rows, columns=[*HEAD, "attention_js", "lower", "upper", "n"])


def mean(sums: Floats) -> Floats:
    """Sums over numbers; of nothing there is none.  # [..., 2] -> [...]"""
    return ratio(sums[..., 0], sums[..., 1], np.nan)


# --- the experiment `drift` -----------------------------------------------------------------------

SCORES = (
    "offset_share", "relation_accuracy", "rare_share", "confidence", "entropy", "distance",
    "special_mass",
)  # fmt: skip
SHOWN = 5  # names in a caveat


def run(inputs: Inputs, settings: Drift, progress: Progress) -> Result:
    """Everything that can be said of these two."""
    before, after = inputs.models
    require_same(before, after)
    docs = list(inputs.docs())
    head = head_for(inputs.folders[1] if inputs.folders else None, docs, after)
    weights = moved(before, after)
    tables: dict[str, pd.DataFrame] = {}
    if settings.probe:
        progress(0, None, "probing")
        tables["probing"] = _probing(inputs, settings)
    roles = _roles(inputs, settings, progress) if settings.roles and before.sites else None
    batch = read(inputs)
    with words_of(inputs, batch, settings.words, progress) as words:
        old, new = words.models
        states = layer_by_layer(words, old, new, progress)
        progress(0, None, "every layer with every other")
        tables["similarity"] = similarity(old, new, every_pair(words, old, new))
        about_words = [*word_caveats(words), *_fitting(len(words.rows), old.width)]
        about_words += stack_caveats(words.models)
    compared = bool(before.sites) and same_pieces(before, after, batch)
    if compared:
        sums = attention_change(
            before, after, batch, lambda now: progress(now.done, now.total, "attention")
        )
        tables["heads"] = heads(sums, inputs.seed)
        if roles is not None:
            tables["heads"] = tables["heads"].merge(roles, on=HEAD, how="left")
    about_scored: tuple[str, ...] = ()
    if head:
        scored, about_scored = scored_of(
            inputs.corpus, head.task, inputs.split, inputs.seed, settings.max_sentences
        )
        tables["rewound"] = rewound(
            before, after, head, scored, lambda done, all_: progress(done, all_, "layers put back")
        )
    unknown = no_forgetting(before, after)
    if not unknown:
        tables["losses"] = forgetting(before, after, batch, inputs.seed, progress)
    tables["modules"] = weights.modules
    tables["drift"] = _by_layer(states, weights, tables)
    caveats = [Caveat(text, ("drift", "similarity")) for text in about_words]
    caveats += [Caveat(text, ("rewound",)) for text in about_scored]
    beside = tuple(name for name in ("heads", "losses") if name in tables)
    caveats += [Caveat(text, beside) for text in few_sentences(len(batch)) if beside]
    caveats += [Caveat(text, ("drift", "modules")) for text in _weights_left_out(weights)]
    if before.vocabulary != after.vocabulary:
        caveats.append(
            Caveat(
                "The vocabularies differ: the distance of the embeddings is between rows of "
                "different words.",
                ("drift", "modules"),
            )
        )
    if unknown:
        caveats.append(Caveat(unknown))
    if not before.sites:
        caveats.append(Caveat(f"{before.name} has no attention: there are no heads to compare."))
    elif not compared:
        caveats.append(
            Caveat(
                "The two read the texts in other pieces: where heads look cannot be compared.",
                ("drift",),
            )
        )
    return Result(
        {name: tables[name] for name in DRIFT_TABLES if name in tables}, caveats=tuple(caveats)
    )


# --- tables ---------------------------------------------------------------------------------------


def _by_layer(
    states: Mapping[Layer, tuple[float, float]],
    weights: Moved,
    tables: Mapping[str, pd.DataFrame],
) -> pd.DataFrame:
    """One row a layer; what there is none of is NaN."""
    attention = _means(tables.get("heads"), "attention_js", moved_by=1)
    probing = _means(tables.get("probing"), "delta")
    rows = [
        (
            *layer,
            *alike,
            weights.layers.get(layer, np.nan),
            attention.get(layer, np.nan),
            probing.get(layer, np.nan),
        )
        for layer, alike in states.items()
    ]
    columns = "stack layer cka procrustes weight_distance attention_js probing_delta".split()
    return pd.DataFrame(rows, columns=columns)


def _means(table: pd.DataFrame | None, column: str, moved_by: int = 0) -> dict[Any, float]:
    """The mean of each layer's rows; `moved_by` makes of a head's layer the one it is in."""
    if table is None:
        return {}
    means = table.groupby(["stack", "layer"])[column].mean().reset_index()
    keys = zip(means["stack"], means["layer"] + moved_by, strict=True)
    return dict(zip(keys, means[column], strict=True))


# --- what other experiments tell ------------------------------------------------------------------


def _roles(inputs: Inputs, settings: Drift, progress: Progress) -> pd.DataFrame:
    """What `heads` calls each head before and after, and what has come to its scores."""
    progress(0, None, "roles of heads")
    asked = {"max_sentences": settings.max_sentences}
    sides = [
        inputs.ask("heads", [model], inputs.corpora, asked, inputs.split).tables["heads"]
        for model in inputs.models
    ]
    both = sides[0].merge(sides[1], on=HEAD, suffixes=("_before", "_after"))
    changes = {
        f"{score}_change": both[f"{score}_after"] - both[f"{score}_before"] for score in SCORES
    }
    return both[[*HEAD, "role_before", "role_after"]].assign(**changes)


def _probing(inputs: Inputs, settings: Drift) -> pd.DataFrame:
    """What the same probes find in each layer before and after."""
    asked = {
        "max_sentences": None,
        "max_train": settings.max_train,
        "max_dev": settings.max_dev,
        "max_test": settings.max_test,
        "tasks": list(settings.tasks),
        "modes": ["lexical", "layer"],
        "controls": False,
        "random": False,
    }
    answers = [
        inputs.ask("edge-probing", [model], inputs.corpora, asked) for model in inputs.models
    ]
    before, after = map(_found, answers)
    keys = ["task", "stack", "layer", "metric"]
    both = before.merge(after, on=keys, suffixes=("_before", "_after"))
    both = both.rename(columns={"mean_before": "before", "mean_after": "after"})
    both = both.assign(delta=both["after"] - both["before"])
    old, new = map(_counts, answers)
    tests = [
        difference(*resampled(np.stack([old[layer], new[layer]]), f1, inputs.seed))
        for layer in zip(both["task"], both["stack"], both["layer"], strict=True)
    ]
    return both.assign(
        **dict(zip(("lower", "upper", "p_value"), zip(*tests, strict=True), strict=True))
    )


def _counts(answer: Answer) -> dict[tuple[str, str, int], Floats]:
    """Right, said and there of each layer's probes.  # [seeds, sentences, 3] each"""
    scores, counts = answer.tables["scores"].reset_index(drop=True), answer.arrays["counts"]
    own = (scores["encoder"] == "model") & ~scores["control"].astype(bool)
    found: dict[tuple[str, str, int], Floats] = {}
    for mode in ("lexical", "layer"):  # layer 0 is both
        some = scores[own & (scores["mode"] == mode)]
        for key, rows in some.groupby(["task", "stack", "layer"]):
            task, stack, layer = key
            own_counts = np.asarray(counts)[rows.index].astype(float)
            found.setdefault((str(task), str(stack), int(str(layer))), own_counts)
    return found


def _found(answer: Answer) -> pd.DataFrame:
    """Each layer's score, the mean over seeds."""
    means = answer.tables["means"]
    own = means[(means["encoder"] == "model") & means["mode"].isin(["lexical", "layer"])]
    own = own.drop_duplicates(["task", "stack", "layer"])  # layer 0 is both
    return own[["task", "stack", "layer", "metric", "mean"]].reset_index(drop=True)


# --- what to know ---------------------------------------------------------------------------------


def _fitting(words: int, width: int) -> Iterator[str]:
    if words < 2 * width:
        yield (
            f"{words:,} words for a width of {width:,}: with so few a rotation fits even what has "
            "nothing in common, in part, and Procrustes distances are too small."
        )


def _weights_left_out(weights: Moved) -> Iterator[str]:
    if names := weights.left_out:
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        yield (
            "Weights that only one of the two has, or in another shape, are left out: "
            f"{', '.join(names[:SHOWN])}{more}."
        )


# --- forgetting of the language model -------------------------------------------------------------
#
# What training has cost a model of its language: the loss on a corpus after, less that before.
#
# Both models are scored on the same texts by the objective they share, with the same pieces
# hidden where any are; intervals are over drawings of sentences, the same ones for both. Costs a
# pass of each model with logits.

SCORED_AT_ONCE = 512  # documents scored before it is told
COLUMNS = ["metric", "before", "after", "change", "lower", "upper", "n"]


def no_forgetting(before: Model, after: Model) -> str:
    """Why there are no losses to compare; "" where there are."""
    headless = [model.name for model in (before, after) if not model.objective]
    if headless:
        return (
            f"{' and '.join(dict.fromkeys(headless))} {'has' if len(headless) == 1 else 'have'} no "
            "language-model head with weights of its own, or none whose predictions can be "
            "measured: what was forgotten is not known."
        )
    if before.objective != after.objective:
        return (
            f"Before, the model is {before.objective}, and after, {after.objective}: their losses "
            "do not compare, and what was forgotten is not known."
        )
    return ""


def forgetting(
    before: Model, after: Model, batch: Batch, seed: int, progress: Progress
) -> pd.DataFrame:
    """Losses of both, and what has come to them."""
    old = _scored(before, batch, seed, lambda now: progress(now, 2 * len(batch), "losses"))
    new = _scored(
        after, batch, seed, lambda now: progress(len(batch) + now, 2 * len(batch), "losses")
    )
    objective = str(before.objective)
    told, told_new = measures(old, objective), measures(new, objective)
    prefix = next(iter(told)).removesuffix("loss")
    sums = np.concatenate([_sums(old, objective), _sums(new, objective)], axis=1)  # [texts, 8]
    rows = []
    for metric, of in _METRICS.items():
        name = f"{prefix}{metric}"
        first, second = told[name][0], told_new[name][0]
        lower, upper = interval(resampled(sums[None, None], _change(of), seed)[0])
        rows.append(
            (name, first, second, second - first, float(lower), float(upper), told[name][1])
        )
    return pd.DataFrame(rows, columns=COLUMNS)


def _scored(model: Model, batch: Batch, seed: int, told: Callable[[int], object]) -> Scores:
    parts = []
    for documents in chunks(range(len(batch)), SCORED_AT_ONCE):
        told(documents[0])
        parts.append(score(model, batch, documents, seed=seed))
    return joined(parts)


def _sums(scores: Scores, objective: str) -> Floats:
    """Nats, pieces, right ones and guesses of each text.  # [texts, 4]"""
    guesses = scores.pieces * (2 if objective == "bidirectional" else 1)
    parts = [scores.nats, scores.pieces, scores.right, guesses]
    return np.stack([np.asarray(part, dtype=np.float64) for part in parts], axis=1)


_METRICS: dict[str, Callable[[Floats], Floats]] = {  # of the sums of `_sums`
    "loss": mean,
    "perplexity": lambda sums: np.exp(np.minimum(mean(sums), 700)),
    "accuracy": lambda sums: mean(sums[..., 2:]),
}


def _change(of: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
    """Of both models' sums, side by side.  # [..., 8] -> [...]"""
    return lambda sums: of(sums[..., 4:]) - of(sums[..., :4])


# --- rewinding layers -----------------------------------------------------------------------------
#
# Which layers a fine-tuned model needs: each put back as it was before, and the task scored
# again.
#
# Zhang et al.'s re-initialisation (2019), with the weights that fine-tuning began from. It needs
# the head that was learnt, which a run of `finetune` keeps beside its model. Costs a pass over
# the texts a layer.


def head_for(folder: Path | None, docs: "Sequence[Doc]", after: Model) -> Head | None:
    """The head that was learnt with a model, if these texts have what it was learnt for."""
    if folder is None or not has_task(folder):
        return None
    head, _ = head_of(folder, after.device)
    return head if any(gold_of(doc, head.task) is not None for doc in docs) else None


def rewound(
    before: Model,
    after: Model,
    head: Head,
    examples: Examples,
    told: Callable[[int, int], object],
) -> pd.DataFrame:
    """The score with every layer put back alone, and with none and all of them."""
    body = body_of(after)
    old = before.named_weights()
    source = Live(body, examples.batch)
    whole = _score(body, head, source, examples)
    rows = [("none", -1, whole)]
    layers = sorted({body.depth(name) for name in body.weights})
    for number, layer in enumerate(layers):
        told(number, len(layers) + 1)
        names = [name for name in body.weights if body.depth(name) == layer]
        rows.append((body.stack, layer, _with(body, old, names, head, source, examples)))
    rows.append(("all", -1, _with(body, old, list(body.weights), head, source, examples)))
    table = pd.DataFrame(rows, columns=["stack", "layer", "value"])
    table.insert(2, "metric", head.task.metric)
    return table.assign(change=table["value"] - whole)


def _with(
    body: Body,
    old: Mapping[str, Tensor],
    names: Sequence[str],
    head: Head,
    source: Live,
    examples: Examples,
) -> float:
    """The score while these weights are what they were before."""
    there = [name for name in names if name in old and old[name].shape == body.weights[name].shape]
    kept = {name: body.weights[name].detach().clone() for name in there}
    with torch.no_grad():
        for name in there:
            body.weights[name].copy_(old[name])
        try:
            return _score(body, head, source, examples)
        finally:
            for name, value in kept.items():
                body.weights[name].copy_(value)


def _score(body: Body, head: Head, source: Live, examples: Examples) -> float:
    guesses = guessed(head, Fitting(body), source, examples)
    return metrics_of(head.task, examples, guesses)[head.task.metric].value()
