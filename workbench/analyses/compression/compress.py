"""The experiment `compress`: cut a model in every way and amount, and measure what is left.

One model after another is made, scored on held-out texts, saved, and measured in a new process next
to the original; then its folder is removed, unless it is the smallest so far that keeps enough of
the score. Orders and frequencies come from train texts, and methods that train learn the model's
own objective from them, all for the same steps; `training` is the model that was only trained.
Costs: a forward pass over the texts for each method, amount and order, a training for each that
trains, and `cost.costs` for each saved model.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch.utils.flop_counter import FlopCounterMode

from workbench.analyses.compression import cost
from workbench.analyses.compression.experiments import (
    BATCH,
    BIT_METHODS,
    BitsName,
    Compress,
    MethodName,
)
from workbench.analyses.compression.inside import inside
from workbench.analyses.compression.lost import lost
from workbench.analyses.compression.scores import Scored, of_model, same_pieces, scored
from workbench.analyses.pruning.evaluation import (
    Evaluation,
    TextScores,
    baseline,
    build_head_evaluation,
    caveats,
    not_better_caveat,
)
from workbench.core.arrays import Floats
from workbench.core.errors import WorkbenchError
from workbench.core.findings import percent
from workbench.core.stats import holm, prediction_p_value, ratio_intervals, sign_flip_p_values
from workbench.corpora import read
from workbench.corpora.encode import encode
from workbench.corpora.readers.tables import Pair, minimal_pairs
from workbench.engine.batch import Batch
from workbench.engine.task import objective_table
from workbench.experiment.definition import Caveat, Inputs, Progress, Result
from workbench.models.compression.embeddings import factorise_embeddings
from workbench.models.compression.in_training import prune_in_training, quantise_in_training
from workbench.models.compression.layers import cut_layers
from workbench.models.compression.neurons import cut_neurons
from workbench.models.compression.quantisation import quantise
from workbench.models.compression.rebuilding import Order
from workbench.models.compression.rounding import round_weights
from workbench.models.compression.vocabulary import cut_vocabulary
from workbench.models.compression.weights import matrices, prune_weights
from workbench.models.huggingface import HuggingFace
from workbench.models.scoring.eval_tasks import Plan, learn
from workbench.runs.model_card import size_on_disk

if TYPE_CHECKING:
    from spacy.tokens import Doc

PAIRS = "primer/acceptability"
ORIGINAL = "original"
TRAINING = "training"
CUT: tuple[MethodName, ...] = (
    "weights", "neurons", "layers", "vocabulary", "embeddings", "weights after training",
)  # fmt: skip
CUT_IN_TRAINING: tuple[MethodName, ...] = (
    "weights before training", "weights while training", "movement while training",
)  # fmt: skip
COMPARED: dict[str, str] = {  # methods that train, and what each is tested against
    "weights before training": "weights after training",
    "weights while training": "weights after training",
    "movement while training": "weights while training",
    "bits while training": "bits after training",
}
RANDOM_IN_TRAINING: dict[MethodName, int] = {  # maximum number of random orders
    "weights before training": 2, "weights while training": 2,
    "movement while training": 0,  # without scores it is the method before
}  # fmt: skip
BITS: dict[BitsName, dict[str, Any]] = {
    "8": {},
    "8 with activations": {"activations": True},
    "8 per tensor": {"per": "tensor"},
    "4": {"bits": 4},
    "4 per tensor": {"bits": 4, "per": "tensor"},
}
CHOSEN_ON = 200  # train texts that show the influence of layers and the frequency of pieces


@dataclass(frozen=True)
class Point:
    """One way to make a smaller model."""

    method: str
    share: float = 0.0  # that is removed, of all but bits
    bits: BitsName | None = None
    order: Order = "best"
    seed: int = 0

    @property
    def keys(self) -> dict[str, str]:
        parts = [percent(self.share)] if self.share else []
        if self.bits:
            number, _, how = self.bits.partition(" ")
            parts.append(f"{number} bits {how}".strip())
        return {"method": self.method, "amount": ", ".join(parts) or "all"}


@dataclass
class Bench:
    """What all models are measured with."""

    inputs: Inputs
    settings: Compress
    held_out: Evaluation
    docs: "Sequence[Doc]"
    pairs: Sequence[Pair]
    chosen_on: Batch
    folder: Path
    train: Evaluation | None = None  # the texts of methods that train
    original: Scored = field(init=False)
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def whole(self) -> HuggingFace:
        return self.held_out.model

    def teach(self, model: HuggingFace, each_step: Callable[[int], object]) -> None:
        """Train a model in place on its own objective."""
        if self.train is None:
            raise WorkbenchError(
                "methods that train need train texts, and there are none.",
                code="text-missing",
                remedy="Choose a corpus with a train split, or methods that do not train.",
            )
        settings, texts = self.settings, self.train.batch
        plan = Plan(settings.training_steps, settings.learning_rate, BATCH, self.inputs.seed)
        learn(model, self.train.aim, texts, range(len(texts)), plan, each_step=each_step)

    @cached_property
    def trained(self) -> HuggingFace:
        """The whole model after as much training as that of the methods that train."""
        twin = self.whole.copy(in_fp32=True)
        self.teach(twin, lambda done: None)
        return twin

    @property
    def metric(self) -> str:
        aim = self.held_out.aim
        return aim.metrics[0 if aim.task.is_language_model else 1]


@dataclass
class Measured:
    """A model that was made, and what was measured of it."""

    point: Point
    texts: TextScores
    parameters: int
    nonzero: int
    operations: float  # millions per text
    disk: float = 0.0  # MiB; 0: not saved
    random_weights: float = np.nan
    cost: dict[str, Any] = field(default_factory=dict)
    lost: list[dict[str, Any]] = field(default_factory=list)


def run(inputs: Inputs, settings: Compress, progress: Progress) -> Result:
    """Compute the tables of `compress`, and save the smallest model that keeps enough."""
    parts = settings.parts(inputs, max(CHOSEN_ON, settings.texts_to_train_on))
    held_out, train = (
        build_head_evaluation(inputs.model, docs, settings.label, inputs.seed, inputs.corpus.name)
        for docs in (parts.test, parts.train)
    )
    pairs: list[Pair] = []
    if held_out.aim.task.is_language_model and settings.max_pairs:
        found = minimal_pairs(read(PAIRS).docs("test"))
        pairs = [pair for _, pair in zip(range(settings.max_pairs), found, strict=False)]
    with tempfile.TemporaryDirectory(dir=inputs.scratch) as folder:
        bench = Bench(
            inputs, settings, held_out, parts.test, pairs, encode(parts.train[:CHOSEN_ON]),
            Path(folder), train,
        )  # fmt: skip
        bench.original = scored(held_out, parts.test, pairs)
        rows = _measured(bench, progress)
        layers = _each_layer(bench, progress) if {*BIT_METHODS} & {*settings.methods} else []
        looked_into = pd.DataFrame()
        if (kept := bench.folder / "kept").is_dir() and inputs.keep is not None:
            shutil.copytree(kept, inputs.keep, dirs_exist_ok=True)
            if settings.inside:
                looked_into = inside(inputs, inputs.keep, progress)
    trivial = baseline(held_out, bench.original.texts, inputs.seed)
    tables = {
        "points": _points(bench, rows),
        "orders": _orders(bench, rows),
        "training": _training(bench, rows),
        "cost": pd.DataFrame(
            cost.judged_together(
                [
                    {**row.point.keys, "texts": int(size), **values}
                    for row in rows
                    for size, values in row.cost.items()
                ]
            )
        ),
        "lost": pd.DataFrame(
            [{**row.point.keys, **each} for row in rows for each in row.lost]
        ),
        "inside": looked_into,
        "layers": pd.DataFrame(layers),
        "left_out": pd.DataFrame(
            [{"method": name, "why": why} for name, why in bench.left_out.items()]
        ),
        "baseline": trivial,
        "objective": objective_table(held_out.aim.task),
    }  # fmt: skip
    tables = {name: table for name, table in tables.items() if len(table)}
    notes = [
        *caveats(held_out, len(parts.test), parts.notes), *not_better_caveat(trivial),
        *_caveats(bench, rows),
    ]  # fmt: skip
    return Result(tables, caveats=tuple(notes))


# --- making and measuring models ------------------------------------------------------------------


def points_of(settings: Compress) -> Iterator[Point]:
    """Every model that is made, those in random and reversed orders after the others."""
    cut = [name for name in (*CUT, *CUT_IN_TRAINING) if name in settings.methods]
    for name in cut:
        yield from (Point(name, share) for share in settings.amounts)
    for of_bits in [name for name in BIT_METHODS if name in settings.methods]:
        has_all = of_bits != "bits"  # torchao has no matrix of 4 bits with one scale
        bits = [each for each in settings.bits if has_all or each != "4 per tensor"]
        yield from (Point(of_bits, bits=each) for each in bits)
        for name in ("neurons", "layers") if settings.combined else ():
            if name in cut and of_bits != "bits after training":
                chosen = bits[0 if of_bits == "bits" else -1]
                combined = f"{name} and {of_bits}"
                yield from (Point(combined, share, chosen) for share in settings.amounts)
    for name in cut:
        n_random = min(settings.random_orders, RANDOM_IN_TRAINING.get(name, settings.random_orders))
        for share in settings.amounts:
            if name not in CUT_IN_TRAINING:
                yield Point(name, share, order="reversed")
            yield from (Point(name, share, order="random", seed=seed) for seed in range(n_random))


def made(bench: Bench, point: Point) -> HuggingFace:
    """The model of a point."""
    model, texts = bench.whole, bench.chosen_on
    more: dict[str, Any] = {"order": point.order, "seed": point.seed}
    bits = BITS[point.bits] if point.bits else {}
    steps = bench.settings.training_steps

    def pruned(one: HuggingFace, **how: Any) -> HuggingFace:
        return prune_in_training(one, point.share, bench.teach, steps, **more, **how)

    ways: dict[str, Callable[[HuggingFace], HuggingFace]] = {
        "weights": lambda one: prune_weights(one, point.share, **more),
        "neurons": lambda one: cut_neurons(one, point.share, **more),
        "layers": lambda one: cut_layers(one, point.share, texts=texts, **more),
        "vocabulary": lambda one: cut_vocabulary(one, point.share, texts=texts, **more),
        "embeddings": lambda one: factorise_embeddings(one, point.share, **more),
        "weights before training": lambda one: pruned(one, when="before"),
        "weights while training": pruned,
        "weights after training": lambda one: prune_weights(bench.trained, point.share, **more),
        "movement while training": lambda one: pruned(one, by="movement"),
        TRAINING: lambda one: bench.trained,
        "bits": lambda one: quantise(one, **bits),
        "packed bits": lambda one: round_weights(one, texts=texts, **bits),
        "bits after training": lambda one: round_weights(bench.trained, texts=texts, **bits),
        "bits while training": lambda one: quantise_in_training(one, bench.teach, **bits),
    }
    for name in point.method.split(" and "):
        model = ways[name](model)
    return model


def _measured(bench: Bench, progress: Progress) -> list[Measured]:
    """The original first, then every model that can be made."""
    settings = bench.settings
    original = bench.folder / ORIGINAL
    bench.whole.save(original)
    texts = bench.original.texts
    rows = [
        Measured(
            Point(ORIGINAL), texts, bench.whole.parameters, _nonzero(bench.whole),
            _operations(bench, bench.whole), size_on_disk(original),
        )
    ]  # fmt: skip
    rows[0].random_weights = _random_weights(bench, bench.whole)
    smallest = np.inf
    points = [*[Point(TRAINING)] * settings.trains, *points_of(settings)]
    for done, point in enumerate(points):
        progress(done, len(points), f"measuring models: {' '.join(point.keys.values())}")
        if bench.left_out.keys() & {point.method, *point.method.split(" and ")}:
            continue
        try:
            model = made(bench, point)
        except WorkbenchError as error:
            bench.left_out[point.method] = str(error.what)
            continue
        row = _scored_row(bench, point, model)
        if row is None:
            bench.left_out[f"{point.method}, {point.keys['amount']}"] = (
                "Texts are split into other pieces, and losses per piece cannot be compared."
            )
            continue
        rows.append(row)
        if point.order != "best":
            continue
        folder = bench.folder / "smaller"
        model.save(folder)
        row.disk = size_on_disk(folder)
        row.random_weights = _random_weights(bench, model)
        if settings.rounds:
            row.cost = cost.measured(
                bench.docs, (original, folder), settings.rounds, str(bench.whole.device),
                bench.inputs.seed,
            )  # fmt: skip
        if row.disk < min(smallest, rows[0].disk) and _kept(bench, row.texts) >= settings.keep:
            smallest = row.disk
            shutil.rmtree(bench.folder / "kept", ignore_errors=True)
            folder.rename(bench.folder / "kept")
        shutil.rmtree(folder, ignore_errors=True)
    return rows


def _scored_row(bench: Bench, point: Point, model: HuggingFace) -> Measured | None:
    """The scores of a model; None where its losses are of other pieces than the original's."""
    is_recut = point.method == "vocabulary"
    evaluation = of_model(bench.held_out, model, is_recut)
    if (
        is_recut
        and bench.held_out.aim.task.is_language_model
        and not same_pieces(bench.held_out, evaluation)
    ):
        return None
    is_best = point.order == "best"
    found = scored(evaluation, bench.docs, bench.pairs if is_best else ())
    operations = _operations(bench, model) if is_best else np.nan
    row = Measured(point, found.texts, model.parameters, _nonzero(model), operations)
    if is_best:
        row.lost = lost(bench.original.items, found.items, bench.inputs.seed)
    return row


