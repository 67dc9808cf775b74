"""Questions that a run asks on its way: each a run of its own, answered from disk where it can be.

One alone is computed in the process of the run that asks, with what is open there already; several
on a CPU each in a process of its own, as many at a time as there are cores. All of them end with
the run that asked. Costs a folder a question.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from workbench.errors import WorkbenchError
from workbench.experiment import Ask, Asked
from workbench.runs.asking import Question, Seen, ask
from workbench.runs.journal import Cancelled, Journal
from workbench.runs.run import Run
from workbench.runs.spec import Spec
from workbench.runs.status import CANCEL, Status

if TYPE_CHECKING:
    from workbench.corpora import Corpus
    from workbench.engine.model import Model

Told = Callable[[int], object]


def asker(
    told: Journal, asked: Spec, models: "Sequence[Model]", corpora: "Sequence[Corpus]"
) -> Ask:
    """How the run of this question has others answered."""
    named: dict[int, Any] = {
        **{id(one): told for one, told in zip(models, asked.models, strict=True)},
        **{id(one): told for one, told in zip(corpora, asked.corpora, strict=True)},
    }
    seen: Seen = {}

    def answered(questions: Sequence[Asked], done: Told) -> Sequence[Run]:
        told.check()
        made = [_question(each, asked.device, named, seen) for each in questions]
        apart = asked.device == "cpu" and all(each.spec.answerable for each in made)
        if apart and len(made) > 1 and (os.cpu_count() or 1) > 1:
            return _side_by_side([each.spec for each in made], told, done)
        runs = []
        for each in made:
            runs.append(_here(each, told))
            done(len(runs))
        return runs

    return answered


def _question(asked: Asked, device: str, named: Mapping[int, Any], seen: Seen) -> Question:
    """Checked; open things by the reference they were opened by, so that it can be asked again."""
    question = ask(
        asked.experiment,
        asked.models,
        asked.corpora,
        asked.settings,
        split=asked.split,
        seed=asked.seed,
        device=device,
        seen=seen,
    )
    spec = question.spec.model_copy(
        update={
            "models": _as_named(asked.models, question.spec.models, named),
            "corpora": _as_named(asked.corpora, question.spec.corpora, named),
        }
    )
    for reason in question.misfits():
        raise reason
    return replace(question, spec=spec)


def _as_named(
    given: Sequence[Any], told: Sequence[Any], named: Mapping[int, Any]
) -> tuple[Any, ...]:
    return tuple(named.get(id(one), spec) for one, spec in zip(given, told, strict=True))


def _here(question: Question, told: Journal) -> Run:
    """The run that answers, when it is done, in this process."""
    from workbench.runs.execute import handed_over
    from workbench.runs.launch import follow, start
    from workbench.runs.parts import ended_with_others

    opened = handed_over(question.models, question.corpora)
    whole = told.folder.name
    while True:
        run = start(question.spec, opened=opened, part_of=whole)
        for _ in follow(run):  # another process may be at it
            told.check()
        now = run.status
        if not ended_with_others(now, whole):
            _require_done(run, now, told)
            return run
        told.check()


def _side_by_side(specs: Sequence[Spec], told: Journal, done: Told) -> Sequence[Run]:
    """The runs that answer, each in a process of its own, as many at a time as there are cores."""
    from workbench.runs.launch import own_threads, start
    from workbench.runs.parts import all_ended

    most = min(len(specs), os.cpu_count() or 1)
    threads = own_threads() or {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // most))}
    return all_ended(
        specs,
        told,
        most,
        begin=lambda spec: start(spec, share=True, part_of=told.folder.name, threads=threads),
        ended=lambda run, now: _require_done(run, now, told),
        done=done,
    )


def _require_done(run: Run, now: Status, told: Journal) -> None:
    """Where a part is not done, neither is the run that needs it."""
    if now.state == "done":
        return
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
