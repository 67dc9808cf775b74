"""The experiments `describe`, `profile`, `minimal-pairs` and `trigram`: settings and tables.

Nothing here imports torch or spaCy, so that listing experiments is fast. Costs: nothing; the code
is imported when an experiment first runs.
"""

from typing import Literal

from pydantic import Field

from workbench.experiment.definition import LM_HEAD, Demo, Experiment, Settings, Table
from workbench.models.references import MINI_CORPUS, Pseudo

# --- describe -------------------------------------------------------------------------------------


class Describe(Settings):
    """How many words are listed."""

    max_words: int = Field(
        100, ge=0, le=100_000, description="Number of most frequent words to list (default 100)."
    )

    def in_prose(self) -> str:
        texts = (
            "all Docs" if self.max_sentences is None else f"the first {self.max_sentences:,} Docs"
        )
        return (
            f"We counted the sentences, words, tags, dependency relations and labels of {texts} of "
            f"the corpus, and listed the {self.max_words:,} most frequent words. A word is a token "
            "that is not white space; a distinct word is a word as written."
        )


DESCRIBE_TABLES = {
    "sizes": Table(
        "Number of Docs, documents, sentences, words and distinct words (types) of each split.",
        ("split",),
    ),
    "lengths": Table(
        "Number of sentences by length. `first`, `last`: the shortest and longest length counted "
        "in the row, in words.",
        ("first", "last"),
    ),
    "tags": Table(
        "Number of words with each part-of-speech tag, by annotation layer.", ("layer", "tag")
    ),
    "relations": Table(
        "Number of edges of each dependency relation. offset: the most frequent position of the "
        "head relative to the dependent. share: share of edges with this offset.",
        ("relation",),
    ),
    "labels": Table(
        "Number of spans and edges with each label, by annotation layer.", ("layer", "label")
    ),
    "coreference": Table(
        "Number of coreference chains within Docs, and of mentions in them.", ("what",)
    ),
    "classes": Table(
        "Number of texts by label (such as sentiment) and by value (a class, such as positive).",
        ("label", "value"),
    ),
    "scores": Table(
        "Numeric labels of texts: number of texts, minimum, mean and maximum of each label.",
        ("label",),
    ),
    "words": Table("The most frequent words, with their count and rank.", ("word",)),
}

DESCRIBE = Experiment(
    name="describe",
    about="What does a corpus contain: sizes, lengths, tags, relations, labels, words?",
    subject="Texts",
    settings=Describe,
    run="workbench.analyses.basics.describe:run",
    tables=DESCRIBE_TABLES,
    models=(0, 0),
    figures="workbench.analyses.basics.figures.corpus:FIGURES",
    findings="workbench.analyses.basics.findings:describe",
    title="Statistics of",
    demo=Demo("Statistics of the built-in corpus", order=1),
)


# --- profile --------------------------------------------------------------------------------------


class Profile(Settings):
    """Which losses are measured."""

    pseudo_likelihood: bool = Field(
        False,
        description="Also compute the pseudo-likelihood of models that see both sides: each piece "
        "is masked alone (Salazar et al. 2020). Slow (default: no).",
    )

    def in_prose(self) -> str:
        texts = "all texts" if self.max_sentences is None else f"{self.max_sentences:,} texts"
        pseudo = (
            " For models that see both sides, we also computed the pseudo-likelihood, with each "
            "piece masked alone (Salazar et al. 2020)."
        )
        return (
            "We counted the parameters of each part of the model, shared parameters once. If a "
            f"corpus was given, we measured the model's loss on {texts} of it by the model's own "
            "training objective, as a mean over pieces (of ELMo: words) in nats."
            f"{pseudo if self.pseudo_likelihood else ''}"
        )


PROFILE_TABLES = {
    "facts": Table(
        "Facts about the model: name, family, objective, number of parameters and others.",
        ("fact",),
    ),
    "stacks": Table(
        "Stacks of layers: number of layers, heads per layer, and kinds of attention.", ("stack",)
    ),
    "modules": Table(
        "Number of parameters of each module. Shared parameters count once, in the first module.",
        ("module",),
    ),
    "losses": Table(
        "How well the model predicts the corpus. Losses are in nats per piece. n: number of "
        "pieces, words or bytes of a measure.",
        ("split", "objective", "metric"),
    ),
}

PROFILE = Experiment(
    name="profile",
    about="What is a model, where are its parameters, and how well does it predict a corpus?",
    subject="Predictions",
    settings=Profile,
    run="workbench.analyses.basics.lm_profile:run",
    tables=PROFILE_TABLES,
    corpora=(0, 1),
    measures=True,
    split="held-out",
    figures="workbench.analyses.basics.figures.model:PROFILE_FIGURES",
    findings="workbench.analyses.basics.findings:profile",
    papers=("salazar-2020-masked",),
    title="Size and loss of",
    demo=Demo("A small BERT: size, architecture and loss", models=("mini:bert",), order=2),
)


# --- minimal-pairs --------------------------------------------------------------------------------


