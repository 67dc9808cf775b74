"""Experiments that adapt models to tasks, and experiments that compare models.

finetune, frozen-vs-finetuned and pretraining adapt models; similarity and drift compare them. This
module holds names, settings and tables only, so experiments are listed without importing torch.
Costs: nothing; the code is imported at the first run.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from workbench.analyses.transfer.studies import ARMS, STUDIES, StudyName
from workbench.core.errors import did_you_mean
from workbench.core.findings import listing, plural
from workbench.experiment.definition import HEAD, Demo, Experiment, Settings, Table
from workbench.experiment.growth import Growth
from workbench.experiment.sizes import GrowingSettings, SplitSettings

Method = Literal[
    "frozen", "fine-tuned", "gradual", "top", "lora", "adapters", "adamix", "prefix", "prompt",
    "bitfit",
]  # fmt: skip
Ridge = Annotated[float, Field(gt=0, le=1e9)]
Rate = Annotated[float, Field(gt=0, le=1)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
HeadKind = Literal["standard", "plain", "lstm", "text"]
FROZEN: Method = "frozen"
WHOLE: tuple[Method, ...] = ("fine-tuned", "gradual", "top")  # methods that train the model itself
METHOD_PAPERS: Mapping[str, str] = {
    "gradual": "howard-2018-ulmfit",
    "lora": "hu-2022-lora",
    "adapters": "houlsby-2019-adapters",
    "adamix": "wang-2022-adamix",
    "prefix": "li-2021-prefix",
    "prompt": "lester-2021-prompt",
    "bitfit": "benzaken-2022-bitfit",
}


def papers_of(methods: Iterable[str]) -> tuple[str, ...]:
    """The papers of these adaptation methods."""
    return tuple(METHOD_PAPERS[each] for each in methods if each in METHOD_PAPERS)


@dataclass(frozen=True)
class Sizes:
    """Sizes of the parts of a model that learn, or that are added to it."""

    top_layers: int = 1
    lora_rank: int = 8
    adapter_width: int = 32
    prefix_length: int = 8  # vectors of a prefix or a prompt
    n_adapters: int = 4  # of a mixture
    share_up: bool = True
    keep_adapters: Literal["average", "first"] = "average"
    consistency: float = 1.0


class Adapting(SplitSettings):
    """How a model is adapted, and how many texts it learns from."""

    max_sentences: int | None = Field(
        None,
        ge=1,
        description="Maximum number of texts of a split whose max_train, max_dev or max_test is "
        "empty (default: all).",
    )
    max_train: int | None = Field(
        300,
        ge=2,
        le=10_000_000,
        description="Maximum number of texts to train on, a random sample (default 300).",
    )
    max_dev: int | None = Field(
        200,
        ge=1,
        le=1_000_000,
        description="Maximum number of dev texts, for choosing the learning rate and early "
        "stopping (default 200).",
    )
    max_test: int | None = Field(
        None,
        ge=1,
        description="Maximum number of texts to score (default: max_sentences, else all).",
    )
    seeds: tuple[Seed, ...] = Field(
        (0, 1, 2),
        min_length=1,
        max_length=100,
        description="Seeds of the task head's weights and of the order of the texts (default 0, "
        "1, 2).",
    )
    learning_rates: tuple[Rate, ...] = Field(
        (),
        max_length=20,
        description="Learning rates to choose from, on dev with the first seed (default: a grid "
        "per method). Not used for a plain head over a frozen model, which is trained to its "
        "optimum.",
    )
    ridge_strengths: tuple[Ridge, ...] = Field(
        (10_000.0, 1000.0, 100.0, 10.0, 1.0),
        min_length=1,
        max_length=20,
        description="Ridge strengths to choose from on dev, for a plain head over a frozen model "
        "(1 / C of scikit-learn).",
    )
    max_epochs: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="Maximum number of epochs (default: 5 for fine-tuned, gradual and top; 6 for "
        "lora, adapters, adamix, prefix, prompt, bitfit and a frozen model under an LSTM).",
    )
    batch_size: int = Field(16, ge=1, le=4096, description="Texts per step (default 16).")
    patience: int = Field(
        3, ge=1, le=1000, description="Epochs without a gain on dev before stopping (default 3)."
    )
    top_layers: int = Field(
        1, ge=1, le=200, description="Number of top layers that learn, for method top (default 1)."
    )
    lora_rank: int = Field(8, ge=1, le=1024, description="LoRA rank (default 8).")
    adapter_width: int = Field(
        32, ge=1, le=8192, description="Hidden width of each adapter (default 32)."
    )
    prefix_length: int = Field(
        8, ge=1, le=512, description="Number of vectors of a prefix or a prompt (default 8)."
    )

    @property
    def part_sizes(self) -> Sizes:
        """Sizes of the parts that learn, or that are added to the model."""
        names = [each.name for each in fields(Sizes) if each.name in type(self).model_fields]
        return Sizes(**{name: getattr(self, name) for name in names})

    def adapted(self, method: Method) -> str:
        """How a method adapts a model, in the words of a method section."""
        sizes = self.part_sizes
        return {
            "frozen": "without changing its weights",
            "fine-tuned": "by fine-tuning all weights",
            "gradual": "by gradual unfreezing (Howard and Ruder 2018)",
            "top": f"by training the top {plural(sizes.top_layers, 'layer')}",
            "lora": f"with LoRA of rank {sizes.lora_rank} (Hu et al. 2022)",
            "adapters": f"with adapters of width {sizes.adapter_width} (Houlsby et al. 2019)",
            "adamix": f"with a mixture of {plural(sizes.n_adapters, 'adapter')} of width "
            f"{sizes.adapter_width} (AdaMix, Wang et al. 2022)",
            "prefix": f"with a prefix of {plural(sizes.prefix_length, 'vector')} per layer (Li "
            "and Liang 2021)",
            "prompt": f"with a prompt of {plural(sizes.prefix_length, 'vector')} (Lester et al. "
            "2021)",
            "bitfit": "by training only the biases (BitFit, Ben Zaken et al. 2022)",
        }[method]

    def training_in_prose(self, methods: Iterable[Method], plain: bool = True) -> str:
        """The texts, the epochs and the choice of the learning rate; `plain`: of linear heads."""
        chosen = set(methods)
        train, dev = (
            "all texts" if size is None else f"up to {plural(size, 'text')}"
            for size in (self.max_train or self.max_sentences, self.max_dev or self.max_sentences)
        )
        optimum = (
            "linear heads over the frozen model to their optimum, with the ridge strength chosen "
            f"on {dev} of dev."
        )
        if chosen == {FROZEN} and plain:
            return f"On {train}, we trained {optimum}"
        epochs = sorted(
            {self.max_epochs or (5 if each in WHOLE else 6) for each in chosen - {FROZEN}}
            or {self.max_epochs or 6}
        )
        rates = ", ".join(f"{rate:g}" for rate in self.learning_rates)
        return (
            f"We trained on {train} for at most {' or '.join(map(str, epochs))} epochs in batches "
            f"of {self.batch_size}, and chose the learning rate ({rates or 'a grid per method'}) "
            f"and the epoch on {dev} of dev."
            + (f" We trained {optimum}" if FROZEN in chosen and plain else "")
        )


# --- finetune -------------------------------------------------------------------------------------

KEY = ("task", "model", "method", "head")
LEARNT = (
    "means",
    "scores",
    "rates",
    "learning",
    "epochs",
)  # tables that are joined from many cells


class Finetune(Adapting):
    """Which task a model is adapted to, and how."""

    task: str = Field(
        "",
        description="What to learn: a label of the corpus, or the layer answers, entities, pos or "
        "tags (default: the only label; without labels, the first of these layers).",
    )
    metric: str = Field(
        "", description="Metric to choose models by and to report (default: set by the task)."
    )
    method: Method = Field(
        "fine-tuned", description="Adaptation method: which weights learn (default fine-tuned)."
    )
    head: Literal["auto", HeadKind] = Field(
        "auto",
        description="Task head: standard (the one that transformers has for the architecture, such "
        "as BertForSequenceClassification, so plain transformers opens the model), plain (linear, "
        "on a learnt mix of all layers), lstm (stronger), or text (the model writes the label; T5, "
        "BART). Default: standard if the model itself learns and has one, else plain.",
    )
    n_adapters: int = Field(
        4, ge=1, le=64, description="Adapters per block, for method adamix (default 4)."
    )
    share_up: bool = Field(
        True,
        description="Whether the adapters of a block share the second of their maps, for method "
        "adamix (default: yes).",
    )
    keep_adapters: Literal["average", "first"] = Field(
        "average",
        description="What is left of the adapters of a block after training, for method adamix: "
        "their average, or the first one, as where all texts are routed to it (default average).",
    )
    consistency: float = Field(
        1.0,
        ge=0,
        le=1000,
        description="Weight of the divergence between two random routes, for method adamix "
        "(default 1; 0: one route per step).",
    )
    save_model: bool = Field(True, description="Save the model of the best seed.")
    merge: bool = Field(
        True,
        description="Of method lora under a standard head: save the model with its updates merged, "
        "with the adapter beside it (default: yes; no: the adapter of peft alone, which needs the "
        "base that it names).",
    )

    def in_prose(self) -> str:
        task = f"the task {self.task}" if self.task else "a task of the corpus"
        head = {
            "auto": "the task head that transformers has for it, or a linear one over a learnt mix "
            "of its layers",
            "standard": "the task head that transformers has for it",
            "plain": "a linear task head over a learnt mix of its layers",
            "lstm": "an LSTM task head",
            "text": "its own decoder, which writes the label (Raffel et al. 2020)",
        }[self.head]
        return (
            f"We adapted the model to {task} {self.adapted(self.method)}, with {head}. "
            f"{self.training_in_prose([self.method], self.head in ('auto', 'plain'))} Scores are "
            f"means over {plural(len(self.seeds), 'seed')}, with 95 % bootstrap intervals over "
            "texts and seeds; a paired bootstrap compares them with a constant prediction, the "
            "majority of train."
        )


FINETUNE_TABLES = {
    "means": Table(
        "Mean over seeds of the deciding metric on the scored split, with its 95 % bootstrap "
        "interval over texts and seeds. baseline: the metric of a constant prediction, the "
        "majority or mean of train (0 if undefined). learned: the score beats the baseline "
        "significantly in a paired test over texts. converged: no seed had its best dev "
        "score in the last epoch of max_epochs.",
        (*KEY, "metric"),
    ),
    "scores": Table(
        "Every metric of every seed on the scored split, and the deciding metric on dev. f1: with "
        "two classes, the F1 of the positive class; with more classes, macro-F1. The positive "
        "class is the second by name, or the first if the second is a denial (not_equivalent, no, "
        "negative). baseline: the metric of a constant prediction, the majority or mean of train "
        "(0 if undefined). learned: the seed's deciding metric on the scored split is better than "
        "the baseline. converged: the best dev score is not that of the last epoch of "
        "max_epochs. learning_rate: 0 for a plain head over a frozen model, which is trained to "
        "its optimum with the strength in ridge. trainable: number of trained weights, task head "
        "included. size: MiB of those weights. peak_memory: in MiB; on a CPU, of the whole "
        "process. seconds: training time.",
        (*KEY, "seed", "split", "metric"),
        ("learning_rate", "ridge"),
    ),
    "rates": Table(
        "Dev score of every learning rate or ridge strength tried with the first seed. The best "
        "one was used.",
        (*KEY, "learning_rate", "ridge", "metric"),
    ),
    "learning": Table(
        "Training loss of every step and attempt. For a plain head over a frozen model, the loss "
        "without the ridge penalty.",
        (*KEY, "seed", "learning_rate", "ridge", "step"),
    ),
    "epochs": Table(
        "Dev score after each epoch. For a plain head over a frozen model, the score at the "
        "optimum of each ridge strength; epoch is then the number of passes over train. "
        "converged: of the whole attempt.",
        (*KEY, "seed", "learning_rate", "ridge", "epoch"),
    ),
    "predictions": Table(
        "Prediction for each scored text, for every seed.", (*KEY, "seed", "text")
    ),
}  # fmt: skip

_SHORT: Mapping[str, Any] = {  # settings for a fine-tuning of a few seconds
    "max_train": 80, "max_dev": 40, "max_test": 80,
    "max_epochs": 2, "learning_rates": (1e-3,), "seeds": (0,),
}  # fmt: skip

FINETUNE = Experiment(
    name="finetune",
    about="Adapts a model to a task (frozen, fine-tuned, LoRA, adapters, prefix …) and saves it.",
    question="How well does a model learn a task, frozen or fine-tuned?",
    subject="Training",
    settings=Finetune,
    run="workbench.analyses.transfer.finetune:run",
    version=7,
    tables=FINETUNE_TABLES,
    fits="workbench.analyses.transfer.finetune:fits",
    split="held-out",
    trains=True,
    figures="workbench.analyses.transfer.figures.transfer:FINETUNE",
    findings="workbench.analyses.transfer.findings:finetune",
    growth=Growth({"max_train": 300}),
    papers=lambda settings: (
        *(["raffel-2020-t5"] if settings.head == "text" else ["peters-2019-tune"]),
        *papers_of([settings.method]),
    ),
    title="Fine-tuning",
    demo=Demo(
        "Fine-tuning BERT for one task",
        models=("mini:bert",),
        corpora=("primer/sentiment",),
        settings=_SHORT,
        order=18,
    ),
)


# --- frozen-vs-finetuned --------------------------------------------------------------------------


SAVED_MIB = 1024  # disk that the models of all cells may take


_CORRECTED = (
    "with Holm's correction over all comparisons in the findings. There, a difference that no "
    "bootstrap sample reverses has the p-value of its interval's normal distribution."
)


class FrozenVsFinetuned(Adapting):
    """Which tasks, and which methods are compared with the frozen model."""

    tasks: tuple[str, ...] = Field(
        (),
        description="Labels or layers to learn (default: for primer the five tasks of Peters et "
        "al., entities, sentiment, entailment, relatedness and paraphrase; else all labels).",
    )
    methods: tuple[Method, ...] = Field(
        ("fine-tuned",),
        min_length=1,
        description="Methods to compare with frozen (default fine-tuned).",
    )
    lstm_baseline: bool = Field(
        True, description="Also train a frozen model under an LSTM head, a stronger baseline."
    )
    save_models: bool = Field(
        True,
        description="Save the model of every cell, to try texts and to compare models, if all "
        f"together take at most {SAVED_MIB:,} MiB (default: yes). Turning this on for a finished "
        "table trains every cell again.",
    )

    @field_validator("methods")
    @classmethod
    def _not_frozen_only(cls, methods: tuple[Method, ...]) -> tuple[Method, ...]:
        if not set(methods) - {FROZEN}:
            raise ValueError("name a method to compare with frozen, such as fine-tuned")
        return methods

    def in_prose(self) -> str:
        tasks = f"on {listing(self.tasks, len(self.tasks))}" if self.tasks else "on every task"
        ways = [self.adapted(method) for method in self.methods if method != FROZEN]
        strong = ", and with a frozen model under an LSTM head" if self.lstm_baseline else ""
        return (
            f"We compared models adapted {'; '.join(ways)} with the frozen model {tasks}, both "
            f"under the same linear head on a learnt mix of layers (Peters et al. 2019){strong}. "
            f"{self.training_in_prose([FROZEN, *self.methods])} Scores are means over "
            f"{plural(len(self.seeds), 'seed')}; differences are tested by a paired bootstrap "
            f"over texts and seeds, {_CORRECTED}"
        )


FROZEN_TABLES = {
    "delta": Table(
        "Gain of each method over the frozen model under the same head: means over seeds, 95 % "
        "bootstrap intervals over texts and seeds, uncorrected p-values (0.002 is the smallest "
        "that the bootstrap can give). strong: score of the "
        "frozen model under an LSTM. majority: score of a constant prediction, the majority or "
        "mean of train (empty if undefined). verdict: helps or hurts if the interval excludes 0 "
        "and the better model beats the majority baseline significantly; not learned if neither "
        "model does; else undecided. converged: no training had its best dev score in "
        "the last epoch of max_epochs.",
        ("task", "model", "method", "metric"),
    ),
    **{name: FINETUNE_TABLES[name] for name in LEARNT},
    "cells": Table(
        "Name of the finetune run of each cell (task, model, method and task head).", KEY
    ),
}

FROZEN_VS_FINETUNED = Experiment(
    name="frozen-vs-finetuned",
    subject="Training",
    about="Which models gain from fine-tuning, and on which tasks? Compares frozen and fine-tuned "
    "models under the same head, with a paired test.",
    settings=FrozenVsFinetuned,
    run="workbench.analyses.transfer.frozen_vs_finetuned:run",
    version=6,
    tables=FROZEN_TABLES,
    fits="workbench.analyses.transfer.frozen_vs_finetuned:fits",
    models=(1, None),
    corpora=(1, None),
    split="held-out",
    figures="workbench.analyses.transfer.figures.transfer:FROZEN_VS_FINETUNED",
    findings="workbench.analyses.transfer.findings:frozen_vs_finetuned",
    growth=Growth({"max_train": 300}),
    papers=lambda settings: ("peters-2019-tune", *papers_of(settings.methods)),
    title="Frozen and fine-tuned",
    demo=Demo(
        "BERT frozen and fine-tuned: scores of both",
        models=("mini:bert",),
        settings={**_SHORT, "tasks": ("sentiment",), "lstm_baseline": False},
        order=17,
    ),
)


# --- pretraining ----------------------------------------------------------------------------------

Size = Literal["tiny", "mini", "small", "base"]


class Pretraining(Adapting):
    """Which models are pretrained, for how long, and the tasks they are scored on."""

    study: StudyName = Field(
        "objectives",
        description="Comparison of a paper. "
        + " ".join(f"{name}: {study.about}." for name, study in STUDIES.items()),
    )
    arms: tuple[str, ...] = Field(
        (),
        description="Arms of the study, or of several studies (default: all of the study). The "
        "others are compared with the first.",
    )
    sizes: tuple[Size, ...] = Field(
        ("tiny",),
        min_length=1,
        description="Model sizes, as in train (default tiny). The others are compared with the "
        "first.",
    )
    pretraining_steps: int = Field(
        6000, ge=1, description="Steps of each pretraining (default 6000)."
    )
    pretraining_seeds: tuple[Seed, ...] = Field(
        (0,),
        min_length=1,
        max_length=100,
        description="Seeds of the pretraining: one model per objective, size and seed (default 0).",
    )
    pretraining_batch_size: int = Field(
        16, ge=1, description="Sequences per pretraining step (default 16)."
    )
    sequence_length: int = Field(
        48,
        ge=8,
        description="Pieces per pretraining sequence, and the maximum the model can read "
        "(default 48).",
    )
    vocabulary_size: int = Field(
        1000,
        ge=10,
        description="Pieces in the tokenizer's vocabulary, the same for every size (default 1000).",
    )
    mask_rate: float = Field(
        0.3,
        gt=0,
        lt=1,
        description="Fraction of pieces masked in pretraining, in arms that do not say their own "
        "(default 0.3; BERT used 0.15).",
    )
    pretraining_learning_rate: Rate = Field(
        3e-3, description="Maximum learning rate of the pretraining (default 0.003)."
    )
    tasks: tuple[str, ...] = Field(
        (),
        description="Labels or layers to learn (default: for primer the five tasks of Peters et "
        "al., entities, sentiment, entailment, relatedness and paraphrase; else all labels).",
    )
    method: Method = Field(
        "fine-tuned",
        description="Method that adapts each model to each task (default fine-tuned).",
    )
    max_train: int | None = Field(
        400,
        ge=2,
        le=10_000_000,
        description="Maximum number of texts to train on, a random sample (default 400).",
    )
    max_test: int | None = Field(
        500, ge=1, description="Maximum number of texts to score (default 500)."
    )
    seeds: tuple[Seed, ...] = Field(
        (0, 1),
        min_length=1,
        max_length=100,
        description="Seeds of the task head's weights and of the order of the texts, for each "
        "pretrained model (default 0, 1).",
    )

    @field_validator("arms")
    @classmethod
    def _are_known(cls, arms: tuple[str, ...]) -> tuple[str, ...]:
        for arm in arms:
            if arm not in ARMS:
                raise ValueError(f"{arm!r} is no arm. {did_you_mean(arm, ARMS)}".rstrip("."))
        return arms

    @property
    def compared(self) -> tuple[str, ...]:
        """The arms that are compared, the first one first."""
        return tuple(dict.fromkeys(self.arms or STUDIES[self.study].arms))

    def in_prose(self) -> str:
        steps = f"{plural(self.pretraining_steps, 'step')} of {self.pretraining_batch_size}"
        tasks = ", ".join(self.tasks) if self.tasks else "every task"
        return (
            f"We pretrained models of size {listing(self.sizes, len(self.sizes))} in the ways "
            f"{listing(self.compared, len(self.compared))} ({STUDIES[self.study].about}) on the "
            "same text, for "
            f"{steps} sequences of "
            f"{plural(self.sequence_length, 'piece')} with "
            f"{plural(len(self.pretraining_seeds), 'seed')}, masking "
            f"{100 * self.mask_rate:.0f} % of the pieces in masked models that have no rate of "
            f"their own. We adapted each to {tasks} {self.adapted(self.method)}. "
            f"{self.training_in_prose([self.method])} Differences are tested by a paired "
            f"bootstrap over texts and seeds, {_CORRECTED}"
        )


PRETRAINING_TABLES = {
    "table": Table(
        "Deciding metric of each arm, size and task: means over seeds, 95 % bootstrap intervals "
        "over texts and seeds. delta: difference to the first arm of the same size, with its "
        "interval and an uncorrected paired p-value (0.002 is the smallest that the bootstrap can "
        "give); empty for that arm itself. parameters: of "
        "the pretrained model, language-model head included.",
        ("arm", "size", "task", "metric"),
        ("parameters",),
    ),
    "claims": Table(
        "What the paper found, here: score of an arm minus that of the arm that the paper found "
        "worse, a mean over tasks, with a 95 % bootstrap interval over texts and seeds and its "
        "p-value.",
        ("arm", "against", "size"),
    ),
    "sizes": Table(
        "With several sizes: gain of each size over the first, for each arm and task.",
        ("arm", "size", "task", "metric"),
    ),
    "pretraining": Table(
        "Final state of each pretraining. tokens: pieces read, special tokens included. passes: "
        "tokens over the pieces of the text. loss, held_out: nats of the arm's own objective (for "
        "mlm+nsp the sum of both parts), not comparable between arms. unigram: nats of a model "
        "that knows only the frequency of each piece. Arms with the same run share the model.",
        ("arm", "size", "pretraining"),
        ("run",),
    ),
    "scores": Table(
        "Scores of the finetune run of every model and task. pretraining: seed of the "
        "pretraining. file_size: MiB of the trained weights (the column size of finetune).",
        ("arm", "size", "pretraining", *KEY, "seed", "split", "metric"),
        ("learning_rate",),
    ),
    "cells": Table(
        "Name of the finetune run that scored each model on each task.",
        ("arm", "size", "pretraining", "task"),
        ("run",),
    ),
}  # fmt: skip

PRETRAINING = Experiment(
    name="pretraining",
    subject="Training",
    about="How much does each pretraining objective help? Pretrains models in the ways that a "
    "paper compares, on the same text, and compares them on the same tasks.",
    settings=Pretraining,
    run="workbench.analyses.transfer.pretraining:run",
    version=6,
    tables=PRETRAINING_TABLES,
    models=(0, 0),
    corpora=(1, None),
    fits="workbench.analyses.transfer.pretraining:fits",
    split="held-out",
    trains=True,
    figures="workbench.analyses.transfer.figures.pretraining:FIGURES",
    findings="workbench.analyses.transfer.findings:pretraining",
    papers=lambda settings: (STUDIES[settings.study].paper,),
    title="Pretraining objectives compared on",
    demo=Demo(
        "Pretraining objectives: masked or left-to-right, scored after fine-tuning",
        settings={
            **_SHORT,
            "arms": ("mlm", "ltr"),
            "pretraining_steps": 60,
            "tasks": ("sentiment",),
            "seeds": (0,),
        },
        order=23,
    ),
)


# --- similarity -----------------------------------------------------------------------------------

LAYER_PAIR = ("model_a", "stack_a", "layer_a", "model_b", "stack_b", "layer_b")
SIMILARITY_TABLE = Table(
    "Debiased linear CKA of two layers' states of the same words. 1: the same up to rotation, "
    "scale and shift. 0: the mean of independent layers; chance can put it a little below 0. Empty "
    "if a layer gives all words the same state. Layer 0 is the embeddings. A single model is "
    "listed next to its random twin (the same architecture with random weights), each compared "
    "with itself.",
    LAYER_PAIR,
)


def words_in_prose(settings: "Similarity | Drift") -> str:
    """How many words are compared."""
    few = settings.max_sentences
    sentences = "all sentences" if few is None else f"up to {plural(few, 'sentence')}"
    return f"up to {plural(settings.max_words, 'word')} of {sentences}"


class Similarity(GrowingSettings):
    """How many words and sentences are compared."""

    max_sentences: int | None = Field(
        300, ge=1, description="Maximum number of sentences (default: 300)."
    )
    max_words: int = Field(
        20_000,
        ge=10,
        le=10_000_000,
        description="Maximum number of words compared, a random sample (default 20,000).",
    )
    random_twin: bool = Field(
        True,
        description="Compare a single model with its random twin, the same architecture with "
        "random weights.",
    )

    def in_prose(self) -> str:
        twin = " A single model is shown next to its random twin." if self.random_twin else ""
        return (
            f"We compared the states of the same words ({words_in_prose(self)}) in every two "
            "layers by linear centred kernel alignment (CKA, Kornblith et al. 2019) with the "
            "unbiased estimate of Song et al. (2012). A word's state is the mean of its pieces."
            f"{twin}"
        )


SIMILARITY_TABLES = {
    "similarity": SIMILARITY_TABLE,
    "words": Table(
        "Number of words in the corpus, words without a piece in the model, and words compared.",
        ("model",),
    ),
}

SIMILARITY = Experiment(
    name="similarity",
    about="How similar are the layers of one or more models? Debiased linear CKA of word states.",
    subject="Layers",
    settings=Similarity,
    run="workbench.analyses.transfer.similarity:run",
    exact_up_to=math.inf,
    tables=SIMILARITY_TABLES,
    version=2,
    models=(1, None),
    split="held-out",
    figures="workbench.analyses.transfer.figures.drift:SIMILARITY",
    findings="workbench.analyses.transfer.findings:similarity",
    growth=Growth({"max_sentences": 300, "max_words": 20_000}),
    papers=("kornblith-2019-similarity", "song-2012-hsic"),
    title="Similarity of the layers of",
    demo=Demo(
        "Similarity of the layers of four models",
        models=("mini:bert", "mini:gpt", "mini:elmo", "mini:t5"),
        settings={"max_sentences": 60},
        order=20,
    ),
)


# --- drift ----------------------------------------------------------------------------------------


class Drift(Settings):
    """How many words are compared, and which other analyses are run on both models."""

    max_sentences: int | None = Field(
        300, ge=1, description="Maximum number of sentences (default: 300)."
    )
    max_words: int = Field(
        20_000,
        ge=10,
        le=10_000_000,
        description="Maximum number of words whose states are compared, a random sample (default "
        "20,000).",
    )
    compare_roles: bool = Field(
        False, description="Run heads on both models and compare the roles of each head."
    )
    compare_probing: bool = Field(
        False,
        description="Run edge-probing on both models and compare each layer; takes minutes.",
    )
    tasks: tuple[str, ...] = Field(
        (), description="Tasks to probe for (default: all tasks of the corpus)."
    )
    max_train: int | None = Field(
        1000, ge=1, description="Maximum number of sentences to train probes on (default 1,000)."
    )
    max_dev: int | None = Field(
        1000,
        ge=1,
        description="Maximum number of dev sentences, for early stopping of probes (default "
        "1,000).",
    )
    max_test: int | None = Field(
        1000,
        ge=1,
        description="Maximum number of sentences to score probes on (default 1,000).",
    )

    def in_prose(self) -> str:
        probes = (
            " Edge probes were trained on every layer of both models with the same seeds."
            if self.compare_probing
            else ""
        )
        return (
            f"We compared the model before and after training layer by layer: the states of the "
            f"same words ({words_in_prose(self)}) by debiased linear CKA (Kornblith et al. 2019) "
            "and by the Procrustes distance, weights by their distance relative to their norm, and "
            "the attention of each head by the Jensen-Shannon divergence. Forgetting is the change "
            "of the language-model loss on these sentences. Where the second model has a task "
            "head, each layer was reset to its weights before training and the task was scored "
            f"again (Zhang et al. 2022).{probes}"
        )


DRIFT_TABLES = {
    "drift": Table(
        "Change of each layer between the first and the second model; layer 0 is the embeddings. "
        "cka: 1 is the same up to rotation, scale and shift. procrustes: 0 is the same. "
        "weight_distance: ‖after - before‖ / ‖before‖. attention_js: mean over the layer's heads "
        "(bits). probing_delta: mean over tasks. Empty if undefined: layer 0 has no attention, "
        "layers may share weights, and probes run only with compare_probing. n: words whose states "
        "are compared.",
        ("stack", "layer"),
    ),
    "modules": Table(
        "Change of each module's weights, weight and bias together. Layer -1: weights outside the "
        "layers, such as a head. Shared weights are listed once, at their first name.",
        ("stack", "layer", "module"),
        ("norm_before", "parameters"),
    ),
    "heads": Table(
        "Change of each head's attention: mean Jensen-Shannon divergence (bits) between its "
        "attention rows before and after, over `n` query pieces. Special pieces count as keys but "
        "not as queries. Heads' layers count from 0, so layer 0 here is layer 1 of `drift`. "
        "lower, upper: 95 % bootstrap interval over sentences. Roles and score changes come from "
        "`heads`.",
        HEAD,
    ),
    "losses": Table(
        "Forgetting: each model's language-model loss on the corpus (nats per piece) and the "
        "change, with its 95 % bootstrap interval over sentences. n: pieces or predictions.",
        ("metric",),
    ),
    "probing": Table(
        "Scores of the same probes, with the same seeds, in each layer. delta: with its 95 % "
        "interval and uncorrected p-value, from a paired bootstrap over sentences and seeds.",
        ("task", "stack", "layer"),
    ),
    "rewound": Table(
        "Score on the task that the second model was fine-tuned for, with each layer's weights "
        "reset to the first model's; also with no layer and with all layers reset. The texts are "
        "the split that finetune scores with the same seed. lower, upper, p_value: of the "
        "change, from a paired bootstrap over texts, uncorrected. Present only if the run saved "
        "its head and the corpus has the label.",
        ("stack", "layer", "metric"),
    ),
    "similarity": SIMILARITY_TABLE,
}

DRIFT = Experiment(
    name="drift",
    subject="Training",
    about="What did training change in a model? Compares states, weights, attention and "
    "language-model loss layer by layer.",
    settings=Drift,
    run="workbench.analyses.transfer.drift:run",
    version=5,
    exact_up_to=math.inf,
    tables=DRIFT_TABLES,
    models=(2, 2),
    split="held-out",
    figures="workbench.analyses.transfer.figures.drift:DRIFT",
    findings="workbench.analyses.transfer.findings:drift",
    papers=(
        "kornblith-2019-similarity",
        "song-2012-hsic",
        "schonemann-1966-procrustes",
        "zhang-2022-layers",
    ),
    title="What training changed between",
    demo=Demo(
        "What training changes: BERT with random weights and trained",
        models=("mini:bert@random", "mini:bert"),
        settings={"max_sentences": 60},
        order=19,
    ),
)