def _random_weights(bench: Bench, model: HuggingFace) -> float:
    """The measure of a model of the same size with random weights."""
    random = model.reinitialised(bench.inputs.seed)
    random.task_head = model.task_head
    recut = model.tokenizer is not bench.whole.tokenizer
    evaluation = of_model(bench.held_out, random, recut)
    return evaluation.scored().value(bench.metric)


def _nonzero(model: HuggingFace) -> int:
    zeros = sum(int((getattr(*each) == 0).sum()) for each in matrices(model) if _is_plain(*each))
    return model.parameters - zeros


def _is_plain(module: Any, name: str) -> bool:
    return type(getattr(module, name)) is torch.nn.Parameter


def _operations(bench: Bench, model: HuggingFace) -> float:
    """Millions of multiplications and additions per text; with fewer bits there are as many."""
    if not all(_is_plain(*each) for each in matrices(model)):
        return float("nan")
    few = encode(bench.docs[: cost.SIZES[-1]])
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        pieces = model.encode(few).to(model.device)
        model.forward(pieces, hidden=False, logits=True)
    return float(counter.get_total_flops() / len(few) / 1e6)


def _each_layer(bench: Bench, progress: Progress) -> list[dict[str, Any]]:
    """The change of the measure when one layer alone is in 4 bits."""
    rows, differences = [], []
    number = bench.original.texts.number
    layers = max(stack.layers for stack in bench.whole.stacks)
    for layer in range(layers):
        progress(layer, layers, "measuring layers in 4 bits")
        model = round_weights(bench.whole, 4, layer=layer)
        found = scored(of_model(bench.held_out, model, False), bench.docs).texts
        differences.append(found.part(bench.metric) - bench.original.texts.part(bench.metric))
        rows.append({"stack": "all" if bench.whole.two_sided else bench.whole.stacks[0].name,
                     "layer": layer + 1})  # fmt: skip
    changes = np.stack(differences, 1)
    lower, upper = ratio_intervals(changes, number, bench.inputs.seed)
    p = holm([float(sign_flip_p_values(changes[:, [n]], bench.inputs.seed)[0])
              for n in range(layers)])  # fmt: skip
    return [
        {**row, "metric": bench.metric, "change": changes[:, n].sum() / number.sum(),
         "lower": lower[n], "upper": upper[n], "p": p[n]}
        for n, row in enumerate(rows)
    ]  # fmt: skip


