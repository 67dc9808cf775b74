"""The experiment `word-vectors`: settings and tables. Costs: nothing."""

from pydantic import Field

from workbench.experiment.definition import Demo, Experiment, Settings, Table


class WordVectors(Settings):
    """Which words are compared, and how many analogies are tried."""

    min_count: int = Field(
        3, ge=1, description="Minimum count of a word in the corpus (default 3)."
    )
    max_words: int = Field(
        3_000, ge=10, description="Maximum number of words, the most frequent ones (default 3,000)."
    )
    min_pairs: int = Field(
        5, ge=2, description="Minimum number of pairs of a relation (default 5)."
    )
    max_questions: int = Field(
        2_000, ge=1, description="Maximum number of analogies per relation (default 2,000)."
    )
    n_shuffles: int = Field(
        200, ge=20, description="Number of shuffles of tags for the null of likeness (default 200)."
    )

    def in_prose(self) -> str:
        return (
            f"We compared the vectors of the at most {self.max_words:,} words that occur "
            f"{self.min_count} times or more, each read alone, without its context: the mean of "
            "the embeddings of its pieces. Analogies a : a' = b : ? are between inflected forms of "
            "two lemmas with the same tags; the answer is the word with the largest a' - a + b by "
            "cosine (3CosAdd, Mikolov et al. 2013) or by products (3CosMul, Levy and Goldberg "
            "2014), without a, a' and b. Baselines are the nearest neighbour of b, the most "
            "frequent word with the tag of the answer, and the same architecture with random "
            "weights. Intervals are 95 % bootstrap intervals over pairs."
        )


WORD_VECTORS = Experiment(
    name="word-vectors",
    question="What do the vectors of words know of their forms and kinds?",
    subject="Texts",
    about="Analogies (3CosAdd and 3CosMul) and likeness of the vectors of words, with baselines of "
    "frequency and of nearest neighbours.",
    settings=WordVectors,
    run="workbench.analyses.vectors.analogies:run",
    tables={
        "analogies": Table(
            "Share of analogies with the right answer. relation: tags of the two forms; all: all "
            "relations. method: add, 3CosAdd; mul, 3CosMul; nearest, the nearest neighbour of b; "
            "frequency, the most frequent word with the tag of the answer. All leave out a, a' and "
            "b. random weights: 3CosAdd with random weights of the same architecture, in which "
            "forms with the same pieces are alike. none left out: 3CosAdd over all words. lower, "
            "upper: 95 % bootstrap interval over pairs. n: pairs; questions: analogies tried.",
            ("model", "relation", "method"),
        ),
        "likeness": Table(
            "Whether words of the same tag have similar vectors. auc: for a word, the probability "
            "that a word of its tag is nearer by cosine than one of another, a mean over words, "
            "with 95 % bootstrap interval over words. frequency: the same for nearness in log "
            "count. null: mean of the auc with shuffled tags; p_value: share of shuffles that are "
            "as good. random: the auc with random weights of the same architecture, and the upper "
            "end of its interval. n: words.",
            ("model",),
        ),
        "examples": Table(
            "Some analogies: a is to a2 as b is to b2, and the answer by 3CosAdd.",
            ("model", "relation", "a", "a2", "b"),
        ),
    },
    models=(1, None),
    corpora=(1, 1),
    split="train",
    title="Vectors of words of",
    demo=Demo(
        "Vectors of words: analogies and likeness",
        models=("mini:bert",),
        settings={"max_sentences": 2_000, "max_questions": 200, "n_shuffles": 20},
        order=22,
    ),
    figures="workbench.analyses.vectors.figures:FIGURES",
    findings="workbench.analyses.vectors.findings:findings",
    papers=("mikolov-2013-regularities", "levy-2014-regularities", "levy-2015-improving"),
    presets={"Quick": {"max_sentences": 2_000}, "Standard": {}, "Full": {"max_words": 10_000}},
)
