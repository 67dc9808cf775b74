"""The experiments of predictions: settings and tables.

Nothing here imports torch or spaCy, so that listing experiments is fast. Costs: nothing; the code
is imported when an experiment first runs.
"""

from pydantic import Field

from workbench.basics.experiments import LM_HEAD
from workbench.core.experiment import HEADS, Experiment, Settings, Table

# --- lens -----------------------------------------------------------------------------------------

# --- tuned-lens -----------------------------------------------------------------------------------

# --- contributions --------------------------------------------------------------------------------


class ContributionsOverCorpus(Settings):
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
            "largest mean of each permutation, and intervals are bootstrapped over documents."
        )


_OF_PART = (
    "part: embeddings, head, attention-bias (of the output projection), mlp, norm-bias or "
    "output-bias; stack, kind, layer and head (from 0; -1: none) say which. "
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
            f"Direct contributions of each part of the stack that the head reads. {_OF_PART}"
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
            f"The same by part of speech of the predicted word, without biases. {_OF_PART}"
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
    },
    needs=(LM_HEAD, HEADS),
    split="held-out",
    figures="workbench.figures.contributions:FIGURES",
    findings="workbench.attribution.findings:contributions",
    papers=("elhage-2021-framework", "geva-2022-promoting"),
)

# --- attribution ----------------------------------------------------------------------------------
