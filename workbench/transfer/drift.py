"""What training has changed in a model, and where: the experiment `drift`.

A model before and after, layer by layer: its states (debiased CKA, Procrustes), its weights, where
its heads look, what it has forgotten; and, where asked, what heads are called and what probes find,
each by the experiment that tells it, as a run of its own. Costs two passes of each model for states
and attention, one for losses, and what `similarity` of the two costs; `probe` costs two edge
probings.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from pydantic import Field

from workbench.bootstrap import Floats, interval, p_value, resampled
from workbench.experiment import (
    Answer,
    Caveat,
    Experiment,
    Inputs,
    Progress,
    Result,
    Settings,
    Table,
    few_sentences,
)
from workbench.transfer.attention_change import HEAD, attention_change, heads, same_pieces
from workbench.transfer.examples import scored_of
from workbench.transfer.forgetting import forgetting, no_forgetting
from workbench.transfer.rewinding import head_for, rewound
from workbench.transfer.similarity import (
    SIMILARITY_TABLE,
    read,
    similarity,
    stack_caveats,
    word_caveats,
)
from workbench.transfer.weight_change import Moved, moved, require_same, same_vocabulary
from workbench.transfer.word_states import Layer, every_pair, layer_by_layer, words_of

SCORES = (
    "offset_share", "relation_accuracy", "rare_share", "confidence", "entropy", "distance",
    "special_mass",
)  # fmt: skip
SHOWN = 5  # names in a caveat


class Drift(Settings):
    """What is compared."""

    limit: int | None = Field(300, ge=1, description="Sentences at most; all where none is said.")
    words: int = Field(
        20_000,
        ge=10,
        le=10_000_000,
        description="Words whose states are compared at most, drawn by the seed.",
    )
    roles: bool = Field(False, description="Also ask heads of both: what each head does.")
    probe: bool = Field(
        False, description="Also ask edge-probing of both: what each layer knows. Takes minutes."
    )
    tasks: tuple[str, ...] = Field(
        (), description="Tasks to probe for; all that the corpus has where none is named."
    )
    max_train: int | None = Field(
        1000, ge=1, description="Maximum number of sentences that probes train on (default 1,000)."
    )
    max_dev: int | None = Field(
        1000, ge=1, description="Maximum number of sentences that stop probes (default 1,000)."
    )
    max_test: int | None = Field(
        1000,
        ge=1,
        description="Maximum number of sentences that probes are scored on (default 1,000).",
    )


TABLES = {
    "drift": Table(
        "Each layer before and after; layer 0 are the embeddings. cka: 1 is the same up to "
        "rotation, scale and shift; procrustes: 0 is. weight_distance: ‖after - before‖ / "
        "‖before‖. attention_js: mean of the layer's heads, in bits. probing_delta: mean of the "
        "tasks. Empty where there is none: layer 0 has no attention, layers may share weights, "
        "probes may not have been asked.",
        ("stack", "layer"),
    ),
    "modules": Table(
        "How far each module's weights moved, weight and bias together; layer -1: what belongs to "
        "no layer, such as a head. Shared weights are told once, where they come first.",
        ("stack", "layer", "module"),
        ("norm_before", "parameters"),
    ),
    "heads": Table(
        "How differently each head looks: mean Jensen-Shannon divergence in bits of its rows "
        "before and after, over `n` pieces of the text; special pieces are looked at but not "
        "asked. Layers of heads count from 0, so that layer 0 here is in layer 1 of `drift`. "
        "lower, upper: the middle 95 % of drawings of sentences. Roles and changes of scores are "
        "those of `heads`.",
        tuple(HEAD),
    ),
    "losses": Table(
        "Forgetting: each model's loss on the corpus (nats a piece), and the change, with the "
        "middle 95 % of drawings of sentences; `n` pieces or guesses.",
        ("metric",),
    ),
    "probing": Table(
        "What the same probes, with the same seeds, scored in each layer; delta with its 95 % "
        "interval and p-value, uncorrected (sentences and seeds drawn again, the same for both).",
        ("task", "stack", "layer"),
    ),
    "rewound": Table(
        "The score on the task that the second model was fine-tuned for, with each layer's weights "
        "put back as they were before; with none and with all of them. The texts are of the part "
        "that finetune scores with the same seed. Only where its run kept its head and the corpus "
        "has the label.",
        ("stack", "layer", "metric"),
    ),
    "similarity": SIMILARITY_TABLE,
}


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
            inputs.corpus, head.task, inputs.split, inputs.seed, settings.limit
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
    if not same_vocabulary(before, after):
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
    return Result({name: tables[name] for name in TABLES if name in tables}, caveats=tuple(caveats))


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
    asked = {"limit": settings.limit}
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
        "limit": None,
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
        _paired(old[layer], new[layer], inputs.seed)
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


def _paired(old: Floats, new: Floats, seed: int) -> tuple[float, float, float]:
    """Interval and p-value of the change of micro-F1.  # [seeds, sentences, 3] twice"""
    draws = resampled(np.stack([old, new]), _f1, seed)  # [2, draws]
    change = draws[1] - draws[0]
    lower, upper = interval(change)
    return float(lower), float(upper), float(p_value(change))


def _f1(sums: Floats) -> Floats:
    """2 · right / (said + there).  # [..., 3] -> [...]"""
    found: Floats = 2 * sums[..., 0] / np.maximum(sums[..., 1] + sums[..., 2], 1)
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


EXPERIMENT = Experiment(
    name="drift",
    about="What training has changed in a model, layer by layer: states, weights, attention, "
    "forgetting.",
    settings=Drift,
    run=run,
    version=3,
    exact_up_to=math.inf,
    tables=TABLES,
    models=(2, 2),
    split="held-out",
    figures="workbench.view.transfer_drift:DRIFT",
)
