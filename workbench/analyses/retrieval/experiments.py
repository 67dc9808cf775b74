"""The experiment `retrieve`: its settings and tables. Costs: nothing."""

from typing import Literal

from pydantic import Field, field_validator

from workbench.core.findings import listing
from workbench.experiment.definition import Demo, Experiment, Need, Settings, Table

RetrieverName = Literal["bm25", "states", "bi-encoder"]
PASSAGE, QUESTION = "{passage}", "{question}"
READS = Need(
    "a language model that writes text or fills masks, or a model that finds answers in passages",
    lambda facts: (
        facts["objective"] in ("causal", "seq2seq", "masked")
        or facts["task"] in ("text", "answers")
    ),
    "Choose a model such as gpt2, t5-small or mini:bert, or a run of finetune on answers.",
)


class Retrieve(Settings):
    """How passages are found and read."""

    retrievers: tuple[RetrieverName, ...] = Field(
        ("bm25", "states", "bi-encoder"),
        min_length=1,
        description="How passages are found: by shared words (bm25), by the mean states of a "
        "layer (states), or by mean states trained on questions and their passages (bi-encoder). "
        "The model reads the passages of the first one. Default: all, bm25 first.",
    )
    k: int = Field(5, ge=1, le=100, description="Passages that the model reads (default 5).")
    questions: int = Field(
        200, ge=1, description="Maximum number of questions, drawn at random (default 200)."
    )
    passage_words: int | None = Field(
        None,
        ge=1,
        description="Maximum number of words of a passage (default: 100, or a third of the pieces "
        "that the model reads).",
    )
    layer: int | None = Field(
        None,
        ge=0,
        description="Layer of the mean states, 0 the embeddings (default: the best one on "
        "questions of the training split, or the middle one).",
    )
    prompt: str = Field(
        f"{PASSAGE} {QUESTION}",
        description="Text that a decoder continues with the answer (default: {passage} "
        "{question}).",
    )
    attributed: int = Field(
        10,
        ge=0,
        le=10_000,
        description="Maximum number of questions whose answer is attributed to passage and "
        "question; 0: none (default 10).",
    )
    pairs: int = Field(
        2000, ge=2, description="Maximum number of pairs to train the bi-encoder on (default 2000)."
    )
    steps: int = Field(
        200,
        ge=1,
        description="Training steps of the bi-encoder, of 32 pairs each, and of a masked model "
        "with its retriever, of 8 texts each (default 200).",
    )
    refresh: int = Field(
        50,
        ge=1,
        description="Steps after which the passages are indexed again, while a masked model and "
        "its retriever are trained (default 50).",
    )

    @field_validator("prompt")
    @classmethod
    def _has_both(cls, prompt: str) -> str:
        if PASSAGE not in prompt or QUESTION not in prompt:
            raise ValueError(f"write {PASSAGE} and {QUESTION} where they belong")
        return prompt

    def in_prose(self) -> str:
        return (
            f"Passages were found by {listing(self.retrievers)}. The model read the {self.k} best "
            f"passages of {self.retrievers[0]}, each alone; answers were combined by the "
            "probabilities of the passages among these, for the whole answer (RAG-sequence) or for "
            "each piece (RAG-token); those of a model that finds spans by a softmax in each "
            "passage or over all. A masked model was trained with its retriever, with a null "
            "passage among the candidates. Controls: no passage, a random one, the one with the "
            "answer, and the same with the answer exchanged for another of its kind. Intervals "
            "draw, and tests flip, all questions about one passage together."
        )


