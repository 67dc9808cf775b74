"""The experiments of words in their contexts: settings and tables.

Nothing here imports torch or spaCy, so that listing experiments is fast. Costs: nothing; the code
is imported when an experiment first runs.
"""

from pydantic import Field

from workbench.core.experiment import Experiment, Settings, Table

# --- neighbours -----------------------------------------------------------------------------------

LABELS = ("tag", "lemma", "relation")  # columns of every index of words


class NeighboursOverCorpus(Settings):
    """How many occurrences are searched, and which words have senses."""

    max_occurrences: int = Field(
        20_000,
        ge=10,
        le=1_000_000,
        description="Maximum number of occurrences to search, drawn at random (default 20,000).",
    )
    max_queries: int = Field(
        500,
        ge=2,
        le=100_000,
        description="Maximum number of occurrences whose neighbours are looked at (default 500).",
    )
    k: int = Field(10, ge=1, le=1000, description="Number of nearest neighbours (default 10).")
    senses: str = Field(
        "tag",
        min_length=1,
        description="Labels that separate the senses of a form: tag, lemma, relation, or a layer "
        "whose spans of one word have a label (default: tag).",
    )
    min_count: int = Field(
        10,
        ge=4,
        le=100_000,
        description="Minimum number of occurrences of a sense (default 10).",
    )
    max_per_sense: int = Field(
        50,
        ge=4,
        le=10_000,
        description="Maximum number of occurrences of a sense, drawn at random (default 50).",
    )
    max_forms: int = Field(
        12,
        ge=0,
        le=1000,
        description="Maximum number of forms with several senses, those first whose second sense "
        "is most frequent (default 12).",
    )
    n_permutations: int = Field(
        200, ge=19, le=100_000, description="Number of permutations of the labels (default 200)."
    )
    random_models: int = Field(
        5,
        ge=0,
        le=50,
        description="Random-weight models of the same architecture, as a baseline (default 5).",
    )
    max_examples: int = Field(
        6, ge=0, le=1000, description="Number of words to list with their neighbours (default 6)."
    )

    def in_prose(self) -> str:
        texts = "all texts" if self.max_sentences is None else f"{self.max_sentences:,} texts"
        null = (
            f"The best layers are tested against those of {self.random_models} models of the same "
            "architecture with random weights (t prediction interval), with Holm's correction. "
            if self.random_models > 1
            else ""
        )
        return (
            f"We drew {self.max_queries:,} words (with a letter or digit) from {texts}, and found "
            f"the {self.k} nearest of at most {self.max_occurrences:,} occurrences by the cosine "
            "of their states, in every layer, without those of the same sentence. We report how "
            "many share the form, lemma, tag, relation, position and document; once among all, and "
            "once among other forms only. Occurrences that are equally near share their weight. "
            f"Chance is the mean over {self.n_permutations:,} exchanges of labels between forms of "
            "about the same frequency, so that what neighbours share by sharing a form stays. "
            f"Senses are separated by {self.senses}: for at most {self.max_forms} forms with two "
            f"or more of them ({self.min_count} occurrences each), we report the V-measure "
            "(Rosenberg and Hirschberg 2007) of as many k-means clusters as senses, and the "
            "accuracy of the sense of the nearest occurrence, against permuted labels; static "
            "vectors are at chance, because they do not distinguish occurrences of a form. "
            f"{null}Intervals are 95 % bootstrap intervals over documents, for senses over forms."
        )


_STACKS = "layer 0: the embeddings. "
_RANDOM = "random: the mean of the random-weight models. "
_SENSES = (
    "v_measure: of as many k-means clusters as the form has senses. accuracy: share of occurrences "
    "whose nearest occurrence of the form, in another sentence, has the same sense. v_chance, "
    "chance: the mean with permuted senses, which for the accuracy is also that of static vectors; "
    "v_p, p: of these permutations. "
)

NEIGHBOURS = Experiment(
    name="neighbours",
    about="What do the nearest neighbours of a word's occurrences share, and are senses separated?",
    settings=NeighboursOverCorpus,
    run="workbench.words.neighbours_corpus:run",
    tables={
        "neighbours": Table(
            "What the nearest neighbours of words share with them. "
            f"{_STACKS}candidates: all words of other sentences, or only other forms. property: "
            "form (in any case), lemma, tag, relation, position (index in the sentence), document. "
            "share: of the neighbours, mean over words; lower, upper: 95 % bootstrap interval over "
            "documents. chance: the mean with labels exchanged between forms of about the same "
            "frequency (of form: between occurrences); p: the share of exchanges with at least "
            f"this value. {_RANDOM}n: number of words.",
            ("stack", "layer", "candidates", "property"),
        ),
        "separation": Table(
            "How well the senses of a form are separated, as means over forms. "
            f"{_STACKS}measure: v_measure or accuracy, as in `senses`. lower, upper: 95 % "
            f"bootstrap interval over forms. chance: with permuted senses. {_RANDOM}n: number of "
            "forms.",
            ("stack", "layer", "measure"),
        ),
        "senses": Table(
            f"How well the senses of each form are separated. {_STACKS}senses: with their numbers "
            f"of occurrences. {_SENSES}v_random, random: means of the random-weight models. n: "
            "number of occurrences.",
            ("form", "stack", "layer"),
        ),
        "map": Table(
            "Occurrences of some forms on a map, at the layer with the highest accuracy. x, y: "
            "first two principal components of the states with norm 1. cluster: from 0, the "
            "largest first. context: the word in its sentence.",
            ("form", "stack", "layer", "occurrence"),
        ),
        "examples": Table(
            "Some words with their nearest neighbours in all other sentences, layer by layer. "
            f"{_STACKS}context, neighbour_context: the word in its sentence.",
            ("example", "stack", "layer", "rank"),
        ),
        "tests": Table(
            "Tests of the best layer of each stack. comparison: tag, relation (share among "
            "neighbours of other forms, minus chance), above layer 0 (the best layer above the "
            "embeddings, minus the share there), sense accuracy, sense v-measure (minus chance, "
            "which for the accuracy is also that of static vectors). lower, upper: 95 % bootstrap "
            "interval over documents, of senses over forms. random: the mean difference of "
            "random-weight models, each at its own best layer; p: against them, corrected for the "
            "number of rows (Holm). holds: the interval is above 0 and p < 0.05. n: number of "
            "words, or of forms.",
            ("stack", "comparison"),
        ),
    },
    layers=lambda settings: () if settings.senses in LABELS else (settings.senses,),
    split="held-out",
    figures="workbench.figures.neighbours:FIGURES",
    findings="workbench.words.neighbours_findings:neighbours",
    papers=("peters-2018-elmo", "rosenberg-2007-v-measure"),
)
