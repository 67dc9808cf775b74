"""What the experiments on heads measure: a model on texts, by its own loss or by classes of texts.

Where something is learnt or chosen, it is on train texts, and measured on others
(`workbench.core.splits`). Costs reading the corpus.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from workbench.core.errors import WorkbenchError
from workbench.core.experiment import Caveat, Inputs, few_sentences
from workbench.core.splits import Parts
from workbench.core.stats import ratio_intervals
from workbench.corpora.encode import encode
from workbench.engine.batch import Batch
from workbench.engine.halving import Limit, in_halves
from workbench.engine.model import Model
from workbench.engine.taps import Tap
from workbench.models.eval_tasks import Aim, Learnt, Question, TextScores, aim_of, classifier
from workbench.models.huggingface import HuggingFace, transformer_of
from workbench.pruning.experiments import Aimed
from workbench.pruning.head_masks import require_heads

if TYPE_CHECKING:
    from spacy.tokens import Doc


@dataclass(frozen=True)
class Asking:
    """A model, texts, and what is asked of each."""

    model: HuggingFace
    batch: Batch
    aim: Aim

    @cached_property
    def questions(self) -> list[Question]:
        """Every text, ready to be asked again and again; kept."""
        return list(self.aim.questions(self.model, self.batch))

    def scored(self, model: HuggingFace | None = None) -> "Texts":
        """What each text scores with this model, or with another in its place."""
        return asked(model or self.model, self.aim, self.questions)


def asking(inputs: Inputs, settings: Aimed) -> Asking:
    """Open what the run was asked of."""
    return asking_of(
        inputs.model, list(inputs.docs()), settings.label, inputs.seed, inputs.corpus.name
    )


def asking_of(
    model: Model, docs: "Sequence[Doc]", label: str, seed: int, where: str = ""
) -> Asking:
    """The same of any texts, by a model with heads."""
    found = asked_of(model, docs, label, seed, where)
    require_heads(found.model)
    return found


def asked_of(model: Model, docs: "Sequence[Doc]", label: str, seed: int, where: str) -> Asking:
    """The same of a model whose heads may all be gone."""
    if not docs:
        raise WorkbenchError(
            "there is no text to ask about.",
            where=where,
            remedy="Name a corpus or a split that has some.",
        )
    batch, net = encode(docs, targets=sorted(_classes(docs))), with_heads(model)
    return Asking(net, batch, aim_of(net, batch, label, seed))


def with_heads(model: Model) -> HuggingFace:
    """The model whose heads can be gated and taken out, or an error that says why not."""
    return transformer_of(
        model,
        "has no attention heads that can be gated or taken out",
        "Choose a transformer, such as mini:bert.",
    )


def _classes(docs: "Iterable[Doc]") -> set[str]:
    """The labels whose values are names of classes, not scores."""
    return {name for doc in docs for name, value in doc._.labels.items() if isinstance(value, str)}


def caveats(asked: Asking, texts: int, notes: Iterable[str] = ()) -> tuple[Caveat, ...]:
    """What to know of everything that is measured so; `notes` are those of the splits."""
    found = dict.fromkeys([*notes, *few_sentences(texts)])
    if asked.aim.kind == "masked":
        found[
            "15 % of pieces were masked, the same ones whichever heads are left out; only those "
            "are scored."
        ] = None
    if lacking := asked.model.n_removed_heads:
        found[
            f"{lacking} heads were removed from this model before, and those left are numbered "
            f"anew: {_numbers(asked.model)}."
        ] = None
    return tuple(Caveat(note) for note in found)


def _numbers(model: HuggingFace) -> str:
    """Which heads of the whole model the heads of each layer are."""
    sites = {site.index: site for site in model.sites}
    cut = [index for index, kept in model.kept.items() if len(kept) < model.whole[index]]
    told = (
        f"those of {sites[index].name} were {', '.join(map(str, model.kept[index])) or 'none'}"
        for index in cut
    )
    return "; ".join(told)


# --- how well a model answers, text by text, so that two answers can be compared pair by pair -----
#
# Sums of nats, of what was right and of what was asked for; a loss is a sum over a sum, so that
# long texts count for what they are. Costs a forward pass; memory is a few numbers a text.

Floats = NDArray[np.float64]
METRICS = ("loss", "accuracy")
Told = Callable[[int], object]  # so many texts


@dataclass(frozen=True)
class Texts:
    """Sums of each text, in the order in which they were asked."""

    nats: Floats  # [texts]
    right: Floats
    number: Floats

    def part(self, metric: str) -> Floats:
        """The sums that a metric adds up.  # [texts]"""
        return self.nats if metric == "loss" else self.right

    def value(self, metric: str) -> float:
        """Nats a piece or text, or the share that was right; of nothing, 0."""
        whole = self.number.sum()
        return float(self.part(metric).sum() / whole) if whole else 0.0


