"""The experiment `domain`: settings and tables.

Nothing here imports torch or spaCy, so that listing experiments is fast. Costs: nothing; the code
is imported when the experiment first runs.
"""

from typing import Literal, get_args

from pydantic import Field

from workbench.analyses.training.experiments import continued_type
from workbench.analyses.transfer.experiments import Rate, Seed, Size
from workbench.core.findings import plural
from workbench.experiment.definition import LM_HEAD, Demo, Experiment, Need, Settings, Table
from workbench.experiment.sizes import Effort

FamilyName = Literal["gpt", "llama", "qwen3", "bert", "roberta", "albert", "modernbert"]
FAMILIES = {continued_type(name): name for name in get_args(FamilyName)}  # by type of model
AS_IS, MORE, FURTHER, SCRATCH, OWN = (
    "as is", "more general", "further", "scratch", "own vocabulary",
)  # fmt: skip
ARMS = (AS_IS, MORE, FURTHER, SCRATCH, OWN)
PAIRS = (  # whose differences are tested
    (MORE, AS_IS), (FURTHER, AS_IS), (FURTHER, MORE), (SCRATCH, AS_IS), (SCRATCH, FURTHER),
    (OWN, AS_IS), (OWN, SCRATCH),
)  # fmt: skip
GENERAL, DOMAIN_TEXT = "general", "domain"  # the two texts


class Domain(Settings):
    """Which model is adapted to a domain, for how long, and what is measured."""

    family: FamilyName = Field(
        "gpt", description="Model family (default gpt; of a model that is given, its own)."
    )
    size: Size = Field("mini", description="Model size, as in train (default mini).")
    general_steps: int = Field(
        600,
        ge=1,
        description="Steps on general text of the model as is, where none is given (default 600).",
    )
    steps: int = Field(
        600, ge=1, description="Steps that a model is trained further (default 600)."
    )
    batch_size: int = Field(16, ge=1, description="Sequences per step (default 16).")
    sequence_length: int = Field(64, ge=8, description="Pieces per sequence (default 64).")
    learning_rate: Rate = Field(
        1e-3, description="Maximum learning rate of AdamW, of all trainings (default 0.001)."
    )
    vocabulary_size: int | None = Field(
        None,
        ge=10,
        description="Pieces in the tokenizers' vocabularies (default: set by size; with a model "
        "that is given, as many as it has).",
    )
    seeds: tuple[Seed, ...] = Field(
        (0, 1), min_length=1, max_length=100, description="Seeds of the trainings (default 0, 1)."
    )
    max_test: int = Field(
        500, ge=1, description="Maximum number of texts that are scored (default 500)."
    )
    tasks: tuple[str, ...] = Field(
        (),
        description="Tasks of the labelled corpora that the models are adapted to (default: all).",
    )
    effort: Effort = Field("quick", description="Effort of the tasks, as there (default: quick).")

    def in_prose(self) -> str:
        return (
            "We compared a model as it is with the same model trained further for "
            f"{plural(self.steps, 'step')} on general text or on the text of a domain (Gururangan "
            "et al. 2020), and with models of the same shape trained from scratch on the domain, "
            "with the vocabulary of that model or with one of their own (Beltagy et al. 2019, "
            f"Chalkidis et al. 2020). A step has {plural(self.batch_size, 'sequence')} of "
            f"{plural(self.sequence_length, 'piece')}; there were {plural(len(self.seeds), 'seed')}"
            f". Bits per character are of up to {plural(self.max_test, 'text')} of each kind that "
            "no model was trained on, and that every model reads whole. Differences have paired "
            "95 % bootstrap intervals over texts (and seeds, where there are several) and p-values "
            "with Holm's correction."
        )


_DELTA = (
    "delta: minus the model as is, with a paired 95 % interval over texts and trainings and an "
    "uncorrected p-value; empty for that model itself."
)
TABLES = {
    "bits": Table(
        "Bits per character of text that no model was trained on, by arm. text: general, or of "
        "the domain. kind: left to right, a likelihood, or pseudo: each piece is hidden alone and "
        "the model sees both sides, which can be compared between arms of one vocabulary only. "
        "bits_per_character: a mean over seeds, with its 95 % bootstrap interval over texts and "
        "seeds. unknown: pieces that the model does not know. unscored: first pieces without a "
        "context.",
        ("text", "arm"),
    ),
    "differences": Table(
        "Bits per character of an arm minus those of another, with a paired 95 % bootstrap "
        "interval. p: corrected over all rows (Holm).",
        ("text", "arm", "against"),
    ),
    "fertility": Table(
        "Pieces per word by the general vocabulary (of the model as is) and by the domain's own. "
        "words: the domain's words, which are listed in the table words, or all words of the "
        "scored texts. difference: own minus general, with its 95 % interval over words. n: "
        "different words, or words of the texts.",
        ("words",),
    ),
    "words": Table(
        "The words that mark the domain: those with the highest log-odds against the general text "
        "(0.5 added to each count), with their counts in both texts and their pieces by both "
        "vocabularies.",
        ("word",),
    ),
    "drift": Table(
        "How far the states of a layer moved from the model as is: 1 − CKA (debiased) on the "
        "words of the domain's text; layer 0 is the embeddings. further: trained on the domain. "
        "control: trained as long on general text. difference: further minus control, with its "
        "95 % interval over seeds (Student's t; empty for one seed) and its p-value, corrected "
        "over layers (Holm).",
        ("stack", "layer"),
    ),
    "tasks": Table(
        "Score of each arm on each task, frozen and fine-tuned: a mean over trainings and seeds "
        f"of the task head, with its 95 % interval. baseline: without a model. {_DELTA}",
        ("task", "method", "arm", "metric"),
    ),
    "trainings": Table(
        "The trainings. text: what was trained on. start: from random weights, or from which arm. "
        "passes: how often the text was read. loss, held_out: nats of the last part of the "
        "training, and of the held-out end of its text; comparable between arms of one vocabulary "
        "and text. vocabulary: pieces.",
        ("arm", "seed"),
        ("run",),
    ),
}

DOMAIN = Experiment(
    name="domain",
    question="What does a model gain from the text of its domain?",
    subject="Training",
    about="Trains a model further on the text of a domain, or from scratch, with the general or "
    "its own vocabulary, and measures what it gains there and forgets elsewhere.",
    settings=Domain,
    run="workbench.analyses.domain.adapted:run",
    tables=TABLES,
    models=(0, 1),
    corpora=(2, None),
    needs=(
        Need(
            f"a model of a family that can be trained further here ({', '.join(FAMILIES)})",
            lambda facts: facts["family"] in FAMILIES,
            "Choose another model, or leave it out: then one is trained on the general text.",
        ),
        LM_HEAD,
    ),
    split="held-out",
    trains=True,
    figures="workbench.analyses.domain.figures:FIGURES",
    findings="workbench.analyses.domain.findings:findings",
    presets={
        "Quick": {"general_steps": 200, "steps": 200, "max_test": 200},
        "Standard": {},
        "Full": {"general_steps": 8_000, "steps": 8_000, "seeds": (0, 1, 2), "effort": "standard"},
    },
    title="Domain adaptation between",
    demo=Demo(
        "A small model adapted to statements about facts",
        corpora=("primer:size=2000", "primer/entailment:size=400"),
        settings={
            "size": "tiny", "general_steps": 40, "steps": 40, "seeds": (0,), "max_test": 60,
        },
        order=61,
    ),
    papers=("gururangan-2020-dapt", "beltagy-2019-scibert", "chalkidis-2020-legalbert"),
)  # fmt: skip
