"""Try a text on two models adapted to the same task at once, say frozen and fine-tuned.

The models are those that runs of `finetune` have kept. Costs opening them, which the app remembers,
and a forward pass of each a text.
"""

from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from workbench.errors import WorkbenchError
from workbench.models.references import TRAINED
from workbench.view.parts import earlier, sources, tables
from workbench.view.parts.plain import plain
from workbench.view.parts.problems import told
from workbench.view.transfer_learning import way

if TYPE_CHECKING:
    from workbench.runs.run import Run
    from workbench.transfer.tasks import Task
    from workbench.transfer.trying import Thought

FINETUNE = "finetune"
NONE = (
    "There is no model to try: none was kept that has a head of its own. Set keep, and a method "
    "other than adapters, prefix or prompt."
)


def trying(run: "Run") -> None:
    """Boxes for the text and both models, and what each thinks."""
    names = _adapted(run)
    if not names:
        st.text(NONE)
        return
    one, other = _two(names, run)
    task = _task(one)
    texts = _texts(task, run)
    with told():
        docs = tuple(" ".join(text.split()) for text in texts)
        for text in docs:
            sources.typed(text)  # an empty one, or one too long, is told once
        sides = dict.fromkeys((one, other))
        thoughts = [_thought(name, sources.model_stamp(name), docs) for name in sides]
        if len(thoughts) == 2:
            alike = thoughts[0].guess == thoughts[1].guess
            st.badge(
                "Both think the same" if alike else "They differ",
                icon=":material/check:" if alike else ":material/call_split:",
                color="gray" if alike else "orange",
            )
        for place, name, found in zip(st.columns(len(sides)), sides, thoughts, strict=True):
            with place, st.container(border=True):
                _show(names[name], name, found, task)


# --- which models ---------------------------------------------------------------------------------


def _adapted(run: "Run") -> dict[str, str]:
    """Runs that kept a model of the run's task, and what each is: its own first."""
    from workbench.runs.run import open_run

    if run.spec.experiment == FINETUNE:
        there = [run.name, *earlier.titles(FINETUNE)]
        task, corpora = run.spec.settings.get("task"), _hashes(run)
    else:
        cells = tables.of(run, "cells")
        tasks = [str(task) for task in dict.fromkeys(cells["task"])]
        picked = st.selectbox("Task", tasks, key="task", bind="query-params", width=240)
        there = [str(name) for name in cells.loc[cells["task"] == picked, "run"]]
        task, corpora = None, None
    found = {}
    for name in dict.fromkeys(there):
        try:
            own = open_run(name)
            settings = own.spec.settings
            if corpora and (settings.get("task") != task or _hashes(own) != corpora):
                continue
        except WorkbenchError:
            continue  # it was removed meanwhile
        if (own.path / TRAINED / "task").is_dir():
            model = own.spec.models[0].name
            found[name] = f"{model}, {way(settings)} ({name.rpartition('-')[2][:6]})"
    return found


def _hashes(run: "Run") -> list[str]:
    return [corpus.hash for corpus in run.spec.corpora]


def _two(names: dict[str, str], run: "Run") -> tuple[str, str]:
    """Two of them; the second adapted otherwise, where there is such a one."""
    there = list(names)
    with st.container(horizontal=True):
        one = st.selectbox(
            "Model", there, 0, names.__getitem__, "one", bind="query-params", width=340,
            help="What a run of finetune has kept; of the seed that dev liked best.",
        )  # fmt: skip
        other = st.selectbox(
            "Beside it", there, min(1, len(there) - 1), names.__getitem__, "other",
            bind="query-params", width=340,
        )  # fmt: skip
    return (one if one in names else there[0], other if other in names else there[-1])


# --- which text -----------------------------------------------------------------------------------


def _task(name: str) -> "Task":
    from workbench.models.references import folder_of
    from workbench.transfer.trying import asked_of

    folder = folder_of(name)
    assert folder is not None, "a run that kept a model has its folder"
    return asked_of(folder)


def _texts(task: "Task", run: "Run") -> tuple[str, ...]:
    """What is typed; to begin with, the first text of the corpus."""
    first = _first(run, task.name)
    labels = ("First text", "Second text") if task.pairs else ("Text",)
    if task.pairs and task.kind == "answers":
        labels = ("Question", "Text")
    return tuple(
        st.text_area(
            label,
            first[place] if place < len(first) else "",
            key=key,
            bind="query-params",
            height=80,
            max_chars=sources.LONGEST,
            help="Read by an installed spaCy pipeline; where there is none, words come from rules.",
        )
        or ""
        for place, (key, label) in enumerate(zip(("text", "text2"), labels, strict=False))
    )


def _first(run: "Run", name: str) -> tuple[str, ...]:
    """The first text of the task in the corpus, or both of a pair; nothing where it is gone."""
    from contextlib import suppress

    from workbench.corpora.layers import mentions
    from workbench.corpora.primer.tasks import TASKS

    ref = run.spec.corpora[0].ref
    with suppress(WorkbenchError, OSError):
        if ref == "primer" and name in TASKS:
            ref = f"primer/{name}"
        there = sources.corpus(ref or "")
        split = next(each for each in ("test", "dev", *there.splits) if each in there.splits)
        doc = sources.sentence(ref or "", split, 0)
        parts = sorted(mentions(doc, "segments")) if "segments" in doc.spans else []
        if len(parts) == 2:
            return tuple(doc[part.start : part.end].text for part in parts)
        return (doc.text,)
    return ()


# --- what is thought of it ------------------------------------------------------------------------


@st.cache_data(max_entries=64, show_spinner="Thinking …")
def _thought(name: str, stamp: str, texts: tuple[str, ...]) -> "Thought":
    """`stamp` changes when the model does."""
    from workbench.models.references import folder_of
    from workbench.transfer.trying import pair_of, thought

    docs = [sources.typed(text) for text in texts]
    folder = folder_of(name)
    assert folder is not None, "a run that kept a model has its folder"
    doc = docs[0] if len(docs) == 1 else pair_of(*docs)
    return thought(sources.model(name), folder, doc)


def _show(title: str, name: str, found: "Thought", task: "Task") -> None:
    """One model's guess, and how likely it holds it to be."""
    st.caption(plain(title))
    st.markdown(f"**{plain(found.guess, 400)}**")
    if found.cut:
        st.text("The text is too long for this model: its end was not read.")
    share = st.column_config.ProgressColumn(
        "probability", min_value=0.0, max_value=1.0, format="percent",
        help="What the head gives it, after a softmax; models are often surer than they are right.",
    )  # fmt: skip
    rows: list[Any] = list(found.classes or found.words)
    if found.answer is not None:
        st.text(f"Probability of its start times that of its end: {found.answer:.1%}")
    if not rows:
        return
    what = [task.name] if found.classes else ["word", "tag"]
    table = pd.DataFrame(rows, columns=[*what, "probability"])
    st.dataframe(
        table, hide_index=True, column_config={"probability": share}, key=f"thought {name}"
    )