RETRIEVE = Experiment(
    name="retrieve",
    question="Does a model find the passage with the answer, and read it?",
    about="How often is the passage with the answer found, and does a model answer from the "
    "passage or from its weights?",
    subject="Predictions",
    settings=Retrieve,
    run="workbench.analyses.retrieval.retrieve:run",
    version=2,
    tables={
        "retrieval": Table(
            "retriever: bm25, states, bi-encoder, states of random weights, or of a masked model "
            "the bi-encoder trained with the reader, and before. measure: recall@k "
            "(the passage is among the first k) or MRR (mean of 1 / rank, 0 beyond rank 100). "
            "value: with 95 % interval (bootstrap over passages). chance: of a random order. p: "
            "that the value is above chance (sign flips, Holm over the rows).",
            ("retriever", "measure"),
        ),
        "compared": Table(
            "Differences of MRR between two retrievers on the same questions, with 95 % interval; "
            "p: two-sided, corrected over the rows.",
            ("first", "second"),
        ),
        "layers": Table(
            "MRR of the mean states of each layer on questions of the training split, by which the "
            "layer was chosen.",
            ("layer",),
            ("layer",),
        ),
        "training": Table(
            "Training of the bi-encoder. loss: of finding the passage of each of 32 pairs, on "
            "pairs that were not trained on, before and after; chance is log 32. Of reader and "
            "retriever together, nats of the hidden words. learnt: whether it fell.",
            ("retriever",),
        ),
        "answers": Table(
            "passages: what the model reads. nats: -log p of the right answer, with 95 % interval; "
            "of a model that finds spans, its probability instead. exact, f1: of the answer that "
            "it gives (SQuAD's), with 95 % interval.",
            ("passages",),
        ),
        "gains": Table(
            "What the first kind of passages adds, compared with the second, with 95 % interval: "
            "nats of the right answer, or share of exact answers (unit). p: two-sided, corrected "
            "over the rows.",
            ("first", "second"),
        ),
        "swaps": Table(
            "Another answer of the same kind against the right one. other: share of questions in "
            "which the other one is more probable, or is given by a model that finds spans, with "
            "95 % interval. log_odds: mean of log p (other) - log p (right). p: that the share is "
            "above that with the right passage; of spans, with another question.",
            ("passage",),
        ),
        "attribution": Table(
            "Attribution of the log-probability of the right answer (with the answer exchanged: of "
            "the other one) to what the model reads. passages: what it reads. part: the passage, "
            "the answer's words in it, the question, the rest of the prompt, or pieces of the "
            "answer that later ones read. share: of all absolute scores, with 95 % interval "
            "(bootstrap over passages); by_length: share of pieces; random, with the right "
            "passage: share in models with random weights; p: that it is above those (one-sided, t "
            "prediction interval, uncorrected). nats: mean sum of scores; missed: share of the "
            "change from the baseline that they miss. method: integrated-gradients, of large "
            "models gradient-x-input.",
            ("passages", "part"),
        ),
        "items": Table(
            "The questions. rank: of the passage with the answer. Nats or probability of the "
            "answer and the answer given, by how passages are combined.",
            ("item",),
        ),
        "passages": Table(
            "The passages that the model read. prior: p(passage | question) among them. answer: "
            "p(answer | question, passage). posterior: the share that the passage has in the "
            "answer's probability. written: the answer that the model gives from it alone. "
            "utility: log p with it - log p with no passage. Empty: the null passage.",
            ("item", "rank"),
        ),
    },
    needs=(READS,),
    trains=True,
    measures=True,
    split="held-out",
    figures="workbench.analyses.retrieval.figures:FIGURES",
    findings="workbench.analyses.retrieval.findings:findings",
    papers=(
        "lewis-2020-rag", "guu-2020-realm", "karpukhin-2020-dpr", "lee-2019-latent",
        "clark-2018-paragraphs", "robertson-2009-bm25", "rajpurkar-2016-squad",
        "sundararajan-2017-axiomatic",
    ),
    title="Passages found and read by",
    presets={
        "Quick": {"questions": 50, "max_sentences": 500, "steps": 100},
        "Standard": {},
        "Full": {"questions": 1000, "pairs": 20_000, "steps": 1000},
    },
    demo=Demo(
        "Passages for questions, found by words and by states",
        models=("mini:t5",),
        settings={"questions": 60, "max_sentences": 300, "steps": 60, "pairs": 400, "k": 3},
        order=10,
    ),
)  # fmt: skip
