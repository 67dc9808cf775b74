"""The experiments of predictions: settings and tables.

Nothing here imports torch or spaCy, so that listing experiments is fast. Costs: nothing; the code
is imported when an experiment first runs.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import Field

from workbench.core.experiment import (
    HEAD,
    HEADS,
    LM_HEAD,
    PREDICTS,
    Experiment,
    Need,
    Settings,
    Table,
)
from workbench.core.growth import GrowingSettings, Growth
from workbench.core.measured import OBJECTIVE
from workbench.core.splits import SplitSettings

# --- what models must predict ---------------------------------------------------------------------


def _predicts(*but: str) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a model predicts anything, by its facts, but labels of these kinds."""
    return lambda facts: PREDICTS.met(facts) and facts["task"] not in but


SCORES_LABELS = Need(
    "a language-model head or a task head that scores its labels",
    _predicts("text"),
    PREDICTS.remedy,
)
# Scores are no choice among classes; answers choose among the words of each text.
CHOOSES = Need(
    "a language-model head or a task head that predicts classes, tags or answers",
    _predicts("score", "text"),
    "Choose a model saved with a language-model head, such as bert-base-uncased or gpt2, a text "
    "classifier, or a run of finetune on classes, tags or answers. wb.lens reads the layers of a "
    "head that predicts scores.",
)
CLASSIFIES = Need(
    "a language-model head or a task head that predicts classes or tags",
    _predicts("score", "answers", "text"),
    "Choose a model saved with a language-model head, such as bert-base-uncased or gpt2, a text "
    "classifier, or a run of finetune on classes or tags. wb.contributions explains scores and "
    "answers of one text.",
)
EXCHANGES = Need(
    "a language-model head, for its pairs exchange a predicted word",
    LM_HEAD.met,
    "wb.patch, and patching of one text in the app, compare the classes of two texts.",
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
    settings=LensSettings,
    run="workbench.attribution.lens_corpus:run",
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
    figures="workbench.figures.lens:FIGURES",
    findings="workbench.attribution.findings:lens",
    growth=Growth({"max_predictions": 300}),
    papers=("nostalgebraist-2020-lens", "langedijk-2023-decoderlens"),
)


# --- tuned-lens -----------------------------------------------------------------------------------


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
    steps: int = Field(
        250, ge=1, le=1_000_000, description="Maximum number of training steps (default 250)."
    )
    batch_size: int = Field(
        32,
        ge=1,
        le=100_000,
        description="Texts in the batch of a step, of which at most 256 predictions are used "
        "(default 32).",
    )
    learning_rate: float = Field(
        1e-3, gt=0, le=1, description="Learning rate of AdamW (default 0.001)."
    )

    def in_prose(self) -> str:
        return (
            "For each layer we trained an affine map of its states, a tuned lens (Belrose et al. "
            "2023): the model's own head then predicts from the mapped states. A map is the "
            "identity at first, which is the logit lens, and learns to minimise the "
            "Kullback-Leibler divergence of its distribution from that of the last layer, for at "
            f"most {self.steps:,} steps of {self.batch_size:,} texts, with early stopping on dev. "
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
    settings=TunedLens,
    run="workbench.attribution.tuned_lens:run",
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
    figures="workbench.figures.tuned_lens:FIGURES",
    findings="workbench.attribution.findings:tuned_lens",
    growth=Growth({"max_train": 2000}),
    papers=("belrose-2023-tuned-lens", "nostalgebraist-2020-lens", "langedijk-2023-decoderlens"),
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
    settings=ContributionsOverCorpus,
    run="workbench.attribution.corpus_contributions:run",
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
    figures="workbench.figures.contributions:FIGURES",
    findings="workbench.attribution.findings:contributions",
    growth=Growth({"max_words": 300}),
    papers=("elhage-2021-framework", "geva-2022-promoting"),
)

# --- attribution ----------------------------------------------------------------------------------

