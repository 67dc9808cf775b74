"""What can be asked by probes: edge probing, description length, structural and attention probes.

Names, settings and tables alone, so that experiments are listed without torch. Costs nothing; the
code is imported when it is first run.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator

from workbench.core.experiment import HEADS, Experiment, Table
from workbench.core.splits import SplitSettings


def _seeds(seeds: tuple[int, ...]) -> tuple[int, ...]:
    """Each once, and none that a random generator cannot take."""
    if seeds and (min(seeds) < 0 or max(seeds) >= 1 << 32):
        raise ValueError("seeds are whole numbers from 0 to 4294967295")
    return tuple(dict.fromkeys(seeds))


Seeds = Annotated[tuple[int, ...], AfterValidator(_seeds)]
Halves = Annotated[
    bool,
    Field(
        description="Also train on half of the sentences, to see whether more would help "
        "(default: on)."
    ),
]


# --- edge-probing ---------------------------------------------------------------------------------

KindName = Literal["edge", "linear", "mlp"]
Mode = Literal["lexical", "top", "layer", "mix", "cumulative"]
LossName = Literal["auto", "softmax", "sigmoid"]
PresetName = Literal["quick", "standard", "full"]
FARTHEST = 10  # words to either side of a convolution


@dataclass(frozen=True)
class Effort:
    """How much is trained."""

    targets: int | None  # of a task, to train on at most; None for all
    seeds: tuple[int, ...]
    epochs: int  # maximum
    patience: int  # epochs without gain before a probe stops
    steps: int  # an epoch, about, where targets are few


PRESETS: dict[PresetName, Effort] = {
    "quick": Effort(targets=300, seeds=(0,), epochs=15, patience=3, steps=32),
    "standard": Effort(targets=1500, seeds=(0,), epochs=60, patience=4, steps=32),
    "full": Effort(targets=None, seeds=(0, 1, 2), epochs=200, patience=8, steps=48),
}


class EdgeProbing(SplitSettings):
    """Which probes are trained, on what, and for how long."""

    preset: PresetName = Field(
        "standard",
        description="Targets, seeds, epochs and patience together. quick: 300 targets, one seed, "
        "15 epochs, marked as rough; standard: 1,500 targets, one seed, 60 epochs, so intervals "
        "are over sentences; full: every target, three seeds, 200 epochs. The run logs its "
        "estimated time before it trains.",
    )
    tasks: tuple[str, ...] = Field(
        (), description="Tasks, by name or by the corpus' layer (default: all the corpus has)."
    )
    probes: tuple[KindName, ...] = Field(
        ("edge",), min_length=1, description="Kinds of probe: edge (Tenney's), linear, mlp."
    )
    modes: tuple[Mode, ...] = Field(
        ("lexical", "top", "layer", "mix", "cumulative"),
        min_length=1,
        description="What a probe reads: layer 0, the last layer, each layer, a mix of all, mixes "
        "up to each layer.",
    )
    loss: LossName = Field(
        "auto",
        description="softmax: cross-entropy, the likeliest label is predicted; sigmoid: the "
        "paper's own, every label with a logit of at least 0; auto: softmax where each target has "
        "one label.",
    )
    seeds: Seeds = Field(
        (), description="Seeds; each trains every probe again (default: the preset's)."
    )
    controls: bool = Field(
        True, description="Also probe each layer for labels drawn by word type (selectivity)."
    )
    targets: int | None = Field(
        None,
        ge=1,
        description="Maximum number of targets of a task to train on (default: the preset's).",
    )
    halves: bool = Field(
        True,
        description="Also train each layer on half of its targets: whether more data would change "
        "the curve.",
    )
    shares: tuple[float, ...] = Field(
        (1.0,), min_length=1, description="Shares of the targets, for learning curves."
    )
    hidden: int = Field(256, ge=1, le=8192, description="Width of the edge probe and of the MLP.")
    rate: float = Field(
        4e-3,
        gt=0,
        le=1,
        description="Learning rate, halved when half of the patience has brought no gain.",
    )
    batch: int = Field(
        512,
        ge=1,
        le=65_536,
        description="Maximum number of targets in a step; fewer where there are few.",
    )
    epochs: int | None = Field(
        None, ge=1, le=1000, description="Maximum number of epochs (default: the preset's)."
    )
    patience: int | None = Field(
        None,
        ge=1,
        description="Epochs without gain before a probe stops (default: the preset's).",
    )
    random: bool = Field(True, description="Also probe the model with random weights.")
    vectors: str = Field(
        "", description="File of static vectors for a baseline (default: counted from train)."
    )
    windows: tuple[int, ...] = Field(
        (), description="Also a convolution over layer 0, this many words to either side."
    )
    preview: bool = Field(
        False, description="Closed-form ridge probes of each layer instead: seconds, and rougher."
    )
    predictions: bool = Field(False, description="Keep every answer of every layer, in a table.")

    @property
    def effort(self) -> Effort:
        """The preset, with what is set apart from it."""
        preset = PRESETS[self.preset]
        return Effort(
            preset.targets if self.targets is None else self.targets,
            self.seeds or preset.seeds,
            preset.epochs if self.epochs is None else self.epochs,
            preset.patience if self.patience is None else self.patience,
            preset.steps,
        )

    @field_validator("shares")
    @classmethod
    def _shares(cls, shares: tuple[float, ...]) -> tuple[float, ...]:
        if not all(0 < share <= 1 for share in shares):
            raise ValueError("shares are above 0, and 1 at most")
        return tuple(sorted(set(shares)))

    @field_validator("windows")
    @classmethod
    def _windows(cls, windows: tuple[int, ...]) -> tuple[int, ...]:
        if not all(1 <= words <= FARTHEST for words in windows):
            raise ValueError(f"windows are of 1 to {FARTHEST} words to either side")
        return tuple(sorted(set(windows)))


EDGE_KEYS = ("task", "probe", "encoder", "mode", "stack", "layer", "share", "control")
EDGE_TABLES = {
    "scores": Table(
        "What each probe scored; `layer` is the last one it reads. A control task's labels are "
        "drawn by word type.",
        (*EDGE_KEYS, "seed", "split", "metric"),
    ),
    "means": Table(
        "Means over seeds with 95 % intervals (sentences and seeds drawn again), and the gain over "
        "the layer below with its p-value. converged: dev stopped every seed (a linear probe is at "
        "its optimum); learnt: the score is at least that of the majority baseline and of the "
        "probe's own control task.",
        (*EDGE_KEYS, "metric"),
    ),
    "summary": Table(
        "Where each task is found: centre of gravity of the mix, expected layer of the cumulative "
        "curve (empty where it does not rise), the best layer, and its baselines. "
        "baseline_majority always predicts the most frequent label that is scored. data_gain: the "
        "most that a layer gains from the second half of the targets; over 2 points, more data "
        "would change the curve (enough_data is false).",
        ("task", "probe", "stack"),
    ),
    "halves": Table(
        "F1 of the model's layers with half of the training targets and with all of them.",
        ("task", "probe", "stack", "mode", "layer"),
    ),
    "per_label": Table(
        "Each label at each layer, seeds together; `n` are the gold ones.",
        ("task", "probe", "stack", "mode", "layer", "label"),
    ),
    "mix": Table(
        "How much each layer counts in the learnt mix of all.",
        ("task", "probe", "stack", "seed", "layer"),
    ),
    "confusion": Table(
        "Which label was taken for which, of tasks with one label a target; seeds together.",
        ("task", "probe", "stack", "mode", "layer", "gold", "predicted"),
    ),
    "gains": Table(
        "Targets that a layer gets right and the layer below it wrong; spans are characters of "
        "the text.",
        ("task", "probe", "stack", "layer", "target"),
    ),
    "tasks": Table("What each task asks, and of how many targets.", ("task",)),
    "predictions": Table(
        "Every answer of the first seed, target by target.",
        ("task", "probe", "stack", "layer", "target"),
    ),
}  # fmt: skip

EDGE_PROBING = Experiment(
    name="edge-probing",
    about="What each layer knows: probes of every layer and task, with controls and baselines.",
    settings=EdgeProbing,
    run="probes.edge_probing:run",
    tables=EDGE_TABLES,
    fits="probes.edge_probing:fits",
    version=3,
    figures="workbench.figures.probing:FIGURES",
)


# --- description-length ---------------------------------------------------------------------------

Code = Literal["online", "variational"]
PORTIONS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.25, 12.5, 25.0, 50.0, 100.0)  # per cent


class DescriptionLength(SplitSettings):
    """What is sent, and how."""

    tasks: tuple[str, ...] = Field(
        (), description="Tasks, by name or by the corpus' layer; all it has where none is named."
    )
    codes: tuple[Code, ...] = Field(
        ("online", "variational"),
        min_length=1,
        description="online: block by block, each by a probe of those before it; variational: a "
        "Bayesian probe and then the labels.",
    )
    probe: Literal["mlp", "linear"] = Field("mlp", description="One hidden layer, or none.")
    hidden: int = Field(64, ge=1, le=8192, description="Width of the hidden layer.")
    seeds: Seeds = Field(
        (0,), min_length=1, description="Each draws the order of the targets and the probes anew."
    )
    controls: bool = Field(True, description="Also send labels drawn by word type.")
    targets: int = Field(
        1500, ge=1, description="Targets of a task to send at most, drawn by the run's seed."
    )
    portions: tuple[float, ...] = Field(
        PORTIONS,
        min_length=1,
        description="Where blocks of the online code end, in per cent of the targets. All are sent "
        "in any case; empty blocks are merged.",
    )
    unit: Literal["bits", "paper"] = Field(
        "bits",
        description="bits throughout, or as the paper's released code adds up: what a probe costs "
        "in nats, to the uniform code in bits.",
    )
    rate: float = Field(3e-3, gt=0, le=1, description="Learning rate of the online code's probes.")
    epochs: int = Field(
        60,
        ge=1,
        le=1000,
        description="Maximum number of epochs of each, until it codes dev no better; the best one "
        "is kept.",
    )
    steps: int = Field(
        400,
        ge=1,
        le=1_000_000,
        description="Steps of the variational code's probes, of 256 targets; more find a shorter "
        "code.",
    )

    @field_validator("portions")
    @classmethod
    def _portions(cls, portions: tuple[float, ...]) -> tuple[float, ...]:
        if not all(0 < portion <= 100 for portion in portions):
            raise ValueError("portions are above 0, and 100 at most")
        return portions


CODE_KEYS = ("task", "probe", "code", "encoder", "stack", "layer", "control")
CODE_TABLES = {
    "codes": Table(
        "The length of each code. `uniform_bits` is that of sending labels of which nothing is "
        "known: log2 of their number a target, or a bit a label where a target may have several; "
        "`compression` how often the code goes into it. `divergence_bits` is what the Bayesian "
        "probe itself costs. `final_accuracy` is the share of test targets (2,000 at most) that "
        "the last probe gets wholly right. `converged`: dev stopped the last probe of the online "
        "code; empty for the variational code, which takes `steps` steps.",
        (*CODE_KEYS, "seed"),
    ),
    "portions": Table(
        "The online code block by block: the share of targets sent with it and before it, how many "
        "are in it, and its length.",
        ("task", "probe", "encoder", "stack", "layer", "control", "seed", "portion"),
    ),
    "summary": Table(
        "The layer that compresses most, with a 95 % interval (sentences and seeds drawn again), "
        "and the compression of its baselines; baseline_frequency knows how often each label came "
        "so far and nothing of the states; control_compression is of that layer. learnt: the layer "
        "compresses at least as well as both.",
        ("task", "probe", "code", "stack"),
    ),
}  # fmt: skip

DESCRIPTION_LENGTH = Experiment(
    name="description-length",
    about="In how few bits the labels of each task can be sent, given a layer: how hard they are.",
    settings=DescriptionLength,
    run="probes.description_length:run",
    tables=CODE_TABLES,
    fits="probes.description_length:fits",
    version=2,
    figures="workbench.figures.probing:DESCRIPTION_LENGTH_FIGURES",
)


# --- structural-probe -----------------------------------------------------------------------------

TreeTask = Literal["distance", "depth"]


class StructuralProbe(SplitSettings):
    """What is learnt, and from how much."""

    rank: int | None = Field(
        64,
        ge=1,
        description="Dimensions that the map leaves, never more than the model's width; empty for "
        "the width. The paper gains nothing beyond 64.",
    )
    seeds: Seeds = Field(
        (0, 1, 2),
        min_length=1,
        description="Seeds, each of which trains every probe (default 0 1 2).",
    )
    halves: Halves = True
    parts: tuple[TreeTask, ...] = Field(
        ("distance", "depth"), min_length=1, description="What is to be read off: one or both."
    )


LAYER = ("task", "encoder", "stack", "layer", "metric")
STRUCTURAL_TABLES = {
    "scores": Table(
        "Every probe on the held-out split. uuas: gold edges in the spanning tree of the predicted "
        "distances, punctuation left out; root: sentences whose root is shallowest; dspr and nspr: "
        "rank correlation of distances and depths, averaged over lengths of 5 to 50 words. `n` is "
        "edges for uuas, else sentences. converged: the probe stopped because dev gained no more.",
        ("task", "encoder", "stack", "layer", "seed", "split", "metric"),
    ),
    "summary": Table(
        "The layer that is best on dev, its score on the held-out split, and its baselines; "
        "baseline_random is the layer of the random twin that is best on dev.",
        ("task", "metric", "stack"),
    ),
    "means": Table(
        "Means over seeds with 95 % intervals over sentences and seeds, and the gain over the "
        "layer below with its p-value. learnt: the score is over the chain's, and a layer's of the "
        "model over the same layer's with random weights. converged: every seed's probe stopped "
        "because dev gained no more. half: the first seed's probe trained on half of the "
        "sentences; half_loss: what that costs it.",
        LAYER,
    ),
    "trees": Table(
        "Sentences of the held-out split, word by word: the gold head, and the word's neighbour in "
        "the tree predicted at the best layer, on the way to the first word; -1 is none.",
        ("stack", "sentence", "index"),
    ),
}

STRUCTURAL_PROBE = Experiment(
    name="structural-probe",
    about="Whether trees can be read off distances and lengths in each layer, by a linear map.",
    settings=StructuralProbe,
    run="probes.structural_probe:run",
    tables=STRUCTURAL_TABLES,
    layers=("dependencies",),
    split="held-out",
    figures="workbench.figures.syntax_probes:STRUCTURAL_PROBE_FIGURES",
    version=2,
)


# --- attention-probe ------------------------------------------------------------------------------


class AttentionProbe(SplitSettings):
    """What is learnt, and from how much."""

    seeds: Seeds = Field(
        (0, 1, 2),
        min_length=1,
        description="Seeds of the control tasks (default 0 1 2); probes have one optimum for all.",
    )
    halves: Halves = True


ATTENTION_TABLES = {
    "scores": Table(
        "Share of words attached to their gold head on the held-out split, roots and punctuation "
        "left out: every probe, and its control task of every seed. Layer -1 sees the heads of all "
        "layers, or none. The probe `words` sees static vectors of both words and how far they are "
        "apart, as the paper's own baseline does; no attention. weight_decay is the one that is "
        "best on dev; converged: the probe reached the optimum.",
        ("probe", "encoder", "stack", "layer", "seed", "split", "control"),
    ),
    "summary": Table(
        "Probes that see every head, and the layer that is best by itself on dev. baseline_offset "
        "attaches every word at best_offset (right: positive), chosen on train; baseline_random is "
        "the same probe of the same model with random weights; selectivity is over the control. "
        "uas_half is of the same probe trained on half of the sentences.",
        ("stack", "probe"),
    ),
    "means": Table(
        "Means with 95 % intervals over sentences, and for controls over seeds. baseline is the "
        "best offset, or an even guess among all words where that is better; control_value the "
        "same probe's control task. learnt: the probe scores over both. "
        "converged: it reached the optimum. half: the same probe trained on half of the sentences.",
        ("probe", "encoder", "stack", "layer", "control"),
    ),
    "weights": Table(
        "Of the probe that sees every head: the weight of what a word gives to its head, and of "
        "what the head gives to the word.",
        ("stack", "layer", "head"),
    ),
    "by_relation": Table(
        "The same probe by relation, next to the offset that is best for that relation on train.",
        ("stack", "probe", "relation"),
    ),
}

ATTENTION_PROBE = Experiment(
    name="attention-probe",
    about="How many words find their head by the attention of all heads together.",
    settings=AttentionProbe,
    run="probes.attention_probe:run",
    tables=ATTENTION_TABLES,
    needs=(HEADS,),
    layers=("dependencies",),
    split="held-out",
    figures="workbench.figures.syntax_probes:ATTENTION_PROBE_FIGURES",
    version=3,
)
