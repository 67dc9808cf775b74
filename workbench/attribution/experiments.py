"""The experiments of predictions: settings and tables.

Nothing here imports torch or spaCy, so that listing experiments is fast. Costs: nothing; the code
is imported when an experiment first runs.
"""

from pydantic import Field

from workbench.basics.experiments import LM_HEAD
from workbench.core.experiment import Experiment, Settings, Table

# --- lens -----------------------------------------------------------------------------------------


class LensSettings(Settings):
    """Which predictions are read, and the random-weight baseline."""

    max_predictions: int = Field(
        300, ge=1, le=1_000_000, description="Maximum number of words to predict (default 300)."
    )
    sublayers: bool = Field(
        True, description="Also read the state after each attention (default: yes)."
    )
    random_models: int = Field(
        5,
        ge=0,
        le=50,
        description="Random-weight models of the same architecture, as a baseline (default 5).",
    )

    def in_prose(self) -> str:
        texts = "all texts" if self.max_sentences is None else f"{self.max_sentences:,} texts"
        states = "every block, and after its attention" if self.sublayers else "every block"
        null = (
            f"Differences between groups of words are tested against {self.random_models} models "
            "of the same architecture with random weights (t prediction interval), with Holm's "
            "correction. "
            if self.random_models > 1
            else ""
        )
        return (
            f"We read the states after {states} with the model's own final norm and head (logit "
            "lens, nostalgebraist 2020; of an encoder, by its whole decoder, Langedijk et al. 2023)"
            f", for at most {self.max_predictions:,} words drawn from {texts}, each predicted from "
            "its context: its first piece, with all of its pieces hidden. A prediction is final at "
            "the first layer from which its top choice no longer changes. "
            f"{null}Intervals are 95 % bootstrap intervals over documents."
        )


_LENS_GROUPS = (
    "by: what the words are grouped by: all, tag (part of speech), class (function words, which "
    "are of a closed class of Universal Dependencies, and content words), or frequency (rank of "
    "the word in the texts read)."
)

LENS = Experiment(
    name="lens",
    about="What would each layer of a model predict, and where do its predictions become final?",
    settings=LensSettings,
    run="workbench.attribution.lens_corpus:run",
    tables={
        "layers": Table(
            "What the states of the model predict, as means over words. weights: the model, or "
            "random (the mean of the random-weight models; lower and upper are then their minimum "
            "and maximum). layer 0: the embeddings. sublayer: after the attention, or after the "
            "MLP, which ends the block. measure: agreement (share of words whose top choice is the "
            "model's own prediction), accuracy (share whose top choice is the true piece), p_final "
            "and rank_final (probability and rank of the model's own prediction), "
            "reciprocal_rank, rank_gold and nats (of the true piece: 1 / rank, rank, and "
            "−log p), kl (from the final distribution to this one, in nats), entropy (in nats). "
            "lower, upper: 95 % bootstrap interval over documents. n: number of words.",
            ("weights", "stack", "layer", "sublayer", "measure"),
        ),
        "final": Table(
            "The layer from which predictions no longer change. "
            f"{_LENS_GROUPS} share: of words whose prediction is final from exactly this layer. "
            "cumulative: from this layer or below; lower, upper: its 95 % bootstrap interval over "
            "documents. random: cumulative share with random weights. n: number of words of the "
            "group.",
            ("stack", "by", "group", "layer"),
        ),
        "groups": Table(
            f"The mean of the layer from which predictions no longer change. {_LENS_GROUPS} "
            "lower, upper: its 95 % bootstrap interval over documents. random: the mean with "
            "random weights. accuracy: share of words predicted right by the last layer. n: "
            "number of words.",
            ("stack", "by", "group"),
        ),
        "tests": Table(
            "Tests of the stack that the head reads. comparison: accuracy (of the last layer, "
            "minus that of always choosing the most frequent true piece), function words (mean "
            "final layer, minus that of content words), frequent words (rank up to 100, minus "
            "that of rarer words). lower, upper: 95 % bootstrap interval over documents. random: "
            "mean difference with random weights. p: for the accuracy of the bootstrap, for the "
            "others against random weights, corrected for the number of rows (Holm). holds: the "
            "accuracy is higher, or the first group is final earlier: the interval excludes 0 and "
            "p < 0.05. n_first, n_second: number of words.",
            ("comparison",),
        ),
    },
    needs=(LM_HEAD,),
    split="held-out",
    figures="workbench.figures.lens:FIGURES",
    findings="workbench.attribution.findings:lens",
    papers=("nostalgebraist-2020-lens", "langedijk-2023-decoderlens"),
)


# --- tuned-lens -----------------------------------------------------------------------------------

# --- contributions --------------------------------------------------------------------------------

# --- attribution ----------------------------------------------------------------------------------
