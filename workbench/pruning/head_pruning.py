"""How many heads can go, and which first: the experiment `head-pruning`.

Curves of every way to choose (`curves`, `orders`), on texts that were not chosen by; each layer
with one head alone; and the model that is kept (`smaller`). Of a corpus with classes a classifier
can be fitted first. Costs a pass a step and method, what ordering costs, and the fine-tuning.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import pandas as pd
from pydantic import Field

from workbench.errors import WorkbenchError
from workbench.experiment import HEADS, Experiment, Inputs, Progress, Result, Table
from workbench.models.classifier import classifier
from workbench.models.fresh import copied
from workbench.models.huggingface import HuggingFace
from workbench.models.learning import Plan, learn
from workbench.models.removal import Unit, units, without
from workbench.pruning import curves, smaller
from workbench.pruning.ablation import ablated
from workbench.pruning.asking import Aimed, Asking, asked_of, asking_of, caveats
from workbench.pruning.gating import HEAD, Head
from workbench.pruning.orders import ONCE, By, Method, methods, order_of
from workbench.pruning.parts import parts_of
from workbench.pruning.texts import Texts, asked

if TYPE_CHECKING:
    from spacy.tokens import Doc

METHOD = ("method", "rescored", "seed")
Share = Annotated[float, Field(ge=0, le=1)]


class HeadPruning(Aimed):
    """Which heads go, how many, and what is done then."""

    methods: tuple[By, ...] = Field(
        ("importance", "ablation", "magnitude", "random"),
        min_length=1,
        description="How heads are chosen: by the slope of the loss, by what exactly is lost, by "
        "the size of what they write, or by lot.",
    )
    steps: int = Field(10, ge=1, le=1000, description="Steps from all heads to none.")
    seeds: int = Field(3, ge=1, le=100, description="How often heads go by lot.")
    normalised: bool = Field(
        True, description="Importance is over the length of its layer's, as in the paper."
    )
    choosing: int = Field(
        200,
        ge=1,
        le=1_000_000,
        description="Texts that heads are chosen by, of another part than what is measured.",
    )
    prune: Share = Field(0.3, description="The share of heads that goes from the model kept.")
    by: By = Field("ablation", description="How those are chosen; anew after each step.")
    recover: int = Field(
        100, ge=0, le=100_000, description="Steps of fine-tuning after that; 0: none."
    )
    rate: float = Field(1e-4, gt=0, le=1, description="The rate of fine-tuning.")
    texts: int = Field(32, ge=1, le=4096, description="Texts in a step of fine-tuning.")
    task: str = Field(
        "",
        description="First fit a classifier for this label of the corpus, such as sentiment.",
    )
    fit: int = Field(200, ge=1, le=100_000, description="Steps of fitting it.")


TABLES = {
    "curve": Table(
        "What is left after each step, on texts that heads were not chosen by; seconds are of one "
        "pass over them, memory is MiB of weights (on a GPU the most that was taken).",
        (*METHOD, "heads_removed", "metric"),
    ),
    "summary": Table(
        "area: the mean over all shares of heads that are gone; falls_1 and falls_5: the share at "
        "which 1 % and 5 % of the score are lost first (a loss has risen so much), 1 if never.",
        (*METHOD, "metric"),
    ),
    "order": Table(
        "Which head goes when; heads of one place go together.", (*METHOD, *HEAD), ("place",)
    ),
    "alone": Table(
        "Each layer with its best head alone, all other layers whole.", (*HEAD, "metric")
    ),
    "kept": Table(
        "The whole model, without the heads, and after fine-tuning; beside it the whole model "
        "after as much of it. Size is MiB of weights.",
        ("stage", "metric"),
    ),
    "heads": Table("Every head of the whole model, and whether it was kept.", HEAD),
    "speed": Table(
        "Seconds of a forward pass over so many texts, the median of five; speedup: the whole "
        "model's over the smaller one's; memory: MiB of weights (on a GPU the most that was "
        "taken).",
        ("texts",),
    ),
    "learning": Table("The loss of each step of fitting and of fine-tuning.", ("stage", "step")),
}


def run(inputs: Inputs, settings: HeadPruning, progress: Progress) -> Result:
    """Draw the curves, then make the model that is kept."""
    enough = settings.texts * max(settings.recover, settings.fit if settings.task else 0)
    train, test = parts_of(
        inputs.corpus, inputs.split, settings.limit, max(settings.choosing, enough)
    )
    learnt: list[tuple[str, int, float]] = []
    model: object = inputs.model
    if settings.task:
        model, learnt = _fitted(inputs, settings, train, test, progress)
    seed, name = inputs.seed, inputs.corpus.name
    choosing = asking_of(model, train[: settings.choosing], settings.label, seed, name)
    measuring = asking_of(model, test, choosing.aim.label, seed, name)
    whole, all_ = choosing.model, units(choosing.model)
    steps = curves.fractions(settings.steps, len(all_))
    chosen = methods(settings.methods, settings.seeds)
    ruler = curves.Ruler(measuring)
    found: list[curves.Curve] = []

    def told(text: str) -> None:
        progress(len(found), len(chosen) + 2, text)

    for method in chosen:
        found.append(curves.curve(choosing, ruler, method, steps, settings.normalised, told))
    told("each layer with one head alone")
    alone = curves.alone(ruler, all_, _lost(choosing, all_))
    gone = _gone(choosing, settings, all_, told)
    small = without(whole, gone)
    stages = [smaller.stage("whole", whole, ruler.measured([]).texts)]
    stages.append(smaller.stage("pruned", small, _texts(measuring, small)))
    if settings.recover and gone:
        learnt += _learnt(small, train, choosing.aim.label, inputs, settings, progress)
        stages.append(smaller.stage("recovered", small, _texts(measuring, small)))
        longer = copied(whole)
        learnt += _learnt(
            longer, train, choosing.aim.label, inputs, settings, progress, what="whole, tuned"
        )
        stages.append(smaller.stage("whole, tuned", longer, _texts(measuring, longer)))
    size = smaller.saved(small, inputs.keep)
    progress.log(f"the smaller model takes {size:.2f} MiB on disk")
    tables = {
        "curve": curves.rows(found, seed),
        "summary": curves.summary(found),
        "order": curves.orders(found, whole),
        "alone": alone,
        "kept": smaller.kept(stages),
        "heads": smaller.heads(whole, gone),
        "speed": smaller.speed(measuring, whole, small),
    }
    if learnt:
        tables["learning"] = pd.DataFrame(learnt, columns=["stage", "step", "loss"])
    return Result(tables, caveats=caveats(measuring, len(test)))


def _fitted(
    inputs: Inputs,
    settings: HeadPruning,
    train: "Sequence[Doc]",
    test: "Sequence[Doc]",
    progress: Progress,
) -> tuple[HuggingFace, list[tuple[str, int, float]]]:
    """A classifier made of the model, for a label of the corpus."""
    model = inputs.model
    if not isinstance(model, HuggingFace):
        raise WorkbenchError(
            f"{model.name} has no attention heads.", remedy="Choose a model such as mini:bert."
        )
    found = [doc._.labels.get(settings.task) for doc in [*train, *test]]
    names = sorted({name for name in found if isinstance(name, str)})
    if not names:
        there = sorted({name for doc in train for name in doc._.labels})
        raise WorkbenchError(
            f"no text has a class under the label {settings.task!r}.",
            where=inputs.corpus.name,
            remedy=f"Its labels: {', '.join(there) or 'none'}. primer/sentiment has sentiment.",
        )
    made = classifier(model, names, inputs.seed)
    return made, _learnt(made, train, settings.task, inputs, settings, progress, settings.fit)


def _learnt(
    model: HuggingFace,
    train: "Sequence[Doc]",
    label: str,
    inputs: Inputs,
    settings: HeadPruning,
    progress: Progress,
    fit: int = 0,
    what: str = "recovering",
) -> list[tuple[str, int, float]]:
    """Fine-tune a model by what it is measured by: to fit it, or to recover."""
    own = asked_of(model, train, label, inputs.seed, inputs.corpus.name)
    plan = Plan(fit or settings.recover, settings.rate, settings.texts, inputs.seed)
    doing = "fitting" if fit else what

    def told(step: int, loss: float) -> None:
        progress(step, plan.steps, f"{doing}, loss {loss:.3f}")

    losses = learn(model, own.aim, own.batch, range(len(own.batch)), plan, told=told)
    return [(doing, step, loss) for step, loss in enumerate(losses)]


def _texts(measuring: Asking, model: HuggingFace) -> Texts:
    return asked(model, measuring.aim, measuring.questions)


def _lost(choosing: Asking, all_: Sequence[Unit]) -> list[float]:
    """The loss without each unit by itself."""
    sets = [unit.heads for unit in all_]
    found = ablated(choosing.model, choosing.aim, choosing.questions, sets)
    return [float(value) for value in found.values("loss")]


def _gone(
    choosing: Asking,
    settings: HeadPruning,
    all_: Sequence[Unit],
    told: Callable[[str], object],
) -> list[Head]:
    """The heads that go from the model that is kept."""
    wanted = round(settings.prune * len(all_))
    if not wanted:
        return []
    method = Method(settings.by, settings.by not in ONCE)
    steps = curves.fractions(settings.steps, wanted)
    order = order_of(choosing, all_, method, steps, settings.normalised, told)
    return [head for unit in order[:wanted] for head in all_[unit].heads]


EXPERIMENT = Experiment(
    name="head-pruning",
    about="How many heads can go, and which first: curves of every way to choose, and the smaller "
    "model, which the run keeps.",
    settings=HeadPruning,
    run=run,
    tables=TABLES,
    needs=(HEADS,),
    split="held-out",
    trains=True,
    figures="workbench.view.pruning:PRUNING",
)
