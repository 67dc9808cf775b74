"""The experiment `errors`: its settings and tables. Costs: nothing."""

from typing import Annotated

from pydantic import Field, StringConstraints

from workbench.analyses.pruning.experiments import BASELINE, Aimed
from workbench.core.findings import listing
from workbench.experiment.definition import HEADS, PREDICTS, Demo, Experiment, Table
from workbench.experiment.measured import OBJECTIVE

NEGATION = ("not", "n't", "no", "never", "nothing", "nobody", "without")
Word = Annotated[str, StringConstraints(min_length=1, max_length=60)]


class Errors(Aimed):
    """What texts are grouped by, besides length, depth, class and labels."""

    words: tuple[Word, ...] = Field(
        NEGATION,
        max_length=200,
        description="Texts with one of these words are a slice (default: English negations).",
    )

    def in_prose(self) -> str:
        return (
            f"We scored the model on every text. {self.scored()} Texts were grouped by length and "
            "depth of their trees (thirds), by class and other labels, and by whether they have "
            f"one of the words {listing(list(self.words), 8)}. Whether a slice is worse than the "
            "rest was tested by permuting texts (studentised; Chung and Romano 2013), with Holm's "
            "correction over all slices."
        )


TABLES = {
    "texts": Table(
        "One row per text. words: its length. depth: of its dependency tree, the longest way from "
        "a word to the root. label: the class that is right; predicted: the model's; confidence: "
        "its probability. right: share of right predictions. loss: in nats per prediction. n: "
        "number of predictions (classes, or pieces).",
        ("index",),
    ),
    "slices": Table(
        "Groups of texts (of language models also of words) against the rest of their kind. value: "
        "accuracy, or loss per prediction; rest: of the others. worse: by how much the slice is "
        "worse, with its 95 % interval. p: that it is worse (permutations, Holm over all slices).",
        ("kind", "slice"),
    ),
    "confusion": Table("Number of texts by right and predicted class.", ("label", "predicted")),
    "baseline": BASELINE,
    "objective": OBJECTIVE,
}

ERRORS = Experiment(
    name="errors",
    question="Which texts does the model get wrong?",
    about="Which texts does a model get wrong, and on which slices of them is it worse?",
    subject="Predictions",
    settings=Errors,
    run="workbench.analyses.slices.errors:run",
    tables=TABLES,
    needs=(HEADS, PREDICTS),
    suits="workbench.corpora.task_gold:require_gold",
    measures=True,
    split="held-out",
    figures="workbench.analyses.slices.figures:FIGURES",
    findings="workbench.analyses.slices.findings:findings",
    papers=("chung-2013-exact",),
    title="Errors of",
    demo=Demo(
        "The texts a model predicts worst, and what they share",
        models=("mini:bert",),
        settings={"max_sentences": 200},
        order=14,
    ),
)
