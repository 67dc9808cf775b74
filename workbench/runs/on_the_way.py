"""Questions that a run asks on its way: each a run of its own, answered from disk where it can be.

What is open already is handed over, so a part costs its own arithmetic and a folder. Parts are
computed in the process of the run that asks, one after the other, and end with it.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench import places
from workbench.errors import WorkbenchError
from workbench.experiment import Ask
from workbench.runs.asking import Seen, ask
from workbench.runs.journal import Cancelled, Journal
from workbench.runs.run import Run
from workbench.runs.spec import Spec
from workbench.runs.status import CANCEL

if TYPE_CHECKING:
    from workbench.corpora import Corpus
    from workbench.engine.model import Model


def asker(
    told: Journal, asked: Spec, models: "Sequence[Model]", corpora: "Sequence[Corpus]"
) -> Ask:
    """How the run of this question has others answered."""
    named: dict[int, Any] = {
        **{id(one): told for one, told in zip(models, asked.models, strict=True)},
        **{id(one): told for one, told in zip(corpora, asked.corpora, strict=True)},
    }
    seen: Seen = {}

    def answered(
        experiment: str,
        models: "Sequence[Model | str]",
        corpora: "Sequence[Corpus | str]",
        settings: Mapping[str, Any],
        split: str | None,
        seed: int,
    ) -> Run:
        told.check()
        question = ask(
            experiment,
            models,
            corpora,
            settings,
            split=split,
            seed=seed,
            device=asked.device,
            seen=seen,
        )
        spec = question.spec.model_copy(
            update={
                "models": _as_named(models, question.spec.models, named),
                "corpora": _as_named(corpora, question.spec.corpora, named),
            }
        )
        if not Run(places.runs() / spec.name).path.is_dir():
            for reason in question.misfits():
                raise reason
        return _ended(spec, told, question.models, question.corpora)

    return answered


def _as_named(
    given: Sequence[Any], told: Sequence[Any], named: Mapping[int, Any]
) -> tuple[Any, ...]:
    """Open things by the reference they were opened by, so that the run can be made again."""
    return tuple(named.get(id(one), spec) for one, spec in zip(given, told, strict=True))


def _ended(
    spec: Spec,
    told: Journal,
    models: "Sequence[Model | None]",
    corpora: "Sequence[Corpus]",
) -> Run:
    """The part's run when it is done; where it is not, neither is ours."""
    from workbench.runs.execute import handed_over
    from workbench.runs.launch import follow, start

    opened = handed_over(models, corpora)
    run = start(spec, opened=opened, part_of=told.folder.name)
    for _ in follow(run):  # another process may be at it
        told.check()
    now = run.status
    if now.state == "done":
        return run
    told.check()
    if now.state == "cancelled" and not (run.path / CANCEL).exists():
        raise Cancelled
    if now.failure is not None:
        raise WorkbenchError(
            now.failure.what,
            where=": ".join(part for part in (run.name, now.failure.where) if part),
            remedy=now.failure.remedy,
        )
    raise WorkbenchError(
        "a run that this one needs was cancelled.",
        where=run.name,
        remedy="Go on with workbench runs resume: what is done is kept.",
    )
