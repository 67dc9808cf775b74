"""The experiments `architectures`, `recurrence`, `text-length` and `scaling`: settings and tables.

Costs: nothing.
"""

from typing import Annotated, Literal, get_args

from pydantic import Field, field_validator, model_validator

from workbench.experiment.definition import Demo, Experiment, Settings, Table

Arm = Literal[
    "encoder-decoder", "shared encoder-decoder", "half encoder-decoder", "language model",
    "prefix language model",
]  # fmt: skip
Goal = Literal["denoising", "language modelling"]
ARMS: tuple[Arm, ...] = get_args(Arm)
GOALS: tuple[Goal, ...] = get_args(Goal)
HEAD_WIDTH = 32  # of a head, in `scaling`

# settings that several experiments have, with one default
Steps = Annotated[int, Field(ge=1, description="Number of training steps (default 300).")]
Seeds = Annotated[
    tuple[int, ...], Field(min_length=1, description="Seeds of the trainings (default: 0 1 2).")
]
Layers = Annotated[int, Field(ge=1, description="Number of layers (default 4).")]
Width = Annotated[int, Field(ge=8, description="Width of the hidden states (default 128).")]
Heads = Annotated[int, Field(ge=1, description="Number of attention heads per layer (default 4).")]
LearningRate = Annotated[
    float, Field(gt=0, description="Maximum learning rate of AdamW (default 0.002).")
]


class Architectures(Settings):
    """Which architectures are trained, by which objectives, and for how long."""

    arms: tuple[Arm, ...] = Field(
        ARMS, min_length=1, description="Architectures to compare (default: all)."
    )
    objectives: tuple[Goal, ...] = Field(
        GOALS, min_length=1, description="Objectives to train by (default: both)."
    )
    seeds: tuple[int, ...] = Field(
        (0, 1, 2),
        min_length=1,
        description="Seeds of the trainings: weights, order of texts and corruption (default: 0 1 "
        "2).",
    )
    steps: Steps = 300
    n_layers: int = Field(
        4, ge=2, multiple_of=2, description="Layers of a stack, an even number (default 4)."
    )
    width: Width = 128
    n_heads: Heads = 4
    batch_size: int = Field(8, ge=1, description="Sequences per step (default 8).")
    sequence_length: int = Field(64, ge=8, description="Pieces per sequence (default 64).")
    vocabulary_size: int = Field(
        1_000, ge=150, description="Pieces in the tokenizer's vocabulary (default 1,000)."
    )
    learning_rate: LearningRate = 2e-3

    def in_prose(self) -> str:
        return (
            f"We trained {len(self.arms)} architectures by {' and '.join(self.objectives)} (Raffel "
            f"et al. 2020, Table 2) for {self.steps:,} steps of {self.batch_size} sequences of "
            f"{self.sequence_length} pieces each, from {len(self.seeds)} seeds. A stack has "
            f"{self.n_layers} layers of width {self.width}; all have T5's blocks and relative "
            "positions. The loss is measured on the same held-out targets in all architectures. "
            "Intervals are over seeds, by Student's t."
        )


_LOSS = (
    "loss: nats per target piece of the held-out text, a mean over seeds. bits_per_character: all "
    "nats of the targets over the characters of their text, in bits. lower, upper: 95 % interval "
    "of bits_per_character over seeds (Student's t; empty for one seed)."
)
TABLES = {
    "table": Table(
        f"Size, cost and loss of each architecture by each objective. {_LOSS} parameters: all "
        "weights, shared ones once. operations: of a forward pass over a held-out text, in "
        "millions of floating-point operations, a mean over eight texts. unigram: bits per "
        "character of a model that knows only how frequent each target piece is. delta: difference "
        "of bits_per_character to the first architecture with the same objective, with a 95 % "
        "interval over seeds; empty for that architecture itself.",
        ("objective", "arm"),
        ("parameters", "operations"),
    ),
    "pairs": Table(
        "Differences of bits per character between two architectures with the same objective, arm "
        "minus against: mean over seeds, 95 % interval (Student's t) and whether it leaves out 0. "
        "Seeds share weights, texts and corruption between architectures where they can.",
        ("objective", "arm", "against"),
    ),
    "cells": Table(
        "Each training. loss and bits_per_character: of the held-out text. training_loss: of the "
        "last part of the training. tokens: pieces read. seconds: of training.",
        ("objective", "arm", "seed"),
    ),
}

