"""The probing experiments: edge probing, description length, structural and attention probes.

This module has only names, settings and tables, so listing experiments does not import torch.
Costs: nothing; the code of an experiment is imported when it is first run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator

from workbench.core.findings import plural
from workbench.experiment.definition import HEADS, Demo, Experiment, Table
from workbench.experiment.growth import Growth
from workbench.experiment.sizes import Effort, SplitSettings


def _seeds(seeds: tuple[int, ...]) -> tuple[int, ...]:
    """Each seed once; seeds that a random generator does not accept are an error."""
    if seeds and (min(seeds) < 0 or max(seeds) >= 1 << 32):
        raise ValueError("seeds must be whole numbers from 0 to 4294967295")
    return tuple(dict.fromkeys(seeds))


MAX_DATA_GAIN = 0.01  # from twice the data; below, more data would not change the result
Seeds = Annotated[tuple[int, ...], AfterValidator(_seeds)]
HalfDataCheck = Annotated[
    bool,
    Field(
        description="Also train on half of the sentences, to check whether more data would help "
        "(default: on)."
    ),
]


def _listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


# --- edge-probing ---------------------------------------------------------------------------------

KindName = Literal["edge", "linear", "mlp"]
Mode = Literal["lexical", "top", "layer", "mix", "cumulative"]
LossName = Literal["auto", "softmax", "sigmoid"]
MAX_WINDOW = 10  # words on either side of a convolution
_MODES: Mapping[Mode, str] = {
    "lexical": "the embeddings",
    "layer": "each layer alone",
    "top": "the last layer",
    "mix": "a learned mix of all layers",
    "cumulative": "mixes of the layers up to each layer",
}


@dataclass(frozen=True)
class Budget:
    """The training budget of an effort, in the first step of a sample that grows."""

    targets: int | None  # maximum number of training targets of a task; None: all
    seeds: tuple[int, ...]
    epochs: int  # maximum
    patience: int  # epochs without gain before early stopping
    steps: int  # minimum number of steps an epoch, about, where targets are few


BUDGETS: dict[Effort, Budget] = {
    "quick": Budget(targets=300, seeds=(0,), epochs=15, patience=3, steps=32),
    "standard": Budget(targets=1500, seeds=(0,), epochs=60, patience=4, steps=32),
    "full": Budget(targets=None, seeds=(0, 1, 2), epochs=200, patience=8, steps=48),
}


class EdgeProbing(SplitSettings):
    """Settings of edge probing: probes, tasks, training budget and baselines."""

    effort: Effort = Field(
        "standard",
        description="How much to compute (default: standard). quick: 300 targets of each task, one "
        "seed, 15 epochs; results are marked as rough. standard: from 1,500 targets of 1,000 "
        "sentences, four times as many at each step, until twice the data would add less than a "
        "point and the findings are decided, or the data or the time ends; one seed, 60 epochs. "
        "full: all targets, three seeds, 200 epochs. Sizes other than the defaults do not grow.",
    )
    tasks: tuple[str, ...] = Field(
        (), description="Tasks, by name or by corpus layer (default: all tasks of the corpus)."
    )
    probes: tuple[KindName, ...] = Field(
        ("edge",), min_length=1, description="Kinds of probe: edge (Tenney et al.), linear, mlp."
    )
    modes: tuple[Mode, ...] = Field(
        ("lexical", "top", "layer", "mix", "cumulative"),
        min_length=1,
        description="Input of the probes. lexical: the embeddings; top: the last layer; layer: "
        "each layer alone; mix: a learned mix of all layers; cumulative: mixes of the embeddings "
        "up to layer k, for each k.",
    )
    loss: LossName = Field(
        "auto",
        description="Loss of the probes (default: auto). softmax: cross-entropy, predicts the most "
        "likely label; sigmoid: as in the paper, predicts every label with a logit of at least 0; "
        "auto: softmax if each target has one label, otherwise sigmoid.",
    )
    seeds: Seeds = Field(
        (),
        description="Seeds, once for each of which a probe is trained (default: by effort).",
    )
    control_tasks: bool = Field(
        True,
        description="Also train each layer's probe on a control task: random labels by word type "
        "(default: on). The difference is the selectivity.",
    )
    max_targets: int | None = Field(
        None,
        ge=1,
        description="Maximum number of training targets of each task (default: by effort).",
    )
    half_data_check: bool = Field(
        True,
        description="Also train each layer on half of the targets, to check whether more data "
        "would change the curve (default: on).",
    )
    data_fractions: tuple[float, ...] = Field(
        (1.0,),
        min_length=1,
        description="Fractions of the training targets, for learning curves (default 1).",
    )
    hidden_size: int = Field(
        256, ge=1, le=8192, description="Hidden size of the edge probe and the MLP (default 256)."
    )
    learning_rate: float = Field(
        4e-3,
        gt=0,
        le=1,
        description="Learning rate (default 0.004); halved after half of the patience without "
        "gain.",
    )
    batch_size: int = Field(
        512,
        ge=1,
        le=65_536,
        description="Maximum number of targets per step (default 512). Small tasks use fewer, so "
        "that an epoch has enough steps.",
    )
    max_epochs: int | None = Field(
        None, ge=1, le=1000, description="Maximum number of epochs (default: by effort)."
    )
    patience: int | None = Field(
        None,
        ge=1,
        description="Epochs without gain on dev before early stopping (default: by effort).",
    )
    random_baseline: bool = Field(
        True, description="Also probe the model with random weights, as a baseline (default: on)."
    )
    static_vectors: str = Field(
        "",
        description="File of static word vectors for a baseline (default: vectors from "
        "co-occurrence counts on train).",
    )
    cnn_windows: tuple[int, ...] = Field(
        (),
        description="Windows of convolution baselines over the embeddings, in words on either side "
        "(1 to 10; default: none).",
    )
    preview: bool = Field(
        False,
        description="Fit ridge probes of each layer by a formula, without training (default: off). "
        "This takes seconds; scores are rougher.",
    )
    save_predictions: bool = Field(
        False,
        description="Save each layer's prediction for every test target in a table (default: off).",
    )

    def in_prose(self) -> str:
        budget, kinds = self.budget, {"edge": "edge", "linear": "linear", "mlp": "MLP"}
        scored = (
            "The score is micro-averaged F1 (for coreference, F1 of the positive class), with 95 % "
            "bootstrap intervals over sentences and seeds."
        )
        if self.preview:
            return (
                "We fitted closed-form ridge probes on the frozen states of each layer, as a "
                f"preview of edge probing (Tenney et al. 2019). {scored}"
            )
        modes = [_MODES[mode] for mode in _MODES if mode in self.modes]
        probes = " and ".join(kinds[kind] for kind in self.probes)
        targets = "all targets" if budget.targets is None else f"up to {budget.targets:,} targets"
        baselines = ["the most frequent label", "static vectors"]
        baselines += ["the same architecture with random weights"] if self.random_baseline else []
        baselines += [
            f"a CNN over {2 * words + 1} words of the embeddings" for words in self.cnn_windows
        ]
        baselines += ["a control task of random labels by word type"] if self.control_tasks else []
        return (
            f"We trained {probes} probes on frozen states (Tenney et al. 2019), with {targets} of "
            f"each task, {plural(len(budget.seeds), 'seed')} and up to {budget.epochs} epochs, "
            f"stopping after {plural(budget.patience, 'epoch')} without gain on dev. The probes "
            f"read {_listed(modes)}. {scored} The baselines are {_listed(baselines)}."
        )

    @property
    def budget(self) -> Budget:
        """The training budget: that of the effort, overridden by explicit settings."""
        budget = BUDGETS[self.effort]
        return Budget(
            budget.targets if self.max_targets is None else self.max_targets,
            self.seeds or budget.seeds,
            budget.epochs if self.max_epochs is None else self.max_epochs,
            budget.patience if self.patience is None else self.patience,
            budget.steps,
        )

    @field_validator("data_fractions")
    @classmethod
    def _sorted_fractions(cls, fractions: tuple[float, ...]) -> tuple[float, ...]:
        if not all(0 < fraction <= 1 for fraction in fractions):
            raise ValueError("data fractions must be above 0 and not above 1")
        return tuple(sorted(set(fractions)))

    @field_validator("cnn_windows")
    @classmethod
    def _sorted_windows(cls, windows: tuple[int, ...]) -> tuple[int, ...]:
        if not all(1 <= words <= MAX_WINDOW for words in windows):
            raise ValueError(f"CNN windows must have 1 to {MAX_WINDOW} words on either side")
        return tuple(sorted(set(windows)))


EDGE_KEYS = ("task", "probe", "encoder", "mode", "stack", "layer", "share", "control")
EDGE_TABLES = {
    "scores": Table(
        "Score of each probe and seed. `layer` is the last layer that the probe reads. In a "
        "control task, each word type has one random label.",
        (*EDGE_KEYS, "seed", "split", "metric"),
    ),
    "means": Table(
        "Mean scores over seeds, with 95 % bootstrap intervals over sentences and seeds. `delta` "
        "is the gain over the layer below, with its p-value. converged: early stopping on dev "
        "ended the training of every seed (a linear probe is at its optimum). learnt: the score is "
        "not below the majority baseline, nor below the probe's own control task.",
        (*EDGE_KEYS, "metric"),
    ),
    "summary": Table(
        "Layers that encode each task: centre of gravity of the mix, expected layer of the "
        "cumulative curve (empty if the curve does not rise), best layer, and baselines. "
        "baseline_majority always predicts the most frequent scored label. baseline_random: the "
        "better of the last layer and the mix of the model with random weights. data_gain: the "
        "largest gain of a layer from the second half of the targets. Above 1 point, more data "
        "would change the curve (enough_data is false; empty if half_data_check is off).",
        ("task", "probe", "stack"),
    ),
    "halves": Table(
        "F1 of each layer with half of the training targets and with all of them.",
        ("task", "probe", "stack", "mode", "layer"),
    ),
    "per_label": Table(
        "Precision, recall and F1 of each label at each layer, over all seeds. `n` counts the gold "
        "labels.",
        ("task", "probe", "stack", "mode", "layer", "label"),
    ),
    "mix": Table(
        "Weight of each layer in the learned mix of all layers.",
        ("task", "probe", "stack", "seed", "layer"),
    ),
    "confusion": Table(
        "Number of targets by gold label and predicted label, over all seeds. Only for tasks with "
        "one label per target.",
        ("task", "probe", "stack", "mode", "layer", "gold", "predicted"),
    ),
    "gains": Table(
        "Targets that are right at a layer and wrong at the layer below. Spans are character "
        "offsets in the text.",
        ("task", "probe", "stack", "layer", "target"),
    ),
    "tasks": Table("Definition of each task, and its number of targets.", ("task",)),
    "predictions": Table(
        "Predictions of the first seed for every test target.",
        ("task", "probe", "stack", "layer", "target"),
    ),
}  # fmt: skip

EDGE_PROBING = Experiment(
    name="edge-probing",
    about="Probes what each layer encodes, for every task, with control tasks and baselines.",
    question="What does each layer encode about parts of speech, trees, entities, roles?",
    subject="Layers",
    settings=EdgeProbing,
    run="workbench.analyses.probes.edge_probing:run",
    tables=EDGE_TABLES,
    fits="workbench.analyses.probes.edge_probing:fits",
    version=6,
    figures="workbench.analyses.probes.figures.probing:FIGURES",
    findings="workbench.analyses.probes.findings:edge_probing",
    presets={"Preview": {"preview": True}},
    growth=Growth(
        {"max_sentences": 1000, "max_targets": 1500},
        "workbench.analyses.probes.edge_probing:still_open",
        "workbench.analyses.probes.probe_inputs:available",
    ),
    papers=("tenney-2019-context", "tenney-2019-pipeline", "hewitt-2019-control"),
    title="Edge probing of",
    demo=Demo(
        "Edge probing of each layer, from words to roles",
        models=("mini:bert",),
        settings={"max_sentences": 100, "effort": "quick"},
        order=13,
    ),
)


# --- description-length ---------------------------------------------------------------------------

Code = Literal["online", "variational"]
PORTIONS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.25, 12.5, 25.0, 50.0, 100.0)  # per cent


class DescriptionLength(SplitSettings):
    """Settings of description length: tasks, codes and the training of the probes."""

    tasks: tuple[str, ...] = Field(
        (), description="Tasks, by name or by corpus layer (default: all tasks of the corpus)."
    )
    codes: tuple[Code, ...] = Field(
        ("online", "variational"),
        min_length=1,
        description="Codes that send the labels (default: both). online: sends the labels block "
        "by block, each with a probe trained on the blocks before it; variational: sends a "
        "Bayesian probe, then the labels.",
    )
    probe: Literal["mlp", "linear"] = Field(
        "mlp", description="Kind of probe: mlp (one hidden layer, the default) or linear."
    )
    hidden_size: int = Field(
        64, ge=1, le=8192, description="Size of the hidden layer (default 64)."
    )
    seeds: Seeds = Field(
        (0,),
        min_length=1,
        description="Seeds of the target order and of the probes' weights (default 0).",
    )
    control_tasks: bool = Field(
        True,
        description="Also send the labels of a control task: random labels by word type "
        "(default: on).",
    )
    max_targets: int = Field(
        1500,
        ge=1,
        le=100_000_000,
        description="Maximum number of training targets of each task, sampled with the run's seed "
        "(default 1,500).",
    )
    portions: tuple[float, ...] = Field(
        PORTIONS,
        min_length=1,
        description="Ends of the blocks of the online code, in per cent of the targets. All "
        "targets are sent in any case; empty blocks are merged.",
    )
    unit: Literal["bits", "paper"] = Field(
        "bits",
        description="Unit of the lengths (default: bits). paper: as in the paper's released code, "
        "which adds the probes' cost in nats to the uniform code in bits.",
    )
    learning_rate: float = Field(
        3e-3,
        gt=0,
        le=1,
        description="Learning rate of the online code's probes (default 0.003).",
    )
    max_epochs: int = Field(
        60,
        ge=1,
        le=1000,
        description="Maximum number of epochs of each online probe (default 60). Training stops "
        "early when the code of dev gets no shorter; the best epoch is kept.",
    )
    variational_steps: int = Field(
        400,
        ge=1,
        le=1_000_000,
        description="Training steps of the variational code's probes, of 256 targets each "
        "(default 400). More steps find a shorter code.",
    )

    def in_prose(self) -> str:
        probe = "a linear probe"
        if self.probe == "mlp":
            probe = f"an MLP of one hidden layer of {self.hidden_size:,}"
        ways = {
            "online": "The online code sends the labels in blocks, each with a probe trained on "
            f"the blocks before it for up to {self.max_epochs} epochs.",
            "variational": "The variational code sends a Bayesian probe, trained for "
            f"{self.variational_steps:,} steps, and then the labels.",
        }
        unit = "" if self.unit == "bits" else " Lengths add nats to bits, as the released code did."
        control = " and of a control task of random labels by word type"
        return (
            f"We measured the description length of up to {self.max_targets:,} labels of each task"
            f"{control if self.control_tasks else ''} given the states of each layer (Voita and "
            f"Titov 2020), with {probe} and {plural(len(self.seeds), 'seed')}. "
            f"{' '.join(ways[code] for code in dict.fromkeys(self.codes))}{unit} Compression is "
            "the length of the uniform code divided by that of the code."
        )

    @field_validator("portions")
    @classmethod
    def _portions(cls, portions: tuple[float, ...]) -> tuple[float, ...]:
        if not all(0 < portion <= 100 for portion in portions):
            raise ValueError("portions must be above 0 and not above 100")
        return portions


CODE_KEYS = ("task", "probe", "code", "encoder", "stack", "layer", "control")
CODE_TABLES = {
    "codes": Table(
        "The length of each code. `uniform_bits`: the length of the uniform code, which uses no "
        "probe: log2 of the number of labels per target, or one bit per label if a target may have "
        "several labels. `compression`: uniform_bits divided by bits. `divergence_bits`: the cost "
        "of sending the Bayesian probe. `final_accuracy`: the share of test targets (maximum "
        "2,000) whose labels the last probe predicts exactly. `converged`: early stopping on dev "
        "ended the training of the online code's last probe; empty for the variational code, "
        "which takes `variational_steps` steps.",
        (*CODE_KEYS, "seed"),
    ),
    "portions": Table(
        "The online code block by block: `portion`, the share of targets sent up to the end of the "
        "block; `targets`, the number in the block; `bits`, its length.",
        ("task", "probe", "encoder", "stack", "layer", "control", "seed", "portion"),
    ),
    "summary": Table(
        "The layer with the highest compression, with a 95 % bootstrap interval over sentences and "
        "seeds, and the compression of its baselines. baseline_frequency uses only the label "
        "frequencies so far, not the states. control_compression: the control task at the same "
        "layer. learnt: the layer's compression is at least as high as both.",
        ("task", "probe", "code", "stack"),
    ),
}  # fmt: skip

DESCRIPTION_LENGTH = Experiment(
    name="description-length",
    about="Measures how many bits the labels of each task take, given the states of a layer.",
    question="How many bits do the labels of a task take, given a layer?",
    subject="Layers",
    settings=DescriptionLength,
    run="workbench.analyses.probes.description_length:run",
    tables=CODE_TABLES,
    fits="workbench.analyses.probes.description_length:fits",
    version=2,
    figures="workbench.analyses.probes.figures.probing:DESCRIPTION_LENGTH_FIGURES",
    findings="workbench.analyses.probes.findings:description_length",
    growth=Growth(
        {"max_sentences": 1000, "max_targets": 1500},
        available="workbench.analyses.probes.probe_inputs:available",
    ),
    papers=("voita-2020-mdl", "hewitt-2019-control"),
    title="Description length of labels in",
    demo=Demo(
        "Description length of parts of speech in each layer",
        models=("mini:bert",),
        settings={
            "max_sentences": 100,
            "max_targets": 300,
            "tasks": ("pos",),
            "variational_steps": 100,
        },
        order=14,
    ),
)


# --- structural-probe -----------------------------------------------------------------------------

TreeTask = Literal["distance", "depth"]


class StructuralProbe(SplitSettings):
    """Settings of the structural probe: rank, seeds and measures."""

    probe_rank: int | None = Field(
        64,
        ge=1,
        description="Maximum rank of the linear map (default 64; empty: the model's width). In the "
        "paper, ranks above 64 gain nothing.",
    )
    seeds: Seeds = Field(
        (0, 1, 2),
        min_length=1,
        description="Seeds, once for each of which a probe is trained (default 0 1 2).",
    )
    half_data_check: HalfDataCheck = True
    measures: tuple[TreeTask, ...] = Field(
        ("distance", "depth"),
        min_length=1,
        description="Measures of the tree to predict: distance, depth or both (default: both).",
    )

    def in_prose(self) -> str:
        fits = {
            "distance": "squared distances between words fit their distances in the dependency "
            "tree",
            "depth": "squared lengths of words fit their depths in the tree",
        }
        measures = " and ".join(fits[measure] for measure in dict.fromkeys(self.measures))
        rank = "full rank" if self.probe_rank is None else f"rank {self.probe_rank} at most"
        return (
            f"We trained a linear map of {rank} on the states of each layer so that {measures} "
            f"(Hewitt and Manning 2019), with {plural(len(self.seeds), 'seed')} and early "
            "stopping on dev. For each layer and score, dev also chose whether the states were "
            "scaled by one number, standardised or partly whitened. Layers were chosen on dev and "
            "scored on the held-out split, with 95 % bootstrap intervals over sentences and seeds. "
            "The baselines are a chain of words, static vectors, and the same architecture with "
            "random weights."
        )


LAYER = ("task", "encoder", "stack", "layer", "metric")
STRUCTURAL_TABLES = {
    "scores": Table(
        "Score of every probe on the held-out split. uuas: share of gold edges in the minimum "
        "spanning tree of the predicted distances, without punctuation. root: share of sentences "
        "whose root has the smallest predicted depth. dspr and nspr: Spearman correlation of "
        "distances and depths, averaged over sentence lengths of 5 to 50 words. `n` counts edges "
        "for uuas, otherwise sentences. converged: early stopping on dev ended the training.",
        ("task", "encoder", "stack", "layer", "seed", "split", "metric"),
    ),
    "summary": Table(
        "The best layer on dev, its score on the held-out split, and its baselines. "
        "baseline_random: the best layer on dev of the same model with random weights. inputs: how "
        "the states of the best layer were scaled (see means).",
        ("task", "metric", "stack"),
    ),
    "means": Table(
        "Mean scores over seeds, with 95 % bootstrap intervals over sentences and seeds. `delta` "
        "is the gain over the layer below, with its p-value. learnt: the score is above the chain "
        "baseline and, for a layer of the model, above the same layer with random weights. "
        "converged: early stopping on dev ended the training of every seed. half: score of the "
        "first seed's probe, trained on half of the sentences. half_loss: score of the same probe "
        "trained on all sentences, minus half. inputs: how the probe reads the states, by this "
        "score of the first seed on dev: scaled by one number, standardised (each feature by its "
        "own spread), or partly whitened.",
        LAYER,
    ),
    "trees": Table(
        "Sentences of the held-out split, word by word. `head`: the gold head. `neighbour`: the "
        "next word on the path to the first word, in the tree predicted at the best layer. -1: "
        "none.",
        ("stack", "sentence", "index"),
    ),
}

STRUCTURAL_PROBE = Experiment(
    name="structural-probe",
    about="Tests whether a linear map of each layer's states encodes dependency trees.",
    question="Does a layer encode dependency trees?",
    subject="Layers",
    settings=StructuralProbe,
    run="workbench.analyses.probes.structural_probe:run",
    tables=STRUCTURAL_TABLES,
    layers=("dependencies",),
    split="held-out",
    figures="workbench.analyses.probes.figures.syntax_probes:STRUCTURAL_PROBE_FIGURES",
    findings="workbench.analyses.probes.findings:structural_probe",
    growth=Growth({"max_sentences": 1000}, "workbench.analyses.probes.structural_probe:still_open"),
    papers=("hewitt-2019-structural",),
    version=5,
    title="Syntax trees in the layers of",
    demo=Demo(
        "Structural probe: syntax trees in each layer",
        models=("mini:bert",),
        settings={"max_sentences": 60, "seeds": (0,)},
        order=15,
    ),
)


# --- attention-probe ------------------------------------------------------------------------------


class AttentionProbe(SplitSettings):
    """Settings of the attention probe: seeds of the control tasks and the half-data check."""

    seeds: Seeds = Field(
        (0, 1, 2),
        min_length=1,
        description="Seeds of the control tasks (default 0 1 2). The probes themselves have one "
        "optimum for all seeds.",
    )
    half_data_check: HalfDataCheck = True

    def in_prose(self) -> str:
        return (
            "We trained probes to predict the governor of each word from the attention "
            "weights of all heads in both directions, with two weights per head (Clark et al. "
            "2019), and to their optimum; the weight decay was chosen on dev. The score is UAS on "
            "the held-out split, without roots and punctuation, with 95 % bootstrap intervals over "
            "sentences. The baselines are the best fixed offset, the same architecture with random "
            "weights, word vectors without attention, and a control task with random heads by word "
            f"type ({plural(len(self.seeds), 'seed')})."
        )


ATTENTION_TABLES = {
    "scores": Table(
        "Share of words attached to their gold head on the held-out split, without roots and "
        "punctuation: every probe, and its control task for every seed. Layer -1: the probe reads "
        "the heads of all layers, or no head. The probe `words` reads the static vectors of both "
        "words and their distance, as the paper's baseline does; it reads no attention. "
        "weight_decay: the best value on dev. converged: the probe reached its optimum.",
        ("probe", "encoder", "stack", "layer", "seed", "split", "control"),
    ),
    "summary": Table(
        "Probes that read all heads, and the best single layer on dev. baseline_offset: attaches "
        "every word at best_offset (positive: to the right), chosen on train. baseline_random: the "
        "same probe on the same model with random weights. selectivity: uas minus the control "
        "task's. uas_half: the same probe trained on half of the sentences.",
        ("stack", "probe"),
    ),
    "means": Table(
        "Mean scores with 95 % bootstrap intervals over sentences, and for control tasks also over "
        "seeds. baseline: the best offset, or a uniform guess among all words if that is better. "
        "control_value: the same probe's control task. learnt: the score is above both. converged: "
        "the probe reached its optimum. half: the same probe trained on half of the sentences.",
        ("probe", "encoder", "stack", "layer", "control"),
    ),
    "weights": Table(
        "Weights of the probe that reads all heads: of the attention from a word to its governor, "
        "and of the attention from the governor to the word.",
        ("stack", "layer", "head"),
    ),
    "by_relation": Table(
        "Scores of the same probe by relation, with the best offset of each relation on train as "
        "baseline.",
        ("stack", "probe", "relation"),
    ),
}

ATTENTION_PROBE = Experiment(
    name="attention-probe",
    about="Measures how many words find their governor from the attention of all heads.",
    question="How many words find their governor from the attention of all heads?",
    subject="Heads",
    settings=AttentionProbe,
    run="workbench.analyses.probes.attention_probe:run",
    tables=ATTENTION_TABLES,
    needs=(HEADS,),
    layers=("dependencies",),
    split="held-out",
    figures="workbench.analyses.probes.figures.syntax_probes:ATTENTION_PROBE_FIGURES",
    findings="workbench.analyses.probes.findings:attention_probe",
    growth=Growth({"max_sentences": 1000}, "workbench.analyses.probes.attention_probe:still_open"),
    papers=("clark-2019-bert", "hewitt-2019-control"),
    version=3,
    title="Syntax in the attention of",
    demo=Demo(
        "Attention probe: governors from all attention maps",
        models=("mini:bert",),
        settings={"max_sentences": 60, "seeds": (0,)},
        order=16,
    ),
)
