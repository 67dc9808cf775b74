"""The experiment `heads`: its settings and tables.

Costs: nothing; the code is imported when the experiment first runs.
"""

from typing import Literal

from pydantic import Field, model_validator

from workbench.experiment.definition import HEAD, HEADS, Demo, Experiment, Settings, Table

ENDS = ("", "_lower", "_upper")


class Heads(Settings):
    """Thresholds of the roles, and how much is resampled."""

    level: Literal["words", "pieces"] = Field(
        "words",
        description="Unit of attention. words: summed over target pieces, averaged over source "
        "pieces. pieces: each piece alone, without relations, rare words and coreference.",
    )
    subtypes: bool = Field(
        False, description="Keep relation subtypes such as nsubj:pass (default: main types only)."
    )
    positional_threshold: float = Field(
        0.9,
        gt=0,
        le=1,
        description="Share of words that look at one offset, for the positional role (default "
        "0.9).",
    )
    baseline_margin: float = Field(
        0.1,
        ge=0,
        le=1,
        description="Margin by which a syntactic head beats the best baseline (default 0.1: 10 "
        "points).",
    )
    relative_margin: bool = Field(
        False, description="The margin is a share of the baseline (default: percentage points)."
    )
    alpha: float = Field(
        0.01,
        gt=0,
        lt=1,
        description="Significance level, corrected over all heads and relations (default 0.01).",
    )
    min_word_attention: float = Field(
        0.05,
        ge=0,
        le=1,
        description="Minimum attention on words for a reliable maximum (default 0.05). Unreliable "
        "maxima do not count for roles, offsets and accuracy_confident.",
    )
    min_count: int = Field(
        10,
        ge=1,
        le=1_000_000_000,
        description="Minimum number of words, arcs or mentions for a role (default 10).",
    )
    n_frequent_words: int = Field(
        500,
        ge=0,
        le=1_000_000_000,
        description="Number of most frequent words of the corpus that are not rare (default 500).",
    )
    rare_threshold: float = Field(
        0.5,
        gt=0,
        le=1,
        description="Minimum share of words that attend most to the rarest word, for the rare role "
        "(default 0.5).",
    )
    n_shuffles: int = Field(
        200,
        ge=10,
        le=5000,
        description="Number of shuffled trees for the permutation null (default 200).",
    )
    n_bootstrap: int = Field(
        200, ge=20, le=5000, description="Number of bootstrap samples of documents (default 200)."
    )
    max_examples: int = Field(
        40,
        ge=0,
        le=500,
        description="Maximum number of example sentences, which also compare heads (default 40; "
        "fewer where they have over 4,000 words).",
    )

    def in_prose(self) -> str:
        unit = {
            "words": "words (summed over the pieces of the attended word, averaged over those of "
            "the attending word)",
            "pieces": "pieces",
        }[self.level]
        margin = f"{100 * self.baseline_margin:g} {'%' if self.relative_margin else 'points'}"
        followed = (
            "A head was called syntactic if it attended to the gold partner of a dependency at "
            f"least {margin} more often than the best fixed offset, the first word and the word "
            f"with most pieces, with p < {self.alpha:g} in a sign test over sentences and against "
            f"{self.n_shuffles} shuffled trees, corrected over heads and relations (Clark et al. "
            "2019). "
        )
        rare = (
            f", and a rare-word head if {100 * self.rare_threshold:g} % attended most to the rarest"
            f" word, outside the {self.n_frequent_words} most frequent ones (Voita et al. 2019)"
        )
        is_words = self.level == "words"
        return (
            f"We measured the attention of every head between {unit}. "
            f"{followed if is_words else ''}A head was called positional if "
            f"{100 * self.positional_threshold:g} % of {self.level} attended most to one relative "
            f"offset{rare if is_words else ' (Voita et al. 2019)'}. Intervals are 95 % bootstrap "
            f"intervals from {self.n_bootstrap} samples of documents."
        )

    @model_validator(mode="after")
    def _enough(self) -> "Heads":
        if 1 / (self.n_shuffles + 1) >= self.alpha:
            raise ValueError(
                f"n_shuffles={self.n_shuffles} cannot show a significance of {self.alpha}; "
                f"use {int(1 / self.alpha) + 1} or more"
            )
        return self


