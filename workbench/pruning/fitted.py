"""A classifier fitted before its heads are pruned: did it learn, converge, and have enough texts?

Softmax cross-entropy over the classes, all weights, early stopping on dev
(`workbench.models.learning`). It is fitted again on half of the train texts: where that costs over
2 points of accuracy, more texts would change the picture. Costs the fitting twice at most.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd

from workbench.errors import WorkbenchError
from workbench.experiment import Caveat, Inputs, Table
from workbench.models.classifier import classifier
from workbench.models.huggingface import HuggingFace
from workbench.models.learning import Learnt
from workbench.pruning.asking import asked_of
from workbench.pruning.baseline import baseline
from workbench.pruning.texts import asked
from workbench.splits import Parts

SHARES = (0.5, 1.0)  # of the train texts
ENOUGH = 0.02  # of accuracy, lost with half of the texts

FITTED = Table(
    "The classifier, fitted on a share of the train texts and scored on test, next to its trivial "
    "baseline (see the table baseline). best_step: the step with the lowest dev loss, whose "
    "weights are used; best_epoch: how often it had seen each text by then; converged: the dev "
    "loss stopped falling before the steps ran out.",
    ("share", "metric"),
)

Tune = Callable[[str, HuggingFace, int, float], Learnt]


@dataclass(frozen=True)
class Fitted:
    """A classifier, how it was fitted, and what to know of it."""

    model: HuggingFace
    table: pd.DataFrame
    caveats: tuple[Caveat, ...]


def fitted(inputs: Inputs, parts: Parts, label: str, steps: int, texts: int, tune: Tune) -> Fitted:
    """A classifier made of the model, for a label of the corpus; `texts` in a step."""
    model = inputs.model
    if not isinstance(model, HuggingFace):
        raise WorkbenchError(
            f"{model.name} has no attention heads.", remedy="Choose a model such as mini:bert."
        )
    found = [doc._.labels.get(label) for doc in parts.docs]
    names = sorted({name for name in found if isinstance(name, str)})
    if not names:
        there = sorted({name for doc in parts.train for name in doc._.labels})
        raise WorkbenchError(
            f"no text has a class under the label {label!r}.",
            where=inputs.corpus.name,
            remedy=f"Its labels: {', '.join(there) or 'none'}. primer/sentiment has sentiment.",
        )
    tables = []
    for share in SHARES:
        made = classifier(model, names, inputs.seed)
        learnt = tune("fitting" if share == 1 else "fitting on half", made, steps, share)
        test = asked_of(made, parts.test, label, inputs.seed, inputs.corpus.name)
        own = baseline(test, asked(made, test.aim, test.questions), inputs.seed)
        train = max(1, round(share * len(parts.train)))
        own.insert(0, "share", share)
        tables.append(
            own.assign(
                train=train,
                dev=len(parts.dev),
                steps=len(learnt.losses),
                best_step=learnt.best,
                best_epoch=learnt.best * texts / train,
                converged=learnt.converged,
            )
        )
    table = pd.concat(tables, ignore_index=True)
    return Fitted(made, table, _enough(table))


def _enough(table: pd.DataFrame) -> tuple[Caveat, ...]:
    """Whether half of the texts would have been enough."""
    own = table[table["metric"] == "accuracy"].set_index("share")
    half, whole = own.loc[0.5], own.loc[1.0]
    lost = whole["value"] - half["value"]
    if lost <= ENOUGH:
        return ()
    return (
        Caveat(
            f"Fitted on half of its {whole['train']:,} texts the classifier is right "
            f"{100 * lost:.1f} points less often: more texts would change the picture."
        ),
    )


def cut_off(learnt: Mapping[str, Learnt]) -> tuple[Caveat, ...]:
    """One caveat that names what was cut off by its number of steps."""
    names = [f"{name} ({len(each.losses)})" for name, each in learnt.items() if not each.converged]
    if not names:
        return ()
    return (
        Caveat(
            f"Learning was cut off by its number of steps, before the dev loss stopped falling: "
            f"{', '.join(names)}. Raise --fit or --recover."
        ),
    )
