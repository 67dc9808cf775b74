"""Which result a page shows: the opened one, else the most thorough for the model and corpus.

Opening a run sets the chips to its model and corpus. If the user then chooses another model or
corpus, the opened run is closed, so the top bar never contradicts the result. Costs: one look at
the status file of each run, and the request of those of the same experiment, once.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.app import choice
from workbench.app.runs import run_list
from workbench.core import machine, names
from workbench.core.errors import WorkbenchError
from workbench.experiment.definition import Experiment
from workbench.models.references import split_ref, trained_by

if TYPE_CHECKING:
    from workbench.runs.run import Run
    from workbench.runs.thoroughness import Thoroughness

_FOLLOWED = "the run that set the chips, and whether they showed it since"
LOOKED_AT = 100  # runs of an experiment, the latest first


def followed(run: "Run") -> "Run | None":
    """The opened run, after the chips follow it; None if the user has chosen others since."""
    before = st.session_state.get(_FOLLOWED)
    chosen = choice.model(), choice.corpus()
    misses = [
        bool(refs) and known_as(ref) not in refs
        for refs, ref in zip(inputs_of(run), chosen, strict=True)
    ]
    if before is None or before[0] != run.name:
        model, corpus = (
            _first(refs) if missing else ref
            for refs, missing, ref in zip(inputs_of(run), misses, chosen, strict=True)
        )
        st.session_state[_FOLLOWED] = (run.name, not any(misses))
        if any(misses):
            choice.choose_model(model)
            choice.choose_corpus(corpus)
            st.rerun()
    elif not any(misses):
        st.session_state[_FOLLOWED] = (run.name, True)
    elif before[1]:  # the chips showed this run, so the user has changed them
        del st.session_state[_FOLLOWED]
        run_list.set_opened([])
        return None
    return run


def _first(refs: Sequence[str]) -> str:
    return next((ref for ref in refs if not split_ref(ref).is_random), refs[0])


def result_of(experiment: Experiment[Any]) -> "Run | None":
    """The most thorough run for the chosen model and corpus, the user's own or built-in.

    A run that failed or was cancelled is no result; one under way is shown if there is no other.
    """
    found = results_of(experiment.name, (choice.model(),), (choice.corpus(),))
    return next(iter(found), None)


def best_result(experiment: str, model: str, corpus: str) -> "Run | None":
    """The most thorough finished run of an experiment with a model and a corpus."""
    found = results_of(experiment, (model,), (corpus,))
    return next((run for run in found if run.status.state == "done"), None)


def others_of(run: "Run") -> "list[Run]":
    """The other runs of the same question: same experiment, models and corpora; best first."""
    models, corpora = inputs_of(run)
    if run.spec.sweep or not (models or corpora or objects_of(run)):
        return []
    found = results_of(run.spec.experiment, models, corpora, objects_of(run))
    return [
        each for each in found if each.path != run.path and inputs_of(each) == (models, corpora)
    ]


def results_of(
    experiment: str, models: Sequence[str], corpora: Sequence[str], objects: Sequence[str] = ()
) -> "list[Run]":
    """All results of an experiment with these models and corpora among its own, best first.

    A run of objects, which no chip names, answers only for the same objects.
    """
    from workbench.runs.builtin import builtin_run_of

    asked = tuple(map(known_as, models)), tuple(map(known_as, corpora))
    found = []
    for name in _latest(experiment):
        try:
            run = run_list.open_named(name)
            inputs = inputs_of(run)
            if objects_of(run) != tuple(objects):
                continue
            if (objects or inputs != ((), ())) and all(
                not refs or set(ones) <= set(refs) for refs, ones in zip(inputs, asked, strict=True)
            ):
                found.append(run)
        except WorkbenchError:  # one that cannot be read is shown in the list of runs
            continue
    first = (next(iter(ones), None) for ones in (models, corpora))
    if not objects and (built_in := builtin_run_of(experiment, *first)) is not None:
        found.append(built_in)
    return sorted(found, key=_thoroughness, reverse=True)


def _thoroughness(run: "Run") -> "Thoroughness":
    """How thorough a run is; of a finished one, which does not change, read once."""
    from workbench.runs.thoroughness import thoroughness

    now = run.status
    return _of_finished(str(run.path), now.ended) if now.state == "done" else thoroughness(run)


@st.cache_data(max_entries=10_000, show_spinner=False)
def _of_finished(path: str, ended: str) -> "Thoroughness":
    from workbench.runs.run import Run
    from workbench.runs.thoroughness import thoroughness

    return thoroughness(Run(Path(path)))


def _latest(experiment: str) -> list[str]:
    return [
        name
        for name, now in run_list.all_statuses()
        if now.experiment == experiment and (now.state == "done" or now.under_way)
    ][:LOOKED_AT]


def inputs_of(run: "Run") -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The models and corpora of a run as the chips name them; none of a sweep, or of objects."""
    models, corpora = _read(str(run.path))
    return (
        tuple(ref for model in models if (ref := _ref_of_model(*model))),
        tuple(ref for ref, _, _ in corpora if ref),
    )


def objects_of(run: "Run") -> tuple[str, ...]:
    """The hashes of the models and corpora of a run that were passed as objects."""
    models, corpora = _read(str(run.path))
    return tuple(
        content
        for ref, content in (
            *((_ref_of_model(*model), model[2]) for model in models),
            *((ref, content) for ref, _, content in corpora),
        )
        if not ref
    )


def _ref_of_model(ref: str, name: str, content: str) -> str:
    """The reference of a model; of an object, what has its name and content; "" if nothing has."""
    from workbench.runs.model_facts import stored

    for each in () if ref else (name, names.known("models", name)):
        with suppress(WorkbenchError, OSError, ValueError, RuntimeError):
            if each and (found := stored(each)) and found.hash == content:
                return known_as(each)
    return ref


@st.cache_data(max_entries=10_000, show_spinner=False)
def _read(path: str) -> tuple[tuple[tuple[str, str, str], ...], ...]:
    """The reference, name and hash of each model and corpus; the request of a run never changes."""
    from workbench.runs import spec

    request = spec.read(Path(path))
    if request.sweep:
        return (), ()
    return tuple(
        tuple((known_as(each.ref) if each.ref else "", each.name, each.hash) for each in parts)
        for parts in (request.models, request.corpora)
    )


def known_as(ref: str) -> str:
    """A reference with an absolute path; the name of a run here for a model that it trained."""
    from workbench.runs.request import absolute

    try:
        ref = absolute(ref)
        folder = Path(ref)
        name = trained_by(folder)
        return name if name and folder.parent == machine.runs() / name else ref
    except (WorkbenchError, OSError, ValueError, RuntimeError):
        return ref  # whoever opens it says what is wrong with it
