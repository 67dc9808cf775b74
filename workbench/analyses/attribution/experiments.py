"""The experiment `attribution`: settings and tables.

Nothing here imports torch or spaCy, so that listing experiments is fast. Costs: nothing; the code
is imported when an experiment first runs.
"""

from typing import Literal

from pydantic import Field

from workbench.core.findings import listing, plural
from workbench.experiment.definition import (
    PREDICTS,
    Demo,
    Experiment,
    Need,
    Table,
    predicts_any_but,
)
from workbench.experiment.growth import Growth
from workbench.experiment.measured import OBJECTIVE
from workbench.experiment.sizes import GrowingSettings

SCORES_LABELS = Need(
    "a language-model head or a task head that scores its labels",
    predicts_any_but("text"),
    PREDICTS.remedy,
)

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
            f" A map that correlates with those of {plural(self.random_models, 'model')} with "
            "random weights does not depend on what was learnt (Adebayo et al. 2018)."
            if self.random_models
            else ""
        )
        units = "words" if self.by_word else "pieces"
        methods = listing(self.methods, len(self.methods))
        return (
            f"For at most {self.max_predictions:,} texts drawn at random, we attributed {what} to "
            f"the {units} that the model reads, by {methods}. Each map orders the "
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
    subject="Predictions",
    settings=AttributionOverCorpus,
    run="workbench.analyses.attribution.attribution_corpus:run",
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
            "attribution: share of all absolute scores, each over the mean of its text; words: "
            "share of all words; lift: the first over the second, with its 95 % bootstrap interval "
            "over documents. expected: lift of words as near and of as many pieces. p: that the "
            "lift differs from expected, by exchanging the tags of distinct words (two-sided, Holm "
            "over tags). The predicted word is left out.",
            ("method", "tag"),
        ),
        "relations": Table(
            "Attribution to the governor and dependents of the predicted word. direction: "
            "dependent-to-head if the attributed word is the governor of the predicted word. "
            "relation: `all` for any. n: number of words; types: of distinct words. attribution: "
            "their mean absolute score over that of a word of their text. expected: of words "
            "without such a relation, as near and of as many pieces. difference: the first minus "
            "the second, with its 95 % bootstrap interval over documents. p_shuffled: of shuffled "
            "trees; p_types: of sign flips over distinct words (both one-sided, Holm over rows). "
            "p: the larger one.",
            ("method", "direction", "relation"),
        ),
        "positions": Table(
            "Attribution by position. origin: offsets are counted from the predicted word, or from "
            "the start of the text. offset: 10 and -10 include all words beyond. n: number of "
            "words. attribution: share of all absolute scores, each over the mean of its text, "
            "with its 95 % bootstrap interval over documents. words: share of all words.",
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
    version=4,
    measures=True,
    split="held-out",
    exact_up_to=1e9,
    figures="workbench.analyses.attribution.figures.corpus:FIGURES",
    findings="workbench.analyses.attribution.findings:attribution",
    growth=Growth({"max_predictions": 40}),
    papers=("deyoung-2020-eraser", "adebayo-2018-sanity"),
    title="Which words carry the predictions of",
    demo=Demo(
        "Which words carry the predictions of BERT, and which attribution method is faithful",
        models=("mini:bert",),
        settings={"max_predictions": 15, "random_models": 1},
        order=22,
    ),
)
