"""The experiment `cloze`: its settings and tables. Costs: nothing."""

from typing import Literal

from pydantic import Field

from workbench.core.findings import listing
from workbench.experiment.definition import LM_HEAD, Demo, Experiment, Settings, Table

ScoreName = Literal["full", "partial", "word"]
SCORES: dict[str, str] = {
    "full": "the whole text",
    "partial": "what follows the gap, given the words in it",
    "word": "the words in the gap",
}


class Cloze(Settings):
    """How gaps are filled."""

    scores: tuple[ScoreName, ...] = Field(
        ("full", "partial"),
        min_length=1,
        description="What must be most probable with the right words: the whole text (full), what "
        "follows the gap (partial, Trinh and Le 2018; where nothing follows, it is left out), or "
        "the words in the gap (word). Default: full and partial.",
    )
    choices: int = Field(
        10,
        ge=0,
        le=100,
        description="Words to choose from where a text names none, of the right one's part of "
        "speech and of the same text first, as in the Children's Book Test; 0: none (default 10).",
    )
    pseudo_likelihood: Literal["within-word", "original"] = Field(
        "within-word",
        description="Pieces hidden together with the scored piece, in models that see both sides: "
        "the later pieces of its word (within-word, default), or none (original).",
    )

    def in_prose(self) -> str:
        named = listing([f"{SCORES[name]} ({name})" for name in self.scores])
        return (
            "Each gap was filled without training. The right words count as predicted if each of "
            "their pieces is the most probable one. Where there are words to choose from, those "
            f"are chosen with which this is most probable: {named}. Models that see both sides are "
            f"scored by pseudo-likelihood, {self.pseudo_likelihood}. Accuracies are tested against "
            "chance by flipping signs of items with the same options, and compared with the same "
            "items without their passage or subject."
        )


CLOZE = Experiment(
    name="cloze",
    question="Does a model find the missing word?",
    about="How often does a model find the word in a gap, of any words or of some options, with "
    "and without the passage before it?",
    subject="Predictions",
    settings=Cloze,
    run="workbench.analyses.cloze.fill:run",
    tables={
        "scores": Table(
            "task: any word (each piece of the right words is the most probable one), or a choice "
            "by the score `full`, `partial` or `word`. context: with all of the text, or without "
            "the passage (in facts: the subject). accuracy: with 95 % interval (bootstrap over "
            "groups of items with the same options). chance: mean of 1 / number of options; for "
            "any word, the share of the most frequent right word. p: that the accuracy is above "
            "chance (sign flips of the groups, Holm over the rows).",
            ("phenomenon", "task", "context"),
        ),
        "passage": Table(
            "What the passage gives. difference: accuracy with it minus without it, and its 95 % "
            "interval. nats: log-probability that it adds to the right words.",
            ("task",),
        ),
        "pairs": Table(
            "Pairs of items with the same options, of which another one is right in each. both: "
            "share of pairs with both items right, with 95 % Wilson interval. chance: mean of 1 / "
            "number of options of both, a quarter with two each. always_same: share of pairs in "
            "which the same option is chosen twice.",
            ("task",),
        ),
        "items": Table(
            "The items. nats: -log p of the right words. right: whether they were predicted. "
            "choice: the option chosen by the first of the scores.",
            ("item",),
        ),
    },
    version=2,
    needs=(LM_HEAD,),
    measures=True,
    split="held-out",
    figures="workbench.analyses.cloze.figures:FIGURES",
    findings="workbench.analyses.cloze.findings:findings",
    papers=(
        "paperno-2016-lambada", "hill-2016-goldilocks", "trinh-2018-simple",
        "levesque-2012-winograd", "petroni-2019-language", "kauf-2023-better",
    ),
    title="Missing words found by",
    presets={"Quick": {"max_sentences": 200}, "Standard": {"max_sentences": 2000}, "Full": {}},
    demo=Demo(
        "The last word of a story, of any words and of ten",
        models=("mini:gpt",),
        settings={"max_sentences": 200},
        order=9,
    ),
)  # fmt: skip