def numbers_of(answer: TextScores) -> Floats:
    """Nats, right and number of each text, on the host.  # [3, texts]"""
    both = torch.stack([answer.nats.detach().double(), answer.right.double(), answer.number])
    return both.cpu().numpy()


def asked(
    model: HuggingFace,
    aim: Aim,
    questions: Iterable[Question],
    taps: Sequence[Tap] = (),
) -> Texts:
    """Ask every question once."""
    parts, room = [np.zeros((3, 0))], Limit()

    @torch.no_grad()
    def ask(question: Question) -> Floats:
        return numbers_of(aim.answer(model, question, taps))

    for question in questions:
        parts += [numbers for _, numbers in in_halves(ask, question, room)]
    return Texts(*np.concatenate(parts, 1))


# --- the trivial baseline -------------------------------------------------------------------------
#
# Whether the whole model is better than its trivial baseline: where it is not, no head matters.
#
# The baseline of the accuracy gives the most frequent answer (piece or class) everywhere. That of
# the loss gives each answer its frequency in the other texts (Witten-Bell smoothed, so that
# answers not seen there have some probability). Costs reading the answers; no forward pass.


def trivial(asking: Asking) -> Texts:
    """What the baseline scores on each text, in the order of `asking.questions`."""
    answers = []  # of each text the indices of its right answers
    for question in asking.questions:
        places, gold = asking.aim.gold(question)
        answers += np.split(gold.cpu().numpy(), np.cumsum(places.sum(1).cpu().numpy())[:-1])
    known = len(asking.model.classes) if asking.aim.kind == "classes" else 0
    every = np.concatenate([np.zeros(0, int), *answers])
    size = max(known, 0 if known else len(asking.model.tokenizer), int(every.max(initial=0)) + 1)
    counts = np.bincount(every, minlength=size)
    types, most = int((counts > 0).sum()), int(counts.argmax())
    nats: list[float] = []
    right: list[int] = []
    for own in answers:
        seen, where, often = np.unique(own, return_inverse=True, return_counts=True)
        elsewhere = (counts[seen] - often)[where]
        share = (elsewhere + types / size) / max(len(every) - len(own) + types, 1)
        nats.append(float(-np.log(share).sum()))
        right.append(int((own == most).sum()))
    number = np.array([len(own) for own in answers], float)
    return Texts(np.array(nats), np.array(right, float), number)


def baseline(asking: Asking, texts: Texts, seed: int) -> pd.DataFrame:
    """A row a metric: the model's value next to the baseline's."""
    plain = trivial(asking)
    rows = []
    for metric in METRICS:
        apart = (texts.part(metric) - plain.part(metric))[:, None]  # [texts, 1]
        lower, upper = (float(end[0]) for end in ratio_intervals(apart, texts.number, seed))
        value, trivially = texts.value(metric), plain.value(metric)
        rows.append(
            {
                "metric": metric,
                "value": value,
                "baseline": trivially,
                "difference": value - trivially,
                "lower": lower,
                "upper": upper,
                "better": upper < 0 if metric == "loss" else lower > 0,
                "n": len(texts.number),
            }
        )
    return pd.DataFrame(rows)


def better(table: pd.DataFrame, metric: str) -> bool:
    """Whether the model is better than the baseline by this metric."""
    return bool(table.set_index("metric").loc[metric, "better"])


def not_better(table: pd.DataFrame) -> tuple[Caveat, ...]:
    """What to know where the model is no better than the baseline."""
    poor = table[~table["better"].astype(bool)]
    if poor.empty:
        return ()
    scores = ", ".join(
        f"{row.metric} {row.value:.3f} against {row.baseline:.3f}" for row in poor.itertuples()
    )
    return (
        Caveat(
            f"The whole model is not better than its trivial baseline ({scores}): what changes "
            "without a head says nothing about what the model has learnt."
        ),
    )


# --- the classifier that is fitted before its heads are pruned ------------------------------------
#
# A classifier fitted before its heads are pruned: did it learn, converge, and have enough texts?
#
# Softmax cross-entropy over the classes, all weights, early stopping on dev
# (`workbench.models.eval_tasks`). It is fitted again on half of the train texts: where that costs
# over 2 points of accuracy, more texts would change the picture. Costs the fitting twice at most.

SHARES = (0.5, 1.0)  # of the train texts
ENOUGH = 0.02  # of accuracy, lost with half of the texts


Tune = Callable[[str, HuggingFace, int, float], Learnt]


@dataclass(frozen=True)
class Fitted:
    """A classifier, how it was fitted, and what to know of it."""

    model: HuggingFace
    table: pd.DataFrame
    caveats: tuple[Caveat, ...]


def fitted(inputs: Inputs, parts: Parts, label: str, steps: int, texts: int, tune: Tune) -> Fitted:
    """A classifier made of the model, for a label of the corpus; `texts` in a step."""
    model = with_heads(inputs.model)
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
        own = baseline(test, test.scored(), inputs.seed)
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