ARCHITECTURES = Experiment(
    name="architectures",
    question="Which architecture learns to write text from text?",
    subject="Training",
    about="Trains encoder-decoders, a language model and a prefix language model on the same "
    "texts, at equal parameters and at equal operations, and compares their losses.",
    settings=Architectures,
    run="workbench.analyses.architectures.compared:run",
    tables=TABLES,
    models=(0, 0),
    split="train",
    trains=True,
    figures="workbench.analyses.architectures.figures:FIGURES",
    findings="workbench.analyses.architectures.findings:architectures",
    papers=("raffel-2020-t5",),
    title="Architectures compared on",
    demo=Demo(
        "Architectures: an encoder-decoder, or one stack that reads input and target",
        settings={
            "arms": ("encoder-decoder", "prefix language model"),
            "objectives": ("denoising",),
            "seeds": (0, 1),
            "steps": 20,
        },
        order=31,
    ),
    presets={
        "Quick": {"steps": 80, "seeds": (0, 1)},
        "Standard": {},
        "Full": {"steps": 4_000, "seeds": (0, 1, 2, 3, 4)},
    },
)


# --- recurrence -----------------------------------------------------------------------------------


class Recurrence(Settings):
    """How long segments and memories are, and how long each model is trained."""

    segments: tuple[int, ...] = Field(
        (16, 64),
        min_length=1,
        description="Pieces of a segment; each divides the largest (default: 16 64).",
    )
    memories: tuple[int, ...] = Field(
        (0, 48),
        min_length=1,
        description="Pieces before a segment whose states it reads; 0: none (default: 0 48).",
    )
    seeds: Seeds = (0, 1, 2)
    steps: Steps = 300
    n_layers: Layers = 4
    width: Width = 128
    n_heads: Heads = 4
    batch_size: int = Field(8, ge=2, description="Texts per step (default 8).")
    vocabulary_size: int = Field(
        1_000, ge=50, description="Pieces in the tokenizer's vocabulary (default 1,000)."
    )
    learning_rate: LearningRate = 2e-3

    @model_validator(mode="after")
    def _fit_together(self) -> "Recurrence":
        largest = max(self.segments)
        if min(self.segments) < 4 or any(largest % each for each in self.segments):
            raise ValueError(f"segments must be 4 or more and divide the largest, {largest}")
        if min(self.memories) < 0:
            raise ValueError("a memory is 0 or more pieces")
        return self

    def in_prose(self) -> str:
        return (
            "We trained language models with relative positions from left to right, in segments of "
            f"{' or '.join(map(str, self.segments))} pieces that also read the states of the "
            f"{' or '.join(map(str, self.memories))} pieces before them, without a gradient "
            f"(Dai et al. 2019, Transformer-XL): {self.n_layers} layers of width {self.width}, "
            f"{self.steps:,} steps of {self.batch_size} texts, {len(self.seeds)} seeds. All "
            "predict the same pieces. The null reads the memory of another text. Intervals are "
            "over seeds, by Student's t."
        )


RECURRENCE = Experiment(
    name="recurrence",
    question="What does a memory of the text before a segment give a language model?",
    subject="Training",
    about="Trains language models in segments with and without a memory (Transformer-XL), and "
    "compares loss by position, memory of another text, and cost by length.",
    settings=Recurrence,
    run="workbench.analyses.architectures.recurrence:run",
    tables={
        "table": Table(
            "Loss of each segment and memory length, on the same held-out pieces. loss: nats per "
            "piece, a mean over seeds. bits_per_character: with 95 % interval over seeds (lower, "
            "upper; Student's t; empty for one seed). delta: difference to no memory with the same "
            "segment, and its interval. other_text: bits per character with the memory of another "
            "text. own_gain: other_text minus bits_per_character, and its interval. unigram: bits "
            "per character of the frequencies of pieces.",
            ("segment", "memory"),
        ),
        "positions": Table(
            "Loss in nats per piece by quarter of a segment, 1 to 4, a mean over seeds. lower, "
            "upper: 95 % interval over seeds.",
            ("segment", "memory", "quarter"),
        ),
        "costs": Table(
            "Operations of a forward pass, in thousands of floating-point operations per piece: of "
            "a text at once (segment 0), or of a segment with a full memory, at any length.",
            ("segment", "memory", "length"),
        ),
        "cells": Table(
            "Each training, with the loss of the held-out text by quarter of a segment.",
            ("segment", "memory", "seed"),
        ),
    },
    models=(0, 0),
    split="train",
    trains=True,
    title="Memory of the text before, on",
    demo=Demo(
        "A memory of the text before a segment, as in Transformer-XL",
        settings={"segments": (16,), "memories": (0, 16), "seeds": (0, 1), "steps": 20},
        order=32,
    ),
    figures="workbench.analyses.architectures.figures:RECURRENCE_FIGURES",
    findings="workbench.analyses.architectures.findings:recurrence",
    papers=("dai-2019-transformer-xl",),
    presets={
        "Quick": {"steps": 80, "seeds": (0, 1)},
        "Standard": {},
        "Full": {"steps": 4_000, "seeds": (0, 1, 2, 3, 4)},
    },
)


