"""The model of a tab: the chosen one if it can do what the tab does, else a built-in one that can.

Costs: opening the model; reading the configurations of the installed models if it cannot.
"""

from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING

import streamlit as st

from workbench.app import cache, choice
from workbench.app.text import plain
from workbench.core.errors import WorkbenchError
from workbench.core.files import read_json
from workbench.core.objectives import LANGUAGE_MODELS, described
from workbench.engine.task import as_data
from workbench.models.references import NOVELS, TASK, folder_of, has_read, net_folder

if TYPE_CHECKING:
    from workbench.engine.model import Model

STAND_IN = NOVELS[1]  # a language model that has read English
WRITERS = ("causal", "seq2seq", "bidirectional")
SHOWN = 6  # models that are offered
_HEADS = {  # the end of an architecture's name, and what it predicts
    "ForQuestionAnswering": "answers",
    "XLNetLMHeadModel": "masked",
    **LANGUAGE_MODELS,
}


def model_for(what: str, kinds: Collection[str]) -> "tuple[str, Model]":
    """The chosen model, or the stand-in, with a sentence that says why and which ones can."""
    ref = choice.model()
    model = cache.model(ref)
    if (found := able(model, kinds)) is not None:
        return ref, found
    made_for = "predicts nothing"
    if model.predicts is not None:
        made_for = f"predicts {described(as_data(model.predicts) or {})}"
    name, other = choice.name_of(ref, "models"), choice.name_of(STAND_IN, "models")
    st.markdown(
        f"**{plain(name)} does not {what}:** it {plain(made_for)}. "
        f"{plain(other)} does it here. Of the installed models, these can:"
    )
    with st.container(horizontal=True, key="able"):
        for each in [each for each in choice.models() if _kind_of(each) in kinds][:SHOWN]:
            st.button(
                plain(choice.name_of(each, "models")),
                key=f"choose {each}",
                on_click=choice.choose_model,
                args=(each,),
            )
    return STAND_IN, cache.model(STAND_IN)


def able(model: "Model", kinds: Collection[str]) -> "Model | None":
    """The model if it was made for one of these kinds of predictions, or can be used for one."""
    task = None if model.task_head is None else model.task_head.task
    if task is not None and (task.kind in kinds or (task.kind == "text" and task.label in kinds)):
        return model
    if model.language_model in kinds:
        return model if model.task_head is None else model.with_task_head(None)
    return None


def draw_what_it_has_read(ref: str, writes: bool = False) -> None:
    """Say what a built-in model was trained on, and that it was not trained for the task."""
    if read := has_read(ref):
        not_true = ": what it writes is a likely text, not a true one" if writes else ""
        st.caption(
            f"{plain(choice.name_of(ref, 'models'))} has read {read}, and was trained for nothing "
            f"else{not_true}."
        )


def _kind_of(ref: str) -> str:
    """What a model predicts, by the files of its folder; "" if they do not say."""
    with suppress(WorkbenchError, OSError, ValueError, LookupError, TypeError, AttributeError):
        folder = folder_of(ref)
        if folder is None:
            return ""
        if (folder / TASK).is_file():
            return str(read_json(folder / TASK)["task"]["kind"])
        name = read_json(net_folder(folder) / "config.json")["architectures"][0]
        return next((kind for end, kind in _HEADS.items() if name.endswith(end)), "")
    return ""
