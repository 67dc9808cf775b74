"""What can be asked of attention heads: the experiment `heads`, its settings and tables.

Costs nothing; the code is imported when it is first run.
"""

from typing import Literal

from pydantic import Field, model_validator

from workbench.core.experiment import HEAD, HEADS, Experiment, Settings, Table

ENDS = ("", "_lower", "_upper")


class Heads(Settings):
    """What is asked, and when a head is called what."""

    level: Literal["words", "pieces"] = Field(
        "words",
        description="Words: summed over the pieces looked at, averaged over those that look. "
        "Pieces: each by itself; then there are no relations, no rare words and no coreference.",
    )
    subtypes: bool = Field(False, description="Tell nsubj:pass from nsubj; else main types alone.")
    positional: float = Field(
        0.9, gt=0, le=1, description="Share of words that look at one offset, for that role."
    )
    margin: float = Field(
        0.1, ge=0, le=1, description="By how much a relation's best fixed offset is to be beaten."
    )
    relative: bool = Field(
        False, description="The margin is a share of the baseline, not percentage points."
    )
    alpha: float = Field(
        0.01, gt=0, lt=1, description="Significance, corrected over all heads and relations."
    )
    residual: float = Field(
        0.05,
        ge=0,
        le=1,
        description="Attention on words below which their maximum is not reliable: it does not "
        "count for roles, offsets and accuracy_confident (default 0.05).",
    )
    least: int = Field(
        10,
        ge=1,
        le=1_000_000_000,
        description="Words, arcs or mentions that a role must rest on.",
    )
    frequent: int = Field(
        500,
        ge=0,
        le=1_000_000_000,
        description="So many words of the corpus are frequent; all others are rare.",
    )
    rare: float = Field(
        0.5, gt=0, le=1, description="Share of words that look at the rarest, for that role."
    )
    shuffles: int = Field(200, ge=10, le=5000, description="Shuffled trees behind a p-value.")
    draws: int = Field(200, ge=20, le=5000, description="Drawings behind an interval.")
    examples: int = Field(
        40,
        ge=0,
        le=500,
        description="Sentences shown word by word, and by which heads are compared (default 40; of "
        "long documents as many as have 4,000 words).",
    )

    @model_validator(mode="after")
    def _enough(self) -> "Heads":
        if 1 / (self.shuffles + 1) >= self.alpha:
            raise ValueError(
                f"{self.shuffles} shuffles cannot show a significance of {self.alpha}; "
                f"give {int(1 / self.alpha) + 1} or more"
            )
        return self


TABLES = {
    "heads": Table(
        "Every head. role: what it does best; roles: all it does. confidence: mean largest weight, "
        "separators left out; entropy: over its greatest; distance: mean, in words. offset_share: "
        "of words that have one there; its p-value against words chosen at random. reliable: words "
        "whose maximum is reliable. relation_accuracy: accuracy of the best relation, next to the "
        "best simple rule (relation_baseline). rare_share: words that look at the rarest one, next "
        "to shuffles (rare_null) and the word of most pieces (rare_longest). Masses are means over "
        "words, normed: weighted by the length of written values; `_even`: what uniform attention "
        "gives. induction and duplicate: on random blocks that come twice. `_lower` and `_upper`: "
        "the middle 95 % of bootstrap samples of documents.",
        HEAD,
        (
            "offset",
            "relation_baseline",
            *(f"offset_share{end}" for end in ENDS),
            *(f"relation_accuracy{end}" for end in ENDS),
        ),
    ),
    "relations": Table(
        "accuracy: arcs whose word has its argmax over the other words on its partner, as Clark et "
        "al. (2019) count: no minimum of attention, each dependent once in both directions; a tie "
        "is a miss. accuracy_confident: the argmax counts only where it is reliable (words get the "
        "residual attention, no tie); reliable: the share of those. accuracy_any_dependent: each "
        "head word once, any of its dependents a hit. Baselines, counted like accuracy: the best "
        "fixed offset; the first word; the word of most pieces (baseline_longest), where uniform "
        "attention has its maximum. difference: accuracy_confident less the best of them. "
        "p_value_baseline: sign test over sentences against every rule; p_value: against shuffled "
        "trees (null_mean); both corrected over heads, relations and directions. syntactic: "
        "accuracy_confident beats all of them by the margin, the difference's interval is above 0, "
        "and both p-values are below alpha.",
        (*HEAD, "relation", "direction"),
        ("baseline_offset",),
    ),
    "best": Table(
        "Of each relation and direction the head of the highest accuracy, whatever its role; "
        "gain: above the best baseline. Columns as in `relations`.",
        ("relation", "direction"),
        ("stack", "kind", "layer", "head", "baseline_offset"),
    ),
    "offsets": Table(
        "Words that look at the word so far to the right (left: negative), of those that have one.",
        (*HEAD, "offset"),
    ),
    "cross": Table(
        "How a decoder's heads go along what the encoder read. order: correlation of a word's "
        "place with where it looks; same, first, last: words that look at the word of the same "
        "place, the first, the last; special: that give special pieces more than words.",
        ("stack", "layer", "head"),
    ),
    "clusters": Table(
        "Heads by how alike they look (average linkage of root Jensen-Shannon divergences in "
        "bits), their place on a map, and the nearest other head.",
        HEAD,
        ("cluster", "x", "y", "nearest_layer", "nearest_head"),
    ),
    "dendrogram": Table(
        "The order in which heads join; a number below that of heads is a row of `clusters`, "
        "others are earlier rows of this table.",
        ("left", "right"),
    ),
    "kin": Table(
        "Of each head the nearest one in the other model.", HEAD, ("kin_layer", "kin_head")
    ),
    "looks": Table(
        "Which other word each word looks at, in some sentences; -1: no reliable maximum.",
        (*HEAD, "sentence", "word"),
        ("looks_at",),
    ),
    "words": Table(
        "The words of those sentences, with their gold.",
        ("sentence", "word"),
        ("start", "governor"),
    ),
}

EXPERIMENT = Experiment(
    name="heads",
    version=3,
    about="What every attention head does: positional, syntactic, rare-token and other roles, "
    "with baselines, nulls and intervals.",
    settings=Heads,
    run="workbench.heads.head_analysis:run",
    exact_up_to=1e9,
    tables=TABLES,
    needs=(HEADS,),
    models=(1, 2),
    split="held-out",
    figures="workbench.figures.heads:FIGURES",
)
