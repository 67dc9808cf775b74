"""The experiment `family`: settings and tables.

Nothing here imports torch or spaCy, so that listing experiments is fast. Costs: nothing; the code
is imported when the experiment first runs.
"""

from typing import Literal

from pydantic import Field

from workbench.core.findings import plural
from workbench.experiment.definition import Demo, Experiment, Settings, Table
from workbench.experiment.sizes import Effort

Part = Literal["text", "pairs", "heads", "probes", "tasks", "cost"]
PARTS: tuple[Part, ...] = ("text", "pairs", "heads", "probes", "tasks", "cost")


class Family(Settings):
    """What is measured of each model, and how thoroughly."""

    parts: tuple[Part, ...] = Field(
        PARTS,
        min_length=1,
        description="What is measured: bits per character of the text, minimal pairs, roles of "
        "heads, probes, tasks with a frozen and with a fine-tuned model, and cost (default: all).",
    )
    probes: tuple[str, ...] = Field(
        ("pos", "dependencies"),
        description="Tasks of the probes, as in edge-probing (default: pos and dependencies).",
    )
    tasks: tuple[str, ...] = Field(
        (),
        description="Tasks that the models are adapted to (default: all labels of the corpora; of "
        "primer, sentiment).",
    )
    effort: Effort = Field(
        "quick", description="Effort of the probes and the tasks, as there (default: quick)."
    )

    def in_prose(self) -> str:
        texts = "all texts" if self.max_sentences is None else plural(self.max_sentences, "text")
        return (
            f"We compared the models on {texts}. Bits per character are the negative "
            "log-likelihood of the texts that every model reads whole, divided by the number of "
            "their characters; where a model gives no likelihood, its pseudo-likelihood (Salazar "
            "et al. 2020) stands apart. Differences have paired 95 % bootstrap intervals over "
            "texts and p-values with Holm's correction. Each other score is the result of a run of "
            "its own, with the settings named there."
        )


TABLES = {
    "text": Table(
        "How well each model predicts the texts that all of them read whole. kind: what the "
        "number is; only numbers of one kind can be compared. left to right, and both directions "
        "(the mean of two directions, over words): likelihoods. pseudo: each piece is hidden alone "
        "and the model sees both sides, which is no likelihood of the text. bits_per_character: "
        "with its 95 % bootstrap interval over texts. unknown: pieces that the model does not "
        "know, which are easier to predict. unscored: first pieces without a context.",
        ("model",),
    ),
    "differences": Table(
        "Bits per character of each model minus those of the best of its kind, with a paired 95 % "
        "bootstrap interval over texts. p: corrected over the models (Holm).",
        ("model",),
    ),
    "scores": Table(
        "All other scores. part: pairs, heads, probes or tasks. measure: what is scored: the share "
        "of right pairs; the share of heads with a role; F1 of the best layer; the deciding metric "
        "of a task, frozen and fine-tuned. lower, upper: 95 % interval. baseline: the score "
        "without a model (chance, the majority). n: pairs, heads or texts. detail: the best layer, "
        "or the metric. run: the run that has the rest.",
        ("model", "part", "measure"),
        ("run",),
    ),
    "cost": Table(
        "parameters: number of weights. pieces_per_word: how finely the text is cut. "
        "words_per_second: of a forward pass over the text on this machine, the median of three.",
        ("model",),
    ),
    "left_out": Table(
        "What could not be measured of which model, and why.", ("model", "part", "measure")
    ),
}

FAMILY = Experiment(
    name="family",
    subject="Training",
    about="Which of several models predicts a text best, and knows, learns and costs what?",
    settings=Family,
    run="workbench.analyses.family.compared:run",
    tables=TABLES,
    models=(2, None),
    corpora=(1, None),
    split="held-out",
    figures="workbench.analyses.family.figures:FIGURES",
    findings="workbench.analyses.family.findings:findings",
    presets={
        "Quick": {"max_sentences": 200, "parts": ("text", "pairs", "heads", "cost")},
        "Standard": {},
        "Full": {"effort": "standard"},
    },
    title="One text, several models:",
    demo=Demo(
        "Four models on one text",
        models=("mini:bert", "mini:gpt", "mini:elmo", "mini:t5"),
        settings={"max_sentences": 60, "parts": ("text", "cost")},
        order=60,
    ),
    papers=("salazar-2020-masked", "warstadt-2020-blimp", "clark-2019-bert", "tenney-2019-context"),
)