class MinimalPairs(Settings):
    """How sentences are scored."""

    pseudo_likelihood: Pseudo = Field(
        "within-word",
        description="Pieces masked together with the scored piece, in models that see both sides: "
        "the later pieces of its word (within-word, Kauf and Ivanova 2023; default), or none "
        "(original, Salazar et al. 2020). Of XLNet also permuted: the last sixth of random orders, "
        "averaged over orders.",
    )
    start_token: Literal["auto", "no"] = Field(
        "auto",
        description="Start token of a causal model whose tokenizer adds none: used if the model "
        "has one and predicts better after it (auto, default), or never (no).",
    )

    def in_prose(self) -> str:
        hidden = {
            "within-word": "with the later pieces of its word hidden too (Kauf and Ivanova 2023)",
            "original": "one piece at a time (Salazar et al. 2020)",
            "permuted": "the last sixth of a random order at a time, averaged over four orders",
        }[self.pseudo_likelihood]
        return (
            "For each pair of sentences that differ in one respect, we compared the log-probability"
            " of the right and of the wrong sentence (BLiMP, Warstadt et al. 2020). Models that see"
            f" both sides are scored by pseudo-likelihood, {hidden}. Accuracy is tested against "
            "chance and against always choosing the sentence with fewer pieces: a permutation test "
            "flips the sign of every different exchange of words, with Holm's correction over "
            "phenomena."
        )


_PAIRS = (
    "accuracy: share of pairs whose right sentence is more probable; chance is 50 %. lower, upper: "
    "its 95 % Wilson interval over pairs. gap: mean difference of log-probabilities, in nats. "
    "fewer_pieces: accuracy of always choosing the sentence with fewer pieces. exchanges: number "
    "of different exchanges, such as `is` for `are`; pairs with the same exchange are not "
    "independent. p: p-value of the test that the accuracy is above both chance and fewer_pieces "
    "(sign flips over exchanges, Holm over the rows). above_chance: p < 0.05."
)

MINIMAL_PAIRS = Experiment(
    name="minimal-pairs",
    about="How often is the right sentence of a minimal pair more probable for a model?",
    subject="Predictions",
    settings=MinimalPairs,
    run="workbench.analyses.basics.minimal_pairs:run",
    tables={
        "pairs": Table(f"By phenomenon (BLiMP's linguistics_term). {_PAIRS}", ("phenomenon",)),
        "fields": Table(f"By field of linguistics. {_PAIRS}", ("field",)),
        "paradigms": Table(f"By paradigm (BLiMP's UID). {_PAIRS}", ("paradigm",)),
        "scoring": Table(
            "How sentences were scored: the score, the start token, the number of pairs and of "
            "identical pairs left out, and how the vocabulary covers their words.",
            ("fact",),
        ),
    },
    version=2,
    fits="workbench.analyses.basics.minimal_pairs:fits",
    needs=(LM_HEAD,),
    measures=True,
    split="held-out",
    figures="workbench.analyses.basics.figures.model:MINIMAL_PAIRS_FIGURES",
    findings="workbench.analyses.basics.findings:minimal_pairs",
    papers=("warstadt-2020-blimp", "salazar-2020-masked", "kauf-2023-better"),
    title="Minimal pairs scored by",
    demo=Demo(
        "Acceptability judgements of BERT on minimal pairs",
        models=("mini:bert",),
        corpora=("primer/acceptability",),
        settings={"max_sentences": 200},
        order=3,
    ),
)


# --- trigram --------------------------------------------------------------------------------------


class AgainstTrigrams(Settings):
    """How many sentences are scored."""

    def in_prose(self) -> str:
        texts = "all texts" if self.max_sentences is None else f"{self.max_sentences:,} texts"
        return (
            "We counted trigrams of the model's own pieces on the train split, smoothed by "
            f"interpolated Kneser-Ney (Kneser and Ney 1995), and scored {texts} with the model and "
            "with the trigrams on the same pieces. A piece of a masked model was masked alone "
            "(Salazar et al. 2020), and the trigrams filled it from both sides. Differences have "
            "95 % bootstrap intervals over documents, and p-values corrected for two measures."
        )


TRIGRAM = Experiment(
    name="trigram",
    about="How much better does a model predict a corpus than trigrams of its train split?",
    subject="Predictions",
    settings=AgainstTrigrams,
    run="workbench.analyses.basics.trigram:run",
    tables={
        "scores": Table(
            "Accuracy and perplexity of the model and of a trigram model on the same pieces. n: "
            "number of pieces. gain: of the model over the trigrams, as a difference of accuracy, "
            "or for perplexity in nats per piece. lower, upper, p: 95 % bootstrap interval over "
            "documents and p-value, corrected for two measures. better: the interval is above 0 "
            "and p < 0.05.",
            ("measure",),
        )
    },
    version=2,
    needs=(LM_HEAD,),
    measures=True,
    split="held-out",
    figures="workbench.analyses.basics.figures.model:TRIGRAM_FIGURES",
    findings="workbench.analyses.basics.findings:trigram",
    papers=("kneser-1995-backing-off", "salazar-2020-masked"),
    title="Trigrams and",
    demo=Demo(
        "GPT and a trigram model of its training text",
        models=("mini:gpt",),
        corpora=(MINI_CORPUS,),
        settings={"max_sentences": 300},
        order=28,
    ),
)
