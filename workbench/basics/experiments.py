"""What can be asked of a corpus, and of a model as a whole: describe, profile, pairs, trigram.

Names, settings and tables alone, so that experiments are listed without torch or spaCy. Costs
nothing; the code is imported when it is first run.
"""

from typing import Literal

from pydantic import Field

from workbench.core.experiment import Experiment, Need, Settings, Table
from workbench.models.references import Pseudo

LM_HEAD = Need(
    "a language-model head",
    lambda facts: bool(facts["objective"]),
    "Choose a model saved with one, such as bert-base-uncased or gpt2.",
)


# --- describe -------------------------------------------------------------------------------------


class Describe(Settings):
    """What to list."""

    words: int = Field(100, ge=0, le=100_000, description="How many of the frequent words to list.")


DESCRIBE_TABLES = {
    "sizes": Table("How much there is of each split.", ("split",)),
    "lengths": Table("How many sentences have so many words.", ("first", "last")),
    "tags": Table("How often each part-of-speech tag occurs.", ("layer", "tag")),
    "relations": Table(
        "Dependency relations; `offset` is the most frequent place of the head, counted from the "
        "dependent, and `share` the part of the relation's edges that have it.",
        ("relation",),
    ),
    "labels": Table("Labels of spans and edges, by layer.", ("layer", "label")),
    "coreference": Table("Chains within Docs, and the mentions in them.", ("what",)),
    "classes": Table("What is said of whole texts, in words.", ("label", "value")),
    "scores": Table("What is said of whole texts, in numbers.", ("label",)),
    "words": Table("The most frequent words.", ("word",)),
}

DESCRIBE = Experiment(
    name="describe",
    about="What a corpus holds: sizes, lengths, tags, relations, labels, words.",
    settings=Describe,
    run="workbench.basics.describe:run",
    tables=DESCRIBE_TABLES,
    models=(0, 0),
    figures="workbench.figures.corpus:FIGURES",
)


# --- profile --------------------------------------------------------------------------------------


class Profile(Settings):
    """What to measure."""

    pseudo: bool = Field(
        False,
        description="Pseudo-likelihood too, of models that see both sides: each piece hidden alone "
        "(Salazar et al. 2020). Slow.",
    )


PROFILE_TABLES = {
    "facts": Table("What the model is.", ("fact",)),
    "stacks": Table(
        "Its stacks of layers, their heads a layer, and kinds of attention.", ("stack",)
    ),
    "modules": Table(
        "Where its parameters are; what is shared counts once, where it comes first.", ("module",)
    ),
    "losses": Table(
        "How well it predicts the corpus; loss is in nats a piece, and `n` the pieces, words or "
        "bytes that a measure is of.",
        ("split", "objective", "metric"),
    ),
}

PROFILE = Experiment(
    name="profile",
    about="What a model is, where its parameters are, and how well it predicts a corpus.",
    settings=Profile,
    run="workbench.basics.lm_profile:run",
    tables=PROFILE_TABLES,
    corpora=(0, 1),
    split="held-out",
    figures="workbench.figures.model:PROFILE_FIGURES",
)


# --- minimal-pairs --------------------------------------------------------------------------------


class MinimalPairs(Settings):
    """How sentences are scored."""

    pseudo: Pseudo = Field(
        "within-word",
        description="What a model that sees both sides has hidden with each piece: the later "
        "pieces of its word (within-word, Kauf and Ivanova 2023), or nothing (original, Salazar "
        "et al. 2020).",
    )
    start: Literal["auto", "no"] = Field(
        "auto",
        description="Start token of a causal model whose tokenizer puts none before a text: where "
        "it has one and predicts better behind it (auto), or none (no).",
    )


_PAIRS = (
    "Accuracy is the share of pairs whose right sentence is likelier; lower and upper are its 95 % "
    "interval (Wilson) over pairs, chance is 50 %; gap is the mean in nats. fewer_pieces is the "
    "accuracy of choosing the sentence of fewer pieces. p flips the signs of whole exchanges of "
    "words, of the gain over the better of the two, corrected over the rows (Holm); above_chance "
    "where it is under 0.05."
)

MINIMAL_PAIRS = Experiment(
    name="minimal-pairs",
    about="How often a model finds the right sentence of a minimal pair likelier.",
    settings=MinimalPairs,
    run="workbench.basics.minimal_pairs:run",
    tables={
        "pairs": Table(f"By phenomenon (BLiMP's linguistics_term). {_PAIRS}", ("phenomenon",)),
        "fields": Table(f"By field of linguistics. {_PAIRS}", ("field",)),
        "paradigms": Table(f"By paradigm (BLiMP's UID). {_PAIRS}", ("paradigm",)),
        "scoring": Table(
            "How sentences were scored: by what, behind which start token, how many pairs, how "
            "many identical ones were left out, and how the vocabulary fits their words.",
            ("fact",),
        ),
    },
    version=2,
    needs=(LM_HEAD,),
    split="held-out",
    figures="workbench.figures.model:MINIMAL_PAIRS_FIGURES",
)


# --- trigram --------------------------------------------------------------------------------------

TRIGRAM = Experiment(
    name="trigram",
    about="How much better a model predicts a corpus than trigrams of its training split.",
    settings=Settings,
    run="workbench.basics.trigram:run",
    tables={
        "scores": Table(
            "What the model and a trigram model make of the same pieces; `n` is their number. "
            "`gain` is the model's over the trigrams': of accuracy the difference, of perplexity "
            "nats a piece, with a 95 % interval and p over documents drawn again, corrected for "
            "two measures; `better` where the interval is above 0 and p under 0.05.",
            ("measure",),
        )
    },
    version=2,
    needs=(LM_HEAD,),
    split="held-out",
    figures="workbench.figures.model:TRIGRAM_FIGURES",
)
