"""The experiment `few-shot`: its settings and tables. Costs: nothing."""

from typing import Annotated, Literal

from pydantic import Field

from workbench.core.findings import listing
from workbench.experiment.definition import LM_HEAD, Demo, Experiment, Settings, Table

CalibrationName = Literal["none", "length", "contextual", "domain"]
TEMPLATES = ("{text} It was {label}.", "{text} This is {label}.")


class FewShot(Settings):
    """Which prompts are made, and of how many texts."""

    max_sentences: int | None = Field(
        100, ge=1, description="Maximum number of texts to score, a random sample (default 100)."
    )
    task: str = Field(
        "", description="Label of the corpus to predict (default: the first one with classes)."
    )
    shots: tuple[Annotated[int, Field(ge=1, le=1000)], ...] = Field(
        (1, 2, 4),
        min_length=1,
        description="Numbers of demonstrations, compared with none (default 1, 2, 4). Those that "
        "the model cannot read whole are replaced by the largest that it can.",
    )
    seeds: tuple[Annotated[int, Field(ge=0, le=2**32 - 1)], ...] = Field(
        (0, 1, 2, 3),
        min_length=1,
        max_length=100,
        description="Seeds of the draw of demonstrations (default 0, 1, 2, 3).",
    )
    templates: tuple[str, ...] = Field(
        TEMPLATES,
        min_length=1,
        description="How a text and its label are written: {text} (of a pair also {first} and "
        "{second}) and {label}. Default: {text} It was {label}. and {text} This is {label}.",
    )
    label_words: tuple[str, ...] = Field(
        (),
        description="Words of the labels, a set each, such as 'negative=awful; positive=great' "
        "(default: the names of the classes).",
    )
    separator: str = Field(
        " ", description="What stands between demonstrations (default: a space)."
    )
    calibration: CalibrationName = Field(
        "contextual",
        description="Calibration of the main results: none; length (mean over pieces of the "
        "label); contextual (by texts without content, Zhao et al. 2021; default); or domain (by "
        "the template alone, Holtzman et al. 2021). All are in the tables.",
    )
    orders: int = Field(
        4,
        ge=2,
        le=100,
        description="Number of orders of the same demonstrations, with the first template and "
        "words (default 4).",
    )
    heads: int = Field(
        2,
        ge=0,
        le=100,
        description="Number of induction heads of a causal model that are removed, next to as many "
        "random heads; 0: none (default 2).",
    )
    attributed: int = Field(
        10,
        ge=0,
        le=10_000,
        description="Maximum number of texts whose chosen label is attributed to the parts of the "
        "prompt; 0: none (default 10).",
    )
    whole_output: bool = Field(
        False,
        description="Whether an encoder-decoder writes the label as its whole output, as one that "
        "was fine-tuned so (default: it fills the gap in the template).",
    )

    def in_prose(self) -> str:
        return (
            "The model was not trained for the task. A prompt has "
            f"{listing(list(self.shots), 9)} demonstrations of train, drawn with "
            f"{len(self.seeds)} seeds with equally many texts of each class, and the text; the "
            f"label is chosen whose words are most probable there (calibration: "
            f"{self.calibration}). Controls have labels at random (Min et al. 2022), other texts, "
            "and other words in the place of the labels. Intervals and p-values are those of a "
            "paired bootstrap over texts and seeds, with Holm's correction; orders of the same "
            "demonstrations are compared by Cochran's Q."
        )


