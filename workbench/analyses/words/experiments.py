"""The experiments of words: settings and tables.

Nothing here imports torch or spaCy, so that listing experiments is fast. Costs: nothing; the code
is imported when an experiment first runs.
"""

from pydantic import Field

from workbench.experiment.definition import Demo, Experiment, Settings, Table
from workbench.experiment.growth import Growth
from workbench.experiment.sizes import GrowingSettings

# --- geometry -------------------------------------------------------------------------------------


class GeometrySettings(GrowingSettings):
    """Which words are compared, and the random-weight baseline."""

    max_sentences: int | None = Field(
        1000, ge=1, description="Maximum number of sentences (default: 1,000)."
    )
    sample_size: int = Field(
        1000,
        ge=2,
        le=20_000,
        description="Number of random words, all pairs of which are compared (default 1,000).",
    )
    min_contexts: int = Field(
        5, ge=2, le=1000, description="Minimum number of contexts of a word form (default 5)."
    )
    max_contexts: int = Field(
        30,
        ge=2,
        le=1000,
        description="Maximum number of contexts of a word form, drawn at random (default 30).",
    )
    max_forms: int = Field(
        500, ge=1, le=20_000, description="Maximum number of word forms (default 500)."
    )
    n_components: int = Field(
        3,
        ge=1,
        le=100,
        description="Number of principal components that are removed, and of largest dimensions "
        "(default 3).",
    )
    n_permutations: int = Field(
        1000,
        ge=19,
        le=100_000,
        description="Number of permutations of the frequencies of word forms (default 1,000).",
    )
    random_models: int = Field(
        5,
        ge=0,
        le=50,
        description="Random-weight models of the same architecture, as a baseline (default 5).",
    )

    def in_prose(self) -> str:
        few = self.max_sentences
        texts = "all sentences" if few is None else f"at most {few:,} sentences"
        null = (
            f"They are tested against {self.random_models} models of the same architecture with "
            "random weights (t prediction interval), with Holm's correction. "
            if self.random_models > 1
            else ""
        )
        return (
            f"We compared the states of words of {texts} as Ethayarajh (2019) does: anisotropy is "
            f"the mean cosine of {self.sample_size:,} random words of different forms; "
            f"self-similarity that of a word form in {self.min_contexts} to {self.max_contexts} "
            f"contexts, over at most {self.max_forms:,} forms; intra-sentence similarity that of "
            "the words of a sentence with its mean; explained variance the share of the first "
            "squared singular value of a form's states. The first two similarities are also given "
            "minus the anisotropy, and the explained variance minus that of as many random words. "
            f"We standardised the dimensions and removed {self.n_components} principal components, "
            "because few dimensions may dominate the cosine (Timkey and van Schijndel 2021; Mu and "
            "Viswanath 2018). Correlations with the log frequency of forms are Spearman's, tested "
            f"by {self.n_permutations:,} permutations. {null}Intervals are 95 % bootstrap "
            "intervals over documents; of explained variance and norms over word forms."
        )


_PLACE = ("stack", "layer")
_BOUNDS = "lower, upper: 95 % bootstrap interval over documents"

GEOMETRY = Experiment(
    name="geometry",
    about="How contextual are the states of words in each layer, and how isotropic?",
    subject="Layers",
    settings=GeometrySettings,
    run="workbench.analyses.words.geometry_corpus:run",
    tables={
        "layers": Table(
            "Measures of each layer; layer 0 is the embeddings. weights: the model, or random (the "
            "mean of the random-weight models; lower and upper are then their minimum and "
            "maximum). measure: anisotropy (mean cosine of random words of different forms), "
            "self_similarity (of a form in different contexts), intra_sentence (of words with the "
            "mean of their sentence), explained_variance (share of the first squared singular "
            "value of a form's states), explained_variance_random (of as many random words); "
            "ending in _corrected: minus the anisotropy, or minus explained_variance_random; "
            "_standardised: after standardising each dimension; _without_top: without the first "
            f"principal components. {_BOUNDS}; of explained variance over forms. n: number of "
            "random words, sentences or forms.",
            ("weights", *_PLACE, "measure"),
        ),
        "frequency": Table(
            "Spearman's correlation (rho) of the log frequency of word forms in the texts with "
            "their self-similarity, or with the mean norm of their states. "
            f"{_BOUNDS}; of norms over forms. random: mean with random weights. p: of a "
            "permutation of the frequencies, two-sided, not corrected. n: number of forms.",
            (*_PLACE, "measure"),
        ),
        "groups": Table(
            "Mean self-similarity of forms by part of speech. by: class (function words, which are "
            "of a closed class of Universal Dependencies, and content words) or tag (the most "
            f"frequent tag of the form). {_BOUNDS}. random: mean with random weights. n: number of "
            "forms.",
            (*_PLACE, "by", "group"),
        ),
        "dimensions": Table(
            "The dimensions that contribute most to the mean cosine of random words. rank: 1 is "
            "the largest; all: the sum of the listed ones (dimension −1). cosine: what they "
            "contribute. share: of the whole mean cosine, undefined if that is not positive; "
            f"{_BOUNDS} of the sum.",
            (*_PLACE, "rank"),
            ("dimension",),
        ),
        "forms": Table(
            "Each word form. tag: its most frequent one. count: in the texts. contexts: number of "
            "contexts compared. self_similarity, explained_variance: as in `layers`. norm: mean "
            "norm of its states.",
            (*_PLACE, "form"),
        ),
        "tests": Table(
            "Tests of the last layer of each stack. comparison: depth (self-similarity, corrected, "
            "minus that of layer 0), depth, standardised (the same after standardising each "
            "dimension), anisotropy, intra-sentence (similarity minus anisotropy), "
            "frequency (rho with self-similarity), frequency and norm (rho with the norm), "
            "function words (self-similarity, minus that of content words). "
            f"{_BOUNDS}. random: mean difference with random weights. p: against random weights, "
            "and of correlations also against permuted frequencies, the larger one; corrected for "
            "the number of rows (Holm). holds: the interval excludes 0 and p < 0.05, and the "
            "difference exceeds that of random weights in its own direction (anisotropy and "
            "intra-sentence: in any direction). n: number of words, sentences or forms.",
            ("stack", "comparison"),
        ),
    },
    split="held-out",
    exact_up_to=1e9,
    figures="workbench.analyses.words.figures.geometry:FIGURES",
    findings="workbench.analyses.words.geometry_findings:geometry",
    growth=Growth({"max_sentences": 1000}),
    papers=("ethayarajh-2019-contextual", "timkey-2021-rogue", "mu-2018-all-but-the-top"),
    title="Geometry of the word states of",
    demo=Demo(
        "Geometry of word states: how contextual and isotropic each layer of BERT is",
        models=("mini:bert",),
        settings={"max_sentences": 300, "random_models": 2, "n_permutations": 200},
        order=6,
    ),
)

