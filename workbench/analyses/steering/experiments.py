"""The experiments `steering` and `erasure`: settings and tables.

Nothing here imports torch or spaCy, so that listing experiments is fast. Costs: nothing; the code
is imported when an experiment first runs.
"""

from typing import Literal

from pydantic import Field

from workbench.experiment.definition import LM_HEAD, Demo, Experiment, Settings, Table
from workbench.experiment.measured import OBJECTIVE

Label = Literal["pos", "tags"]


class Steering(Settings):
    """Which texts are read, and how many random directions are tried."""

    max_words: int = Field(
        3,
        ge=1,
        le=100,
        description="Maximum number of pairs of predicted words, those with the most texts "
        "(default 3).",
    )
    max_texts: int = Field(
        60,
        ge=8,
        le=100_000,
        description="Maximum number of texts of each pair of words, drawn at random (default 60).",
    )
    random_directions: int = Field(
        99,
        ge=20,
        le=10_000,
        description="Random directions of the same length, as a null (default 99).",
    )

    def in_prose(self) -> str:
        return (
            f"For at most {self.max_words:,} pairs of words and {self.max_texts:,} texts of each, "
            "we computed the difference of mean states between texts after which the one and the "
            "other word is right, where the word is predicted, on half of the exchanges of words "
            "(Turner et al. 2023, Rimsky et al. 2024). We added it to the states of the texts of "
            "the other half, and measured by how much it moves the difference of the two words' "
            f"logits. The null adds {self.random_directions:,} random directions of the same "
            "length; p-values are those of the largest effect over all words and layers. Intervals "
            "are bootstrapped over exchanges of words."
        )


class Erasure(Settings):
    """Which words are read, and what is erased."""

    label: Label = Field(
        "pos",
        description="What is erased: pos, universal parts of speech, or tags, those of the corpus "
        "(default pos).",
    )
    max_words: int = Field(
        600,
        ge=40,
        le=1_000_000,
        description="Maximum number of words to fit the directions on, drawn at random (default "
        "600).",
    )
    max_predictions: int = Field(
        80,
        ge=10,
        le=100_000,
        description="Maximum number of words that are predicted (default 80).",
    )
    random_directions: int = Field(
        99,
        ge=20,
        le=10_000,
        description="Random subspaces of as many directions, as a null (default 99).",
    )

    def in_prose(self) -> str:
        what = "universal parts of speech" if self.label == "pos" else "tags"
        return (
            f"For at most {self.max_words:,} words we fitted the directions of each layer that "
            f"tell the {what} of the predicted word apart, and removed them by an affine map with "
            "the least change (LEACE; Belrose et al. 2023), where the word is predicted. On at "
            f"most {self.max_predictions:,} words of other documents we measured what this costs "
            "in log-probability of the word (amnesic probing; Elazar et al. 2021). The null "
            f"removes {self.random_directions:,} random subspaces of as many directions in the "
            "same way; p-values are those of the largest cost over layers. The control adds the "
            "mean of what was removed from words of the same label. Intervals are bootstrapped "
            "over documents."
        )


_TEST = (
    "random: the same of random {what}, mean; random_high: their 95th percentile. excess: effect "
    "above that of random {what}, with its 95 % bootstrap interval lower to upper over {units}. p: "
    "of random {what} with a larger effect (one-sided, corrected for the rows of the table). "
    "significant: p < 0.05, and the interval above 0. "
)

STEERING = Experiment(
    name="steering",
    about="Does the difference of two sets of texts, added to a layer, move what is predicted?",
    subject="Predictions",
    settings=Steering,
    run="workbench.analyses.steering.steering_corpus:run",
    version=3,
    tables={
        "directions": Table(
            "The difference of mean states, added to texts of other exchanges of words. words: the "
            "two words. layer 0: before the first block. effect: change of the difference of their "
            "logits towards the other word, in nats. "
            + _TEST.format(what="directions of the same length", units="exchanges of words")
            + "It needs a gap above 0.1. gap: difference of logits between the two sets of texts. "
            "share: effect as a share of the gap. norm: length of the difference. divergence: of "
            "predictions of unrelated texts, in nats; random_divergence: with random directions. "
            "n: texts; exchanges: of words.",
            ("words", "stack", "layer"),
        ),
        "strengths": Table(
            "Effect by strength: how many times the difference is added (1: as it is). random, "
            "random_low, random_high: of random directions of the same length, mean and 5th and "
            "95th percentile.",
            ("words", "stack", "layer", "strength"),
            ("strength",),
        ),
        "objective": OBJECTIVE,
    },
    needs=(LM_HEAD,),
    measures=True,
    split="held-out",
    exact_up_to=1e9,
    figures="workbench.analyses.steering.figures:STEERING",
    findings="workbench.analyses.steering.findings:steering",
    papers=("turner-2023-activation-addition", "rimsky-2024-caa"),
    title="Steered states of",
    demo=Demo(
        "Steering BERT by the difference of two sets of texts",
        models=("mini:bert",),
        corpora=("primer/counterfactuals",),
        settings={"max_words": 2, "max_texts": 32},
        order=26,
    ),
)

ERASURE = Experiment(
    name="erasure",
    about="Does a model use what a linear probe finds in a layer?",
    subject="Predictions",
    settings=Erasure,
    run="workbench.analyses.steering.erasure_corpus:run",
    tables={
        "layers": Table(
            "What erasing the label of the predicted word costs, by layer. layer 0: before the "
            "first block. effect: log-probability of the word lost, in nats. "
            + _TEST.format(what="subspaces of the same size", units="documents")
            + "injected: log-probability lost if the mean of what was removed from words of the "
            "same label is added again. probe: accuracy of a linear probe of the label on other "
            "documents; probe_erased: after the erasure; majority: of always answering the "
            "label that is most frequent among the fitted words. rank: directions removed. n: "
            "words; documents: of these.",
            ("stack", "layer"),
        ),
        "labels": Table(
            "The labels, and the words that they were fitted and measured on.",
            ("label",),
        ),
        "objective": OBJECTIVE,
    },
    needs=(LM_HEAD,),
    layers=lambda settings: (settings.label,),
    measures=True,
    split="held-out",
    exact_up_to=1e9,
    figures="workbench.analyses.steering.figures:ERASURE",
    findings="workbench.analyses.steering.findings:erasure",
    papers=("elazar-2021-amnesic", "belrose-2023-leace"),
    title="Erased directions of",
    demo=Demo(
        "What BERT loses without the directions of parts of speech: amnesic probing",
        models=("mini:bert",),
        settings={"max_words": 300, "max_predictions": 30},
        order=27,
    ),
)