Predicted = Literal["auto", "word", "next", "class", "tag", "answer"]
CorpusMethod = Literal[
    "integrated-gradients",
    "gradient-x-input",
    "layer-integrated-gradients",
    "deeplift",
    "occlusion",
    "shapley",
    "attention-rollout",
    "attention-norms",
]


class AttributionOverCorpus(GrowingSettings):
    """What is predicted, and how it is attributed."""

    predict: Predicted = Field(
        "auto",
        description="What is predicted of each text: a word from its context, the next word after "
        "the text, its class, the tag of a word, or the first word of its answer (default auto: "
        "what the task head of a fine-tuned model or a classifier predicts, else a word).",
    )
    methods: tuple[CorpusMethod, ...] = Field(
        ("integrated-gradients", "gradient-x-input", "occlusion", "attention-rollout"),
        min_length=1,
        description="Attribution methods (default: integrated-gradients, gradient-x-input, "
        "occlusion, attention-rollout).",
    )
    baseline: Literal["auto", "mask", "mean", "zero", "pad"] = Field(
        "auto",
        description="Input vector of an absent word: of the mask piece, the mean of the embedding "
        "table, zero, or of the padding piece (default auto: mask if there is one, else mean).",
    )
    max_predictions: int = Field(
        40, ge=1, le=100_000, description="Maximum number of texts, drawn at random (default 40)."
    )
    by_word: bool = Field(
        True, description="Score words (default: yes) or single pieces of the tokenizer (no)."
    )
    max_steps: int = Field(
        64, ge=1, le=4096, description="Maximum steps of integrated gradients (default 64)."
    )
    random_orders: int = Field(
        10, ge=2, le=10_000, description="Random orders of the words of each text (default 10)."
    )
    random_models: int = Field(
        2,
        ge=0,
        le=100,
        description="Models with random weights for the weight-randomisation check (default 2).",
    )
    n_shuffles: int = Field(
        1000,
        ge=100,
        le=100_000,
        description="Number of shuffles of tags and trees for the permutation nulls "
        "(default 1000).",
    )

    def in_prose(self) -> str:
        what = {
            "auto": "what the model predicts",
            "word": "the prediction of a word from its context",
            "next": "the prediction of the next word",
            "class": "the predicted class or score",
            "tag": "the predicted tag of a word",
            "answer": "the predicted first word of the answer",
        }[self.predict]
        check = (
            f" A map that correlates with those of {self.random_models} models with random weights "
            "does not depend on what was learnt (Adebayo et al. 2018)."
            if self.random_models
            else ""
        )
        units = "words" if self.by_word else "pieces"
        return (
            f"For at most {self.max_predictions:,} texts drawn at random, we attributed {what} to "
            f"the {units} that the model reads, by {', '.join(self.methods)}. Each map orders the "
            f"{units}; comprehensiveness and sufficiency over the top 10, 20, 30 and 50 % (DeYoung "
            f"et al. 2020) are compared with {self.random_orders} random orders of each text by "
            f"sign flips over documents, with Holm's correction over methods.{check} Tags are "
            "tested by permutation over distinct words, relations by shuffled trees and by sign "
            "flips over distinct words."
        )


_OF_MAPS = "method: attribution method. n: number of texts. "