# --- tables ---------------------------------------------------------------------------------------


def _kept(bench: Bench, texts: TextScores) -> float:
    """The share of the original's score that is left."""
    before, after = (each.value(bench.metric) for each in (bench.original.texts, texts))
    first, second = (after, before) if bench.metric == "loss" else (before, after)
    return second / first if first > 0 else 0.0


def _points(bench: Bench, rows: Sequence[Measured]) -> pd.DataFrame:
    metric, seed = bench.metric, bench.inputs.seed
    whole = bench.original.texts
    values = np.stack([row.texts.part(metric) for row in rows], 1)
    changes = values - whole.part(metric)[:, None]
    (low, high), (lower, upper) = (
        ratio_intervals(each, whole.number, seed) for each in (values, changes)
    )
    p = holm([float(sign_flip_p_values(changes[:, [n]], seed)[0]) for n in range(len(rows))])
    front = _front(bench, rows)
    operations = {
        (row.point.method, row.point.share): row.operations
        for row in rows
        if row.point.order == "best"
    }
    table = []
    for n, row in enumerate(rows):
        source = (row.point.method.removesuffix(" and bits").replace("bits", ORIGINAL),
                  row.point.share)  # fmt: skip
        table.append(
            {
                **row.point.keys, "order": row.point.order, "seed": row.point.seed,
                "metric": metric, "value": row.texts.value(metric), "value_lower": low[n],
                "value_upper": high[n], "change": changes[:, n].sum() / whole.number.sum(),
                "lower": lower[n], "upper": upper[n], "p": p[n],
                "kept": _kept(bench, row.texts), "n": len(whole.number),
                "parameters": row.parameters,
                "nonzero": row.nonzero / rows[0].parameters, "disk": row.disk or np.nan,
                "operations": (
                    operations.get(source, np.nan) if np.isnan(row.operations) else row.operations
                ),
                "random_weights": row.random_weights, "front": front[n],
                "needed": bench.settings.keep,
            }
        )  # fmt: skip
    return pd.DataFrame(table)


