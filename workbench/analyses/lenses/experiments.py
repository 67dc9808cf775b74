"""The experiments that read a model layer by layer: `lens`, `tuned-lens`, `contributions`.

Nothing here imports torch or spaCy, so that listing experiments is fast. Costs: nothing; the code
is imported when an experiment first runs.
"""

import math

from pydantic import Field

from workbench.experiment.definition import (
    HEADS,
    LM_HEAD,
    Demo,
    Experiment,
    Need,
    Table,
    predicts_any_but,
)
from workbench.experiment.growth import Growth
from workbench.experiment.measured import OBJECTIVE
from workbench.experiment.sizes import GrowingSettings, SplitSettings

# --- what models must predict ---------------------------------------------------------------------

# Scores are no choice among classes; answers choose among the words of each text.
CHOOSES = Need(
    "a language-model head or a task head that predicts classes, tags or answers",
    predicts_any_but("score", "text"),
    "Choose a model saved with a language-model head, such as bert-base-uncased or gpt2, a text "
    "classifier, or a run of finetune on classes, tags or answers. wb.lens reads the layers of a "
    "head that predicts scores.",
)
CLASSIFIES = Need(
    "a language-model head or a task head that predicts classes or tags",
    predicts_any_but("score", "answers", "text"),
    "Choose a model saved with a language-model head, such as bert-base-uncased or gpt2, a text "
    "classifier, or a run of finetune on classes or tags. wb.contributions explains scores and "
    "answers of one text.",
)
# Added modules write to the residual stream too, and are no part of any block.
OWN_BLOCKS = Need(
    "blocks without added modules (adapters, a prefix or a prompt)",
    lambda facts: not facts["added"],
    "Use attribution, patching or head-ablation, or a model fine-tuned by another method.",
)

# --- lens -----------------------------------------------------------------------------------------


class LensSettings(GrowingSettings):
    """Which predictions are read, and the random-weight baseline."""

    max_predictions: int = Field(
        300, ge=1, le=1_000_000, description="Maximum number of predictions (default 300)."
    )
    sublayers: bool = Field(
        True,
        description="Also read the state after each attention (default: yes, unless there is a "
        "task head).",
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
            "its context: its first piece, with all of its pieces hidden. Of a model with a task "
            "head, "
            "its predictions for texts or words are read instead: the head is given the states "
            "that all layers would have if the blocks after one did nothing. A prediction is final "
            "at the first layer from which its top choice no longer changes. "
            f"{null}Intervals are 95 % bootstrap intervals over documents."
        )


_LENS_GROUPS = (
    "by: what the words are grouped by: all, tag (part of speech), class (function words, which "
    "are of a closed class of Universal Dependencies, and content words), or frequency (rank of "
    "the word in the texts read). Texts with a known class are grouped by label."
)