# --- length of texts ------------------------------------------------------------------------------


class TextLength(Settings):
    """Which lengths are measured, which are trained on, and for how long."""

    lengths: tuple[int, ...] = Field(
        (128, 256, 512, 1_024, 2_048),
        min_length=2,
        description="Pieces of the texts whose costs are measured (default: 128 256 512 1,024 "
        "2,048).",
    )
    trained_lengths: tuple[int, ...] = Field(
        (64, 256),
        min_length=1,
        description="Pieces of the texts that models are trained on (default: 64 256).",
    )
    window: int = Field(
        32,
        ge=4,
        multiple_of=2,
        description="Window of the local attention, in pieces on both sides together (default 32).",
    )
    seeds: Seeds = (0, 1, 2)
    steps: Steps = 300
    pieces_per_step: int = Field(
        512, ge=16, description="Pieces per step, in texts of any length (default 512)."
    )
    n_layers: Layers = 4
    width: Width = 128
    n_heads: Heads = 4
    vocabulary_size: int = Field(
        1_000, ge=150, description="Pieces in the tokenizer's vocabulary (default 1,000)."
    )
    learning_rate: LearningRate = 2e-3

    @model_validator(mode="after")
    def _fit_together(self) -> "TextLength":
        if min(*self.lengths, *self.trained_lengths) < 8:
            raise ValueError("a text has 8 pieces or more")
        if self.pieces_per_step < max(self.trained_lengths):
            raise ValueError("pieces_per_step must be at least the longest trained length")
        return self

    def in_prose(self) -> str:
        return (
            "We measured the memory, time and operations of a forward and a backward pass over one "
            f"text of {' or '.join(f'{each:,}' for each in self.lengths)} pieces, with full "
            f"attention and with windows of {self.window} pieces and a first piece that sees all "
            f"(Beltagy et al. 2020, Longformer): {self.n_layers} layers of width {self.width}. And "
            "we trained masked language models of both kinds on texts of "
            f"{' or '.join(map(str, self.trained_lengths))} pieces for {self.steps:,} steps of as "
            f"many pieces, {self.pieces_per_step}, from {len(self.seeds)} seeds. Intervals are "
            "over seeds, by Student's t."
        )


TEXT_LENGTH = Experiment(
    name="text-length",
    question="What do windows of attention cost and lose as texts grow?",
    subject="Training",
    about="Measures memory and time by the length of a text, and trains masked language models "
    "with windows (Longformer) and with full attention on texts of the same pieces.",
    settings=TextLength,
    run="workbench.analyses.architectures.lengths:run",
    tables={
        "costs": Table(
            "A forward and a backward pass over one text. attention: windows; full, where all "
            "weights are stored; fused, full attention in one kernel that does not store them. "
            "memory: the most bytes of all tensors alive at once, without the weights, in "
            "millions. seconds: the median of three passes. operations: of the forward pass, in "
            "millions of floating-point operations.",
            ("attention", "length"),
        ),
        "growth": Table(
            "How a cost grows from a length to the next: log of its ratio over log of the ratio of "
            "lengths. 1: in proportion to the length; 2: with its square.",
            ("attention", "length"),
        ),
        "table": Table(
            "Loss of the held-out text by the length of the texts. loss: nats per masked piece, a "
            "mean over seeds, with 95 % interval (lower, upper; Student's t; empty for one seed). "
            "delta: difference to full attention at the same length, and its interval. unigram: "
            "loss of the frequencies of pieces.",
            ("length", "attention"),
        ),
        "cells": Table(
            "Each training, with the loss of the held-out text.", ("length", "attention", "seed")
        ),
    },
    models=(0, 0),
    split="train",
    trains=True,
    title="Windows of attention and the length of texts, on",
    demo=Demo(
        "Windows of attention beside full attention, as texts grow",
        settings={
            "lengths": (64, 128, 256), "trained_lengths": (32,), "window": 8, "seeds": (0, 1),
            "steps": 20, "pieces_per_step": 128,
        },
        order=33,
    ),
    figures="workbench.analyses.architectures.figures:TEXT_LENGTH_FIGURES",
    findings="workbench.analyses.architectures.findings:text_length",
    papers=("beltagy-2020-longformer",),
    presets={
        "Quick": {"steps": 80, "seeds": (0, 1), "trained_lengths": (64,)},
        "Standard": {},
        "Full": {"steps": 4_000, "seeds": (0, 1, 2, 3, 4)},
    },
)  # fmt: skip