def _front(bench: Bench, rows: Sequence[Measured]) -> list[bool]:
    """Which saved models no other one beats in both bytes and the measure."""
    sign = -1 if bench.metric == "loss" else 1
    sizes = [(row.disk or np.inf, -sign * row.texts.value(bench.metric)) for row in rows]
    return [
        np.isfinite(size) and not any(
            other != (size, worse) and other[0] <= size and other[1] <= worse for other in sizes
        )
        for size, worse in sizes
    ]  # fmt: skip


def _orders(bench: Bench, rows: Sequence[Measured]) -> pd.DataFrame:
    """Each order's value against those of random orders of the same method and amount."""
    sign = 1 if bench.metric == "loss" else -1
    values: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for row in rows:
        if row.point.method in (*CUT, *CUT_IN_TRAINING):
            own = values.setdefault(tuple(row.point.keys.values()), {})
            own.setdefault(row.point.order, []).append(row.texts.value(bench.metric))
    table: list[dict[str, Any]] = []
    for (method, amount), own in values.items():
        if "best" not in own or len(own) == 1:
            continue
        random: Floats = np.array(own.get("random", []))
        table.append(
            {
                "method": method, "amount": amount, "metric": bench.metric,
                "value": own["best"][0],
                "random": random.mean() if len(random) else np.nan,
                "reversed": own["reversed"][0] if "reversed" in own else np.nan,
                "random_orders": len(random),
                "p": prediction_p_value(sign * own["best"][0], sign * random),
            }
        )  # fmt: skip
    for each, p in zip(table, holm([each["p"] for each in table]), strict=True):
        each["p"] = p
    return pd.DataFrame(table)