LENS = Experiment(
    name="lens",
    about="What would each layer of a model predict, and where do its predictions become final?",
    subject="Layers",
    settings=LensSettings,
    run="workbench.analyses.lenses.lens_corpus:run",
    tables={
        "layers": Table(
            "What the states of the model predict, as means over words (of a task head, over texts "
            "or tagged words; its classes are the choices, and measures of the true choice need "
            "labels). weights: the model, or "
            "random (the mean of the random-weight models, of a task head with its own weights; "
            "lower and upper "
            "are then their minimum and maximum). layer 0: the embeddings. sublayer: after the "
            "attention, or after the "
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
        "objective": OBJECTIVE,
    },
    version=2,
    needs=(CHOOSES,),
    measures=True,
    split="held-out",
    figures="workbench.analyses.lenses.figures.lens:FIGURES",
    findings="workbench.analyses.lenses.findings:lens",
    growth=Growth({"max_predictions": 300}),
    papers=("nostalgebraist-2020-lens", "langedijk-2023-decoderlens"),
    title="Predictions of the layers of",
    demo=Demo(
        "Logit lens: what each layer of BERT would predict",
        models=("mini:bert",),
        settings={"max_predictions": 200},
        order=4,
    ),
)


# --- tuned-lens -----------------------------------------------------------------------------------

MOST_STEPS, MOST_PASSES = 250, 4  # of training, by default


class TunedLens(SplitSettings):
    """How many texts the maps learn from, and for how long."""

    max_train: int | None = Field(
        2000, ge=1, description="Maximum number of texts to train the maps on (default 2000)."
    )
    max_dev: int | None = Field(
        200, ge=1, description="Maximum number of dev texts, for early stopping (default 200)."
    )
    max_test: int | None = Field(
        500, ge=1, description="Maximum number of texts to score (default 500)."
    )
    steps: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Maximum number of training steps (default: four passes over the texts, at "
        "most 250).",
    )
    batch_size: int = Field(
        32,
        ge=1,
        le=100_000,
        description="Texts in the batch of a step, of which at most 256 predictions are used, "
        "and fewer with a large vocabulary (default 32).",
    )
    learning_rate: float = Field(
        1e-3, gt=0, le=1, description="Learning rate of AdamW (default 0.001)."
    )

    def steps_over(self, texts: int) -> int:
        """The maximum number of steps on so many texts."""
        if self.steps is not None:
            return self.steps
        return min(MOST_STEPS, math.ceil(MOST_PASSES * texts / self.batch_size))

    def in_prose(self) -> str:
        passes = f" or {MOST_PASSES} passes over all texts" if self.steps is None else ""
        return (
            "For each layer we trained an affine map of its states, a tuned lens (Belrose et al. "
            "2023): the model's own head then predicts from the mapped states. A map is the "
            "identity at first, which is the logit lens, and learns to minimise the "
            "Kullback-Leibler divergence of its distribution from that of the last layer, for at "
            f"most {self.steps or MOST_STEPS:,} steps of {self.batch_size:,} texts{passes}, with "
            "early stopping on dev. "
            "Masked models predict 15 % of the pieces, causal models all, encoder-decoders the "
            "pieces of hidden spans, ELMo each word in both directions. Layers of an encoder below "
            "a decoder are read by the whole decoder (Langedijk et al. 2023). All losses are on "
            "held-out texts, with 95 % bootstrap intervals over texts."
        )


_LENS = (
    "lens: logit (no map) or tuned. Layer 0 is the embeddings; at the last layer both lenses are "
    "the model's own prediction."
)
_LAYER = ("stack", "layer")

TUNED_LENS = Experiment(
    name="tuned-lens",
    about="What does each layer predict, read by the logit lens and by a trained affine map?",
    subject="Layers",
    settings=TunedLens,
    run="workbench.analyses.lenses.tuned_lens:run",
    tables={
        "layers": Table(
            "How close each layer's prediction is to the final one, on held-out texts. loss: "
            "Kullback-Leibler divergence of the lens's distribution from the final one, mean in "
            "nats. agreement: share of predictions with the same most likely choice. accuracy, "
            "cross_entropy: share right, and mean loss in nats, for the true pieces. gain: "
            "cross-entropy of piece frequencies minus that of the lens, in nats. lower, upper and "
            f"columns with these endings: 95 % bootstrap intervals over texts. {_LENS} n: number "
            "of predictions.",
            (*_LAYER, "lens"),
        ),
        "gains": Table(
            "The logit lens against the tuned lens at each layer. measure: loss and agreement as "
            "in `layers`, bias as in `bias`. gain: how much closer to the final prediction the "
            "tuned lens is (in nats, or as a difference of agreement). lower, upper: 95 % "
            "bootstrap interval over texts. better: the interval is above 0.",
            (*_LAYER, "measure"),
        ),
        "bias": Table(
            "The bias of each lens: Kullback-Leibler divergence of the lens's mean distribution "
            "over all predictions from the final layer's mean distribution, in nats. A lens "
            "without bias has 0. lower, upper: 95 % bootstrap interval over texts (100 samples). "
            f"{_LENS}",
            (*_LAYER, "lens"),
        ),
        "baselines": Table(
            "Predictions that need no layer, on the same texts. model: its final prediction; "
            "constant: the model's mean distribution on the train split; frequencies: relative "
            "frequencies of pieces in the train split, plus one. Columns as in `layers`.",
            ("baseline",),
        ),
        "curve": Table(
            "Loss by training step, in nats. split: train (mean since the row before) or dev. "
            "Step 0 is the logit lens.",
            (*_LAYER, "split", "step"),
        ),
        "training": Table(
            "The maps. best_step: the step of the kept map, by its loss on dev (0: the logit "
            "lens). dev_logit, dev_tuned: loss on dev before training and of the kept map, in "
            "nats. converged: it no longer improved when training ended. learnt: the kept map is "
            "better than no map on dev.",
            _LAYER,
        ),
        "facts": Table(
            "Numbers of texts, predictions and steps, and what the maps belong to.", ("fact",)
        ),
    },
    needs=(LM_HEAD,),
    measures=True,
    exact_up_to=1e9,
    figures="workbench.analyses.lenses.figures.tuned_lens:FIGURES",
    findings="workbench.analyses.lenses.findings:tuned_lens",
    growth=Growth({"max_train": 2000, "max_test": 500}),
    papers=("belrose-2023-tuned-lens", "nostalgebraist-2020-lens", "langedijk-2023-decoderlens"),
    title="Tuned lens of",
    demo=Demo(
        "What each layer of BERT predicts: logit lens and tuned lens",
        models=("mini:bert",),
        settings={"max_sentences": 200, "max_train": 400, "steps": 75},
        order=29,
    ),
)

# --- contributions --------------------------------------------------------------------------------


class ContributionsOverCorpus(GrowingSettings):
    """Which words are predicted, and how often they are permuted."""

    max_words: int = Field(
        300,
        ge=2,
        le=100_000,
        description="Maximum number of predicted words, drawn at random (default 300).",
    )
    n_permutations: int = Field(
        1000,
        ge=19,
        le=100_000,
        description="Number of permutations of the true words (default 1000).",
    )
    min_count: int = Field(
        20, ge=1, description="Minimum number of words of a part of speech (default 20)."
    )

    def in_prose(self) -> str:
        return (
            f"We predicted at most {self.max_words:,} words, drawn at random, from their contexts, "
            "and took the logit of a choice minus the mean logit apart into the contributions of "
            "the embeddings, of every attention head, of every MLP and of the biases, with the "
            "scale of every norm held at its value (Elhage et al. 2021). For models with a "
            "non-linear head the contributions are to the input of the head, along the gradient of "
            "the logit. The gain of a part is what it adds to the true word beyond what it adds to "
            "this word in other contexts and to other words in this context, within the part of "
            "speech, along the mean gradient of each word's logit. "
            f"It was tested against {self.n_permutations:,} permutations of the distinct "
            "true words within their part of speech; p-values are corrected over the parts by the "
            "largest mean of each permutation, and intervals are bootstrapped over documents. Of a "
            "model with a task head, the logits of its classes are taken apart instead, along "
            "their gradients at the layers that the head reads; the null exchanges the true "
            "classes of documents, or of distinct words if words are tagged."
        )


_OF_PART = (
    "part: embeddings, head, attention-bias (of the output projection), mlp, norm-bias or "
    "output-bias; stack, kind, layer and head (from 0; -1: none) say which. "
)
_OF_LABELS = (
    "With a task head, read class for word: of texts, or of words that are tagged; there are no "
    "parts of speech to stay within. "
)
_OF_MEANS = (
    "contribution: mean contribution to the logit of the model's own choice minus the mean logit, "
    "with lower and upper, its 95 % bootstrap interval over documents. "
)
_OF_GAIN = (
    "gain: mean contribution to the true word beyond the means for this word in other contexts and "
    "for other true words in this context, within the part of speech, along the mean gradient of "
    "each word's logit; with gain_lower and gain_upper. "
)

CONTRIBUTIONS = Experiment(
    name="contributions",
    about="What does each head and MLP of a model add to the words it predicts?",
    subject="Predictions",
    settings=ContributionsOverCorpus,
    run="workbench.analyses.lenses.contributions_corpus:run",
    tables={
        "components": Table(
            f"Direct contributions of each part of the stack that the head reads. "
            f"{_OF_LABELS}{_OF_PART}"
            f"{_OF_MEANS}share: of all absolute contributions. gold: mean contribution to the true "
            "word. "
            f"{_OF_GAIN}p: of the permutation test, corrected over parts; writes: p < 0.05, so the "
            "part raises words where they are right. n, n_tested: number of words, and of those "
            "with another word of their part of speech.",
            ("part", "stack", "kind", "layer", "head"),
        ),
        "layers": Table(
            "Sums of the contributions of each layer by source: attention (all heads), "
            "cross-attention, MLP, embeddings, biases. layer: from 0; -1: outside all layers. "
            f"{_OF_MEANS}{_OF_GAIN}n: number of words.",
            ("layer", "source"),
        ),
        "tags": Table(
            "The same by part of speech of the predicted word (of labelled texts: by their true "
            f"class), without biases. {_OF_PART}"
            f"{_OF_MEANS}{_OF_GAIN}n: number of words with this tag.",
            ("tag", "part", "stack", "kind", "layer", "head"),
        ),
        "summary": Table(
            "Facts over all words, means with 95 % bootstrap intervals over documents. sum of "
            "contributions, logit of the choice above the mean: equal if the head is linear. parts "
            "that give half: the smallest number of parts with half of all positive contributions "
            "to a word. share: of all absolute contributions of a word. largest error of a sum: "
            "relative to the mean sum.",
            ("fact",),
        ),
        "objective": OBJECTIVE,
    },
    needs=(CLASSIFIES, HEADS, OWN_BLOCKS),
    version=3,
    measures=True,
    split="held-out",
    figures="workbench.analyses.lenses.figures.contributions:FIGURES",
    findings="workbench.analyses.lenses.findings:contributions",
    growth=Growth({"max_words": 300}),
    papers=("elhage-2021-framework", "geva-2022-promoting"),
    title="Direct contributions to the predictions of",
    demo=Demo(
        "What each head and MLP of GPT adds to the words it predicts",
        models=("mini:gpt",),
        settings={"max_words": 150},
        order=24,
    ),
)