FEW_SHOT = Experiment(
    name="few-shot",
    question="What do demonstrations in the prompt teach a model?",
    about="How well does a model label texts after a few demonstrations, without training, and "
    "how much of that is the format of the prompt?",
    subject="Predictions",
    settings=FewShot,
    run="workbench.analyses.few_shot.prompting:run",
    fits="workbench.analyses.few_shot.prompting:fits",
    tables={
        "scores": Table(
            "Mean accuracy over seeds, templates and label words, with 95 % bootstrap interval "
            "over texts and seeds. prompt: none (no demonstrations), demonstrations, or a control: "
            "random labels; other texts (and random labels); other words (other texts with other "
            "words as labels); no text (the template alone); majority (the most frequent label of "
            "train).",
            ("shots", "prompt", "calibration"),
        ),
        "gains": Table(
            "Differences of accuracy, with 95 % interval and p (paired bootstrap over texts and "
            "seeds, Holm over the rows). demonstrations: against none. above majority: against the "
            "most frequent label. The steps from none to demonstrations add up: format (other "
            "texts with other words), label words, texts of the task, right labels. calibration: "
            "against the same prompts without one.",
            ("shots", "gain", "calibration"),
        ),
        "orders": Table(
            "The same demonstrations in several orders, with the first template and label words. "
            "lowest, highest: accuracy. changed: share of texts whose prediction depends on the "
            "order, with 95 % Wilson interval. p: that all orders are equally accurate (Cochran's "
            "Q, Holm over the seeds).",
            ("seed",),
        ),
        "designs": Table(
            "Accuracy of each template, set of label words and draw of demonstrations.",
            ("shots", "template", "words", "seed"),
        ),
        "layers": Table(
            "What the lens reads at each layer, of the first piece of each label, less the mean "
            "over the texts. agrees: share of texts whose label there is that of the last layer, "
            "with 95 % Wilson interval; chance: of two that are independent. accuracy: share of "
            "right labels.",
            ("stack", "layer"),
        ),
        "heads": Table(
            "Accuracy without some heads (first template, words and seed), with 95 % Wilson "
            "interval. induction: their mean attention to what followed an earlier copy, in random "
            "blocks that occur twice.",
            ("set", "removed"),
        ),
        "attribution": Table(
            "Attribution of the log-probability of the chosen label (first template, words and "
            "seed), by demonstration and in the text in question. part: all of it, text, label, or "
            "template. share: of all absolute scores, with 95 % bootstrap interval over texts; "
            "by_length: share of pieces; random: share in models with random weights; p: that it "
            "is above those (one-sided, t prediction interval, uncorrected). nats: mean sum of "
            "scores; missed: share of the change from the baseline that they miss. method: "
            "integrated-gradients, of large models gradient-x-input.",
            ("demonstration", "part"),
        ),
        "same_label": Table(
            "How much more demonstrations with the chosen label speak for it than others do. part: "
            "all of them, their labels, or their texts. difference: of mean sums of scores of a "
            "demonstration, relative to twice the mean absolute scores of one (1: only those with "
            "the label have scores, all for it; 0: no difference), with 95 % bootstrap interval "
            "over texts. random: the same with random weights; p: that the difference is above it "
            "(one-sided, t prediction interval, uncorrected).",
            ("part",),
        ),
        "origins": Table(
            "The demonstration whose text and label speak most for the chosen label of each text. "
            "share: of all absolute scores; by_length: share of pieces.",
            ("text",),
        ),
        "items": Table(
            "Each text with its label, its prediction without demonstrations and with most "
            "(first template, words and seed), and the probability of the latter.",
            ("text",),
        ),
    },
    version=2,
    needs=(LM_HEAD,),
    measures=True,
    split="held-out",
    figures="workbench.analyses.few_shot.figures:FIGURES",
    findings="workbench.analyses.few_shot.findings:findings",
    papers=(
        "brown-2020-gpt3", "schick-2021-pet", "zhao-2021-calibrate", "holtzman-2021-surface",
        "min-2022-rethinking", "lu-2022-fantastically",
        "sundararajan-2017-axiomatic", "nostalgebraist-2020-lens", "olsson-2022-induction",
    ),
    title="Few-shot learning of",
    presets={"Quick": {"max_sentences": 50, "seeds": (0, 1)}, "Standard": {},
             "Full": {"max_sentences": None}},
    demo=Demo(
        "Demonstrations in the prompt of GPT",
        models=("mini:gpt",),
        corpora=("primer/sentiment",),
        settings={"max_sentences": 40, "seeds": (0, 1), "templates": TEMPLATES[:1],
                  "label_words": ("negative=sad; positive=happy",)},
        order=10,
    ),
)  # fmt: skip
