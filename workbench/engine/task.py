"""What a model was made for: the pieces that a language model predicts, or a task with labels.

Every model has this description (`Model.predicts`), whatever made it, and every experiment that
needs a loss or a score takes it from there. `Model.objectives` lists all that a model can predict;
`wb.load(REF, objective=NAME)` opens it for another one than the first. Costs: nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from workbench.core.objectives import PREDICTED, described, index_of, inputs_of

if TYPE_CHECKING:
    import pandas as pd

# What a language-model head predicts; bidirectional: the next word and, separately, the previous.
LanguageModel = Literal["causal", "masked", "seq2seq", "bidirectional"]
# Classes and scores are of texts, tags and entities of words; answers are spans of words; text is
# any label as a decoder writes it.
Labelling = Literal["class", "score", "tags", "entities", "answers", "text"]
Kind = LanguageModel | Labelling
# Of one text; its type depends on the kind.
Gold = int | float | str | list[int] | list[tuple[int, int]]

METRICS: Mapping[str, tuple[str, ...]] = {  # by kind; the first is the default
    "class": ("accuracy", "f1", "matthews"),
    "score": ("pearson", "spearman", "mse"),
    "tags": ("accuracy",),
    "entities": ("f1", "precision", "recall"),
    "answers": ("f1", "exact_match"),
    "text": ("accuracy",),
}
DENIALS = (
    "no",
    "false",
    "neg",
    "negative",
    "wrong",
    "incorrect",
)  # class names that deny the other class


@dataclass(frozen=True)
class Task:
    """What a model predicts: a label of a text, of a pair of texts or of words, or pieces.

    Example:
        >>> wb.load("mini:bert", device="cpu").predicts.measured("loss")
        'loss on masked pieces'
    """

    name: str
    kind: Kind
    label: str  # the label, or the layer, of a corpus that has the gold; "" of pieces, or unknown
    names: tuple[str, ...]  # classes or tags; empty for others
    pairs: bool | None  # whether it reads two texts; None: it reads either
    metric: str  # the deciding metric

    @property
    def is_language_model(self) -> bool:
        """Whether it predicts pieces of the text itself."""
        return self.kind in PREDICTED

    @property
    def outputs(self) -> int:
        """Number of outputs of a head, per text or per word."""
        return {"score": 1, "answers": 2}.get(self.kind, len(self.names))

    @property
    def outside(self) -> int:
        """The tag of words outside all entities."""
        return self.names.index("O") if "O" in self.names else 0

    @property
    def per_text(self) -> bool:
        """Whether there is one prediction for each text."""
        return self.kind in ("class", "score", "answers", "text")

    @property
    def inputs(self) -> str:
        """What the model reads."""
        return inputs_of(self.pairs)

    @property
    def unit(self) -> str:
        """What a mean loss is per."""
        return "piece" if self.is_language_model else "text" if self.per_text else "word"

    @property
    def sign(self) -> int:
        """1, or -1 if less of the deciding metric is better."""
        return -1 if self.metric == "mse" else 1

    @property
    def positive(self) -> int:
        """The class of a two-class F1: the second, unless its name denies the first."""
        first, second = (name.lower() for name in (self.names[0], self.names[-1]))
        denies = second in DENIALS or (second != first and second.endswith(first))
        return 0 if denies else len(self.names) - 1

    def measured(self, metric: str) -> str:
        """A metric with what it is of: `accuracy on sst2`, `loss on masked pieces`."""
        return f"{metric} on {self.name}"

    def __str__(self) -> str:
        """In a few words, as before a run starts."""
        return described(asdict(self))


def language_model(kind: str) -> Task:
    """The task of a language-model head."""
    return Task(PREDICTED[kind], kind, "", (), False, "loss")  # type: ignore[arg-type]


def as_data(task: Task | None) -> dict[str, Any] | None:
    """A task as plain data, as in the facts of a model; None without one."""
    if task is None:
        return None
    return {**asdict(task), "names": list(task.names), "inputs": task.inputs}


def from_data(data: Mapping[str, Any]) -> Task:
    """The task of `as_data`."""
    fields = {key: value for key, value in data.items() if key != "inputs"}
    return Task(**{**fields, "names": tuple(fields["names"])})


def objective_table(task: Task | None) -> "pd.DataFrame":
    """The table `objective` of a run (`core.measured`): what its model predicts."""
    import pandas as pd

    assert task is not None, "an experiment that measures needs a model that predicts"
    row = {
        "objective": task.kind,
        "name": task.name,
        "labels": ", ".join(task.names),
        "inputs": task.inputs,
        "unit": task.unit,
        "metric": task.metric,
    }
    return pd.DataFrame([row])


def chosen(name: str, objectives: Sequence[Task], model: str) -> Task:
    """The objective of a name: of a task, `language-model`, or the kind of either."""
    return objectives[index_of(name, [asdict(task) for task in objectives], model)]