# --- tokenization ---------------------------------------------------------------------------------


class TokenizationSettings(Settings):
    """How many words are listed, and how often they are permuted."""

    max_words: int = Field(
        50,
        ge=0,
        le=100_000,
        description="Number of words to list that are split into most pieces (default 50).",
    )
    n_permutations: int = Field(
        1000,
        ge=19,
        le=100_000,
        description="Number of permutations of distinct words (default 1,000).",
    )

    def in_prose(self) -> str:
        few = self.max_sentences
        texts = "all texts" if few is None else f"{few:,} texts"
        return (
            f"We split {texts} with the tokenizer of each model and counted the pieces of each "
            "word (fertility; Rust et al. 2021), the share of words that stay whole, the share "
            "with an unknown piece, and pieces per character, by part of speech and by frequency "
            "in the texts, with 95 % bootstrap intervals over documents. Groups are compared by "
            "the mean number of pieces of distinct words that are known, with intervals over them "
            "and "
            f"{self.n_permutations:,} permutations, for proper nouns among words of similar "
            "frequency; models are compared on the same words by sign flips by document. p-values "
            "have Holm's correction."
        )


_TOKEN_GROUPS = (
    "by: what the words are grouped by: all, tag (part of speech), class (function words, which "
    "are of a closed class of Universal Dependencies, and content words), or frequency (rank of "
    "the word in the texts)."
)

TOKENIZATION = Experiment(
    name="tokenization",
    about="Into how many pieces do tokenizers split words, by part of speech and frequency?",
    subject="Texts",
    settings=TokenizationSettings,
    run="workbench.analyses.words.tokenization_corpus:run",
    tables={
        "groups": Table(
            f"Pieces of words. {_TOKEN_GROUPS} fertility: pieces per word. whole: share of words "
            "of one piece, of those without unknown pieces. unknown: share of words with an "
            "unknown piece. pieces_per_character: "
            "pieces over characters of words. Columns with the endings _lower and _upper: 95 % "
            "bootstrap intervals over documents. n: number of words.",
            ("model", "by", "group"),
        ),
        "pieces": Table(
            "Share of words by number of pieces, of those without unknown pieces. n: number of "
            "words with so many.",
            ("model", "pieces"),
        ),
        "words": Table(
            "The words that are split into most pieces: their pieces as text, with spaces between "
            "them, the number of pieces (the most, where it depends on the context), the number of "
            "characters, the most frequent tag, and the count in the texts.",
            ("model", "word"),
        ),
        "tests": Table(
            "Ratios of pieces per word (first, over second). comparison: over distinct words "
            "without unknown pieces, rare words (rank above 1,000; with fewer ranks, above 100) "
            "against words up to rank 100, proper nouns against other content words, function "
            "words against content words; or the name of the first model, over the words of the "
            "texts without unknown pieces in both models. lower, upper: 95 % bootstrap interval "
            "over distinct words; of two models over documents. p: of permutations of distinct "
            "words, for proper nouns within decades of frequency ranks; of two models, of sign "
            "flips by document; corrected for the number of rows (Holm). holds: the interval "
            "excludes 1 and p < 0.05. n_first, n_second: number of words.",
            ("model", "comparison"),
        ),
    },
    models=(1, None),
    split="held-out",
    version=2,
    figures="workbench.analyses.words.figures.tokenization:FIGURES",
    findings="workbench.analyses.words.geometry_findings:tokenization",
    papers=("rust-2021-tokenizer",),
    title="Words in the pieces of",
    demo=Demo(
        "Into how many pieces BERT and GPT split words", models=("mini:bert", "mini:gpt"), order=5
    ),
)


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
    subject="Layers",
    settings=NeighboursOverCorpus,
    run="workbench.analyses.words.neighbours_corpus:run",
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
    figures="workbench.analyses.words.figures.neighbours:FIGURES",
    findings="workbench.analyses.words.neighbours_findings:neighbours",
    papers=("peters-2018-elmo", "rosenberg-2007-v-measure"),
    title="Nearest neighbours of words in",
    demo=Demo(
        "Nearest neighbours of words in each layer of BERT, and senses of ambiguous words",
        models=("mini:bert",),
        settings={"max_queries": 200, "max_occurrences": 4000, "random_models": 2},
        order=21,
    ),
)
