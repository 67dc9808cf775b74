"""What the experiments on heads measure: a model on texts, by its own loss or by classes of texts.

Where something is learnt or chosen, it is on train texts, and measured on others
(`workbench.splits`). Costs reading the corpus.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pydantic import Field

from workbench.corpora.encode import encode
from workbench.engine.batch import Batch
from workbench.errors import WorkbenchError
from workbench.experiment import Caveat, Inputs, Need, Settings, few_sentences
from workbench.models.aims import Aim, Question, aim_of
from workbench.models.huggingface import HuggingFace
from workbench.pruning.gating import require_heads
from workbench.splits import Parts, SplitSizes, parts_of

if TYPE_CHECKING:
    from spacy.tokens import Doc

PREDICTS = Need(
    "a head that predicts, of pieces or of classes",
    lambda facts: bool(facts["objective"] or facts["classes"]),
    "Choose a model saved with a language-model head, such as mini:bert, or a classifier.",
)


DEV_TEXTS = 200  # where no maximum is set: enough to see a loss rise


class Aimed(Settings):
    """What heads are measured by."""

    label: str = Field(
        "",
        description="Label of the corpus that a classifier predicts (default: the one that has its "
        "classes). Language models are measured by their own loss.",
    )


class AimedSplits(Aimed):
    """The same where heads are chosen on one split and measured on another."""

    limit: int | None = Field(
        None, ge=1, description="Maximum number of sentences of each split (default: all)."
    )
    max_train: int | None = Field(
        None, ge=1, description="Maximum number of sentences to train on (default: limit)."
    )
    max_test: int | None = Field(
        None, ge=1, description="Maximum number of sentences to score (default: limit)."
    )

    def parts(self, inputs: Inputs, needed: int, dev: int | None = None) -> Parts:
        """Train, dev and test; no more of train than the steps of learning can use."""
        train, test = (
            self.limit if size is None else size for size in (self.max_train, self.max_test)
        )
        least = needed if train is None else min(needed, train)
        sizes = SplitSizes(least, dev or self.limit or DEV_TEXTS, test)
        return parts_of(inputs.corpus, inputs.split, sizes, inputs.seed)


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


def asking(inputs: Inputs, settings: Aimed) -> Asking:
    """Open what the run was asked of."""
    return asking_of(
        inputs.model, list(inputs.docs()), settings.label, inputs.seed, inputs.corpus.name
    )


def asking_of(
    model: object, docs: "Sequence[Doc]", label: str, seed: int, where: str = ""
) -> Asking:
    """The same of any texts, by a model with heads."""
    found = asked_of(model, docs, label, seed, where)
    require_heads(found.model)
    return found


def asked_of(model: object, docs: "Sequence[Doc]", label: str, seed: int, where: str) -> Asking:
    """The same of a model whose heads may all be gone."""
    if not docs:
        raise WorkbenchError(
            "there is no text to ask about.",
            where=where,
            remedy="Name a corpus or a split that has some.",
        )
    batch = encode(docs, targets=sorted(_classes(docs)))
    aim = aim_of(model, batch, label, seed)
    assert isinstance(model, HuggingFace), "an aim is of a transformer"
    return Asking(model, batch, aim)


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
    if lacking := asked.model.lacking:
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