TABLES = {
    "heads": Table(
        "One row per head. role: the role it fills best; roles: all roles. confidence: mean of "
        "each word's largest weight, without separators. entropy: mean of each word's entropy, "
        "divided by its maximum. distance: mean distance of the words attended to, in words. "
        "offset_share: share of words that attend most to the word at the best offset. "
        "offset_p_value: test against a head that attends to a random word. reliable: share of "
        "words with a reliable maximum. relation_accuracy: accuracy on the best relation; "
        "relation_baseline: the best simple rule for this relation. rare_share: share of words "
        "that attend most to the rarest word; two_rarest_share: to one of the two rarest. "
        "rare_null: rare_share in shuffled sentences. rare_longest: share for which the word with "
        "most pieces is the rarest. `_mass`: mean share of a word's attention that goes to "
        "special tokens, to separators, or to the first position. `_normed`: each weight times "
        "the norm of its value vector after the output projection. `_even`: the same for uniform "
        "attention. coref_accuracy: share of mentions whose largest weight on an earlier mention "
        "is on one of their chain. coref_nearest, coref_head_match: accuracy of two simple rules, "
        "the nearest mention and the same head word. previous: mean attention on the word before. "
        "vertical: on the word or special token that gets most attention in the document. "
        "diagonal: on the word itself and its two neighbours. block: share of the attention on "
        "words that stays in the sentence, in documents with several sentences. induction, "
        "duplicate: attention on random blocks that occur twice. induction: on the piece after "
        "the earlier copy; duplicate: on the earlier copy; induction_n: texts of such blocks. "
        "`_lower` and `_upper`: 95 % bootstrap "
        "interval over documents.",
        HEAD,
        (
            "offset",
            "relation_baseline",
            *(f"offset_share{end}" for end in ENDS),
            *(f"relation_accuracy{end}" for end in ENDS),
        ),
    ),
    "relations": Table(
        "accuracy: share of arcs whose word has its largest weight over the other words on its "
        "partner (Clark et al. 2019): no minimum weight, each dependent once in both directions; a "
        "tie is a miss. accuracy_confident: only reliable maxima count (words receive the minimum "
        "attention, no tie); reliable: their share. accuracy_any_dependent: each head word once; "
        "any of its dependents is a hit. Baselines, counted like accuracy: the best fixed offset; "
        "the first word; the word with most pieces (baseline_longest), where uniform attention has "
        "its maximum. difference: accuracy_confident minus the best baseline. p_value_baseline: "
        "sign test over sentences against every baseline; p_value: against shuffled trees "
        "(null_mean); both corrected over heads, relations and directions. syntactic: "
        "accuracy_confident beats all baselines by the margin, the interval of the difference is "
        "above 0, and both p-values are below alpha.",
        (*HEAD, "relation", "direction"),
        ("baseline_offset",),
    ),
    "best": Table(
        "The head with the highest accuracy on each relation and direction, whatever its role. "
        "gain: accuracy minus the best baseline. Other columns as in `relations`.",
        ("relation", "direction"),
        ("stack", "kind", "layer", "head", "baseline_offset"),
    ),
    "offsets": Table(
        "Share of words that attend most to the word at this offset (negative: to the left). Only "
        "words that have a word at this offset count.",
        (*HEAD, "offset"),
    ),
    "cross": Table(
        "How the heads of a decoder follow the text that the encoder read. order: correlation of "
        "a word's position with the position it attends to. same, first, last: share of words "
        "that attend most to the word at the same position, the first word, the last word. "
        "special: share of words that give special tokens more attention than words.",
        ("stack", "layer", "head"),
    ),
    "clusters": Table(
        "Clusters of heads that look alike (average linkage of square roots of Jensen-Shannon "
        "divergences in bits), the position of each head on a two-dimensional map, and its most "
        "similar head.",
        HEAD,
        ("cluster", "x", "y", "nearest_layer", "nearest_head"),
    ),
    "dendrogram": Table(
        "The order in which heads are merged. A number below the number of heads is a row of "
        "`clusters`; larger numbers are earlier rows of this table.",
        ("left", "right"),
    ),
    "kin": Table(
        "Similar heads: for each head the most similar head of the other model.",
        HEAD,
        ("kin_layer", "kin_head"),
    ),
    "looks": Table(
        "The word that each word attends to most, itself excluded, in the example sentences. "
        "looks_at: its index; -1: no reliable maximum.",
        (*HEAD, "sentence", "word"),
        ("looks_at",),
    ),
    "words": Table(
        "The words of the example sentences, with their gold annotation.",
        ("sentence", "word"),
        ("start", "governor"),
    ),
}

EXPERIMENT = Experiment(
    name="heads",
    question="What does each attention head do?",
    subject="Heads",
    version=4,
    about="What does each attention head do: positional, syntactic, rare-word and other roles, "
    "with baselines, permutation nulls and intervals.",
    settings=Heads,
    run="workbench.analyses.heads.head_analysis:run",
    exact_up_to=1e9,
    tables=TABLES,
    needs=(HEADS,),
    models=(1, 2),
    split="held-out",
    figures="workbench.analyses.heads.figures.heads:FIGURES",
    findings="workbench.analyses.heads.findings:heads",
    papers=(
        "clark-2019-bert",
        "voita-2019-heads",
        "kobayashi-2020-norms",
        "olsson-2022-induction",
    ),
    title="Attention heads of",
    demo=Demo(
        "Roles of attention heads: offsets, relations, rare words, separators",
        models=("mini:bert",),
        settings={"max_sentences": 300, "max_examples": 20},
        order=8,
    ),
)