# --- scaling --------------------------------------------------------------------------------------


class Scaling(Settings):
    """Which sizes are trained, and on how much data."""

    widths: tuple[int, ...] = Field(
        (32, 64, 96, 128),
        min_length=1,
        description="Widths of the models, with heads in proportion (default 32 64 96 128).",
    )
    data: tuple[int, ...] = Field(
        (50, 100, 200, 400, 800),
        min_length=1,
        description="Amounts of data, in steps of a training (default 50 100 200 400 800).",
    )
    seeds: Seeds = (0, 1, 2)
    n_layers: int = Field(2, ge=1, description="Number of layers (default 2).")
    batch_size: int = Field(16, ge=1, description="Sequences per step (default 16).")
    sequence_length: int = Field(64, ge=8, description="Pieces per sequence (default 64).")
    vocabulary_size: int = Field(
        1_000, ge=50, description="Pieces in the tokenizer's vocabulary (default 1,000)."
    )
    learning_rate: LearningRate = 2e-3

    @field_validator("widths", "data")
    @classmethod
    def _grow(cls, amounts: tuple[int, ...]) -> tuple[int, ...]:
        if min(amounts) < 1 or list(amounts) != sorted(set(amounts)):
            raise ValueError("must rise from 1 or more, without repeats")
        return amounts

    @field_validator("widths")
    @classmethod
    def _have_whole_heads(cls, widths: tuple[int, ...]) -> tuple[int, ...]:
        if any(width % 8 or (width > HEAD_WIDTH and width % HEAD_WIDTH) for width in widths):
            raise ValueError(f"a width is a multiple of 8 up to {HEAD_WIDTH}, of that beyond")
        return widths

    def in_prose(self) -> str:
        return (
            f"We trained GPT-2-like language models of width {', '.join(map(str, self.widths))} "
            f"for {', '.join(f'{each:,}' for each in self.data)} steps of {self.batch_size} "
            f"sequences of {self.sequence_length} pieces, each from scratch with its learning rate "
            f"decayed to the end, from {len(self.seeds)} seeds (Kaplan et al. 2020; Hoffmann et "
            "al. 2022). An exponent is how steeply the logarithm of bits per character falls with "
            "that of weights without embeddings, with the most data, or of pieces, with the "
            "largest size; its interval is over seeds, by Student's t. At equal operations losses "
            "are interpolated between the trainings of a size."
        )


SCALING = Experiment(
    name="scaling",
    question="How does the loss of a language model fall with its size and its data?",
    subject="Training",
    about="Trains language models of several sizes on several amounts of the same text, fits the "
    "exponents of size and data, and finds the best size at equal operations.",
    settings=Scaling,
    run="workbench.analyses.architectures.scaling:run",
    tables={
        "table": Table(
            "Loss of the held-out text by size and data. parameters: weights without embeddings. "
            "pieces: read in training. operations: 6 per weight and piece. loss: nats per piece, a "
            "mean over seeds. bits_per_character: with 95 % interval over seeds (lower, upper; "
            "Student's t; empty for one seed). unigram: bits per character of the frequencies of "
            "pieces.",
            ("width", "steps"),
            ("parameters", "pieces", "operations"),
        ),
        "exponents": Table(
            "How steeply log bits per character fall with log weights (size, with the most data) "
            "or log pieces (data, with the largest size): mean over seeds, with 95 % interval "
            "(Student's t). largest_miss: of a mean from the line, as a fraction of it. constant: "
            "bits per character of the line at one weight or piece.",
            ("of",),
        ),
        "budgets": Table(
            "Bits per character of each size that has trainings with fewer and with more "
            "operations, interpolated between them, and which size has the lowest.",
            ("operations", "parameters"),
        ),
        "cells": Table("Each training.", ("width", "steps", "seed")),
    },
    models=(0, 0),
    split="train",
    trains=True,
    title="Size and data of language models, on",
    demo=Demo(
        "Scaling: the loss by the size of a model and its data",
        settings={"widths": (16, 32, 64), "data": (5, 10, 20), "seeds": (0, 1), "batch_size": 4},
        order=34,
    ),
    figures="workbench.analyses.architectures.figures:SCALING_FIGURES",
    findings="workbench.analyses.architectures.findings:scaling",
    papers=("kaplan-2020-scaling", "hoffmann-2022-training"),
    presets={
        "Quick": {"data": (20, 40, 80), "seeds": (0, 1)},
        "Standard": {},
        "Full": {"data": (400, 800, 1_600, 3_200), "seeds": (0, 1, 2, 3, 4)},
    },
)
