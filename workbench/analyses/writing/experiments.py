"""The experiment `text-to-text`: its settings and tables. Costs: nothing."""

from typing import Literal

from pydantic import Field

from workbench.core.findings import listing
from workbench.experiment.definition import Demo, Experiment, Need, Settings, Table

Decoding = Literal["greedy", "beams", "sampling"]
DECODINGS = {"greedy": "greedy decoding", "beams": "beam search", "sampling": "sampling"}
EXTRA = ("rouge_score", "sacrebleu")  # of the extra `text`

WRITES = Need(
    "a language model that writes, or a head for answers",
    lambda facts: (
        facts["objective"] in ("causal", "seq2seq")
        or facts["task"] == "answers"
        or (facts["task"] == "text" and facts["predicts"]["label"] == "answers")
    ),
    "Choose an encoder-decoder such as mini:t5, a decoder such as mini:gpt, a checkpoint "
    "…ForQuestionAnswering, or a run of finetune on answers.",
)


class TextToText(Settings):
    """How texts are written."""

    prompt: str = Field(
        "",
        max_length=1000,
        description="What the model reads, with {source}, or {question} and {passage}, and {task} "
        "if the corpus names tasks, such as 'summarize: {source}' (default: the form of T5, or "
        "TL;DR and Q: … A: for decoders).",
    )
    decoding: tuple[Decoding, ...] = Field(
        ("greedy",),
        min_length=1,
        description="How pieces are chosen: the most probable one (greedy), beam search (beams), "
        "or drawn at random (sampling). The first one is compared with nulls (default: greedy).",
    )
    beams: int = Field(4, ge=2, le=64, description="Beams of beam search (default 4).")
    temperature: float = Field(1.0, gt=0, le=10, description="Temperature of sampling (default 1).")
    top_p: float = Field(
        0.9,
        gt=0,
        le=1,
        description="Sampling draws from the most probable pieces of this total (default 0.9).",
    )
    max_pieces: int = Field(
        40, ge=1, le=1000, description="Maximum number of pieces of a written text (default 40)."
    )

    attributed: int = Field(
        5,
        ge=0,
        le=10_000,
        description="Maximum number of texts whose written words are attributed to what the model "
        "reads; 0: none (default 5).",
    )

    def in_prose(self) -> str:
        return (
            f"Texts were written by {listing([DECODINGS[name] for name in self.decoding])}, with "
            f"at most {self.max_pieces} pieces. ROUGE is the F-measure of rouge-score with "
            "stemming, BLEU "
            "and chrF are sacrebleu's; exact match and F1 of answers follow SQuAD. Intervals and "
            "differences from nulls are of bootstrap samples of the sources, the same for all."
        )


TEXT_TO_TEXT = Experiment(
    name="text-to-text",
    question="Does a model write the right text, and better than copying?",
    about="How close are texts that a model writes, or answers that it finds, to the right ones, "
    "next to copying, the first sentences and the most frequent text?",
    subject="Predictions",
    settings=TextToText,
    run="workbench.analyses.writing.write:run",
    suits="workbench.analyses.writing.write:suits",
    tables={
        "scores": Table(
            "metric: rouge1, rouge2 and rougeL (mean F-measure), chrF (mean over texts) and BLEU "
            "(of the corpus); of questions F1 and exact match (of several answers the closest "
            "one); all from 0 to 1. system: how the model writes or finds, then nulls: copy is "
            "the source, lead-3 its first three sentences, most frequent the most frequent right "
            "text (of train, if there is one), another's what the model writes for another item, "
            "other question and other passage the model with those. 95 % interval of bootstrap "
            "samples of the sources.",
            ("metric", "system"),
        ),
        "gains": Table(
            "difference: score of the first system minus that of each other one, and its 95 % "
            "interval over the same bootstrap samples.",
            ("metric", "system"),
        ),
        "answerable": Table(
            "If some questions have no answer in their passage (SQuAD 2.0): those that have one, "
            "and those that have none. answered: share of them that the model answers, with 95 % "
            "Wilson interval. threshold: there is no answer if its score is above that of the "
            "best span by more; chosen on dev, if there is one.",
            ("questions",),
        ),
        "novelty": Table(
            "Share of the n-grams of words that are not in the source, of the written texts and "
            "of the right ones, with 95 % intervals.",
            ("n",),
        ),
        "coverage": Table(
            "Cross-attention while a text is written, mean over heads, by layer (from 0). lift: "
            "attention on the places of the source with the piece that is written, relative to "
            "the attention on them while other pieces are written, with 95 % interval (1: no "
            "more). covered: share of the source's pieces that a uniform attention of the same "
            "entropy would cover. special: share of attention on special pieces, which are left "
            "out. copied: texts with a piece that is in their source.",
            ("layer",),
        ),
        "origins": Table(
            "Attribution of the log-probability of each written word to all that the model reads "
            "before it. words: all of them, those in the source, or in no source. part: the "
            "source, the places of the source with the same word, what was written before, or the "
            "rest of the prompt. share: of all absolute scores, mean over words, with 95 % "
            "bootstrap interval over sources; by_length: share of pieces; random: share in models "
            "with random weights, for the same text; p: that it is above those (one-sided, t "
            "prediction interval, uncorrected). nats: mean sum of scores; missed: share "
            "of the change from the baseline that they miss. method: "
            "integrated-gradients, of large models gradient-x-input.",
            ("words", "part"),
        ),
        "words": Table(
            "Each written word of these texts, whether its source has it (copied), its "
            "probability, the shares of its attribution, and the word of the source that speaks "
            "most for it (from, nats).",
            ("item", "place"),
            ("item", "place"),
        ),
        "items": Table("The texts, with the score of each of the written ones.", ("item",)),
    },
    version=2,
    needs=(WRITES,),
    measures=True,
    split="held-out",
    figures="workbench.analyses.writing.figures:FIGURES",
    findings="workbench.analyses.writing.findings:findings",
    papers=(
        "raffel-2020-t5", "rajpurkar-2018-know", "lin-2004-rouge", "post-2018-call",
        "see-2017-get", "sundararajan-2017-axiomatic",
    ),
    title="Texts written by",
    presets={"Quick": {"max_sentences": 100}, "Standard": {"max_sentences": 1000}, "Full": {}},
    demo=Demo(
        "Sentences put into the past, negated and made passive: does T5 do better than copying?",
        models=("mini:t5",),
        corpora=("primer/rewrites",),
        settings={"max_sentences": 60},
        order=10,
    ),
)  # fmt: skip