ATTRIBUTION = Experiment(
    name="attribution",
    about="Which words carry a model's predictions, and which attribution method is faithful?",
    settings=AttributionOverCorpus,
    run="workbench.attribution.corpus_attribution:run",
    tables={
        "methods": Table(
            "Faithfulness of each method, of the attention baseline and of a random control. "
            f"{_OF_MAPS}"
            "comprehensiveness: probability lost without the top words (high is good); "
            "sufficiency: probability lost with only the top words (low is good); both are means "
            "over the top 10, 20, 30 and 50 %, with their 95 % bootstrap intervals over documents. "
            "random_comprehensiveness, random_sufficiency: the same for random orders. gain: "
            "comprehensiveness minus sufficiency, minus the same for random orders. lower, upper, "
            "p: its interval, and the p-value of sign flips over documents (one-sided, Holm over "
            "methods; the control alone). faithful: yes if p < 0.05 and the gain is at least 0.01. "
            "over_attention, over_attention_lower, over_attention_upper, p_attention: gain minus "
            "the gain of the attention baseline, tested in the same way. "
            "behind, behind_lower, behind_upper: gain of the method with the highest gain minus "
            "that of this method on the same texts, with its interval; empty for the best one. "
            "randomised: rank correlation of absolute scores with the maps of random weights, over "
            "n_randomised texts; chance: 95 % of random maps correlate less. check: destroyed (not "
            "above chance), partly kept, or kept (at least 0.5). delta, delta_worst: error of a "
            "complete method's sum of scores, mean and largest, in logits.",
            ("method",),
        ),
        "agreement": Table(
            "Spearman's rank correlation of the scores of two methods, mean over texts, with its "
            "95 % bootstrap interval over documents. n: number of texts.",
            ("first", "second"),
        ),
        "tags": Table(
            "Attribution to words by their tag. n: number of words; types: of distinct words. "
            "attribution: share of all absolute scores; words: share of all words; lift: the first "
            "over the second, with its 95 % bootstrap interval over documents. same_distance: lift "
            "of words at the same distances. p: that the lift differs from same_distance, by "
            "exchanging the tags of distinct words (two-sided, Holm over tags). The predicted word "
            "is left out.",
            ("method", "tag"),
        ),
        "relations": Table(
            "Attribution to the syntactic heads and dependents of the predicted word. direction: "
            "dependent-to-head if the attributed word is the head of the predicted word. relation: "
            "`all` for any. n: number of words; types: of distinct words. attribution: their mean "
            "absolute score over that of a word of their text. same_distance: of words at the same "
            "distance without such a relation. difference: the first minus the second, with its "
            "95 % bootstrap interval over documents. p_shuffled: of shuffled trees; p_types: of "
            "sign flips over distinct words (both one-sided, Holm over rows). p: the larger one.",
            ("method", "direction", "relation"),
        ),
        "positions": Table(
            "Attribution by position. origin: offsets are counted from the predicted word, or from "
            "the start of the text. offset: 10 and -10 include all words beyond. n: number of "
            "words. attribution: share of all absolute scores, with its 95 % bootstrap interval "
            "over documents. words: share of all words.",
            ("method", "origin", "offset"),
            ("offset",),
        ),
        "top_words": Table(
            "Words with the highest attribution, of those that occur in at least three texts. n: "
            "number of occurrences. lift: mean absolute score over that of a word of the text.",
            ("method", "word"),
        ),
        "examples": Table(
            "Maps of a few texts. position: of the word or piece in the text, in reading order. "
            "score: positive if it supports the prediction. fixed: special or hidden; never "
            "scored. predicted, probability: the prediction that is explained; gold: the true one.",
            ("text", "method", "position"),
            ("text", "position"),
        ),
        "objective": OBJECTIVE,
    },
    needs=(SCORES_LABELS,),
    version=3,
    measures=True,
    split="held-out",
    exact_up_to=1e9,
    figures="workbench.figures.attribution_corpus:FIGURES",
    findings="workbench.attribution.findings:attribution",
    growth=Growth({"max_predictions": 40}),
    papers=("deyoung-2020-eraser", "adebayo-2018-sanity"),
)

# --- patching -------------------------------------------------------------------------------------

Restored = Literal["states", "heads", "mlps"]