def _training(bench: Bench, rows: Sequence[Measured]) -> pd.DataFrame:
    """Methods that train against others of the same amount, text by text."""
    texts = {
        (row.point.method, row.point.keys["amount"]): row.texts
        for row in rows
        if row.point.order == "best"
    }
    metric, seed = bench.metric, bench.inputs.seed
    pairs = [
        ((method, amount), (against, amount))
        for method, amount in texts
        if (against := COMPARED.get(method)) and (against, amount) in texts
    ]
    if not pairs:
        return pd.DataFrame()
    table = [
        {"method": one[0], "amount": one[1], "against": other[0], "metric": metric,
         "value": texts[one].value(metric), "other": texts[other].value(metric)}
        for one, other in pairs
    ]  # fmt: skip
    changes = [texts[one].part(metric) - texts[other].part(metric) for one, other in pairs]
    differences: Floats = np.stack(changes, 1)  # [texts, pairs]
    lower, upper = ratio_intervals(differences, bench.original.texts.number, seed)
    p = holm([float(sign_flip_p_values(differences[:, [n]], seed)[0]) for n in range(len(table))])
    sign = -1 if metric == "loss" else 1
    return pd.DataFrame(table).assign(
        difference=lambda each: each["value"] - each["other"], lower=lower, upper=upper, p=p,
        better=lambda each: sign * each["difference"] > 0,
    )  # fmt: skip


def _caveats(bench: Bench, rows: Sequence[Measured]) -> Iterator[Caveat]:
    methods = {row.point.method for row in rows}
    if any("weights" in each or "movement" in each for each in methods):
        yield Caveat(
            "Weights that are set to zero stay in their matrices: the model is neither smaller on "
            "disk nor faster.", ("points", "cost"),
        )  # fmt: skip
    if any("packed" in each or "embeddings" in each or ("training" in each and "bits" in each)
           for each in methods):  # fmt: skip
        yield Caveat(
            "Packed weights, and embeddings of a low rank, are written out when a model is opened: "
            "it takes less disk, but as much memory and time, and plain transformers does not open "
            "it.", ("points", "cost"),
        )  # fmt: skip
    if TRAINING in methods:
        yield Caveat(
            f"Methods that train take {bench.settings.training_steps:,} steps on "
            f"{len(bench.docs if bench.train is None else bench.train.batch):,} texts: compare "
            "them with the row training, not with the original.", ("points", "training"),
        )  # fmt: skip
    if any(row.point.bits == "4" and row.point.method.endswith("bits") and
           "packed" not in row.point.method for row in rows):  # fmt: skip
        yield Caveat(
            "torchao stores numbers of 4 bits in a byte each on a CPU: 4 bits take no less disk "
            "than 8.", ("points", "cost"),
        )  # fmt: skip
    for name, why in bench.left_out.items():
        yield Caveat(f"{name}: left out. {why}", ("points",))