class PatchingOverCorpus(Settings):
    """Which pairs are read, and what is restored in them."""

    restore: tuple[Restored, ...] = Field(
        ("states", "heads", "mlps"),
        min_length=1,
        description="Activations to restore (default: states, heads, mlps).",
    )
    phenomena: tuple[str, ...] = Field(
        (), description="Phenomena whose pairs are used (default: all)."
    )
    max_pairs: int = Field(
        200, ge=1, le=100_000, description="Maximum number of pairs, drawn at random (default 200)."
    )
    random_pairs: int = Field(
        2,
        ge=1,
        le=100,
        description="Unrelated texts whose activations are restored in each pair, as a null "
        "(default 2).",
    )

    def in_prose(self) -> str:
        names = {
            "states": "the states of each layer, by place",
            "heads": "the output of each attention head",
            "mlps": "the output of each MLP",
        }
        what = [names[each] for each in self.restore]
        listed = " and ".join([", ".join(what[:-1]), what[-1]] if len(what) > 1 else what)
        null = (
            "an unrelated text"
            if self.random_pairs == 1
            else f"{self.random_pairs} unrelated texts"
        )
        return (
            f"For at most {self.max_pairs:,} counterfactual pairs, drawn at random, we restored "
            f"activations of the clean text in a pass over the corrupt text (activation patching; "
            f"Vig et al. 2020, Meng et al. 2022): {listed}. The effect is the difference of the "
            "logits of the two texts' words above that of the corrupt text, as a share of the "
            "difference between both texts (Zhang and Nanda 2024), over the pairs that the model "
            f"distinguishes. The null restores the activations of {null} of the same alignment; "
            "p-values are those of sign flips over distinct exchanges of words, corrected for all "
            "cells of a table (Westfall and Young). Intervals are bootstrapped over exchanges."
        )


_OF_EFFECT = (
    "effect: restored share of the difference between both texts (0: none, 1: all), over the n "
    "pairs that the model distinguishes; lower, upper: its 95 % bootstrap interval over exchanges "
    "of words. random: the same for unrelated texts of the same alignment. nats: mean effect above "
    "that of unrelated texts, over all n_tested pairs with such texts. p: of sign flips over "
    "exchanges (two-sided, corrected for the rows of the table). restores: p < 0.05, nats above 0, "
    "and the interval of the effect above 0."
)

PATCHING = Experiment(
    name="patching",
    about="Which states, heads and MLPs carry what decides between two words?",
    settings=PatchingOverCorpus,
    run="workbench.attribution.corpus_patching:run",
    tables={
        "pairs": Table(
            "What the model predicts for the pairs of each phenomenon, and for all. clean_prefers: "
            "share of pairs whose clean text makes its word more probable than the other; "
            "corrupt_prefers: whose corrupt text makes the other more probable. clean, corrupt: "
            "mean logit of the clean text's word minus that of the corrupt text's word. "
            "difference: the first minus the second, with its 95 % bootstrap interval over "
            "exchanges of words. p: of sign flips over exchanges (one-sided; Holm over phenomena). "
            "significant: p < 0.05. n: pairs; distinguished: of these, with a difference above 0.1 "
            "nats; with_random: with an unrelated text of the same alignment; exchanges: distinct "
            "exchanges of words; left_out: further pairs that could not be used.",
            ("phenomenon",),
        ),
        "states": Table(
            "Effects of restored states. layer 0: before the first block. place: changed (the "
            "exchanged words), between (words between these and the predicted word), previous (the "
            "last word before it), predicted (the piece that predicts; in an encoder below a "
            "decoder, the mark of the hidden word), special (special pieces), other. All pieces of "
            f"a place are restored together. {_OF_EFFECT}",
            ("stack", "layer", "place"),
        ),
        "heads": Table(
            f"Effects of restored outputs of attention heads, at all pieces. {_OF_EFFECT}", HEAD
        ),
        "mlps": Table(
            "Effects of restored outputs of MLPs, at all pieces. layer: the block, from 0. "
            f"{_OF_EFFECT}",
            ("stack", "layer"),
        ),
        "objective": OBJECTIVE,
    },
    version=2,
    needs=(EXCHANGES,),
    measures=True,
    split="held-out",
    exact_up_to=1e9,
    figures="workbench.figures.patching_corpus:FIGURES",
    findings="workbench.attribution.findings:patching",
    papers=(
        "vig-2020-mediation", "meng-2022-rome", "wang-2023-ioi", "zhang-2024-patching",
    ),
)  # fmt: skip
